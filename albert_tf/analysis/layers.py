"""What each layer changes: L2 distance and cosine similarity between its input and its output.

Source: Lan et al. 2020 (arXiv 1909.11942), section 3.1 and Figure 1, which shows the cosine similarity as an angle in
degrees. The paper does not say over what it averages; here it is the mean over all tokens, `[CLS]` and `[SEP]` among
them and padding left out. The input of the first layer is H wide: the embeddings behind their projection.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np

from albert_tf import features
from albert_tf.tokenizer_base import Tokenizer

if TYPE_CHECKING:
    import tensorflow as tf

    from albert_tf.modeling.encoder import AlbertEncoder

Batch = Mapping[str, np.ndarray]


@dataclasses.dataclass(frozen=True, kw_only=True)
class LayerChange:
    """What one layer changes, in the mean over tokens.

    Attributes:
      l2_distance: Euclidean distance of output and input.
      cosine_similarity: cosine of the angle between them, in [-1, 1].
      degrees: that angle, in [0, 180].
      input_norm: Euclidean length of the input, to judge the distance by.
    """

    l2_distance: float
    cosine_similarity: float
    degrees: float
    input_norm: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class LayerChanges:
    """What the layers of one model change: `layers` from the first to the last, over `num_tokens` tokens."""

    name: str
    num_tokens: int
    layers: tuple[LayerChange, ...]


def measure_layers(encoder: AlbertEncoder, batches: Iterable[Batch], *, name: str) -> LayerChanges:
    """Runs the encoder on all batches; one batch is in memory at a time.

    Args:
      encoder: encoder of L layers.
      batches: the encoder's inputs, each int32 [B, S].
      name: what the model is called.

    Raises:
      ValueError: if there is no token, or a layer's input or output is not finite or a vector of zeros.
    """
    run = _compiled(encoder)
    sums = np.zeros((encoder.config.num_hidden_layers, len(dataclasses.fields(LayerChange))))
    num_tokens = 0
    for batch in batches:
        is_token = batch[features.INPUT_MASK] > 0
        if not is_token.any():
            continue
        states = run(*(batch[key] for key in _INPUTS)).numpy()[:, is_token].astype(np.float64)  # [L + 1, T, H]
        for layer, (before, after) in enumerate(itertools.pairwise(states)):
            sums[layer] += changes(before, after, source=f"{name}, layer {layer + 1}").sum(0)
        num_tokens += int(is_token.sum())
    if not num_tokens:
        raise ValueError(f"{name}: the text has no token: nothing to measure on")
    layers = tuple(LayerChange(**dict(zip(_FIELDS, row, strict=True))) for row in (sums / num_tokens).tolist())
    return LayerChanges(name=name, num_tokens=num_tokens, layers=layers)


_INPUTS = (features.INPUT_IDS, features.INPUT_MASK, features.SEGMENT_IDS)
_FIELDS = tuple(field.name for field in dataclasses.fields(LayerChange))


def _compiled(encoder: AlbertEncoder) -> Callable[..., tf.Tensor]:
    """Function from the encoder's inputs to the input of the first layer and the output of each, [L + 1, B, S, H]."""
    import tensorflow as tf

    def states(input_ids: tf.Tensor, input_mask: tf.Tensor, segment_ids: tf.Tensor) -> tf.Tensor:
        inputs = dict(zip(_INPUTS, (input_ids, input_mask, segment_ids), strict=True))
        outputs = encoder.encode(inputs, form="packed", all_outputs=True)
        hidden = outputs["embedding_output"]
        if encoder.embedding_projection is not None:
            hidden = encoder.embedding_projection(hidden)
        return tf.stack([hidden, *outputs["encoder_outputs"]])

    traced = tf.function(states, input_signature=[tf.TensorSpec([None, None], tf.int32)] * 3, autograph=False)
    concrete = traced.get_concrete_function()  # else TensorFlow warns of the traces of several models
    return lambda *inputs: concrete(*map(tf.constant, inputs))


def changes(before: np.ndarray, after: np.ndarray, *, source: str) -> np.ndarray:
    """Distance, cosine, angle in degrees and length of `before` for each token, float64 [T, 4].

    Args:
      before: float64 [T, H], a layer's input.
      after: float64 [T, H], its output.
      source: what is measured, for messages.

    Raises:
      ValueError: for values that are not finite, and for a vector of zeros, which has no direction.
    """
    lengths = [np.linalg.norm(one, axis=-1, keepdims=True) for one in (before, after)]  # [T, 1]
    if not all(np.isfinite(one).all() for one in lengths):
        raise ValueError(f"{source}: has values that are not finite")
    if not all(one.all() for one in lengths):
        raise ValueError(f"{source}: has a token whose vector is zero, which has no direction")
    first, second = before / lengths[0], after / lengths[1]
    # Of a small angle the cosine is 1 but for rounding, and its arc cosine is noise; this is not.
    angle = 2.0 * np.arctan2(np.linalg.norm(first - second, axis=-1), np.linalg.norm(first + second, axis=-1))
    distance = np.linalg.norm(after - before, axis=-1)
    return np.stack([distance, (first * second).sum(-1), np.degrees(angle), lengths[0][:, 0]], axis=-1)


def make_batches(
    texts: Iterable[str], tokenizer: Tokenizer, *, max_seq_length: int, batch_size: int
) -> Iterator[dict[str, np.ndarray]]:
    """Texts as the encoder's inputs, int32 [B, S], padded to the longest row of the batch.

    A text that is longer than a row goes on in the next one, each with its `[CLS]` and `[SEP]`; no token is lost.

    Args:
      texts: the texts; those that give no token are left out.
      tokenizer: the model's tokenizer.
      max_seq_length: tokens of a row at most, `[CLS]` and `[SEP]` among them.
      batch_size: rows of a batch (B); the last one may have fewer.

    Raises:
      ValueError: if `max_seq_length` has no room for a token.
    """
    if max_seq_length < 3:
        raise ValueError(f"max_seq_length must be at least 3, [CLS], a token and [SEP], got {max_seq_length}")
    room = max_seq_length - 2
    rows = (ids[start : start + room] for ids in map(tokenizer.encode, texts) for start in range(0, len(ids), room))
    while batch := list(itertools.islice(rows, batch_size)):
        length = max(map(len, batch)) + 2
        laid_out = [tokenizer.encode_pair(ids, None, length) for ids in batch]
        yield {name: np.array([row[index] for row in laid_out], np.int32) for index, name in enumerate(_INPUTS)}
