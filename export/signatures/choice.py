"""Signatures of models that choose one of several texts (RACE), as `albert_tf.inference.choice_answers` in Python."""

from __future__ import annotations

import tensorflow as tf

from albert_tf.inference.choice_answers import MAX_QA_LENGTH
from export.signatures.signature_maker import TEXTS, Outputs, Signature, SignatureMaker, as_many, signature
from export.token_graph import Stretches, truncate_pair

_LEAST_CHOICES = 2
_INPUTS = {"context": TEXTS, "question": TEXTS, "choices": tf.TensorSpec([None, None], tf.string)}


class ChoiceSignatures(SignatureMaker):
    """`serving_default` on a text, a question and choices."""

    def describe_outputs(self) -> str:
        return "logits float32 [B, C], before softmax."

    def text_signatures(self) -> dict[str, Signature]:
        def serving_default(context: tf.Tensor, question: tf.Tensor, choices: tf.Tensor) -> Outputs:
            question = as_many(question, context, "question must be as many texts as context")
            choices = as_many(choices, context, "choices must be of as many rows as context")
            inputs = self._rows(context, question, _checked(choices))
            logits = self.forward(**inputs)["logits"]
            probabilities = tf.nn.softmax(logits)
            choice = tf.argmax(probabilities, axis=1, output_type=tf.int32)
            return {
                "choice": choice,
                "text": tf.gather(choices, choice, batch_dims=1),
                "probability": tf.reduce_max(probabilities, axis=1),
                "probabilities": probabilities,
                "logits": logits,
            }

        document = (
            "Chooses the answer to a question on a text: context and question string [B], the latter may be empty; "
            "choices string [B, C], C the same for all questions of a request, at least 2. Of question and choice "
            f"together the last {MAX_QA_LENGTH} tokens are kept; where they and the context do not fit into "
            "max_seq_length tokens, [CLS] and twice [SEP] included, the longer one loses its end first. choice int32 "
            "[B], counted from 0; text string [B], the choice; probability float32 [B] and probabilities float32 "
            "[B, C] of the choice and of each, which sum to 1; logits float32 [B, C], before softmax."
        )
        return {"serving_default": signature(serving_default, _INPUTS, document), **self.common_text_signatures()}

    def _rows(self, context: tf.Tensor, question: tf.Tensor, choices: tf.Tensor) -> dict[str, tf.Tensor]:
        """The model's inputs, int32 [B, C, S]."""
        shape = tf.shape(choices)
        owners = tf.repeat(tf.range(shape[0]), shape[1])  # [B*C]
        asked = tf.gather(self.tokenize(question), owners)
        answers = tf.concat([asked, self.tokenize(tf.reshape(choices, [-1]))], axis=1)[:, -MAX_QA_LENGTH:]
        first, second = Stretches.of(self.tokenize(context)), Stretches.of(answers)
        keep_context, keep_answer = truncate_pair(
            tf.gather(first.lengths, owners), second.lengths, tf.fill(tf.shape(owners), self.text.max_seq_length - 3)
        )
        inputs = self.text.lay_out(
            first.cut(owners, tf.zeros_like(owners), keep_context),
            second._replace(lengths=keep_answer),
            tf.ones_like(owners) > 0,
        )
        return {name: tf.reshape(value, [shape[0], shape[1], tf.shape(value)[1]]) for name, value in inputs.items()}


def _checked(choices: tf.Tensor) -> tf.Tensor:
    check = tf.debugging.assert_greater_equal(
        tf.shape(choices)[1], _LEAST_CHOICES, f"choices must be at least {_LEAST_CHOICES} of each question"
    )
    with tf.control_dependencies([] if check is None else [check]):
        return tf.identity(choices)
