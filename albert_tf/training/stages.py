"""Stages of a pretraining run: most steps on short sequences, the last ones on long ones, say.

Attention costs the square of the length, and most of what is learned needs no long text, so the original's BERT took
128 tokens for 90 % of its steps, then 512 (Devlin et al. 2019, appendix A.2). One schedule of the learning rate spans
all stages, and the optimizer goes on.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

_FORM = "DATA_DIR:STEPS or DATA_DIR:STEPS:BATCH"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Stage:
    """A part of a run: `num_train_steps` steps of `train_batch_size` examples of `data_dir`."""

    data_dir: str
    num_train_steps: int
    train_batch_size: int

    def __post_init__(self) -> None:
        for name in ("num_train_steps", "train_batch_size"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ValueError(f"{name} of a stage must be a whole number of at least 1, got {value!r}")


def parse(texts: Sequence[str], *, train_batch_size: int) -> tuple[Stage, ...]:
    """Stages of texts such as "data128:9000" or "data512:1000:8"; what names no batch takes `train_batch_size`.

    Raises:
      ValueError: for a text of another form.
    """
    return tuple(_parse(text.strip(), train_batch_size) for text in texts)


def _parse(text: str, train_batch_size: int) -> Stage:
    # From the end, since a path may hold colons: gs://bucket/data. A Windows drive would not be all digits.
    head, _, last = text.rpartition(":")
    before, _, middle = head.rpartition(":")
    if before and middle.isdecimal() and last.isdecimal():
        path, steps, batch = before, int(middle), int(last)
    elif head and last.isdecimal():
        path, steps, batch = head, int(last), train_batch_size
    else:
        raise ValueError(f"stages must each be {_FORM}, got {text!r}")
    return Stage(data_dir=path, num_train_steps=steps, train_batch_size=batch)


def ends(stages: Sequence[Stage]) -> tuple[int, ...]:
    """The step, counted over the run, that each stage ends with."""
    found, step = [], 0
    for stage in stages:
        step += stage.num_train_steps
        found.append(step)
    return tuple(found)


def at(stages: Sequence[Stage], step: int) -> tuple[int, int]:
    """Number of the stage that the step after `step` finished ones belongs to, and how many of its own are finished."""
    begun = 0
    for number, stage in enumerate(stages):
        if step < begun + stage.num_train_steps:
            return number, step - begun
        begun += stage.num_train_steps
    raise ValueError(f"step must be in [0, {begun}), got {step}")
