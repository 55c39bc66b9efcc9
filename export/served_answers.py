"""Answers of a SavedModel whose head is not one of pretraining, in the form that `albert_tf.predict` gives them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from albert_tf.inference.outputs import rounded
from export.served_model import as_strings, load_served_model, read_description

Answer = dict[str, Any]
Outputs = Mapping[str, Any]  # arrays; of a single number or text that itself


class ServedModel:
    """A SavedModel that takes text, loaded to be asked one question at a time.

    Args:
      path: its folder.

    Attributes:
      head: name of its head.

    Raises:
      FileNotFoundError: if there is no SavedModel at `path`.
      ValueError: if it is damaged, another kind of SavedModel, or its head is one of pretraining.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._model = load_served_model(path, "tokenize")
        self._signatures = self._model.signatures
        self._described = read_description(path)
        self.head = str(self._described.get("head"))
        if self.head not in _ANSWERS:
            raise ValueError(f"{os.fspath(path)}: has the head {self.head!r}, which answers no question of this kind")

    def ask(self, text: str, text_b: str | None = None, *, choices: Sequence[str] = (), top_k: int = 5) -> Answer:
        """The question and its answer, ready for JSON.

        Args:
          text: the text, or the first of two; the question, where the head is of spans; the text of a choice.
          text_b: the second text; the text that holds the answer; the question of a choice.
          choices: what may be the answer, for "multiple_choice".
          top_k: answers out of a text.

        Raises:
          ValueError: if the model takes another number of texts or choices, or gives fewer answers than `top_k`.
        """
        question = self._question(text, text_b, choices)
        given = {
            name: as_strings(*value)[None] if isinstance(value, (list, tuple)) else as_strings(value)
            for name, value in question.items()
        }
        outputs = {name: value.numpy()[0] for name, value in self._signature(question)(**given).items()}
        if self.head in ("span", "conditional_span") and top_k > len(outputs["scores"]):
            raise ValueError(
                f"top_k must be at most {len(outputs['scores'])}, as the SavedModel was exported, got {top_k}"
            )
        return {**question, **_ANSWERS[self.head](outputs, top_k)}

    def _question(self, text: str, text_b: str | None, choices: Sequence[str]) -> dict[str, Any]:
        if choices and self.head != "multiple_choice":
            raise ValueError("choices are for models that choose, with the head 'multiple_choice'")
        if self.head == "multiple_choice":
            if len(choices) < 2:
                raise ValueError(f"choices must be at least 2 for a model that chooses, got {len(choices)}")
            return {"context": text, "question": text_b or "", "choices": list(choices)}
        if self.head in ("span", "conditional_span"):
            if text_b is None:
                raise ValueError("text is the question: give the text that holds the answer as text_b")
            return {"question": text, "context": text_b}
        taken = self._signatures["serving_default"].structured_input_signature[1]
        if text_b is None:
            if "text_b" in taken:
                raise ValueError("this model takes two texts: give the second one as text_b")
            return {"text": text}
        if "text_b" not in taken and "pair" not in self._signatures:
            raise ValueError("text_b is for models of two texts, this one takes one")
        return {"text": text, "text_b": text_b}

    def _signature(self, question: Mapping[str, Any]) -> Callable[..., Any]:
        is_pair = "text_b" in question and "pair" in self._signatures
        signature: Callable[..., Any] = self._signatures["pair" if is_pair else "serving_default"]
        return signature


def _label(outputs: Outputs, top_k: int) -> Answer:
    names, scores = _decoded(outputs["label_names"]), outputs["scores"].tolist()
    by_label = dict(zip(names, map(rounded, scores), strict=True))
    if "is_label" in outputs:
        chosen = [name for name, is_label in zip(names, outputs["is_label"], strict=True) if is_label]
        return {"labels": sorted(chosen), "probabilities": by_label}
    label = outputs["labels"].decode()
    return {"label": label, "probability": by_label[label], "probabilities": by_label}


def _number(outputs: Outputs, top_k: int) -> Answer:
    return {"value": rounded(float(outputs["value"]))}


def _tags(outputs: Outputs, top_k: int) -> Answer:
    count = int(outputs["num_words"])
    found = outputs["probability"][:count].tolist()
    return {
        "words": _decoded(outputs["words"][:count]),
        "labels": _decoded(outputs["labels"][:count]),
        "probabilities": [rounded(value) if value else None for value in found],  # 0: the word was cut off
    }


def _choice(outputs: Outputs, top_k: int) -> Answer:
    return {
        "choice": int(outputs["choice"]),
        "text": outputs["text"].decode(),
        "probability": rounded(float(outputs["probability"])),
        "probabilities": [rounded(value) for value in outputs["probabilities"].tolist()],
    }


def _span(outputs: Outputs, top_k: int) -> Answer:
    answers = [
        {
            "text": text,
            "start": int(start) if start >= 0 else None,
            "end": int(end) if end >= 0 else None,
            "score": rounded(float(score)),
            "probability": rounded(float(probability)),
        }
        for text, start, end, score, probability in zip(
            _decoded(outputs["answers"]),
            outputs["starts"],
            outputs["ends"],
            outputs["scores"],
            outputs["probabilities"],
            strict=True,
        )
        if text or start >= 0
    ]
    answer: Answer = {}
    first: Answer = answers[0] if outputs["probability"] else {}
    if "no_answer_probability" in outputs:
        answer["no_answer_probability"] = rounded(float(outputs["no_answer_probability"]))
    shown = {"answer": first.get("text"), **{name: first.get(name) for name in ("start", "end", "probability")}}
    return {**answer, **shown, "answers": answers[:top_k]}


def _vector(outputs: Outputs, top_k: int) -> Answer:
    count = int(outputs["input_mask"].sum())
    mean = outputs["sequence_output"][:count].mean(axis=0)
    return {"tokens": count, "vector": [rounded(value) for value in mean.tolist()]}


_ANSWERS: dict[str, Callable[[Outputs, int], Answer]] = {
    "classifier": _label,
    "regression": _number,
    "token_classifier": _tags,
    "multiple_choice": _choice,
    "span": _span,
    "conditional_span": _span,
    "encoder": _vector,
}


def _decoded(texts: Iterable[bytes]) -> list[str]:
    return [text.decode() for text in texts]


def print_answer(answer: Answer) -> None:
    """Prints an answer as `ServedModel.ask` gives it, as a table or a line."""
    from albert_tf import door

    rows: list[tuple[Any, ...]]
    if "value" in answer:
        print(f"value: {answer['value']:.6g}")
    elif "words" in answer:
        shown = [("cut off" if p is None else f"{p:.4f}") for p in answer["probabilities"]]
        rows = list(zip(answer["words"], answer["labels"], shown, strict=True))
        door.print_table(f"{len(rows)} words", ("word", "label", "probability"), rows)
    elif "choices" in answer:
        numbers = range(len(answer["choices"]))
        rows = list(zip(numbers, answer["choices"], answer["probabilities"], strict=True))
        door.print_table(f"choice: {answer['choice']}", ("", "text", "probability"), rows)
    elif "answers" in answer:
        names = ("text", "start", "end", "score", "probability")
        rows = [tuple("-" if one[name] is None else one[name] for name in names) for one in answer["answers"]]
        none = answer.get("no_answer_probability")
        without = "" if none is None else f"; that there is none: {none:.4f}"
        door.print_table(f"answer: {answer['answer'] or 'none'}{without}", names, rows)
    elif "vector" in answer:
        vector = answer["vector"]
        first = ", ".join(f"{value:.4f}" for value in vector[:8])
        print(f"{answer['tokens']} tokens; mean of their vectors, {len(vector)} numbers: {first} ...")
    else:
        named = answer["label"] if "label" in answer else ", ".join(answer["labels"]) or "none"
        found = sorted(answer["probabilities"].items(), key=lambda item: -item[1])
        door.print_table(f"label: {named}", ("label", "probability"), found)
