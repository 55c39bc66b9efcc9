"""Signatures of models that give vectors: the encoder alone, and beside the pretraining heads."""

from __future__ import annotations

import functools
from typing import Any

import tensorflow as tf

from export.signatures.checks import checked
from export.signatures.signature_maker import (
    AS_MANY,
    CUT,
    ENCODER_SPECS,
    IDS,
    ONE_TEXT,
    PAIR_CUT,
    TOKENS,
    TWO_TEXTS,
    Outputs,
    Signature,
    SignatureMaker,
    as_many,
    signature,
)
from export.token_graph import no_tokens


class EncoderSignatures(SignatureMaker):
    """`serving_default` and `pair`, which encode texts, beside `ids` and `tokenize`."""

    @functools.cached_property
    def encode_ids(self) -> Any:
        """The encoder as one function that all signatures call."""

        @tf.function(input_signature=[IDS] * 3, autograph=False)
        def encode_ids(input_ids: tf.Tensor, input_mask: tf.Tensor, segment_ids: tf.Tensor) -> Outputs:
            values = (input_ids, input_mask, segment_ids)
            inputs = checked(self.model.config, dict(zip(ENCODER_SPECS, values, strict=True)))
            outputs: Outputs = self.model.encoder.encode(inputs, form=self.served.form, all_outputs=False)
            return outputs

        return encode_ids

    @functools.cached_property
    def encode_tokens(self) -> Any:
        """Encoder inputs and outputs of tokens of one or two texts each, int32 [B, (n)]."""

        @tf.function(input_signature=[TOKENS, TOKENS], autograph=False)
        def encode_tokens(ids_a: tf.RaggedTensor, ids_b: tf.RaggedTensor) -> Outputs:
            inputs = self.text.encode(ids_a, ids_b)
            return {**inputs, **self.encode_ids(**inputs)}

        return encode_tokens

    def encode_alone(self, ids: tf.RaggedTensor) -> Outputs:
        """As `encode_tokens`, of single texts."""
        outputs: Outputs = self.encode_tokens(ids, no_tokens(ids))
        return outputs

    def describe_outputs(self) -> str:
        at_padding = " is 0 at padding" if self.served.padding == "skipped" else ", at padding without meaning"
        pooled = "; pooled_output float32 [B, H] belongs to the whole text" if self.model.encoder.has_pooler else ""
        return f"sequence_output float32 [B, S, H]{at_padding}{pooled}."

    def forward_signature(self) -> Signature:
        document = (
            "Encodes token ids, int32 [B, S] each; B and S are free, S up to max_position_embeddings "
            f"({self.model.config.max_position_embeddings}); nothing is cut. input_mask is 1 at tokens and 0 at "
            "padding, segment_ids 1 in the second segment; ids must be in the vocabulary, at padding too. "
            f"{self.describe_outputs()}"
        )

        def ids(**inputs: tf.Tensor) -> Outputs:
            outputs: Outputs = self.encode_ids(**inputs)
            return outputs

        return signature(ids, ENCODER_SPECS, document)

    def text_signatures(self) -> dict[str, Signature]:
        given = "input_ids, input_mask and segment_ids int32 [B, S] tell what the model was given."
        outputs = f"{self.describe_outputs()} {given}"

        def serving_default(text: tf.Tensor) -> Outputs:
            return self.encode_alone(self.tokenize(text))

        def pair(text: tf.Tensor, text_b: tf.Tensor) -> Outputs:
            text_b = as_many(text_b, text, AS_MANY)
            outputs: Outputs = self.encode_tokens(self.tokenize(text), self.tokenize(text_b))
            return outputs

        of_one = f"Encodes texts, string [B], one each, as [CLS] text [SEP]. {CUT} S is the longest text's length."
        of_two = (
            "Encodes pairs of texts, string [B] each, as [CLS] text [SEP] text_b [SEP]; an empty text_b counts as none."
            f" {PAIR_CUT}"
        )
        return {
            "serving_default": signature(serving_default, ONE_TEXT, f"{of_one} {outputs}"),
            "pair": signature(pair, TWO_TEXTS, f"{of_two} {outputs}"),
            **self.common_text_signatures(),
        }
