"""`export_report.json` and `MODEL_CARD.md`: what was exported, what it was made from, and what the proof has found.

A SavedModel has both in its folder assets.extra, which TensorFlow leaves alone, so that they go where it goes: to a
server, under another version's number. `text` and `ids`, which are exported together, have the same ones. A TFLite file
is a single file, and a phone needs no model card: they stand beside NAME.tflite as NAME.report.json and NAME.card.md.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import platform
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import albert_tf
from albert_tf import conversion, files, model_directory
from export.artifacts import CARD_FILE, REPORT_FILE
from export.proof.card import render
from export.proof.proof import Proof

if TYPE_CHECKING:
    from albert_tf.inference.loaded_model import LoadedModel

VERSION = 1


@dataclasses.dataclass(frozen=True, kw_only=True)
class Report:
    """An export in words and numbers.

    Attributes:
      model: what the model is: head, labels, sizes, parameters, tokenizer.
      task: content of `task_config.json`; None where the model has no task.
      training: content of `training.json`; empty where nothing is known.
      proof: what was found.
      software: versions that wrote the export.
    """

    model: Mapping[str, Any]
    task: Mapping[str, Any] | None
    training: Mapping[str, Any]
    proof: Proof
    software: Mapping[str, str]

    def to_json(self) -> str:
        """The report as JSON, its keys in order."""
        content = {"version": VERSION, **dataclasses.asdict(self)}
        return json.dumps(content, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def make_report(source: LoadedModel, proof: Proof) -> Report:
    """The report of a proof, with what the source's folder tells of its making.

    Raises:
      ValueError: if a file there is damaged.
    """
    model, head = source.model, source.model.head_config
    is_ours = conversion.is_model_directory(source.path)
    about: dict[str, Any] = {
        "name": os.path.basename(os.path.abspath(source.path)),
        "head": head.head,
        "labels": list(head.labels) if head.labels is not None else None,
        "num_labels": head.num_labels,
        "parameters": model.count_params(),
        "config": dataclasses.asdict(model.config),
        "max_seq_length": source.max_seq_length,
        "sentence_objective": source.sentence_objective,
        "tokenizer": {
            "vocabulary_file": source.tokenizer.vocabulary_file,
            "vocab_size": source.tokenizer.vocab_size,
            "config": dataclasses.asdict(source.tokenizer.config),
        },
        "weights_sha256": _digest(source.path) if is_ours else None,
    }
    return Report(
        model=about,
        task=None if source.task_config is None else dataclasses.asdict(source.task_config),
        training=model_directory.read_training(source.path) if is_ours else {},
        proof=proof,
        software={"albert_tf": albert_tf.__version__, "machine": platform.machine(), "system": platform.system()},
    )


def _digest(path: str) -> str:
    return hashlib.sha256(files.read_whole(os.path.join(path, model_directory.WEIGHTS_FILE))).hexdigest()


def write_report(report: Report, saved_model: str | os.PathLike[str]) -> None:
    """Writes report and card into a SavedModel's folder, which is to appear as a whole.

    Raises:
      OSError: if a file cannot be written.
    """
    files.write_whole(os.path.join(saved_model, REPORT_FILE), report.to_json())
    files.write_whole(os.path.join(saved_model, CARD_FILE), render(json.loads(report.to_json())))


def paths_beside(tflite: str | os.PathLike[str]) -> tuple[str, str]:
    """Where report and card of a TFLite file stand."""
    stem = os.fspath(tflite).removesuffix(".tflite")
    return f"{stem}.report.json", f"{stem}.card.md"


def write_with_report(path: str | os.PathLike[str], content: bytes, report: Report) -> None:
    """Writes a TFLite file with its report and card. The file comes last: where it is, they are.

    Raises:
      OSError: if one cannot be written; a file that was there before is then still there.
    """
    report_path, card_path = paths_beside(path)
    # The innermost is renamed first.
    with files.whole_file(path) as file, files.whole_file(card_path) as card, files.whole_file(report_path) as one:
        for name, data in (
            (file, content),
            (card, render(json.loads(report.to_json())).encode()),
            (one, report.to_json().encode()),
        ):
            files.write_whole(name, data)


def find_report(artefact: str | os.PathLike[str]) -> dict[str, Any] | None:
    """The report of an artefact, where it still has it; None where it does not.

    Raises:
      ValueError: if it is damaged.
    """
    from albert_tf.json_object import parse_object

    path = os.fspath(artefact).rstrip("/")
    beside = paths_beside(path)[0] if path.endswith(".tflite") else os.path.join(path, REPORT_FILE)
    return parse_object(files.read_whole(beside), source=beside) if files.exists(beside) else None
