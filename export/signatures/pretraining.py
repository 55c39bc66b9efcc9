"""Signatures of the pretraining heads: what stands at a mask, and whether two texts are in order."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import tensorflow as tf

from albert_tf import features
from export.signatures.checks import checked
from export.signatures.encoder import EncoderSignatures
from export.signatures.signature_maker import (
    AS_MANY,
    ENCODER_SPECS,
    IDS,
    ONE_TEXT,
    TEXTS,
    TWO_TEXTS,
    Outputs,
    Signature,
    as_many,
    signature,
)


class _Pair(NamedTuple):
    """What the sentence-order head says of two texts, in words."""

    logits: str
    exchanged: str


_PAIRS = {
    "sop": _Pair("in the document's order, 1 exchanged", "that they are the other way round"),
    "nsp": _Pair("of one document, 1 of two", "that text_b is of another document"),
}


class PretrainingSignatures(EncoderSignatures):
    """Those of the encoder, and of each head that was trained."""

    @property
    def _pair(self) -> _Pair | None:
        """What is said of two texts; None where the model has no such head, or an untrained one."""
        return _PAIRS.get(self.served.sentence_objective) if self.model.HEAD == "pretraining" else None

    @property
    def _masked_lm(self) -> Any:
        return self.model.get_layer("masked_lm")

    @property
    def _sentence_order(self) -> Any:
        return self.model.get_layer("sentence_order")

    @functools.cached_property
    def tokenize_marked(self) -> Any:
        """As `tokenize`, with the mask id at every "[MASK]"."""

        @tf.function(input_signature=[TEXTS], autograph=False)
        def tokenize_marked(texts: tf.Tensor) -> tf.RaggedTensor:
            return self.text.tokenize_marked(texts)

        return tokenize_marked

    def ids_signatures(self) -> dict[str, Signature]:
        def masked_lm(masked_lm_positions: tf.Tensor, **inputs: tf.Tensor) -> Outputs:
            """Predicts the pieces at masked_lm_positions, int32 [B, P], counted along S from 0.

            Other inputs as in serving_default. masked_lm_logits float32 [B, P, V], before softmax.
            """
            given = checked(self.model.config, {**inputs, features.MASKED_LM_POSITIONS: masked_lm_positions})
            encoded = self.encode_ids(**inputs)
            return {
                "masked_lm_logits": self._masked_lm(encoded["sequence_output"], given[features.MASKED_LM_POSITIONS])
            }

        def sentence_order(**inputs: tf.Tensor) -> Outputs:
            encoded = self.encode_ids(**inputs)
            return {"sentence_order_logits": self._sentence_order(encoded["pooled_output"])}

        signatures = {
            **super().ids_signatures(),
            "masked_lm": signature(masked_lm, {**ENCODER_SPECS, features.MASKED_LM_POSITIONS: IDS}),
        }
        if self._pair is not None:
            document = (
                "Scores two segments. Inputs as in serving_default. sentence_order_logits float32 [B, 2], before "
                f"softmax: 0 {self._pair.logits}."
            )
            signatures["sentence_order"] = signature(sentence_order, ENCODER_SPECS, document)
        return signatures

    def text_signatures(self) -> dict[str, Signature]:
        def fill_mask(text: tf.Tensor) -> Outputs:
            """Predicts what stands at each "[MASK]" of the texts, string [B]; the marker becomes the mask id.

            Texts are cut as in serving_default; a mask behind the cut is left out. M is the largest number of masks, K
            the number of candidates: positions int32 [B, M], counted in tokens from [CLS] = 0; ids int32, pieces string
            and probabilities float32 [B, M, K], best first. Where a text has fewer masks, or none, positions and ids
            are -1.
            """
            return self._fill(self.encode_alone(self.tokenize_marked(text)))

        def fill_mask_pair(text: tf.Tensor, text_b: tf.Tensor) -> Outputs:
            """As fill_mask, on pairs of texts; both may hold masks. Cut as in pair."""
            return self._fill(self._encode_marked(text, text_b))

        def sentence_order(text: tf.Tensor, text_b: tf.Tensor) -> Outputs:
            encoded = self._encode_marked(text, text_b)
            probabilities = tf.nn.softmax(self._sentence_order(encoded["pooled_output"]))
            return {"in_order": probabilities[:, 0], "exchanged": probabilities[:, 1]}

        signatures = {
            **super().text_signatures(),
            "fill_mask": signature(fill_mask, ONE_TEXT),
            "fill_mask_pair": signature(fill_mask_pair, TWO_TEXTS),
        }
        if self._pair is not None:
            document = (
                'Scores two texts, string [B] each; "[MASK]" becomes the mask id. Cut as in pair. in_order and '
                f"exchanged float32 [B]: probabilities that text_b follows text, and {self._pair.exchanged}; they sum "
                "to 1. Without a text_b they mean nothing."
            )
            signatures["sentence_order"] = signature(sentence_order, TWO_TEXTS, document)
        return signatures

    def _encode_marked(self, text: tf.Tensor, text_b: tf.Tensor) -> Outputs:
        text_b = as_many(text_b, text, AS_MANY)
        outputs: Outputs = self.encode_tokens(self.tokenize_marked(text), self.tokenize_marked(text_b))
        return outputs

    def _fill(self, encoded: Outputs) -> Outputs:
        """Candidates for each mask of encoded texts."""
        tokenizer = self.tokenizer
        at_mask = tf.RaggedTensor.from_value_rowids(
            *_places(encoded[features.INPUT_IDS], tokenizer.mask_id),
            nrows=tf.shape(encoded[features.INPUT_IDS], tf.int64)[0],
            validate=False,
        )
        positions = at_mask.to_tensor(-1)  # [B, M]
        logits = self._masked_lm(encoded["sequence_output"], tf.maximum(positions, 0))
        found = tf.math.top_k(tf.nn.softmax(logits), k=min(self.served.top_k, tokenizer.vocab_size))
        is_mask = tf.expand_dims(positions >= 0, 2)
        return {
            "positions": positions,
            "ids": tf.where(is_mask, found.indices, -1),
            "pieces": tf.where(is_mask, tf.gather(self.pieces, found.indices), ""),
            "probabilities": tf.where(is_mask, found.values, 0.0),
        }


def _places(ids: tf.Tensor, wanted: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Column (int32) and row (int64) of each place where `ids` [B, S] is `wanted`."""
    places = tf.where(ids == wanted)
    return tf.cast(places[:, 1], tf.int32), places[:, 0]
