"""Settings of fine-tuning from the ALBERT paper (Lan et al. 2020, arXiv 1909.11942), Table 14 of its appendix.

The table stands for the sets in full. On a smaller one the steps, warm-up included, shrink in proportion, so that a row
is seen as often. For tasks that are not in the table there are defaults, which come from no paper.
"""

from __future__ import annotations

import dataclasses
import math

SIZES = ("base", "large", "xlarge", "xxlarge")
VERSIONS = ("v1", "v2")
# "paper": the table as it stands. Otherwise a published model: v1 models keep the dropout that they were pretrained
# with, but for xxlarge, which had none and takes the table's; v2 models have none.
PRESETS = ("paper", *(f"{size}_{version}" for version in VERSIONS for size in SIZES))

_PRETRAINED_DROPOUT = 0.1
# The paper starts these from a model that was fine-tuned on MNLI.
FROM_MNLI = ("rte", "sts-b", "mrpc")

DEFAULT_EPOCHS = 3
DEFAULT_WARMUP = 0.1  # share of the steps


@dataclasses.dataclass(frozen=True, kw_only=True)
class Preset:
    """What the table says of a task.

    Attributes:
      learning_rate: that the warm-up aims at.
      train_batch_size: rows of a step.
      dropout: in the encoder; None keeps the model's own.
      num_train_steps: steps of the whole run.
      num_warmup_steps: steps over which the learning rate rises.
      max_seq_length: most tokens of a row.
      classifier_dropout: before the head.
    """

    learning_rate: float
    train_batch_size: int
    dropout: float | None
    num_train_steps: int
    num_warmup_steps: int
    max_seq_length: int = 512
    classifier_dropout: float = 0.1


def _row(
    rate: float, batch: int, dropout: float, steps: int, warmup: int, examples: int, length: int = 512
) -> tuple[Preset, int]:
    preset = Preset(
        learning_rate=rate,
        train_batch_size=batch,
        dropout=dropout,
        num_train_steps=steps,
        num_warmup_steps=warmup,
        max_seq_length=length,
    )
    return preset, examples


# With the number of training examples that the task has: GLUE's (Wang et al. 2019), QNLI and RTE as released again in
# 2019, with the sizes that the card of the dataset nyu-mll/glue gives.
_TABLE = {
    "cola": _row(1e-5, 16, 0.0, 5336, 320, 8551),
    "sts-b": _row(2e-5, 16, 0.0, 3598, 214, 5749),
    "sst-2": _row(1e-5, 32, 0.0, 20935, 1256, 67349),
    "mnli": _row(3e-5, 128, 0.0, 10000, 1000, 392702),
    "qnli": _row(1e-5, 32, 0.0, 33112, 1986, 104743),
    "qqp": _row(5e-5, 128, 0.1, 14000, 1000, 363846),
    "rte": _row(3e-5, 32, 0.1, 800, 200, 2490),
    "mrpc": _row(2e-5, 32, 0.0, 800, 200, 3668),
    "wnli": _row(2e-5, 16, 0.1, 2000, 250, 635),
}
TASKS = tuple(_TABLE)


def find_preset(task: str, num_examples: int, name: str = "paper", *, batch_size: int | None = None) -> Preset:
    """Settings for a task.

    Args:
      task: its name. One that is not in the table gets 2e-5, batches of 32, three epochs and a tenth of warm-up.
      num_examples: training rows there are.
      name: one of `PRESETS`.
      batch_size: rows of a step, where it is not the table's: the steps then see as many rows.

    Raises:
      ValueError: for a preset that there is not.
    """
    if name not in PRESETS:
        raise ValueError(f"preset must be one of {', '.join(PRESETS)}, got {name!r}")
    if task not in _TABLE:
        size = batch_size or min(32, num_examples)
        steps = math.ceil(DEFAULT_EPOCHS * num_examples / size)
        return Preset(
            learning_rate=2e-5,
            train_batch_size=size,
            dropout=_dropout(None, name),
            num_train_steps=steps,
            num_warmup_steps=math.ceil(DEFAULT_WARMUP * steps),
        )
    row, full = _TABLE[task]
    size = batch_size or min(row.train_batch_size, num_examples)
    share = min(1.0, num_examples / full) * row.train_batch_size / size
    steps = max(math.ceil(row.num_train_steps * share), 1)
    return dataclasses.replace(
        row,
        train_batch_size=size,
        dropout=_dropout(row.dropout, name),
        num_train_steps=steps,
        num_warmup_steps=min(math.ceil(row.num_warmup_steps * share), steps),
    )


def _dropout(of_table: float | None, name: str) -> float | None:
    """Dropout in the encoder: of the table, or of a published model."""
    size, _, version = name.partition("_")
    if version == "v2":
        return 0.0
    if version == "v1" and size != "xxlarge":
        return _PRETRAINED_DROPOUT
    return of_table
