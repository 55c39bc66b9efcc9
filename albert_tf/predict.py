"""Asks a model: labels of texts, numbers, tags of words, choices, answers out of a text, pieces for [MASK].

What is asked follows the model's head. Questions come from --text, from --input (a file of any size, or - for standard
input), or from a split of the task's folder (--data_dir, --split). Answers are JSON lines, one for each question, in
their order, on standard output or in --output.

  head                         a question's columns          an answer
  classifier                   text, text_b for pairs        label (or labels), probabilities
  regression                   text, text_b for pairs        value
  token_classifier (tagging)   words (JSON), or text         labels, one for each word
  multiple_choice              context, question, choices    choice, text, probabilities
  span, conditional_span       question, context             answer, start, end, probability, answers
  pretraining, masked_lm       text with [MASK], text_b      masks with candidates, in_order

--text and --text_b fill the first two columns. A table (.tsv, .csv, .jsonl) is read in the layout of the task that the
model was fine-tuned on, such as a test file of GLUE or CoNLL columns, unless its columns are named.

Examples:
  python -m albert_tf.predict --model=runs/sst2/model --text='A gorgeous, witty film.'
  python -m albert_tf.predict --model=runs/sst2/model --input=reviews.txt --output=answers.jsonl
  python -m albert_tf.predict --model=runs/mnli/model --input=pairs.csv --text_column=premise --text_b_column=claim
  python -m albert_tf.predict --model=runs/pretraining/model --text='The [MASK] is red.'
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from absl import flags

from albert_tf import door, text_flags
from albert_tf.inference import outputs
from albert_tf.inference.answers import AnswerSettings
from albert_tf.inference.row_streams import STANDARD_INPUT, chunks
from albert_tf.tasks import tables
from albert_tf.tasks.tagging import CONLL

if TYPE_CHECKING:
    from albert_tf.inference.answers import Answer, Answerer

_NAMED = ("text_column", "text_b_column", "id_column", "input_format")  # flags that say what stands in --input


def _check(values: Any) -> None:
    if values.data_dir is None:
        if not values.text and values.input is None:
            raise door.UsageError("give one of --text, --input and --data_dir")
        text_flags.check(values)
        if values.split is not None:
            raise door.UsageError("--split is of --data_dir")
    elif values.text or values.text_b or values.input is not None:
        raise door.UsageError("give one of --text, --input and --data_dir")
    for name in _NAMED:
        if values.input is None and getattr(values, name) is not None:
            raise door.UsageError(f"--{name} is of --input")


# A question as an answerer takes it, and what is seen beside its answer.
Question = tuple[Any, dict[str, str]]


def questions(values: Any, answerer: Answerer) -> Iterator[Question]:
    """Questions in their order, and what the command line itself holds of each, to be seen beside the answer.

    Raises:
      ValueError, OSError: for files that are not as the model's task wants them.
    """
    config = answerer.loaded.task_config
    if values.data_dir is not None:
        if config is None:
            raise ValueError(f"{answerer.loaded.path}: was not fine-tuned on a task whose files --data_dir could hold")
        task, split = config.make_task(values.data_dir), values.split or "test"
        text_flags.check_output(values.output, task.paths.get(split))
        yield from ((example, {}) for example in task.read(split))
        return
    if config is not None and _is_in_layout(values, answerer):
        yield from ((one, {}) for one in config.make_task(None).stream(values.input, is_labelled=False))
        return
    if values.text_b and answerer.columns[1] is None:
        raise door.UsageError("--text_b is for models of two texts, this one takes one")
    first, second = answerer.columns
    for row in text_flags.read_rows(values, (first, second or answerer.COLUMNS[1])):
        yield answerer.question(row, text_flags.row_id(row, values.id_column)), row.cells if values.text else {}


def _is_in_layout(values: Any, answerer: Answerer) -> bool:
    """Whether the input is to be read as a file of the model's task."""
    if values.input in (None, STANDARD_INPUT) or any(getattr(values, name) is not None for name in _NAMED):
        return False
    endings = CONLL if answerer.loaded.model.HEAD == "token_classifier" else ()
    ending = tables.ending_of(values.input)
    return ending != ".txt" and ending in (*tables.ENDINGS, *endings)


def answers(values: Any, answerer: Answerer) -> Iterator[list[Answer]]:
    """Answers in their order, as many at a time as are read ahead."""
    found_questions = questions(values, answerer)
    if values.input is not None:  # the flags that name columns are of --input
        found_questions = _with_advice(found_questions)
    for asked in chunks(found_questions, values.read_ahead):
        found = answerer.answer([question for question, _ in asked])
        yield [{"id": one.pop("id"), **shown, **one} for one, (_, shown) in zip(found, asked, strict=True)]


def _with_advice(asked: Iterator[Question]) -> Iterator[Question]:
    """`asked`; where a column is missing, the error says how another one is named."""
    try:
        yield from asked
    except tables.MissingColumnError as error:
        raise ValueError(f"{error}; name the text's with --text_column, a second text's with --text_b_column") from None


def _define_flags() -> None:
    """Flags of the command; not at import, since other commands use the same names."""
    with door.group("Model"):
        flags.DEFINE_string("model", None, "Model directory, or what another project has written, with its tokenizer.")
        flags.DEFINE_integer(
            "max_seq_length", None, "Most tokens of a sequence; by default as many as the model was trained on.", 5
        )
        flags.DEFINE_integer(
            "stride",
            None,
            "Tokens from the start of a window to that of the next one, for texts that do not fit; by default as in "
            "training, and 128 for answers out of a text. Without one long texts are cut.",
            1,
        )
    text_flags.define(
        text="Text, or question, to answer. May be repeated.",
        text_b="Second text of a pair, or the text that holds the answer. Repeated as often as --text.",
        output="File for the answers, which appears when it is complete; by default they go to standard output.",
    )
    with door.group("Texts"):
        flags.DEFINE_string("text_column", None, "Column of --input with the first text; see above for the default.")
        flags.DEFINE_string("text_b_column", None, "Column of --input with the second text.")
        flags.DEFINE_string("data_dir", None, "Folder of the task's files, instead of --text or --input.")
        flags.DEFINE_string("split", None, "Which of the files in --data_dir: dev, dev_matched ...; by default test.")
    with door.group("Output"):
        flags.DEFINE_integer("top_k", 5, "Candidates for each [MASK], and answers out of a text.", 1)


def main() -> None:
    values = flags.FLAGS
    _check(values)
    settings = AnswerSettings(
        columns=(values.text_column, values.text_b_column),
        max_seq_length=values.max_seq_length,
        stride=values.stride,
        top_k=values.top_k,
    )
    from albert_tf.inference.answers import make_answerer
    from albert_tf.inference.loaded_model import load
    from albert_tf.modeling.model_runner import ModelRunner

    loaded = load(values.model)
    runner = ModelRunner(loaded.model, batch_size=values.batch_size, sort_by_length=values.sort_by_length)
    answerer = make_answerer(loaded, runner, settings)
    if values.text and loaded.model.HEAD == "multiple_choice":
        raise door.UsageError("a model that chooses takes --input: JSON lines with context, question and choices")
    shown = contextlib.nullcontext() if values.output is None else door.progress(description="predicting", unit="texts")
    with outputs.json_lines(values.output) as write, shown as bar:
        for found in answers(values, answerer):
            for answer in found:
                write(answer)
            if bar:
                bar.advance(len(found))


if __name__ == "__main__":
    _define_flags()
    door.run(main, required=["model"])
