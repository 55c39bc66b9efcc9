"""A task's files, read and encoded: what fine-tuning learns and is evaluated on."""

from __future__ import annotations

from collections.abc import Mapping

from absl import logging

from albert_tf.head_config import HeadConfig
from albert_tf.tasks.features import EncodedExamples, encode
from albert_tf.tasks.metrics import LOWER_IS_BETTER, measure
from albert_tf.tasks.predictions import predict
from albert_tf.tasks.task import TRAIN, Example, Task
from albert_tf.tasks.task_config import TASK_CONFIG_NAME, TaskConfig
from albert_tf.training.finetuning_inputs import FinetuningInputs, HeldOut, Logits
from albert_tf.training.warm_start import WarmStart


def read_task_inputs(
    task: Task, start: WarmStart, *, max_seq_length: int, stride: int | None = None, classifier_dropout: float = 0.1
) -> FinetuningInputs:
    """What a run on `task` learns, with all its dev sets.

    Args:
      task: with a training file.
      start: the model to start from, with a tokenizer.
      max_seq_length: most tokens of a row.
      stride: tokens between the starts of two windows; None cuts long texts.
      classifier_dropout: dropout probability before the head.

    Raises:
      ValueError: if the model has no tokenizer, or files are not as the task wants them.
      OSError: if one cannot be read.
    """
    tokenizer = start.tokenizer
    if tokenizer is None:
        raise ValueError(
            f"{start.path}: has no tokenizer; put its spiece.model or vocab.txt with its settings beside the weights"
        )

    def read(split: str) -> tuple[list[Example], EncodedExamples]:
        examples = task.read(split)
        encoded = encode(examples, task, tokenizer, max_seq_length=max_seq_length, stride=stride)
        logging.info(
            "%s: %s examples, %s rows of %.0f tokens on average, the longest %d",
            split,
            f"{len(examples):,}",
            f"{len(encoded):,}",
            encoded.lengths.mean(),
            encoded.lengths.max(),
        )
        return examples, encoded

    examples, encoded = read(TRAIN)
    first = task.metrics[0]
    config = TaskConfig.of(task, max_seq_length=max_seq_length, stride=stride)
    return FinetuningInputs(
        start=start,
        head=HeadConfig(head=task.head, labels=task.labels, dropout_prob=classifier_dropout),
        train=encoded,
        locate=lambda row: examples[encoded.example_of[row]].source,
        held_out={split: _held_out(task, *read(split)) for split in task.dev_splits},
        best_by=first,
        more_is_better=first not in LOWER_IS_BETTER,
        task={"name": task.name, "is_multi_label": task.is_multi_label, "num_texts": task.num_texts},
        files={TASK_CONFIG_NAME: config.to_json()},
    )


def _held_out(task: Task, examples: list[Example], encoded: EncodedExamples) -> HeldOut:
    def score(logits: Logits) -> Mapping[str, float]:
        return measure(task, examples, predict(logits, encoded, examples, task))

    return HeldOut(examples=encoded, score=score)
