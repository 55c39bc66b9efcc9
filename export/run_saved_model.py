"""Asks an exported model: what stands at each [MASK] of a text, and whether a second text follows the first.

The marker [MASK] may stand anywhere in either text. A SavedModel has its tokenizer inside; a TFLite file needs the
model directory it was made from.

Examples:
  python -m export.run_saved_model --saved_model=exported/text --text='The [MASK] is red.'
  python -m export.run_saved_model --saved_model=exported/text --text='It [MASK] all night.' --text_b='The river rose.'
  python -m export.run_saved_model --tflite=small_int8.tflite --model=runs/small/model --text='The [MASK] is red.'
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from absl import flags

from albert_tf import door

if TYPE_CHECKING:
    from export.runners import Runner


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


def _define_flags() -> None:
    """Flags of the command; not at import, since other commands of this package use the same names."""
    with door.group("Model, one of the two"):
        flags.DEFINE_string("saved_model", None, "Folder text/ that export.saved_model wrote.")
        flags.DEFINE_string("tflite", None, "File that export.tflite wrote, with a masked-LM head.")
        flags.DEFINE_string("model", None, "Model directory of the TFLite file, for its tokenizer.")
    with door.group("Question"):
        flags.DEFINE_string("text", None, "Text with [MASK] where a piece is to be filled in.")
        flags.DEFINE_string("text_b", None, "Second text: prints the probability that it follows the first.")
        flags.DEFINE_integer("top_k", 5, "Candidates for each mask.", 1)
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


if __name__ == "__main__":
    _define_flags()
    door.run(main, required=["text"])
