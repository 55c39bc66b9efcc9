"""What signatures of all heads share: what they are made of, the model as one function, and the base of their makers.

The Keras model itself is not part of the saved object: a SavedModel of a Keras model stores every weight twice.
Signatures call the model's layers, and the saved module holds nothing but their variables.
"""

from __future__ import annotations

import abc
import dataclasses
import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, Literal, get_args

import tensorflow as tf

from albert_tf import features
from albert_tf.modeling.encoder import Form
from albert_tf.modeling.head_model import AlbertHeadModel
from albert_tf.tokenizer_base import Tokenizer
from export.artifacts import ENCODER_INPUTS
from export.signatures.checks import checked
from export.token_graph import TextGraph

Padding = Literal["skipped", "computed"]
PADDINGS: tuple[Padding, ...] = get_args(Padding)

IDS = tf.TensorSpec([None, None], tf.int32)
TEXTS = tf.TensorSpec([None], tf.string)
TOKENS = tf.RaggedTensorSpec([None, None], tf.int32)
ENCODER_SPECS = dict.fromkeys(ENCODER_INPUTS, IDS)
ONE_TEXT, TWO_TEXTS = {"text": TEXTS}, {"text": TEXTS, "text_b": TEXTS}

Outputs = dict[str, tf.Tensor]
AS_MANY = "text_b must be as many texts as text"
CUT = "A text is cut at its end to max_seq_length tokens, [CLS] and [SEP] included."
PAIR_CUT = (
    "Pairs of more than max_seq_length tokens, [CLS] and [SEP] included, are cut: the longer text loses its end first."
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Signature:
    """One entry of a SavedModel: its function, and what a caller has to know of it."""

    function: Any
    document: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Served:
    """What signatures are made of.

    Attributes:
      model: with its head.
      padding: "skipped", as fits a server on CPU or GPU, or "computed" like tokens, as XLA and TPUs need it.
      tokenizer: of the model; None where token ids go in alone.
      text: the tokenizer as a graph; None likewise.
      stride: tokens from the start of a window to that of the next one, for texts that do not fit; None cuts them.
      top_k: candidates for each mask, and answers out of a text.
      sentence_objective: what pretraining heads say of two texts.
      labels: names of a classifier's labels, in the order of their ids.
      num_texts: texts that the task gives the model, 1 or 2; None where nothing says it.
      is_multi_label: whether a text may have any number of labels.
    """

    model: AlbertHeadModel
    padding: Padding = "skipped"
    tokenizer: Tokenizer | None = None
    text: TextGraph | None = None
    stride: int | None = None
    top_k: int = 10
    sentence_objective: features.SentenceObjective = "sop"
    labels: tuple[str, ...] = ()
    num_texts: int | None = None
    is_multi_label: bool = False

    @property
    def form(self) -> Form:
        """Form in which the model runs: a loop over the layers where they share all of their weights.

        Where they do not, each layer has weights of its own and a loop has nothing to go round.
        """
        is_shared = self.model.config.parameter_sharing == "all"
        if self.padding == "skipped":
            return "packed_loop" if is_shared else "packed"
        return "loop" if is_shared else "unrolled"


class WeightsModule(tf.Module):
    """Every variable of a model once, by its canonical name, and what signatures need besides."""

    def __init__(self, model: AlbertHeadModel, *parts: tf.Module) -> None:
        super().__init__(name="albert")
        self.weights = {name: variable.value for name, variable in model.named_weights().items()}
        self.parts = parts


class SignatureMaker(abc.ABC):
    """Signatures of a model with one kind of head.

    What several signatures call is a function of its own, so that the file holds it once. Texts reach it cut and
    tokenised in the graph, as the classes of `albert_tf.inference` do it in Python.

    Args:
      served: what they are made of.
    """

    def __init__(self, served: Served) -> None:
        self.served = served
        self.model = served.model

    @property
    def parts(self) -> tuple[tf.Module, ...]:
        """What the saved module has to hold besides the weights."""
        return () if self.served.text is None else (self.served.text,)

    @property
    def input_specs(self) -> dict[str, tf.TensorSpec]:
        """What the model takes."""
        return {
            name: tf.TensorSpec([None] * (shape.count(",") + 1), tf.int32) for name, shape in self.model.INPUTS.items()
        }

    @property
    def least_length(self) -> int:
        """Fewest positions that the model takes."""
        return 1

    @functools.cached_property
    def forward(self) -> Any:
        """The model as a function of its inputs: its outputs by name, computed in inference."""
        specs = self.input_specs

        def forward(**inputs: tf.Tensor) -> Outputs:
            given = checked(self.model.config, inputs, least_length=self.least_length)
            return self.model.forward(given, form=self.served.form)

        return function_of(forward, specs)

    def ids_signatures(self) -> dict[str, Signature]:
        """Signatures that take token ids: `serving_default`, with what the model takes and gives."""
        return {"serving_default": self.forward_signature()}

    @abc.abstractmethod
    def text_signatures(self) -> dict[str, Signature]:
        """Signatures that take text, and `ids`, which takes token ids."""

    @abc.abstractmethod
    def describe_outputs(self) -> str:
        """What `forward` gives, for who reads the signatures."""

    def forward_signature(self) -> Signature:
        """The model itself: its inputs and outputs as they are."""
        model = self.model
        shapes = ", ".join(f"{name} {shape}" for name, shape in model.INPUTS.items())
        rows = "B, C and S" if model.HEAD == "multiple_choice" else "B and S"
        document = (
            f"The model on token ids: {shapes}, int32; {rows} are free, S up to max_position_embeddings "
            f"({model.config.max_position_embeddings}); nothing is cut. input_mask is 1 at tokens and 0 at padding, "
            f"segment_ids 1 in the second segment; ids must be in the vocabulary, at padding too. "
            f"{self.describe_outputs()}"
        )

        def ids(**inputs: tf.Tensor) -> Outputs:
            outputs: Outputs = self.forward(**inputs)
            return outputs

        return signature(ids, self.input_specs, document)

    def common_text_signatures(self) -> dict[str, Signature]:
        """`ids` and `tokenize`, which every model that takes text has."""
        return {"ids": self.forward_signature(), "tokenize": self.tokenize_signature()}

    def tokenize_signature(self) -> Signature:
        """Text to ids and pieces."""
        pieces = self.pieces

        def tokenize(text: tf.Tensor) -> Outputs:
            """Tokenises texts, string [B], without special tokens; nothing is cut.

            ids int32 [B, N] and pieces string [B, N], N the longest text's length; lengths int32 [B]. Behind a text's
            end ids are -1 and pieces empty.
            """
            tokens = self.tokenize(text)
            return {
                "ids": tokens.to_tensor(-1),
                "pieces": tokens.with_values(tf.gather(pieces, tokens.values)).to_tensor(""),
                "lengths": tf.cast(tokens.row_lengths(), tf.int32),
            }

        return signature(tokenize, ONE_TEXT)

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer.

        Raises:
          ValueError: if the signatures are made without one.
        """
        if self.served.tokenizer is None:
            raise ValueError("signatures that take text need a tokenizer")
        return self.served.tokenizer

    @property
    def text(self) -> TextGraph:
        """The tokenizer as a graph.

        Raises:
          ValueError: if the signatures are made without one.
        """
        if self.served.text is None:
            raise ValueError("signatures that take text need the tokenizer as a graph")
        return self.served.text

    @functools.cached_property
    def pieces(self) -> tf.Tensor:
        """string [V]: the pieces by id."""
        with tf.init_scope():  # else it would be part of the function that asks first
            return tf.constant([self.tokenizer.id_to_piece(i) for i in range(self.tokenizer.vocab_size)])

    @functools.cached_property
    def tokenize(self) -> Any:
        """Texts as ids: string [B] -> int32 [B, (n)]."""

        @tf.function(input_signature=[TEXTS], autograph=False)
        def tokenize(texts: tf.Tensor) -> tf.RaggedTensor:
            return self.text.tokenize(texts)

        return tokenize


def signature(
    function: Callable[..., Outputs], specs: Mapping[str, tf.TensorSpec], document: str | None = None
) -> Signature:
    """A signature of named inputs; its document is the function's unless one is given."""
    return Signature(function=function_of(function, specs), document=document or inspect.getdoc(function) or "")


def function_of(function: Callable[..., Outputs], specs: Mapping[str, tf.TensorSpec]) -> Any:
    """A `tf.function` whose inputs are named as in `specs`."""

    def by_name(*values: tf.Tensor) -> Outputs:
        return function(**dict(zip(specs, values, strict=True)))

    parameters = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in specs]
    by_name.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    by_name.__name__ = function.__name__
    named = [tf.TensorSpec(spec.shape, spec.dtype, name=name) for name, spec in specs.items()]
    return tf.function(by_name, input_signature=named, autograph=False)


def as_many(texts: tf.Tensor, of: tf.Tensor, message: str) -> tf.Tensor:
    """`texts`, string [B, ...], there once they are known to be as many as `of`; else the error says `message`."""
    check = tf.debugging.assert_equal(tf.shape(texts)[0], tf.shape(of)[0], message)
    with tf.control_dependencies([] if check is None else [check]):
        return tf.identity(texts)
