"""Fine-tunes an ALBERT model on a task and writes a model directory with the task in it.

Example:
  python -m albert_tf.finetune --task=sst-2 --data_dir=glue/SST-2 --model=run/model --output_dir=sst2

  python -m albert_tf.finetune --task=classification --data_dir=reviews --text_column=review --label_column=stars \\
      --model=run/model --output_dir=reviews_run --learning_rate=3e-5 --num_train_epochs=4 --seeds=1,2,3

Tasks are those of GLUE (cola, sst-2, mrpc, sts-b, qqp, mnli, qnli, rte, wnli) in their public files, and
classification, pair_classification, regression and tagging on files of your own: train.tsv (.csv, .jsonl; .conll for
tagging), dev.tsv, test.tsv. --model is a model directory or another project's checkpoint: its encoder is kept, and its
head where it has the same labels. What no flag says comes from --preset: the table of the ALBERT paper, scaled to
smaller sets.

With several --seeds each has a folder of its own, and the model of the best one is output_dir/model; one that diverges
does not end the others. A run that was interrupted goes on when the same command is given again. Next:
albert_tf.evaluate, albert_tf.predict, export.saved_model.
"""

from __future__ import annotations

import dataclasses
import math
import os
import shlex
from typing import TYPE_CHECKING, Any

from absl import flags, logging

from albert_tf import door, startup, training_door
from albert_tf.conversion import FORMATS
from albert_tf.files import exists, lock_directory
from albert_tf.head_config import HEADS
from albert_tf.model_directory import read_training
from albert_tf.tasks.making import TASKS, make_task, task_name, task_options
from albert_tf.training import presets, seeds
from albert_tf.training import settings as settings_module
from albert_tf.training.finetuning_settings import FinetuningSettings

if TYPE_CHECKING:
    from albert_tf.tasks.labelled_files import FileTask
    from albert_tf.training.finetuning_inputs import FinetuningInputs

_TRAINED = tuple(name for name in TASKS if name != "ax")

with door.group("Files"):
    flags.DEFINE_string("task", None, f"What is learned: {', '.join(_TRAINED)}.")
    flags.DEFINE_string("data_dir", None, "Folder of the task's files.")
    flags.DEFINE_string("model", None, "Model directory or checkpoint to start from.")
    flags.DEFINE_string("output_dir", None, "Folder of the run: checkpoints, metrics, and at the end model/.")
    flags.DEFINE_enum("model_format", None, FORMATS, "The checkpoint's format, where it cannot be found out.")
    flags.DEFINE_enum("model_head", None, HEADS, "The checkpoint's head, where its files cannot tell it.")

with door.group("Files of your own"):
    flags.DEFINE_string("text_column", None, "Column of the text, or of the first of two; by default text.")
    flags.DEFINE_string("text_b_column", None, "Column of the second text; by default text_b for pairs, else none.")
    flags.DEFINE_string(
        "label_column", None, "Column of the label; by default label. For tagging a number; by default the last."
    )
    flags.DEFINE_string("id_column", None, "Column of ids, all different; by default files have none.")
    flags.DEFINE_string("label_separator", None, "What stands between several labels of a text; by default a comma.")
    flags.DEFINE_list("columns", None, "Names of the columns, for files without a header line.")
    flags.DEFINE_list("labels", None, "All labels, in the order of their ids; by default those of the training file.")
    flags.DEFINE_boolean("multi_label", False, "Whether a text may have any number of labels.")
    flags.DEFINE_integer("word_column", None, "For tagging: column of the words, from 0; by default the first.")
    flags.DEFINE_string("words_key", None, "For tagging from JSON lines: key of the words.")
    flags.DEFINE_string("labels_key", None, "For tagging from JSON lines: key of the labels.")

with door.group("Features"):
    flags.DEFINE_integer("max_seq_length", None, "Most tokens of a row; by default 512, or what the model has.", 5)
    flags.DEFINE_integer(
        "stride",
        None,
        "Cuts long texts into windows that begin so many tokens apart; by default they lose their end.",
        1,
    )

with door.group("Training"):
    flags.DEFINE_enum("preset", "paper", presets.PRESETS, "Settings for what no flag says: the paper's, by model.")
    flags.DEFINE_integer("num_train_steps", None, "Steps of the whole run; by default the preset's.")
    flags.DEFINE_float("num_train_epochs", None, "How often each row is seen, instead of --num_train_steps.")
    flags.DEFINE_integer("num_warmup_steps", None, "Steps over which the learning rate rises; by default the preset's.")
    flags.DEFINE_float("learning_rate", None, "Learning rate that the warm-up aims at; by default the preset's.")
    flags.DEFINE_integer("train_batch_size", None, "Rows of a step, over all devices; by default the preset's.")
    flags.DEFINE_float("dropout", None, "Dropout in the encoder; by default the preset's.")
    flags.DEFINE_float("classifier_dropout", 0.1, "Dropout before the head.")
    flags.DEFINE_enum("optimizer", "adamw", settings_module.OPTIMIZERS, "Optimizer.")
    flags.DEFINE_float("weight_decay", 0.01, "Rate of the decoupled weight decay.")
    flags.DEFINE_float("clip_norm", 1.0, "Largest global norm of the gradient; 0 clips nothing.")
    flags.DEFINE_float("moving_average_decay", 0.0, "Share of the old in a moving average of the weights; 0: none.")
    flags.DEFINE_list("seeds", ["0"], "Seeds, each a run: of new weights, order and dropout.")
    flags.DEFINE_boolean("bucket_by_length", True, "Let rows of like length share a batch, which is faster.")
    training_door.define_precision()

training_door.define_devices()

with door.group("While it runs"):
    training_door.define_events()

_OPTIONS = (
    "text_column", "text_b_column", "label_column", "id_column", "label_separator", "columns", "labels",
    "multi_label", "word_column", "words_key", "labels_key",
)  # fmt: skip


def read_task(values: Any) -> FileTask:
    """The task that the flags describe.

    Raises:
      UsageError: for a task that there is not, or flags that are not for it.
      ValueError, OSError: for files that are not as it wants them.
    """
    with door.checking_flags():
        name = task_name(values.task)
        if name not in _TRAINED:
            raise ValueError(f"task must be one of {', '.join(_TRAINED)}; {name} has no training set")
        given = {option: getattr(values, option) for option in _OPTIONS if flags.FLAGS[option].present}
        for option in given:
            if option not in (known := task_options(name)):
                raise ValueError(f"{option} is no option of {name}, which takes {', '.join(known) or 'none'}")
        if name == "tagging" and "label_column" in given:
            given["label_column"] = _whole_number("label_column", given["label_column"])
        some_labels = {"labels": ("a", "b")} if "labels" in task_options(name) else {}
        make_task(name, None, **(some_labels | given))  # options that do not go together show without a file
    return make_task(name, values.data_dir, **given)


def make_settings(values: Any, task: str, num_rows: int, max_seq_length: int) -> FinetuningSettings:
    """Settings of a run on `num_rows` rows, from the flags and, for what they do not say, the preset.

    Raises:
      UsageError: for values that are out of range, or do not go together.
    """
    with door.checking_flags():
        preset = presets.find_preset(task, num_rows, values.preset, batch_size=values.train_batch_size)
        steps = preset.num_train_steps
        if values.num_train_steps is not None and values.num_train_epochs is not None:
            raise ValueError("give either --num_train_steps or --num_train_epochs")
        if values.num_train_steps is not None:
            steps = values.num_train_steps
        elif values.num_train_epochs is not None:
            if not 0.0 < values.num_train_epochs < math.inf:
                raise ValueError(f"num_train_epochs must be a finite number above 0, got {values.num_train_epochs}")
            steps = math.ceil(values.num_train_epochs * num_rows / preset.train_batch_size)
        chosen = dataclasses.asdict(preset) | {
            "num_train_steps": steps,
            "num_warmup_steps": round(preset.num_warmup_steps * steps / preset.num_train_steps),
            "max_seq_length": max_seq_length,
            "seed": seeds.parse(values.seeds)[0],
        }
        for field in dataclasses.fields(FinetuningSettings):
            value = getattr(values, field.name, None)
            if field.name not in chosen or (value is not None and field.name != "max_seq_length"):
                chosen[field.name] = value
        return FinetuningSettings(**chosen)


def main() -> None:
    values = flags.FLAGS
    training_door.check_tpu(values)
    with door.checking_flags():
        chosen = seeds.parse(values.seeds)
        if not 0.0 <= values.classifier_dropout < 1.0:
            raise ValueError(f"classifier_dropout must be in [0, 1), got {values.classifier_dropout}")
    if len(chosen) > 1 and values.strategy == "multi_worker":
        raise door.UsageError("several seeds need one process: give strategy=multi_worker one of --seeds at a time")

    from albert_tf.task_inputs import read_task_inputs
    from albert_tf.tasks.features import check_room
    from albert_tf.training.warm_start import read_warm_start

    task = read_task(values)
    start = read_warm_start(values.model, format=values.model_format, head=values.model_head)
    wanted = values.max_seq_length or min(512, start.config.max_position_embeddings)
    with door.checking_flags():
        check_room(wanted, values.stride)
    inputs = read_task_inputs(
        task, start, max_seq_length=wanted, stride=values.stride, classifier_dropout=values.classifier_dropout
    )
    settings = make_settings(values, task.name, len(inputs.train), wanted)
    if task.name in presets.FROM_MNLI:
        _advise_mnli(task.name, start.path)
    with training_door.keeping_folder(settings.output_dir, training_door.find_workers(settings, values)):
        if len(chosen) == 1:
            _tell(settings)
            _finish(settings.output_dir, _run(settings, inputs))
        else:
            _run_seeds(settings, inputs, chosen)


def _run(settings: FinetuningSettings, inputs: FinetuningInputs) -> seeds.Result:
    """Trains from the newest checkpoint to the end; a run that is finished is only read."""
    fingerprint = inputs.fingerprint(settings)
    training_door.claim_output(settings.output_dir, fingerprint, kind="fine-tuning")
    model_path = os.path.join(settings.output_dir, "model")
    name, more_is_better = inputs.deciding_figure
    if training_door.has_content(model_path):
        logging.info("%s: this run of %d steps is finished already", settings.output_dir, settings.num_train_steps)
        training = read_training(model_path)
        figures = training.get("evaluation", {})
        return seeds.Result(settings.seed, model_path, figures, name, more_is_better, training.get("collapse"))

    startup.prepare_training(remat=settings.remat, strategy=settings.strategy)

    from albert_tf.training.finetuning import Finetuning

    run = Finetuning(settings, inputs, door.progress)
    figures = training_door.carry_out(run, settings, fingerprint)
    run.outlast_workers()
    return seeds.Result(settings.seed, model_path, figures, name, more_is_better, run.collapse)


def _run_seeds(settings: FinetuningSettings, inputs: FinetuningInputs, chosen: list[int]) -> None:
    """A run for each seed, the table of them, and the best one's model."""
    folder = settings.output_dir
    if exists(os.path.join(folder, settings_module.SETTINGS_FILE)):
        raise ValueError(f"{folder}: holds a run of one seed; name another output_dir")
    if training_door.has_content(folder) and not any(exists(_seed_folder(folder, seed)) for seed in chosen):
        raise ValueError(f"{folder}: has content, but none of a fine-tuning run; name another output_dir")
    _tell(settings)
    results = []
    for seed in chosen:
        of_seed = dataclasses.replace(settings, seed=seed, output_dir=_seed_folder(folder, seed))
        logging.info("seed %d, in %s", seed, of_seed.output_dir)
        try:
            with lock_directory(of_seed.output_dir):
                training_door.tidy(of_seed.output_dir)
                results.append(_run(of_seed, inputs))
        except training_door.Diverged as error:  # the others may do better; all of them fail alike
            if seed == chosen[-1] and all(result.diverged for result in results):
                raise
            logging.error("%s", error)
            results.append(seeds.Result(seed, "", {}, *inputs.deciding_figure, diverged=error.account))
    best = seeds.write(folder, results)
    door.print_table(f"{len(results)} seeds", seeds.COLUMNS, seeds.rows(results))
    print(f"the best is seed {best.seed}")
    _finish(folder, best)


def _seed_folder(output_dir: str, seed: int) -> str:
    return os.path.join(output_dir, f"seed-{seed}")


def _finish(output_dir: str, result: seeds.Result) -> None:
    """Prints what was learned, where the model is, and what can be done with it."""
    for name, value in result.figures.items():
        print(f"{name}: {value:.4f}")
    if result.collapse is not None:
        print(f"COLLAPSED: {result.collapse}. Try other --seeds, a lower --learning_rate or a longer warm-up.")
    model_path = os.path.join(output_dir, "model")
    print(f"model directory: {model_path}")
    print(f"next: python -m albert_tf.predict --model={shlex.quote(model_path)} --input=FILE")
    print(f"or:   python -m export.saved_model --model={shlex.quote(model_path)} --output_dir=exported")


def _tell(settings: FinetuningSettings) -> None:
    """Says what was chosen, by flags or preset."""
    names = ("num_train_steps", "num_warmup_steps", "learning_rate", "train_batch_size", "max_seq_length", "dropout")
    chosen = {name: getattr(settings, name) for name in names}
    if settings.dropout is None:
        chosen["dropout"] = "as the model has it"
    logging.info("%s", ", ".join(f"{name} {value}" for name, value in chosen.items()))


def _advise_mnli(task: str, path: str) -> None:
    found = read_training(path).get("task", {}) if os.path.isdir(path) else {}
    if not isinstance(found, dict) or found.get("name") != "mnli":
        logging.info("the paper starts %s from a model that was fine-tuned on MNLI: --model=MNLI_RUN/model", task)


def _whole_number(name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{name} must be a whole number for tagging, got {text!r}") from None


if __name__ == "__main__":
    door.run(main, required=["task", "data_dir", "model", "output_dir"])
