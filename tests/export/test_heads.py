"""TFLite takes models with the pretraining heads; any other is refused in one line, before TensorFlow is loaded."""

from __future__ import annotations

import pathlib
from collections.abc import Callable

import pytest

from albert_tf.head_config import HeadConfig
from export.runners import load_tflite_runner
from export.tflite import export_tflite


@pytest.mark.parametrize(
    ("export", "name"),
    [
        (export_tflite, "tflite"),
        (lambda model, file: load_tflite_runner(file, model), "run_saved_model"),
    ],
)
def test_another_head_is_refused(export: Callable, name: str, directory: pathlib.Path, tmp_path: pathlib.Path) -> None:
    model = tmp_path / "model"
    model.mkdir()
    (model / "albert_config.json").write_bytes((directory / "albert_config.json").read_bytes())
    (model / "head_config.json").write_text(HeadConfig(head="classifier", num_labels=3).to_json())
    message = rf"model: has the head 'classifier'; export\.{name} takes a model with the head 'pretraining'"
    with pytest.raises(ValueError, match=message):
        export(model, tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
