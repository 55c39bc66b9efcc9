"""Asks an exported model: what its head answers, with the tokenizer inside (SavedModel) or beside it (TFLite).

  head of a SavedModel          --text           --text_b              answer
  pretraining, masked_lm        with [MASK]      maybe a second text   pieces for each [MASK]; of pretraining also
                                                                       whether the second text follows the first
  classifier, regression        the text         the second of a pair  labels with probabilities, or a number
  token_classifier (tagging)    the text                               a label for each word
  multiple_choice               the context      the question          one of the --choice, which is repeated
  span, conditional_span        the question     the context           the answer and its place
  encoder                       the text         maybe a second text   the mean of its tokens' vectors

A TFLite file, of the pretraining heads, needs the model directory it was made from. The marker [MASK] may stand
anywhere in either text.

Examples:
  python -m export.run_saved_model --saved_model=exported/text --text='The [MASK] is red.'
  python -m export.run_saved_model --saved_model=exported/text --text='It [MASK] all night.' --text_b='The river rose.'
  python -m export.run_saved_model --saved_model=serving/reviews/text/1 --text='A gorgeous, witty film.' --json
  python -m export.run_saved_model --tflite=small_int8.tflite --model=runs/small/model --text='The [MASK] is red.'
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from absl import flags

from albert_tf import door

if TYPE_CHECKING:
    from export.runners import Runner


_MASKED = ("pretraining", "masked_lm")


def ask(runner: Runner, text: str, text_b: str | None = None, *, top_k: int = 5) -> dict[str, Any]:
    """Answer as one object, ready for JSON.

    Args:
      runner: the loaded model, of `export.runners`.
      text: text with "[MASK]" where a piece is to be filled in.
      text_b: second text; with it the answer holds the order's probability.
      top_k: candidates for each mask.

    Returns:
      "masks": for each mask its "position" and "candidates", best first, each with "piece", "id" and "probability";
      "in_order": probability that text_b follows text, None without text_b or where the model has no such head.

    Raises:
      ValueError: if there is nothing to answer: no mask and no second text.
    """
    from albert_tf.marked_text import MARKER

    masks = []
    if text_b is None or MARKER in text or MARKER in text_b:
        masks = runner.fill_mask(text, text_b, top_k=top_k)
    in_order = None if text_b is None else runner.order_probability(text, text_b)
    return {
        "text": text,
        "text_b": text_b,
        "masks": [
            {
                "position": mask.position,
                "candidates": [
                    {"piece": one.piece, "id": one.id, "probability": one.probability} for one in mask.candidates
                ],
            }
            for mask in masks
        ],
        "in_order": in_order,
    }


def example_question(head: str, num_texts: int | None = None) -> str:
    """Flags of a question to a model with this head, for a shell.

    Args:
      head: its name.
      num_texts: texts that its task gives it; None where nothing says it.
    """
    if head in _MASKED:
        return "--text='A sentence with a [MASK].'"
    if head == "multiple_choice":
        return "--text='It rained.' --text_b='How was the weather?' --choice=wet --choice=dry"
    if head in ("span", "conditional_span"):
        return "--text='Who was there?' --text_b='The captain was there.'"
    return "--text='A sentence.'" + (" --text_b='Another one.'" if num_texts == 2 else "")


def _define_flags() -> None:
    """Flags of the command; not at import, since other commands of this package use the same names."""
    with door.group("Model, one of the two"):
        flags.DEFINE_string("saved_model", None, "Folder text/ that export.saved_model wrote.")
        flags.DEFINE_string("tflite", None, "File that export.tflite wrote, with a masked-LM head.")
        flags.DEFINE_string("model", None, "Model directory of the TFLite file, for its tokenizer.")
    with door.group("Question"):
        flags.DEFINE_string("text", None, "Text, or question; with [MASK] where a piece is to be filled in.")
        flags.DEFINE_string("text_b", None, "Second text, by the table above.")
        flags.DEFINE_multi_string("choice", [], "What may be the answer, for multiple_choice. Given at least twice.")
        flags.DEFINE_integer("top_k", 5, "Candidates for each mask, and answers out of a text.", 1)
        flags.DEFINE_bool("json", False, "Print one JSON object instead of tables.")


def main() -> None:
    values = flags.FLAGS
    if (values.saved_model is None) == (values.tflite is None):
        raise door.UsageError("give one of --saved_model and --tflite")
    if values.tflite is not None and values.model is None:
        raise door.UsageError("--tflite needs --model, the model directory with the tokenizer")
    if values.saved_model is not None and values.model is not None:
        raise door.UsageError("--model goes with --tflite; a SavedModel has its tokenizer inside")
    from export import runners

    if values.saved_model is not None:
        from export.served_model import read_description

        if read_description(values.saved_model).get("head", "pretraining") not in _MASKED:
            _ask_head(values)
            return
    if values.choice:
        raise door.UsageError("--choice is for models that choose, with the head multiple_choice")
    if values.text_b is None:
        runners.count_markers(values.text, None)  # before the seconds that loading takes
    runner: Runner
    if values.tflite is not None:
        runner = runners.load_tflite_runner(values.tflite, values.model)
    else:
        runner = runners.SavedModelRunner(values.saved_model)
    answer = ask(runner, values.text, values.text_b, top_k=values.top_k)
    if values.json:
        print(json.dumps(answer, ensure_ascii=False))
        return
    for number, mask in enumerate(answer["masks"], start=1):
        rows = [(k, one["piece"], one["id"], one["probability"]) for k, one in enumerate(mask["candidates"], start=1)]
        title = f"[MASK] {number} of {len(answer['masks'])}, token {mask['position']}"
        door.print_table(title, ("rank", "piece", "id", "probability"), rows)
    if answer["in_order"] is not None:
        print(f"the second text follows the first: {answer['in_order']:.4f}, it does not: {1 - answer['in_order']:.4f}")
    elif values.text_b is not None:
        print("this model says nothing of pairs: it was trained or exported without a sentence-order head")


def _ask_head(values: Any) -> None:
    """Asks a SavedModel that has another head than those of pretraining."""
    from export.served_answers import ServedModel, print_answer

    model = ServedModel(values.saved_model)
    answer = model.ask(values.text, values.text_b, choices=values.choice, top_k=values.top_k)
    if values.json:
        print(json.dumps(answer, ensure_ascii=False))
    else:
        print_answer(answer)


if __name__ == "__main__":
    _define_flags()
    door.run(main, required=["text"])
