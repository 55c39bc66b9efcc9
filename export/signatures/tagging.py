"""Signatures of models that label each word of a text, as `albert_tf.inference.text_answers.WordAnswerer` in Python."""

from __future__ import annotations

import functools
from typing import Any

import tensorflow as tf

from albert_tf.tasks.predictions import NO_WORD_LABEL
from export.signatures.signature_maker import ONE_TEXT, Outputs, Signature, SignatureMaker, signature
from export.token_graph import Stretches, rows
from export.window_graph import in_chunks, showing_most, text_windows
from export.word_graph import split_words

_WORDS = tf.RaggedTensorSpec([None, None], tf.string)


class TaggingSignatures(SignatureMaker):
    """`serving_default` on texts, which are cut into words at white space, and `words` on words."""

    def describe_outputs(self) -> str:
        return "logits float32 [B, S, C], before softmax; at padding without meaning."

    def text_signatures(self) -> dict[str, Signature]:
        def serving_default(text: tf.Tensor) -> Outputs:
            found = split_words(text)
            tagged = self._tag(found.words)

            def dense(values: tf.Tensor) -> tf.Tensor:
                return found.words.with_values(values).to_tensor(-1)

            return {
                "words": found.words.to_tensor(""),
                **tagged,
                "starts": dense(found.starts),
                "ends": dense(found.ends),
            }

        def words(words: tf.Tensor) -> Outputs:
            # The empty ones at a row's end are no words.
            place = tf.range(1, tf.shape(words)[1] + 1)
            lengths = tf.reduce_max(tf.where(words != "", place, 0), axis=1)
            # At least 0: the greatest of none is the least number there is.
            tagged: Outputs = self._tag(tf.RaggedTensor.from_tensor(words, tf.maximum(lengths, 0)))
            return tagged

        missing = f"the label {self._missing!r}" if self._missing else "an empty label"
        if self.served.stride is None:
            cut = (
                "The tokens of a text that do not fit into max_seq_length, [CLS] and [SEP] included, are cut at its "
                f"end; words behind the cut have {missing} and the probability 0."
            )
        else:
            cut = (
                f"Longer texts are read in windows, {self.served.stride} tokens from start to start; of each word the "
                "window counts that shows most around it."
            )
        outputs = (
            "N is the largest number of words: labels string [B, N], the likeliest of each word; probability float32 "
            "[B, N], in [0, 1]; num_words int32 [B]. Behind a text's last word labels are empty and probabilities 0"
        )
        document = (
            "Labels the words of texts, string [B]; words are what stands between white space. A word has the label of "
            f"its first token. {cut} {outputs}; words string [B, N], there empty; starts and ends int32 [B, N], where "
            "each word begins and ends in characters (Unicode code points) of the text, there -1."
        )
        document_of_words = (
            "Labels words, string [B, W], empty behind a row's last word. A word has the label of its first token. "
            f"{cut} {outputs}."
        )
        return {
            "serving_default": signature(serving_default, ONE_TEXT, document),
            "words": signature(words, {"words": tf.TensorSpec([None, None], tf.string)}, document_of_words),
            **self.common_text_signatures(),
        }

    @property
    def _missing(self) -> str:
        """Label of words that were cut off."""
        return NO_WORD_LABEL if NO_WORD_LABEL in self.served.labels else ""

    @functools.cached_property
    def _tag(self) -> Any:
        """Labels of words: string [B, (n)] to `labels`, `probability` [B, N] and `num_words` [B]."""

        @tf.function(input_signature=[_WORDS], autograph=False)
        def tag(words: tf.RaggedTensor) -> Outputs:
            labels = tf.constant(self.served.labels)
            logits, is_shown = self._logits(words)
            probabilities = tf.nn.softmax(logits)
            names = tf.where(is_shown, tf.gather(labels, tf.argmax(probabilities, axis=1)), self._missing)
            best = tf.where(is_shown, tf.reduce_max(probabilities, axis=1), 0.0)
            return {
                "labels": words.with_values(names).to_tensor(""),
                "probability": words.with_values(best).to_tensor(0.0),
                "num_words": tf.cast(words.row_lengths(), tf.int32),
            }

        return tag

    def _logits(self, words: tf.RaggedTensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Of each word of the batch float [words, C], and bool [words], whether it is in a row."""
        found = self.tokenize(words.flat_values)  # [words, (pieces)]
        # A word without pieces stands as the unknown one.
        is_empty = tf.expand_dims(found.row_lengths() == 0, 1)
        unknown = tf.RaggedTensor.from_tensor(
            tf.fill(tf.shape(is_empty), self.text.unk_id), tf.cast(is_empty[:, 0], tf.int64)
        )
        pieces = tf.concat([found, unknown], axis=1)
        of_texts = rows(pieces.flat_values, tf.gather(pieces.row_splits, words.row_splits))
        stretches = Stretches.of(of_texts)
        room = self.text.max_seq_length - 2
        rooms = tf.fill(tf.shape(stretches.lengths), room)
        windows = text_windows(stretches.lengths, rooms, self.served.stride)
        first = stretches.cut(windows.owners, windows.starts, windows.lengths)
        nothing = tf.zeros_like(first.lengths)
        inputs = self.text.lay_out(first, Stretches(first.tokens[:0], nothing, nothing), nothing > 0)
        if self.served.stride is None:
            logits = self.forward(**inputs)["logits"]
        else:
            logits = in_chunks(self.forward, inputs)["logits"]  # [W, S, C]
        owners = tf.cast(words.value_rowids(), tf.int32)
        positions = tf.cast(pieces.row_starts(), tf.int32) - tf.gather(stretches.starts, owners)
        shown = showing_most(positions, owners, windows, stretches.lengths, rooms, self.served.stride, most_room=room)
        place = tf.where(shown.is_shown, shown.place + 1, 0)  # behind [CLS]
        return tf.gather_nd(logits, tf.stack([shown.window, place], axis=1)), shown.is_shown
