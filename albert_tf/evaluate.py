"""Measures a fine-tuned model on a split of its task, and shows what it gets wrong.

Prints the task's metrics, and precision, recall and F1 of each label. With --output_dir a folder for each split gets

  metrics.json               the metrics
  per_class.tsv              a line for each label, for tagging for each type of entity
  confusion_matrix.tsv ...   true against predicted labels, also as a picture (.svg, .png)
  errors.tsv                 what was wrong, the most certain mistake first, to be read

Examples:
  python -m albert_tf.evaluate --model=runs/sst2/model --data_dir=SST-2 --output_dir=sst2_report
  python -m albert_tf.evaluate --model=runs/mnli/model --data_dir=MNLI --split=dev_matched
  python -m albert_tf.evaluate --model=converted/mrpc --task=mrpc --data_dir=MRPC
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from absl import flags, logging

from albert_tf import door
from albert_tf.inference.row_streams import chunks
from albert_tf.tasks import reports
from albert_tf.tasks.making import TASKS, make_task, task_options
from albert_tf.tasks.metrics import measure, outcomes
from albert_tf.tasks.task_config import TaskConfig

if TYPE_CHECKING:
    from albert_tf.inference.loaded_model import LoadedModel
    from albert_tf.inference.text_answers import TextAnswerer
    from albert_tf.tasks.labelled_files import FileTask
    from albert_tf.tasks.predictions import Prediction
    from albert_tf.tasks.task import Example

_AT_ONCE = 4096  # examples between two moves of the progress bar


def task_of(loaded: LoadedModel, name: str | None, data_dir: str) -> FileTask:
    """The task with its files, its labels those that the model knows.

    Raises:
      ValueError: if nothing says what the task is, or its head or labels are not the model's.
    """
    config, head = loaded.task_config, loaded.model.head_config
    if name is None:
        if config is None:
            raise door.UsageError(f"{loaded.path} does not say what task it was fine-tuned on; name it with --task")
        return config.make_task(data_dir)
    options = {"labels": head.labels} if head.labels and "labels" in task_options(name) else {}
    task = make_task(name, data_dir, **options)
    if task.head != head.head:
        raise ValueError(f"{loaded.path}: has the head {head.head!r}, the task {task.name} is for {task.head!r}")
    if task.labels is not None and len(task.labels) != head.num_labels:
        raise ValueError(f"{loaded.path}: has {head.num_labels} labels, the task {task.name} has {len(task.labels)}")
    return task


def predict(answerer: TextAnswerer, examples: Sequence[Example], split: str) -> list[Prediction]:
    """Predictions for all examples of a split, in their order."""
    found: list[Prediction] = []
    with door.progress(total=len(examples), description=split, unit="examples") as bar:
        for some in chunks(examples, _AT_ONCE):
            found += answerer.predict(some)
            bar.advance(len(some))
    return found


def _print(task: FileTask, split: str, examples: Sequence[Example], predictions: Sequence[Prediction]) -> None:
    metrics = measure(task, examples, predictions)
    print(f"{task.name}, {split}: {door.counted(len(examples), 'example')}\n")
    door.print_table("Metrics", ("metric", "value"), list(metrics.items()))
    rows = reports.per_class(task, outcomes(task, examples, predictions))
    if rows:
        door.print_table("By label", reports.PER_CLASS_COLUMNS, rows)


def _define_flags() -> None:
    """Flags of the command; not at import, since other commands use the same names."""
    with door.group("Model and task"):
        flags.DEFINE_string("model", None, "Model directory, from albert_tf.finetune or converted.")
        flags.DEFINE_string("data_dir", None, "Folder of the task's files.")
        flags.DEFINE_list("split", [], "Files to measure on, such as dev or test; by default every dev set there is.")
        flags.DEFINE_string(
            "task",
            None,
            f"The task, where the model does not say it: {', '.join(TASKS)}. Files then have its usual columns.",
        )
        flags.DEFINE_integer("max_seq_length", None, "Most tokens of a sequence; by default as in training.", 5)
        flags.DEFINE_integer(
            "stride", None, "Tokens from window to window over texts that do not fit; by default as in training.", 1
        )
    with door.group("Output"):
        flags.DEFINE_string("output_dir", None, "Folder to make, with the reports.")
        flags.DEFINE_bool("overwrite", False, "Replace a folder with content at --output_dir.")
    with door.group("Work"):
        flags.DEFINE_integer("batch_size", 32, "Texts of a batch.", 1)


def _check_output(output_dir: str, *inputs: str) -> None:
    """Refuses a folder for the reports in whose place files stand that are read: --overwrite would remove them.

    Raises:
      UsageError: naming both.
    """
    target = os.path.realpath(output_dir)
    for path in inputs:
        if os.path.commonpath([target, os.path.realpath(path)]) == target:
            raise door.UsageError(
                f"--output_dir={output_dir} is or holds {path}, which is read; name a folder of its own"
            )


def main() -> None:
    values = flags.FLAGS
    if values.output_dir is not None:
        _check_output(values.output_dir, values.data_dir, values.model)
        door.check_directory(values.output_dir, replace=values.overwrite)
    from albert_tf.inference.answers import AnswerSettings
    from albert_tf.inference.loaded_model import load
    from albert_tf.inference.text_answers import TextAnswerer
    from albert_tf.modeling.model_runner import ModelRunner

    loaded = load(values.model)
    task = task_of(loaded, values.task, values.data_dir)
    splits = tuple(values.split) or task.dev_splits
    if not splits:
        raise ValueError(f"{values.data_dir}: has no dev set; name a --split, there are {', '.join(task.splits())}")
    read = {split: task.read(split) for split in splits}  # all of them first: a fault shows at once
    if values.task is not None or loaded.task_config is None:
        length = values.max_seq_length or loaded.max_seq_length
        loaded = dataclasses.replace(loaded, task_config=TaskConfig.of(task, max_seq_length=length))
    settings = AnswerSettings(max_seq_length=values.max_seq_length, stride=values.stride)
    answerer = TextAnswerer(loaded, ModelRunner(loaded.model, batch_size=values.batch_size), settings)
    predicted = {split: predict(answerer, examples, split) for split, examples in read.items()}
    for split, examples in read.items():
        _print(task, split, examples, predicted[split])
    if values.output_dir is not None:
        with door.whole_directory(values.output_dir, replace=values.overwrite) as folder:
            for split, examples in read.items():
                reports.write_report(os.path.join(folder, split), task, examples, predicted[split])
        logging.info("reports: %s", values.output_dir)


if __name__ == "__main__":
    _define_flags()
    door.run(main, required=["model", "data_dir"])
