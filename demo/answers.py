"""One question to the exported models: SavedModel and TFLite must give the same answer."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from typing import Any

from albert_tf import door
from demo.commands import ROOT, Command, announce
from demo.workspace import Workspace

TOP = 5


def ask_all(workspace: Workspace, query: str) -> dict[str, Any]:
    """Asks all three, prints a table, and compares.

    Raises:
      UserError: if the answers differ: the five likeliest pieces in float32, the first one in int8.
    """
    model = workspace.path("training", "model")
    sources = {
        "SavedModel": {"saved_model": workspace.path("exported", "saved_model", "text")},
        "TFLite float32": {"tflite": workspace.path("exported", "demo_float32.tflite"), "model": model},
        "TFLite int8": {"tflite": workspace.path("exported", "demo_int8.tflite"), "model": model},
    }
    commands = {
        name: Command(door="export.run_saved_model", flags={**source, "text": query, "top_k": TOP, "json": "true"})
        for name, source in sources.items()
    }
    answers = dict(zip(commands, _answers(workspace, list(commands.values())), strict=True))
    door.print_table(
        query,
        ("model", *(f"{place}." for place in range(1, TOP + 1))),
        [
            (name, *(f"{one['piece']} {one['probability']:.3f}" for one in candidates))
            for name, candidates in answers.items()
        ],
    )
    problem = disagreement({name: [one["piece"] for one in found] for name, found in answers.items()})
    if problem:
        raise door.UserError(problem)
    return {"query": query, "answers": answers}


def _answers(workspace: Workspace, commands: Sequence[Command]) -> list[list[dict[str, Any]]]:
    """Candidates for the first mask, of each command; they run at once."""
    processes = []
    for command in commands:
        announce(command)
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([ROOT, os.environ.get("PYTHONPATH", "")])}
        processes.append(
            subprocess.Popen(
                command.arguments, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
            )
        )
    outputs = [process.communicate()[0] for process in processes]
    for command, process in zip(commands, processes, strict=True):
        if process.returncode:
            raise door.UserError(f"{command.door} ended with exit code {process.returncode}; it said why above")
    return [json.loads(output)["masks"][0]["candidates"] for output in outputs]


def disagreement(pieces: dict[str, list[str]]) -> str | None:
    """What is wrong with the answers (pieces by model, best first); None where they agree as they must.

    The float32 file must give the SavedModel's pieces in their order; int8, whose weights are rounded, the first one.
    """
    expected = pieces["SavedModel"]
    for name, count in (("TFLite float32", len(expected)), ("TFLite int8", 1)):
        if pieces[name][:count] != expected[:count]:
            return (
                f"{name} must answer as the SavedModel does, {', '.join(expected[:count])}; "
                f"got {', '.join(pieces[name][:count])}"
            )
    return None
