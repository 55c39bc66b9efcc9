"""The tokenizer inside a TFLite file: text goes in. In TFLite's own operations but one, TF-Text's for SentencePiece.

That operation knows one way to prepare text, the rules in the SentencePiece model itself; so ALBERT's preparation is
baked into it (`albert_tf.normalizer`, which says in which rare texts the ids then differ from `AlbertTokenizer`'s). The
digit-comma rule acts behind it, as in Python. A byte that is not UTF-8 counts as a character that is not known.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import tensorflow as tf
import tensorflow_text as tf_text

from albert_tf import features
from albert_tf.normalizer import bake_normalizer
from albert_tf.tokenizer import AlbertTokenizer
from albert_tf.tokenizer_base import Tokenizer
from export.digit_comma_graph import DigitCommaRule
from export.tflite_graph import Head, outputs_of
from export.token_graph import TextGraph, no_tokens, rows

if TYPE_CHECKING:
    from albert_tf.modeling.head_model import AlbertHeadModel

TEXT, TEXT_B = "text", "text_b"
# Heads whose outputs belong to tokens, so that a caller must know which these are.
_OF_TOKENS = ("pretraining", "encoder", "token_classifier", "span", "conditional_span")

_baked = functools.lru_cache(maxsize=2)(bake_normalizer)  # it takes seconds


class TFLiteTextGraph(TextGraph):
    """`AlbertTokenizer` in operations of TFLite.

    Args:
      tokenizer: the tokenizer to restate.
      max_seq_length: see `TextGraph`.
    """

    def __init__(self, tokenizer: AlbertTokenizer, max_seq_length: int) -> None:
        super().__init__(tokenizer, max_seq_length)
        self._segmenter = tf_text.FastSentencepieceTokenizer(_baked(tokenizer.model_proto, tokenizer.config))
        self._split_digit_comma = DigitCommaRule(tokenizer, searches=False)

    def tokenize(self, texts: tf.Tensor) -> tf.RaggedTensor:
        tokens = self._segmenter.tokenize(texts)
        return self._split_digit_comma(rows(tokens.flat_values, tf.cast(tokens.row_splits, tf.int64)))

    def padded(self, inputs: dict[str, tf.Tensor], least: int) -> dict[str, tf.Tensor]:
        """Encoder inputs of at least `least` positions, as a head needs that chooses so many of them."""
        missing = tf.maximum(least - tf.shape(inputs[features.INPUT_IDS])[1], 0)
        pads = {features.INPUT_IDS: self.pad_id}
        return {
            name: tf.pad(value, [[0, 0], [0, missing]], constant_values=pads.get(name, 0))
            for name, value in inputs.items()
        }

    def answer_places(self, inputs: dict[str, tf.Tensor]) -> tf.Tensor:
        """int32 [B, S]: 1 at [CLS] and at the second text's tokens, where an answer may start and end."""
        ids = inputs[features.INPUT_IDS]
        is_of_b = (inputs[features.SEGMENT_IDS] == 1) & (ids != self.sep_id)
        return tf.cast(is_of_b | (tf.range(tf.shape(ids)[1]) == 0), tf.int32)


def make_text_graph(tokenizer: Tokenizer, max_seq_length: int) -> TFLiteTextGraph:
    """The tokenizer in a graph for TFLite.

    Raises:
      ValueError: for a WordPiece vocabulary.
    """
    if not isinstance(tokenizer, AlbertTokenizer):
        raise ValueError(
            "a tokenizer with a WordPiece vocabulary (vocab.txt) cannot go into a TFLite file yet: export with "
            "tokenizer outside, or as SavedModel, which has it inside"
        )
    return TFLiteTextGraph(tokenizer, max_seq_length)


def text_function(model: AlbertHeadModel, head: Head, text: TFLiteTextGraph, *, pairs: bool) -> Any:
    """The model as a TensorFlow function of texts: string [B], or [B, C] for multiple choice.

    Outputs are the model's. Where they belong to tokens there are `input_ids` and `input_mask` int32 [B, S] too, which
    tell what the model was given. Of a conditional span the second text alone may hold the answer.

    Args:
      model: the model.
      head: which outputs a pretraining model gives; others give all of theirs.
      text: the tokenizer.
      pairs: whether there is an input `text_b` beside `text`.
    """
    has_choices = model.HEAD == "multiple_choice"
    names = (TEXT, TEXT_B) if pairs else (TEXT,)
    specs = [tf.TensorSpec([None, None] if has_choices else [None], tf.string, name=name) for name in names]

    @tf.function(input_signature=specs, autograph=False)
    def function(*texts: tf.Tensor) -> dict[str, tf.Tensor]:
        ids = [text.tokenize(tf.reshape(one, [-1])) for one in texts]
        if not pairs:
            ids.append(no_tokens(ids[0]))
        inputs = text.encode(*ids)
        if has_choices:
            shape = tf.concat([tf.shape(texts[0]), [-1]], axis=0)
            inputs = {name: tf.reshape(value, shape) for name, value in inputs.items()}
        if model.HEAD == "conditional_span":
            inputs = text.padded(inputs, max(model.head_config.start_n_top, model.head_config.end_n_top))
            inputs[features.P_MASK] = 1 - text.answer_places(inputs)
        outputs = outputs_of(model, inputs, head)
        if model.HEAD in _OF_TOKENS and head != "sentence_order":
            outputs |= {name: inputs[name] for name in (features.INPUT_IDS, features.INPUT_MASK)}
        return outputs

    return function
