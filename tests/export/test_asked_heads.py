"""Of TFLite files those with pretraining heads can be asked; others are refused, before TensorFlow is loaded."""

from __future__ import annotations

import pathlib

import pytest

from albert_tf.head_config import HeadConfig
from export.runners import load_tflite_runner


def test_another_head_is_refused(directory: pathlib.Path, tmp_path: pathlib.Path) -> None:
    model = tmp_path / "model"
    model.mkdir()
    (model / "albert_config.json").write_bytes((directory / "albert_config.json").read_bytes())
    (model / "head_config.json").write_text(HeadConfig(head="classifier", num_labels=3).to_json())
    message = r"model: has the head 'classifier'; export\.run_saved_model takes a model with the head 'pretraining'"
    with pytest.raises(ValueError, match=message):
        load_tflite_runner(tmp_path / "out", model)
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
