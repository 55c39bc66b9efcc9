"""Tasks by name."""

from __future__ import annotations

import inspect
from typing import Any

from albert_tf.tasks.glue import GLUE_TASKS, glue_task
from albert_tf.tasks.labelled_files import FileTask
from albert_tf.tasks.tagging import tagging_task
from albert_tf.tasks.text_tasks import TEXT_TASKS, Columns, text_task

TASKS = (*GLUE_TASKS, *TEXT_TASKS, "tagging")
_ALIASES = {"sst2": "sst-2", "stsb": "sts-b", "diagnostic": "ax"}


def task_name(name: str) -> str:
    """Name of a task as this project writes it: "sst-2" for "SST2".

    Raises:
      ValueError: for a task that there is not.
    """
    lowered = name.strip().lower()
    found = _ALIASES.get(lowered, lowered)
    if found not in TASKS:
        raise ValueError(f"task must be one of {', '.join(TASKS)}, got {name!r}")
    return found


def task_options(name: str) -> tuple[str, ...]:
    """Names of the options that a task takes."""
    name = task_name(name)
    if name in GLUE_TASKS:
        return ()
    if name == "tagging":
        return tuple(inspect.signature(tagging_task).parameters)[2:]
    own = () if name == "regression" else ("labels", "multi_label")
    return (*own, *inspect.signature(Columns).parameters)


def make_task(name: str, data_dir: str | None, **options: Any) -> FileTask:
    """A task by its name, with its files.

    The same task comes of `make_task(task.name, data_dir, **task.options)`, also where there is no training file.

    Args:
      name: one of `TASKS`; capitals do not count.
      data_dir: folder of its files; None for a task whose labels are known, to predict with.
      options: of the text tasks (`text_tasks.text_task`) and tagging (`tagging.tagging_task`).

    Raises:
      ValueError: for a task or option that there is not, or files that are not as the task wants them.
      OSError: if they cannot be read.
    """
    name = task_name(name)
    known = task_options(name)
    for option in options:
        if option not in known:
            raise ValueError(f"{option} is no option of {name}, which takes {', '.join(known) or 'none'}")
    if name in GLUE_TASKS:
        return glue_task(name, data_dir)
    if name == "tagging":
        return tagging_task(name, data_dir, **options)
    return text_task(name, data_dir, **options)
