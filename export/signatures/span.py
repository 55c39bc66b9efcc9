"""Signatures of models that find the answer to a question in a text (SQuAD), as `albert_tf.inference.span_answers`."""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import tensorflow as tf

from albert_tf import features
from albert_tf.inference.span_answers import COMPARED
from albert_tf.inference.spans import MAX_ANSWER_LENGTH, MAX_QUERY_LENGTH, SIZE_WEIGHT, STRIDE
from albert_tf.tokenizer import AlbertTokenizer
from export.place_graph import Placed, PlaceGraph
from export.signatures.classification import sigmoid
from export.signatures.signature_maker import (
    IDS,
    TEXTS,
    Outputs,
    Signature,
    SignatureMaker,
    as_many,
    function_of,
    signature,
)
from export.token_graph import Stretches, rows
from export.window_graph import Windows, in_chunks, showing_most, text_windows

_NUMBERS = tf.TensorSpec([None], tf.int32)
_FLAGS = tf.TensorSpec([None, None], tf.bool)


class _Answers(NamedTuple):
    """The best answers to each question, best first; [B, A] each.

    Attributes:
      scores: float32, not finite where there is none.
      first: int32, first token, counted in the text.
      last: int32, last token.
    """

    scores: tf.Tensor
    first: tf.Tensor
    last: tf.Tensor


class SpanSignatures(SignatureMaker):
    """`serving_default` on a question and a text."""

    @functools.cached_property
    def _places(self) -> PlaceGraph:
        with tf.init_scope():  # else it would be part of the function that asks first
            return PlaceGraph(self.tokenizer, self.text)

    @property
    def parts(self) -> tuple[tf.Module, ...]:
        return super().parts if self.served.text is None else (*super().parts, self._places)

    @property
    def _stride(self) -> int:
        return self.served.stride or STRIDE

    @property
    def _is_conditional(self) -> bool:
        return self.model.HEAD == "conditional_span"

    @property
    def least_length(self) -> int:
        head = self.model.head_config
        return max(head.start_n_top, head.end_n_top) if self._is_conditional else 1

    def describe_outputs(self) -> str:
        if not self._is_conditional:
            return "start_logits and end_logits float32 [B, S]; at padding and question without meaning."
        head = self.model.head_config
        return (
            "p_mask is 1 where no answer may start or end: at the question, special tokens but [CLS], and padding; S "
            f"is at least {self.least_length}. start_top_log_probs float32 and start_top_index "
            f"int32 [B, {head.start_n_top}]: the likeliest starts, best first; end_top_log_probs and end_top_index "
            f"[B, {head.start_n_top * head.end_n_top}]: {head.end_n_top} ends for each of them; cls_logits float32 "
            "[B], positive where there is rather no answer."
        )

    def text_signatures(self) -> dict[str, Signature]:
        def serving_default(question: tf.Tensor, context: tf.Tensor) -> Outputs:
            placed = self._places.place(as_many(context, question, "context must be as many texts as question"))
            found, no_answer = self._find(self.tokenize(question), placed)
            return self._outputs(found, no_answer, placed)

        count = min(self.served.top_k, COMPARED)
        document = (
            "Finds the answer to a question in a text, question and context string [B]. Of the question the first "
            f"{self._most_asked} tokens are kept; a context that does not fit into max_seq_length tokens with it is "
            f"read in windows, {self._stride} tokens from start to start, and each answer counts from the window that "
            f"shows most around its start; an answer has at most {MAX_ANSWER_LENGTH} tokens. answer string [B]; start "
            "and end int32 [B]: it stands at context[start:end], counted in characters (Unicode code points); "
            f"probability float32 [B]: among the {COMPARED} best. K = {count}: answers string, starts and ends int32, "
            "scores float32 (a sum of logits; of log probabilities where no_answer_probability is given) and "
            "probabilities float32, [B, K], best first. Where there is no answer, texts are empty, places -1, and "
            "probabilities and scores 0. Where a token holds white space, places are -1, and the text is that of the "
            "tokens."
        )
        if self._is_conditional:
            document += (
                " no_answer_probability float32 [B]: that the context holds no answer; above 0.5 there is none under "
                "answer, whatever stands under answers."
            )
        specs = {"question": TEXTS, "context": TEXTS}
        return {"serving_default": signature(serving_default, specs, document), **self.common_text_signatures()}

    @property
    def _most_asked(self) -> int:
        """Tokens of a question that are kept; one of the text must fit behind it."""
        return min(MAX_QUERY_LENGTH, self.text.max_seq_length - 4)

    def _find(self, question: tf.RaggedTensor, placed: Placed) -> tuple[_Answers, tf.Tensor | None]:
        """The best answers, and the least logit of all windows that there is none, float32 [B]."""
        first = Stretches.of(question[:, : self._most_asked])
        second = Stretches.of(placed.ids)
        rooms = self.text.max_seq_length - 3 - first.lengths
        windows = text_windows(second.lengths, rooms, self._stride)
        asked = tf.gather(first.lengths, windows.owners)
        inputs = self.text.lay_out(
            first.cut(windows.owners, tf.zeros_like(asked), asked),
            second.cut(windows.owners, windows.starts, windows.lengths),
            asked >= 0,
            least_length=self.least_length,
        )
        offsets = asked + 2
        place = tf.range(tf.shape(inputs[features.INPUT_IDS])[1]) - tf.expand_dims(offsets, 1)  # [W, S], in the part
        is_text = (place >= 0) & (place < tf.expand_dims(windows.lengths, 1))
        if self._is_conditional:
            inputs[features.P_MASK] = tf.cast(~is_text & (place != tf.expand_dims(-offsets, 1)), tf.int32)
        counts = is_text & self._counted(place, placed.ids, windows, second, rooms)
        found = in_chunks(self._read, {**inputs, "offsets": offsets, "lengths": windows.lengths, "counts": counts})
        answers = _join(windows, found)
        return answers, tf.math.segment_min(found["cls_logits"], windows.owners) if self._is_conditional else None

    def _counted(
        self, place: tf.Tensor, ids: tf.RaggedTensor, windows: Windows, texts: Stretches, rooms: tf.Tensor
    ) -> tf.Tensor:
        """bool [W, S]: whether a window shows most around the token at `place` of its part."""
        owners = tf.cast(ids.value_rowids(), tf.int32)
        positions = tf.range(tf.size(texts.tokens)) - tf.gather(texts.starts, owners)
        shown = showing_most(
            positions,
            owners,
            windows,
            texts.lengths,
            rooms,
            self._stride,
            most_room=self.text.max_seq_length - 3,
            size_weight=SIZE_WEIGHT,
        )
        window = tf.concat([shown.window, [-1]], axis=0)  # one more, where there are no tokens
        token = tf.expand_dims(tf.gather(texts.starts, windows.owners) + windows.starts, 1) + place
        token = tf.clip_by_value(token, 0, tf.size(texts.tokens))
        return tf.gather(window, token) == tf.expand_dims(tf.range(tf.size(windows.owners)), 1)

    @functools.cached_property
    def _read(self) -> Any:
        """What windows' rows say: `scores`, `first` and `last` [N, A], counted in the window's part of the text."""
        names = (*self.model.INPUTS, "offsets", "lengths", "counts")
        specs = {**dict.fromkeys(names, IDS), "offsets": _NUMBERS, "lengths": _NUMBERS, "counts": _FLAGS}

        def read(offsets: tf.Tensor, lengths: tf.Tensor, counts: tf.Tensor, **inputs: tf.Tensor) -> Outputs:
            outputs = self.forward(**inputs)
            how = _conditional if self._is_conditional else _independent
            return how(outputs, tf.expand_dims(offsets, 1), tf.expand_dims(lengths, 1), counts)

        return function_of(read, specs)

    def _outputs(self, found: _Answers, no_answer: tf.Tensor | None, placed: Placed) -> Outputs:
        is_answer = tf.math.is_finite(found.scores)  # [B, A]
        best = tf.reduce_max(tf.where(is_answer, found.scores, found.scores.dtype.min), axis=1, keepdims=True)
        powers = tf.where(is_answer, tf.exp(tf.minimum(found.scores - best, 0.0)), 0.0)
        sums = tf.reduce_sum(powers, axis=1, keepdims=True)
        probabilities = tf.math.divide_no_nan(powers, sums)
        count = min(self.served.top_k, COMPARED)
        is_answer, probabilities = is_answer[:, :count], probabilities[:, :count]
        first, last = found.first[:, :count], found.last[:, :count]
        is_placed = is_answer & tf.expand_dims(placed.is_placed, 1)
        starts = _characters(placed.begins, placed.first, first, is_placed)
        ends = _characters(placed.ends, placed.first, last, is_placed)
        shown = tf.strings.substr(
            tf.expand_dims(placed.texts, 1), tf.maximum(starts, 0), tf.maximum(ends - starts, 0), unit="UTF8_CHAR"
        )
        texts = tf.where(is_placed, shown, tf.where(is_answer, self._decode(placed.ids, first, last), ""))
        has_answer = is_answer[:, 0]
        outputs = {}
        if no_answer is not None:
            outputs["no_answer_probability"] = sigmoid(no_answer)
            has_answer &= outputs["no_answer_probability"] <= 0.5
        return {
            **outputs,
            "answer": tf.where(has_answer, texts[:, 0], ""),
            "start": tf.where(has_answer, starts[:, 0], -1),
            "end": tf.where(has_answer, ends[:, 0], -1),
            "probability": tf.where(has_answer, probabilities[:, 0], 0.0),
            "answers": texts,
            "starts": starts,
            "ends": ends,
            "scores": tf.where(is_answer, found.scores[:, :count], 0.0),
            "probabilities": probabilities,
        }

    def _decode(self, ids: tf.RaggedTensor, first: tf.Tensor, last: tf.Tensor) -> tf.Tensor:
        """string [B, A]: text of tokens `first` to `last` [B, A] of each text."""
        tokenizer = self.tokenizer
        pieces = ["" if i in tokenizer.special_ids else tokenizer.shown_piece(i) for i in range(tokenizer.vocab_size)]
        if isinstance(tokenizer, AlbertTokenizer):
            pieces[tokenizer.unk_id] = tokenizer.decode([tokenizer.unk_id])
        starts = tf.expand_dims(tf.cast(ids.row_starts(), tf.int32), 1)
        token = tf.expand_dims(starts + first, 2) + tf.range(MAX_ANSWER_LENGTH)  # [B, A, tokens]
        is_part = token <= tf.expand_dims(starts + last, 2)
        values = tf.concat([ids.flat_values, [tokenizer.pad_id]], axis=0)
        token = tf.clip_by_value(token, 0, tf.size(ids.flat_values))
        shown = tf.gather(tf.constant(pieces), tf.gather(values, token))
        joined = tf.strings.reduce_join(tf.where(is_part, shown, ""), axis=2)
        return tf.strings.regex_replace(joined, "^ +| +$", "")


def _independent(outputs: Outputs, offsets: tf.Tensor, lengths: tf.Tensor, counts: tf.Tensor) -> Outputs:
    """Answers whose start and end are judged each for itself (SQuAD 1.1)."""
    size = tf.shape(counts)[1]
    is_text = (tf.range(size) >= offsets) & (tf.range(size) < offsets + lengths)  # [N, S]
    starts = tf.where(counts, outputs["start_logits"], -math.inf)
    ends = tf.where(is_text, outputs["end_logits"], -math.inf)
    ends = tf.pad(ends, [[0, 0], [0, MAX_ANSWER_LENGTH - 1]], constant_values=-math.inf)
    reached = tf.stack([ends[:, more : more + size] for more in range(MAX_ANSWER_LENGTH)], axis=2)
    scores = tf.reshape(tf.expand_dims(starts, 2) + reached, [-1, size * MAX_ANSWER_LENGTH])
    best = tf.math.top_k(scores, COMPARED)
    first = best.indices // MAX_ANSWER_LENGTH - offsets
    return {"scores": best.values, "first": first, "last": first + best.indices % MAX_ANSWER_LENGTH}


def _conditional(outputs: Outputs, offsets: tf.Tensor, lengths: tf.Tensor, counts: tf.Tensor) -> Outputs:
    """Answers whose ends depend on their starts (SQuAD 2.0)."""
    number = outputs["end_top_index"].shape[1] // outputs["start_top_index"].shape[1]
    starts = tf.repeat(outputs["start_top_index"], number, axis=1)  # [N, K*J]
    ends = outputs["end_top_index"]
    may_be = tf.gather(counts, starts, batch_dims=1) & (starts <= ends) & (ends < offsets + lengths)
    may_be &= ends < starts + MAX_ANSWER_LENGTH
    scores = tf.repeat(outputs["start_top_log_probs"], number, axis=1) + outputs["end_top_log_probs"]
    return {
        "scores": tf.where(may_be, scores, -math.inf),
        "first": starts - offsets,
        "last": ends - offsets,
        "cls_logits": outputs["cls_logits"],
    }


def _join(windows: Windows, found: Outputs) -> _Answers:
    """The best answers of all windows of each text."""
    width = found["scores"].shape[1]

    def of_texts(values: tf.Tensor, fill: float | int) -> tf.Tensor:
        dense = rows(values, tf.cast(windows.before, tf.int64)).to_tensor(fill)  # [B, windows, A]
        flat = tf.reshape(dense, [tf.shape(dense)[0], tf.shape(dense)[1] * width])
        return tf.pad(flat, [[0, 0], [0, COMPARED]], constant_values=fill)  # so that there are enough

    best = tf.math.top_k(of_texts(found["scores"], -math.inf), COMPARED)
    begin = tf.expand_dims(windows.starts, 1)

    def of_best(values: tf.Tensor) -> tf.Tensor:
        return tf.gather(of_texts(values, 0), best.indices, batch_dims=1)

    return _Answers(best.values, of_best(found["first"] + begin), of_best(found["last"] + begin))


def _characters(places: tf.Tensor, first: tf.Tensor, tokens: tf.Tensor, is_placed: tf.Tensor) -> tf.Tensor:
    """int32 [B, A]: places of tokens, counted in their texts; -1 where they have none."""
    nowhere = tf.size(places) - 1
    return tf.gather(places, tf.where(is_placed, tf.expand_dims(first, 1) + tokens, nowhere))
