"""Exports of models by what they were trained on beside masked words."""

from __future__ import annotations

import json
import pathlib

import pytest

from albert_tf.model_directory import read_sentence_objective, save_model_directory
from albert_tf.modeling.models import AlbertPretrainingModel
from albert_tf.tokenizer import AlbertTokenizer
from export.artifacts import SIGNATURES_FILE
from export.run_saved_model import ask
from export.runners import SavedModelRunner
from export.saved_model import export_saved_model
from export.tflite import export_tflite


def save(path: pathlib.Path, model: AlbertPretrainingModel, tokenizer: AlbertTokenizer, objective: str) -> pathlib.Path:
    save_model_directory(path, model, tokenizer, training={"sentence_objective": objective, "max_seq_length": 40})
    return path


@pytest.mark.slow
def test_without_an_objective_nothing_is_said_of_pairs(
    tmp_path: pathlib.Path, model: AlbertPretrainingModel, tokenizer: AlbertTokenizer
) -> None:
    directory = save(tmp_path / "model", model, tokenizer, "none")
    report = export_saved_model(directory, tmp_path / "exported")
    assert sorted(report.agreement) == ["masked_lm_logits", "pooled_output", "sequence_output"]
    for folder in (report.text_folder, report.ids_folder):
        described = json.loads((pathlib.Path(folder) / SIGNATURES_FILE).read_text())
        assert "sentence_order" not in described["signatures"]
    answer = ask(SavedModelRunner(report.text_folder), "An old [MASK].", "It was.")
    assert answer["in_order"] is None
    assert len(answer["masks"]) == 1
    with pytest.raises(ValueError, match="trained with sentence_objective none, so its sentence-order head knows"):
        export_tflite(directory, tmp_path / "m.tflite", quantization="float32")
    assert not (tmp_path / "m.tflite").exists()
    export_tflite(directory, tmp_path / "m.tflite", quantization="float32", head="masked_lm")


@pytest.mark.slow
def test_next_sentence_says_what_its_answers_mean(
    tmp_path: pathlib.Path, model: AlbertPretrainingModel, tokenizer: AlbertTokenizer
) -> None:
    report = export_saved_model(save(tmp_path / "model", model, tokenizer, "nsp"), tmp_path / "exported")
    texts = json.loads((pathlib.Path(report.text_folder) / SIGNATURES_FILE).read_text())
    assert texts["sentence_objective"] == "nsp"
    assert "text_b is of another document" in texts["signatures"]["sentence_order"]["description"]
    ids = json.loads((pathlib.Path(report.ids_folder) / SIGNATURES_FILE).read_text())
    assert "0 of one document, 1 of two" in ids["signatures"]["sentence_order"]["description"]
    in_order = ask(SavedModelRunner(report.text_folder), "An old man.", "It was.")["in_order"]
    assert 0 < in_order < 1


def test_an_unknown_objective_is_refused(
    tmp_path: pathlib.Path, model: AlbertPretrainingModel, tokenizer: AlbertTokenizer
) -> None:
    directory = save(tmp_path / "model", model, tokenizer, "nop")
    with pytest.raises(ValueError, match=r"training\.json: sentence_objective must be sop, nsp, none, got 'nop'"):
        read_sentence_objective(directory)
