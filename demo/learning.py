"""Judges the trained model on held-out text, and draws what was learned. TensorFlow is imported when it is needed."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from albert_tf import features
from albert_tf.files import write_whole
from demo import pictures, pretraining
from demo.settings import DemoSettings
from demo.workspace import Workspace

BATCH_SIZE = 64
EXAMPLES_TO_CHOOSE_FROM = 1024
EXAMPLES_SHOWN = 4
CANDIDATES = 5
JUDGEMENT_FILE = "judgement.json"


def judge(workspace: Workspace, settings: DemoSettings) -> dict[str, Any]:
    """Measures the model at all held-out [MASK] positions, picks examples for the picture and the question to ask.

    Returns:
      The fields of `judgement.Judgement`, "learned" and "query".
    """
    import albert_tf
    from albert_tf.data.batches import evaluation_batches
    from albert_tf.data.manifest import read_data_directory
    from demo import judgement

    model = albert_tf.load_model(workspace.path("training", "model"))
    tokenizer = albert_tf.load_tokenizer(workspace.path("training", "model"))
    training, held_out = (read_data_directory(workspace.path("data", name)) for name in ("training", "held_out"))
    result = judgement.judge(model, training, held_out, batch_size=BATCH_SIZE)
    forward = _forward(model)
    examples: list[dict[str, Any]] = []
    batches = evaluation_batches(held_out, batch_size=BATCH_SIZE, max_examples=EXAMPLES_TO_CHOOSE_FROM)
    for batch in batches.as_numpy_iterator():
        examples += mask_examples(batch, forward(batch), tokenizer)
    content = {
        **result.to_dict(),
        "learned": result.learned,
        "query": surest_query(settings.queries, forward, tokenizer, settings.max_seq_length),
        "examples": choose_examples(examples),
    }
    write_whole(workspace.path(JUDGEMENT_FILE), json.dumps(content, indent=2) + "\n")
    return {name: value for name, value in content.items() if name != "examples"}


def _forward(model: Any) -> Callable[[Mapping[str, np.ndarray]], np.ndarray]:
    """Function from a batch to masked-LM logits [B, P, V], both NumPy."""
    import tensorflow as tf

    run = tf.function(lambda inputs: model.forward(inputs, form="packed", training=False), reduce_retracing=True)
    names = (features.INPUT_IDS, features.INPUT_MASK, features.SEGMENT_IDS, features.MASKED_LM_POSITIONS)

    def forward(batch: Mapping[str, np.ndarray]) -> np.ndarray:
        outputs = run({name: tf.constant(batch[name], tf.int32) for name in names})
        logits: np.ndarray = outputs["masked_lm_logits"].numpy()
        return logits

    return forward


def mask_examples(batch: dict[str, np.ndarray], logits: np.ndarray, tokenizer: Any) -> list[dict[str, Any]]:
    """One example of each row that has a [MASK] for a whole word of letters: text, answer, candidates."""
    found = []
    inputs = np.take_along_axis(batch[features.INPUT_IDS], batch[features.MASKED_LM_POSITIONS], axis=1)
    shown = (batch[features.MASKED_LM_WEIGHTS] > 0) & (inputs == tokenizer.mask_id)
    for row in np.flatnonzero(shown.any(axis=1)):
        ids = batch[features.INPUT_IDS][row][batch[features.INPUT_MASK][row] > 0].copy()
        used = batch[features.MASKED_LM_WEIGHTS][row] > 0
        positions, labels = batch[features.MASKED_LM_POSITIONS][row], batch[features.MASKED_LM_IDS][row]
        asked = next(
            (p for p in np.flatnonzero(shown[row]) if _is_telling(ids, positions[p], labels[p], tokenizer)), None
        )
        if asked is None:
            continue
        ids[positions[used]] = labels[used]  # the reader sees the other words that the model did not
        before, after = ids[1 : positions[asked]].tolist(), ids[positions[asked] + 1 : -1].tolist()
        text = f"{tokenizer.decode(before)} [MASK] {tokenizer.decode(after)}".strip()
        candidates = top_candidates(logits[row, asked], tokenizer)
        found.append({"text": text, "answer": word_of(tokenizer, labels[asked]), "candidates": candidates})
    return found


def _is_telling(ids: np.ndarray, position: int, label: int, tokenizer: Any) -> bool:
    """Whether a mask makes an example: a word was there, and the segment goes on after it."""
    return len(word_of(tokenizer, label)) > 1 and ids[position + 1] != tokenizer.sep_id


def word_of(tokenizer: Any, piece_id: int) -> str:
    """The word that a piece is, "" for a piece inside of words or without letters."""
    piece = tokenizer.id_to_piece(int(piece_id))
    word = piece.removeprefix("▁")
    return word if piece.startswith("▁") and word.isalpha() else ""


def top_candidates(logits: np.ndarray, tokenizer: Any, count: int = CANDIDATES) -> list[dict[str, Any]]:
    """The likeliest pieces under `logits` [V], best first, with probabilities."""
    logits = logits.astype(np.float64)
    probabilities = np.exp(logits - logits.max())
    probabilities /= probabilities.sum()
    best = np.argsort(-probabilities, kind="stable")[:count]
    return [
        {"piece": tokenizer.id_to_piece(int(one)).removeprefix("▁") or "▁", "probability": float(probabilities[one])}
        for one in best
    ]


def choose_examples(examples: list[dict[str, Any]], count: int = EXAMPLES_SHOWN) -> list[dict[str, Any]]:
    """Examples for the picture: half of them right and half wrong, the surest of each, no two with the same answer."""

    def is_right(example: dict[str, Any]) -> bool:
        return bool(example["candidates"][0]["piece"] == example["answer"])

    chosen: list[dict[str, Any]] = []
    by_certainty = sorted(examples, key=lambda one: -one["candidates"][0]["probability"])
    for wanted, until in ((True, count - count // 2), (False, count)):
        for example in by_certainty:
            is_new = all(example["answer"] != other["answer"] for other in chosen)
            if len(chosen) < until and is_right(example) == wanted and is_new:
                chosen.append(example)
    return chosen


def surest_query(
    queries: tuple[str, ...],
    forward: Callable[[Mapping[str, np.ndarray]], np.ndarray],
    tokenizer: Any,
    max_seq_length: int,
) -> str:
    """The query whose first candidate is farthest ahead of the second: rounding to int8 must not exchange them."""

    def lead(query: str) -> float:
        before, after = query.split("[MASK]")
        ids = [*tokenizer.encode(before), tokenizer.mask_id, *tokenizer.encode(after)][: max_seq_length - 2]
        ids = [tokenizer.cls_id, *ids, tokenizer.sep_id]
        zeros = np.zeros((1, len(ids)), np.int32)
        batch = {
            features.INPUT_IDS: np.array([ids]),
            features.INPUT_MASK: zeros + 1,
            features.SEGMENT_IDS: zeros,
            features.MASKED_LM_POSITIONS: np.array([[ids.index(tokenizer.mask_id)]]),
        }
        second, first = np.partition(forward(batch)[0, 0], -2)[-2:]
        return float(first - second)

    return max(queries, key=lead)


def draw(workspace: Workspace) -> None:
    """Writes both pictures to `pictures/`."""
    with open(workspace.path(JUDGEMENT_FILE), encoding="utf-8") as file:
        content = json.load(file)
    points = curve_points(pretraining.read_metrics(workspace.path("training", pretraining.METRICS_FILE)))
    pictures.draw_learning_curve(
        workspace.path("pictures"), points, bound=content["bound"], order_majority=content["order_majority"]
    )
    pictures.draw_mask_examples(workspace.path("pictures"), content["examples"])


def curve_points(records: list[dict[str, Any]]) -> list[dict[str, float]]:
    """Evaluations among the records of metrics.jsonl, in order of steps."""
    return [
        {
            "step": record["step"],
            "masked_lm_loss": record["masked_lm_loss_at_mask"],
            "order_accuracy": record["sentence_order_accuracy"],
        }
        for record in records
        if record["kind"] == "eval"
    ]


def verdict(figures: dict[str, Any], *, reduced: bool) -> str:
    """One sentence on what was learned.

    Raises:
      ValueError: if the model is not off the plateau although all steps were made.
    """
    learned, positions = figures["learned"], figures["positions"]
    sentence = (
        f"At {positions:,} held-out [MASK] positions the loss is {figures['loss']:.3f} nats: "
        f"{figures['below_bound']:.3f} +- {figures['below_bound_error']:.3f} below the context-free bound, "
        f"{figures['below_permuted']:.3f} +- {figures['below_permuted_error']:.3f} below that with permuted contexts"
    )
    if learned:
        return f"{sentence}: the model uses the context."
    if reduced:
        return f"{sentence}. This machine is too slow for all steps in the time; so few do not get off the plateau."
    from demo import judgement

    raise ValueError(
        f"{sentence}; at least {judgement.ENOUGH_NATS} nats and {judgement.ENOUGH_ERRORS:g} standard errors at "
        f"{judgement.ENOUGH_POSITIONS:,} positions were expected"
    )
