"""Parameters, memory and arithmetic of a model, computed from its configuration; and how the paper's count compares.

Nothing is built: parameters are the sizes of `weight_shapes`, the list by which model directories are read and written.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping

from albert_tf.analysis.compared import Compared
from albert_tf.config import AlbertConfig
from albert_tf.head_config import HeadConfig
from albert_tf.modeling.arithmetic import step_operations
from albert_tf.weight_shapes import weight_shapes

PARTS = ("embeddings", "projection", "attention", "feed-forward", "pooler", "heads")
BYTES_PER_VALUE = 4  # float32
_MOMENTS = 2  # of LAMB and AdamW
_LENGTH = 512  # tokens of an example
_MASKED = 0.15  # share of the tokens that are predicted

ACTIVATION_FORMULA = (
    "4 bytes x [ L x (S x (8H + 2I) + N x S^2) + S x (2E + H) + P x (H + 3E + 2V) + 2H ]: per layer the queries, keys, "
    "values and context, both sums and both LayerNorms (8H), the inner layer before and after GELU (2I) and the "
    "attention probabilities; then embeddings (H only where they are projected) and heads"
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Figures:
    """What the analysis says of one model.

    Attributes:
      max_seq_length: tokens of an example (S).
      parameters: by part, with `PARTS` as keys.
      weight_bytes: of all parameters, float32.
      optimizer_bytes: two moments of each parameter, as LAMB and AdamW keep them.
      activation_bytes: what a training step keeps of one example for the way back, at the least: `ACTIVATION_FORMULA`.
      forward_operations_per_token: floating-point operations of the matrix products of the way forward.
      training_operations_per_token: of a whole training step.
      reduced_bytes: what devices sum in each step, the gradients of all parameters.
    """

    max_seq_length: int
    parameters: Mapping[str, int]
    weight_bytes: int
    optimizer_bytes: int
    activation_bytes: int
    forward_operations_per_token: float
    training_operations_per_token: float
    reduced_bytes: int

    @property
    def total(self) -> int:
        """All parameters."""
        return sum(self.parameters.values())

    @property
    def encoder(self) -> int:
        """Parameters of the encoder with its pooler, without heads."""
        return self.total - self.parameters["heads"]


def parameters_by_part(config: AlbertConfig, head: HeadConfig) -> dict[str, int]:
    """Parameters of the model by `PARTS`, from the shape of each weight."""
    found = dict.fromkeys(PARTS, 0)
    for name, shape in weight_shapes(config, head).items():
        found[_part(name)] += math.prod(shape)
    return found


def _part(name: str) -> str:
    """Part that the weight of this canonical name belongs to."""
    names = name.split("/")
    if names[0] != "encoder":
        return "heads"
    if "word_projection" in names or "embedding_projection" in names:
        return "projection"
    if "feed_forward" in names:
        return "feed-forward"
    return next(part for part in ("embeddings", "attention", "pooler") if part in names)


def activation_bytes(config: AlbertConfig, *, max_seq_length: int, max_predictions_per_seq: int) -> int:
    """Least that a pretraining step keeps of one example for the way back, float32, without dropout, in bytes.

    What the gradients are computed from, each value once (`ACTIVATION_FORMULA`): a framework keeps more. Sharing
    changes nothing of it.

    Args:
      config: shape of the model.
      max_seq_length: tokens of the example (S).
      max_predictions_per_seq: its predictions (P).
    """
    hidden, inner, narrow = config.hidden_size, config.intermediate_size, config.embedding_size
    length = max_seq_length
    layer = length * (8 * hidden + 2 * inner) + config.num_attention_heads * length**2
    of_words = config.embedding_factorization == "words"
    width = hidden if of_words else narrow
    embeddings = length * (2 * width + (narrow if of_words else 0) + (hidden if config.embedding_projection else 0))
    heads = max_predictions_per_seq * (hidden + 3 * width + 2 * config.vocab_size) + 2 * hidden
    return BYTES_PER_VALUE * (config.num_hidden_layers * config.inner_group_num * layer + embeddings + heads)


def compute_figures(
    model: Compared, *, max_seq_length: int | None = None, max_predictions_per_seq: int | None = None
) -> Figures:
    """Figures of one model. Activations and operations are those of pretraining, whatever head it has.

    Args:
      model: the model.
      max_seq_length: tokens of an example (S); None takes 512, or as many as the model has positions.
      max_predictions_per_seq: its predictions (P); None takes 15 % of the tokens.

    Raises:
      ValueError: if the model has not as many positions, or an example not as many tokens.
    """
    config = model.config
    if max_seq_length is None:
        max_seq_length = min(_LENGTH, config.max_position_embeddings)
    if max_predictions_per_seq is None:
        max_predictions_per_seq = math.ceil(_MASKED * max_seq_length)
    if max_predictions_per_seq > max_seq_length:
        raise ValueError(
            f"{model.name}: max_predictions_per_seq must be at most the {max_seq_length} tokens of an example, got "
            f"{max_predictions_per_seq}"
        )
    if max_seq_length > config.max_position_embeddings:
        raise ValueError(
            f"{model.name}: max_seq_length must be at most max_position_embeddings, "
            f"{config.max_position_embeddings}, got {max_seq_length}"
        )
    parameters = parameters_by_part(config, model.head)
    total = sum(parameters.values())
    operations = step_operations(
        config, batch_size=1, max_seq_length=max_seq_length, max_predictions_per_seq=max_predictions_per_seq
    )
    return Figures(
        max_seq_length=max_seq_length,
        parameters=parameters,
        weight_bytes=total * BYTES_PER_VALUE,
        optimizer_bytes=total * _MOMENTS * BYTES_PER_VALUE,
        activation_bytes=activation_bytes(
            config, max_seq_length=max_seq_length, max_predictions_per_seq=max_predictions_per_seq
        ),
        forward_operations_per_token=operations / 3 / max_seq_length,
        training_operations_per_token=operations / max_seq_length,
        reduced_bytes=total * BYTES_PER_VALUE,
    )


def explain_paper(figures: Figures, paper_millions: int) -> str:
    """Which parts, rounded to millions, give the paper's figure; or by how much it is more than all of them."""
    for what, count in _counts(figures):
        if math.floor(count / 1e6 + 0.5) == paper_millions:
            return f"{what}: {count:,}"
    excess = paper_millions - figures.total / 1e6
    if excess <= 0:
        return f"none of the counts gives it; all parts together are {figures.total:,}"
    return f"{excess:.1f}M ({excess / paper_millions:.1%}) more than all parts together: {figures.total:,}"


def _counts(figures: Figures) -> Iterator[tuple[str, int]]:
    """What the paper may have counted, the likeliest first."""
    encoder, pooler = figures.encoder, figures.parameters["pooler"]
    yield "encoder", encoder
    yield "encoder without its pooler", encoder - pooler
    yield "encoder and heads", figures.total
