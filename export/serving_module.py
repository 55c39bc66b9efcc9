"""What a SavedModel holds: the weights, each once, and its signatures as TensorFlow functions.

The Keras model itself is not part of the saved object: a SavedModel of a Keras model stores every weight twice.
Signatures call the model's layers, and the module holds nothing but their variables.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from albert_tf import features
from albert_tf.modeling.encoder import Form
from albert_tf.modeling.models import AlbertPretrainingModel
from albert_tf.tokenizer_base import Tokenizer
from export.artifacts import ENCODER_INPUTS
from export.token_graph import TextGraph

_IDS = tf.TensorSpec([None, None], tf.int32)
_TEXTS = tf.TensorSpec([None], tf.string)
_TOKENS = tf.RaggedTensorSpec([None, None], tf.int32)
_ENCODER_SPECS = dict.fromkeys(ENCODER_INPUTS, _IDS)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Signature:
    """One entry of a SavedModel: its function, and what a caller has to know of it."""

    function: Any
    document: str


class _Pair(NamedTuple):
    """What the sentence-order head says of two texts, in words."""

    logits: str
    exchanged: str


_PAIRS = {
    "sop": _Pair("in the document's order, 1 exchanged", "that they are the other way round"),
    "nsp": _Pair("of one document, 1 of two", "that text_b is of another document"),
}


class WeightsModule(tf.Module):
    """Every variable of a model once, by its canonical name, and what signatures need besides."""

    def __init__(self, model: AlbertPretrainingModel, text: TextGraph | None = None) -> None:
        super().__init__(name="albert")
        self.weights = {name: variable.value for name, variable in model.named_weights().items()}
        self.text = text


def form_for(model: AlbertPretrainingModel) -> Form:
    """Form in which a server runs `model`: padding left out, and a loop where layers share all of their weights.

    Where they do not, each layer has weights of its own and a loop has nothing to go round.
    """
    return "packed_loop" if model.config.parameter_sharing == "all" else "packed"


def ids_signatures(
    model: AlbertPretrainingModel, sentence_objective: features.SentenceObjective = "sop"
) -> dict[str, Signature]:
    """Signatures that take token ids: `serving_default`, `masked_lm` and, unless untrained, `sentence_order`."""
    encode_ids = _encode_function(model)

    def serving_default(input_ids: tf.Tensor, input_mask: tf.Tensor, segment_ids: tf.Tensor) -> dict[str, tf.Tensor]:
        return encode_ids(input_ids, input_mask, segment_ids)

    def masked_lm(
        input_ids: tf.Tensor, input_mask: tf.Tensor, segment_ids: tf.Tensor, masked_lm_positions: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        """Predicts the pieces at masked_lm_positions, int32 [B, P], counted along S from 0.

        Other inputs as in serving_default. masked_lm_logits float32 [B, P, V], before softmax.
        """
        encoded = encode_ids(input_ids, input_mask, segment_ids)
        return {"masked_lm_logits": model.masked_lm_head(encoded["sequence_output"], masked_lm_positions)}

    def sentence_order(input_ids: tf.Tensor, input_mask: tf.Tensor, segment_ids: tf.Tensor) -> dict[str, tf.Tensor]:
        encoded = encode_ids(input_ids, input_mask, segment_ids)
        return {"sentence_order_logits": model.sentence_order_head(encoded["pooled_output"])}

    serving_default.__doc__ = encode_ids.__doc__
    signatures = {
        "serving_default": _signature(serving_default, _ENCODER_SPECS),
        "masked_lm": _signature(masked_lm, {**_ENCODER_SPECS, features.MASKED_LM_POSITIONS: _IDS}),
    }
    if sentence_objective in _PAIRS:
        sentence_order.__doc__ = f"""Scores two segments. Inputs as in serving_default.

        sentence_order_logits float32 [B, 2], before softmax: 0 {_PAIRS[sentence_objective].logits}.
        """
        signatures["sentence_order"] = _signature(sentence_order, _ENCODER_SPECS)
    return signatures


def text_signatures(
    model: AlbertPretrainingModel,
    tokenizer: Tokenizer,
    text: TextGraph,
    *,
    top_k: int,
    sentence_objective: features.SentenceObjective = "sop",
) -> dict[str, Signature]:
    """Signatures that take text, and `ids`, which takes token ids.

    Args:
      model: the model.
      tokenizer: its tokenizer.
      text: the tokenizer as a graph.
      top_k: candidates that `fill_mask` gives for each mask.
      sentence_objective: what the model was trained on; with "none" there is no `sentence_order`.
    """
    pieces = tf.constant([tokenizer.id_to_piece(i) for i in range(tokenizer.vocab_size)])

    encode_ids = _encode_function(model)

    @tf.function(input_signature=[_TEXTS], autograph=False)
    def tokenize(texts: tf.Tensor) -> tf.RaggedTensor:
        return text.tokenize(texts)

    @tf.function(input_signature=[_TEXTS], autograph=False)
    def tokenize_marked(texts: tf.Tensor) -> tf.RaggedTensor:
        return text.tokenize_marked(texts)

    @tf.function(input_signature=[_TOKENS, _TOKENS], autograph=False)
    def encode_tokens(ids_a: tf.RaggedTensor, ids_b: tf.RaggedTensor) -> dict[str, tf.Tensor]:
        inputs = text.encode(ids_a, ids_b)
        return {**inputs, **encode_ids(**inputs)}

    def encode_alone(ids: tf.RaggedTensor) -> dict[str, tf.Tensor]:
        no_tokens = tf.RaggedTensor.from_row_splits(
            tf.zeros([0], tf.int32), tf.zeros_like(ids.row_splits), validate=False
        )
        return encode_tokens(ids, no_tokens)

    def fill(encoded: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        at_mask = tf.RaggedTensor.from_value_rowids(
            *_places(encoded[features.INPUT_IDS], tokenizer.mask_id),
            nrows=tf.shape(encoded[features.INPUT_IDS], tf.int64)[0],
            validate=False,
        )
        positions = at_mask.to_tensor(-1)  # [B, M]
        logits = model.masked_lm_head(encoded["sequence_output"], tf.maximum(positions, 0))
        found = tf.math.top_k(tf.nn.softmax(logits), k=min(top_k, tokenizer.vocab_size))
        is_mask = tf.expand_dims(positions >= 0, 2)
        return {
            "positions": positions,
            "ids": tf.where(is_mask, found.indices, -1),
            "pieces": tf.where(is_mask, tf.gather(pieces, found.indices), ""),
            "probabilities": tf.where(is_mask, found.values, 0.0),
        }

    def serving_default(text: tf.Tensor) -> dict[str, tf.Tensor]:
        """Encodes texts, string [B], one each, as [CLS] text [SEP].

        A text is cut at its end to max_seq_length tokens, [CLS] and [SEP] included. S is the longest text's length.
        sequence_output float32 [B, S, H] is 0 at padding; pooled_output float32 [B, H]; input_ids, input_mask and
        segment_ids int32 [B, S] tell what the model was given.
        """
        return encode_alone(tokenize(text))

    def pair(text: tf.Tensor, text_b: tf.Tensor) -> dict[str, tf.Tensor]:
        """Encodes pairs of texts, string [B] each, as [CLS] text [SEP] text_b [SEP]; an empty text_b counts as none.

        Pairs of more than max_seq_length tokens, [CLS] and [SEP] included, are cut: the longer text loses its end
        first. Outputs as in serving_default.
        """
        return encode_tokens(tokenize(text), tokenize(text_b))

    def ids(input_ids: tf.Tensor, input_mask: tf.Tensor, segment_ids: tf.Tensor) -> dict[str, tf.Tensor]:
        return encode_ids(input_ids, input_mask, segment_ids)

    def tokenize_signature(text: tf.Tensor) -> dict[str, tf.Tensor]:
        """Tokenises texts, string [B], without special tokens; nothing is cut.

        ids int32 [B, N] and pieces string [B, N], N the longest text's length; lengths int32 [B]. Behind a text's end
        ids are -1 and pieces empty.
        """
        tokens = tokenize(text)
        return {
            "ids": tokens.to_tensor(-1),
            "pieces": tokens.with_values(tf.gather(pieces, tokens.values)).to_tensor(""),
            "lengths": tf.cast(tokens.row_lengths(), tf.int32),
        }

    def fill_mask(text: tf.Tensor) -> dict[str, tf.Tensor]:
        """Predicts what stands at each "[MASK]" of the texts, string [B]; the marker becomes the mask id.

        Texts are cut as in serving_default; a mask behind the cut is left out. M is the largest number of masks, K the
        number of candidates: positions int32 [B, M], counted in tokens from [CLS] = 0; ids int32, pieces string and
        probabilities float32 [B, M, K], best first. Where a text has fewer masks, or none, positions and ids are -1.
        """
        return fill(encode_alone(tokenize_marked(text)))

    def fill_mask_pair(text: tf.Tensor, text_b: tf.Tensor) -> dict[str, tf.Tensor]:
        """As fill_mask, on pairs of texts; both may hold masks. Cut as in pair."""
        return fill(encode_tokens(tokenize_marked(text), tokenize_marked(text_b)))

    def sentence_order(text: tf.Tensor, text_b: tf.Tensor) -> dict[str, tf.Tensor]:
        encoded = encode_tokens(tokenize_marked(text), tokenize_marked(text_b))
        probabilities = tf.nn.softmax(model.sentence_order_head(encoded["pooled_output"]))
        return {"in_order": probabilities[:, 0], "exchanged": probabilities[:, 1]}

    ids.__doc__ = encode_ids.__doc__
    one, two = {"text": _TEXTS}, {"text": _TEXTS, "text_b": _TEXTS}
    signatures = {
        "serving_default": _signature(serving_default, one),
        "pair": _signature(pair, two),
        "ids": _signature(ids, _ENCODER_SPECS),
        "tokenize": _signature(tokenize_signature, one),
        "fill_mask": _signature(fill_mask, one),
        "fill_mask_pair": _signature(fill_mask_pair, two),
    }
    if sentence_objective in _PAIRS:
        sentence_order.__doc__ = f"""Scores two texts, string [B] each; "[MASK]" becomes the mask id. Cut as in pair.

        in_order and exchanged float32 [B]: probabilities that text_b follows text, and
        {_PAIRS[sentence_objective].exchanged}; they sum to 1. Without a text_b they mean nothing.
        """
        signatures["sentence_order"] = _signature(sentence_order, two)
    return signatures


def _encode_function(model: AlbertPretrainingModel) -> Any:
    """The encoder as one function that all signatures call, so that the file holds it once."""
    form = form_for(model)

    @tf.function(input_signature=[_IDS] * 3, autograph=False)
    def encode_ids(input_ids: tf.Tensor, input_mask: tf.Tensor, segment_ids: tf.Tensor) -> dict[str, tf.Tensor]:
        """Encodes token ids, int32 [B, S] each; B and S are free, S up to max_position_embeddings; nothing is cut.

        input_mask is 1 at tokens and 0 at padding, segment_ids 1 in the second segment. sequence_output float32
        [B, S, H] is 0 at padding; pooled_output float32 [B, H] belongs to the whole text.
        """
        return model.encoder.encode(_checked(model, input_ids, input_mask, segment_ids), form=form)

    return encode_ids


def _signature(function: Callable[..., dict[str, tf.Tensor]], specs: dict[str, tf.TensorSpec]) -> Signature:
    named = [tf.TensorSpec(spec.shape, spec.dtype, name=name) for name, spec in specs.items()]
    return Signature(
        function=tf.function(function, input_signature=named, autograph=False), document=inspect.getdoc(function) or ""
    )


def _checked(model: AlbertPretrainingModel, input_ids: Any, input_mask: Any, segment_ids: Any) -> dict[str, tf.Tensor]:
    """The encoder's inputs, after checks that would otherwise end in an error about some inner shape."""
    longest = model.config.max_position_embeddings
    length = tf.shape(input_ids)[1]
    checks = [
        tf.debugging.assert_positive(length, "input_ids must have at least one position"),
        tf.debugging.assert_less_equal(length, longest, f"input_ids must have at most {longest} positions"),
        tf.debugging.assert_equal(tf.shape(input_mask), tf.shape(input_ids), "input_mask must be shaped as input_ids"),
        tf.debugging.assert_equal(
            tf.shape(segment_ids), tf.shape(input_ids), "segment_ids must be shaped as input_ids"
        ),
    ]
    with tf.control_dependencies([check for check in checks if check is not None]):
        return {
            name: tf.identity(value)
            for name, value in zip(ENCODER_INPUTS, (input_ids, input_mask, segment_ids), strict=True)
        }


def _places(ids: tf.Tensor, wanted: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Column (int32) and row (int64) of each place where `ids` [B, S] is `wanted`."""
    places = tf.where(ids == wanted)
    return tf.cast(places[:, 1], tf.int32), places[:, 0]
