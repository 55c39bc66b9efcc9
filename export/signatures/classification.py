"""Signatures of models that say one thing of a text or of two: a label, several labels, a number.

The same as `albert_tf.inference.text_answers` in Python, windows over long texts included.
"""

from __future__ import annotations

import functools
from typing import Any

import tensorflow as tf

from albert_tf.tasks.predictions import THRESHOLD
from export.signatures.signature_maker import (
    AS_MANY,
    CUT,
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
from export.token_graph import Stretches, no_tokens
from export.window_graph import Windows, in_chunks, pair_windows


class ClassificationSignatures(SignatureMaker):
    """`serving_default` on one text or two, as the task has it; where nothing says it, on one, and `pair`."""

    def describe_outputs(self) -> str:
        if self.model.HEAD == "regression":
            return "logits float32 [B], the number, unbounded."
        return f"logits float32 [B, C], before {'sigmoid' if self.served.is_multi_label else 'softmax'}."

    def text_signatures(self) -> dict[str, Signature]:
        def of_one(text: tf.Tensor) -> Outputs:
            ids = self.tokenize(text)
            outputs: Outputs = self._judge(ids, no_tokens(ids))
            return outputs

        def of_two(text: tf.Tensor, text_b: tf.Tensor) -> Outputs:
            text_b = as_many(text_b, text, AS_MANY)
            outputs: Outputs = self._judge(self.tokenize(text), self.tokenize(text_b))
            return outputs

        windows = ""
        if self.served.stride is not None:
            windows = (
                f" Texts that do not fit into max_seq_length tokens are read in windows, {self.served.stride} tokens "
                "from start to start, and the mean of what is said of each counts; of a pair the windows go over the "
                "longer text, and the shorter one stands in each, cut to half the room."
            )
        document_of_one = f"Judges texts, string [B], one each.{windows or f' {CUT}'} {self._document}"
        document_of_two = (
            "Judges pairs of texts, string [B] each; an empty text_b counts as none."
            f"{windows or f' {PAIR_CUT}'} {self._document}"
        )
        one, two = signature(of_one, ONE_TEXT, document_of_one), signature(of_two, TWO_TEXTS, document_of_two)
        signatures = {
            1: {"serving_default": one},
            2: {"serving_default": two},
            None: {"serving_default": one, "pair": two},
        }[self.served.num_texts]
        return {**signatures, **self.common_text_signatures()}

    @functools.cached_property
    def _judge(self) -> Any:
        """Answers of tokens of one or two texts each, int32 [B, (n)]."""

        @tf.function(input_signature=[TOKENS, TOKENS], autograph=False)
        def judge(ids_a: tf.RaggedTensor, ids_b: tf.RaggedTensor) -> Outputs:
            if self.served.stride is None:
                logits = self.forward(**self.text.encode(ids_a, ids_b))["logits"]
                return {**self._answers(self._values(logits)), **self._shown_logits(logits)}
            windows, inputs = self._windows(ids_a, ids_b, self.served.stride)
            values = self._values(in_chunks(self.forward, inputs)["logits"])
            return self._answers(tf.math.segment_mean(values, windows.owners))

        return judge

    def _windows(
        self, ids_a: tf.RaggedTensor, ids_b: tf.RaggedTensor, stride: int
    ) -> tuple[Windows, dict[str, tf.Tensor]]:
        first, second = Stretches.of(ids_a), Stretches.of(ids_b)
        has_b = second.lengths > 0
        rooms = self.text.max_seq_length - 2 - tf.cast(has_b, tf.int32)
        over_a, over_b = pair_windows(first.lengths, second.lengths, rooms, stride)
        inputs = self.text.lay_out(
            first.cut(over_a.owners, over_a.starts, over_a.lengths),
            second.cut(over_b.owners, over_b.starts, over_b.lengths),
            tf.gather(has_b, over_a.owners),
        )
        return over_a, inputs

    def _values(self, logits: tf.Tensor) -> tf.Tensor:
        """What windows' mean is taken of: probabilities float32 [N, C], or numbers [N]."""
        if self.model.HEAD == "regression":
            return logits
        return sigmoid(logits) if self.served.is_multi_label else tf.nn.softmax(logits)

    def _shown_logits(self, logits: tf.Tensor) -> Outputs:
        return {} if self.model.HEAD == "regression" else {"logits": logits}

    def _answers(self, values: tf.Tensor) -> Outputs:
        if self.model.HEAD == "regression":
            return {"value": values}
        labels = tf.constant(self.served.labels)
        best = tf.argmax(values, axis=1)
        answers = {
            "labels": tf.gather(labels, best),
            "probability": tf.reduce_max(values, axis=1),
            "scores": values,
            "label_names": tf.tile(labels[tf.newaxis], [tf.shape(values)[0], 1]),
        }
        return {**answers, "is_label": values >= THRESHOLD} if self.served.is_multi_label else answers

    @property
    def _document(self) -> str:
        if self.model.HEAD == "regression":
            return "value float32 [B], unbounded."
        names = (
            "label_names string [B, C] names the columns of scores, alike in every row, so that an answer can be read "
            "alone"
        )
        kind = "sigmoid" if self.served.is_multi_label else "softmax"
        logits = "" if self.served.stride is not None else f"; logits float32 [B, C], before {kind}"
        if self.served.is_multi_label:
            return (
                "scores float32 [B, C]: probability of each label, which do not exclude each other; is_label bool "
                f"[B, C]: whether that is {THRESHOLD} or more; labels string [B] and probability float32 [B]: the "
                f"likeliest one, which may be below that; {names}{logits}."
            )
        return (
            "labels string [B]: the likeliest label; probability float32 [B]: its probability; scores float32 [B, C]: "
            f"that of each label, which sum to 1; {names}{logits}."
        )


def sigmoid(logits: tf.Tensor) -> tf.Tensor:
    """`albert_tf.tasks.predictions.sigmoid`."""
    return 0.5 * (1.0 + tf.tanh(0.5 * logits))
