"""`import albert_tf`: lazy names, and a Keras that runs on TensorFlow whatever the user's settings say."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

import pytest

import albert_tf
from tests.conftest import ROOT


def run(code: str, **variables: str) -> subprocess.CompletedProcess[str]:
    # The variables that other tests of this process may have set must not reach the new one.
    kept = {name: value for name, value in os.environ.items() if name not in ("KERAS_BACKEND", "KERAS_HOME")}
    environment = {**kept, "TF_CPP_MIN_LOG_LEVEL": "3", **variables}
    return subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True)


def test_public_names_are_where_they_are_said_to_be() -> None:
    assert sorted(albert_tf._HOMES) == sorted(albert_tf.__all__)
    for name in albert_tf.__all__:
        value = getattr(albert_tf, name)
        assert value.__name__ == name
        assert value.__module__ == albert_tf._HOMES[name]
        assert name in dir(albert_tf)


def test_unknown_name() -> None:
    with pytest.raises(AttributeError, match="module 'albert_tf' has no attribute 'AlbertEncoda'"):
        _ = albert_tf.AlbertEncoda


def test_star_import_and_version() -> None:
    names: dict[str, object] = {}
    exec("from albert_tf import *", names)  # noqa: S102
    assert names["AlbertConfig"] is albert_tf.AlbertConfig
    assert [part.isdigit() for part in albert_tf.__version__.split(".")] == [True, True, True]


# tensorflow_text is the import that TF_USE_LEGACY_KERAS breaks where tf_keras is missing.
USE = """
import albert_tf, sys
assert not {"keras", "tensorflow"} & sys.modules.keys()
albert_tf.AlbertEncoder
import keras, tensorflow_text
print(keras.config.backend())
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("variables", "settings"),
    [
        ({"KERAS_BACKEND": "jax", "TF_USE_LEGACY_KERAS": "1"}, None),
        ({}, {"backend": "torch", "image_data_format": "channels_first", "epsilon": 1e-3}),
    ],
)
def test_hostile_settings(
    variables: dict[str, str], settings: dict[str, object] | None, tmp_path: pathlib.Path
) -> None:
    if settings:
        (tmp_path / "keras.json").write_text(json.dumps(settings), encoding="utf-8")
    done = run(USE, KERAS_HOME=str(tmp_path), **variables)
    assert done.stdout == "tensorflow\n", done.stderr


@pytest.mark.slow
def test_floatx_of_keras_json_is_the_users_and_a_named_dtype_wins(tmp_path: pathlib.Path) -> None:
    settings = {"floatx": "float64", "backend": "tensorflow"}
    (tmp_path / "keras.json").write_text(json.dumps(settings), encoding="utf-8")
    code = """
import albert_tf
config = albert_tf.AlbertConfig(vocab_size=11, embedding_size=4, hidden_size=6, num_hidden_layers=3,
    num_attention_heads=2, intermediate_size=7, max_position_embeddings=5)
for dtype in (None, "float32"):
    model = albert_tf.AlbertPretrainingModel(config, dtype=dtype)
    print(*sorted({weight.dtype for weight in model.weights}))
"""
    done = run(code, KERAS_HOME=str(tmp_path))
    assert done.stdout == "float64\nfloat32\n", done.stderr


def test_keras_on_another_backend_is_refused() -> None:
    code = """
import sys, types
sys.modules["keras.src.backend.config"] = types.SimpleNamespace(backend=lambda: "jax")
import albert_tf
"""
    done = run(code)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        "ImportError: albert_tf runs on Keras' TensorFlow backend, but Keras has been imported and runs on 'jax': "
        "import albert_tf before tensorflow and keras, or set KERAS_BACKEND=tensorflow"
    )


def test_old_keras_is_refused() -> None:
    done = run(
        "import sys, types; sys.modules['keras'] = types.SimpleNamespace(__version__='2.15.0'); import albert_tf"
    )
    assert done.returncode == 1
    assert "albert_tf needs Keras 3, but Keras 2.15.0 is imported already" in done.stderr.splitlines()[-1]


@pytest.mark.slow
@pytest.mark.parametrize("first", ["tensorflow", "keras"])
def test_keras_that_tried_another_backend_is_refused(first: str, tmp_path: pathlib.Path) -> None:
    # `import tensorflow` imports Keras and passes over its failure where jax is not installed. Keras' module of
    # settings stays loaded, so that the variable comes too late.
    code = f"""
try:
    import {first}
except ImportError:
    pass
import albert_tf
"""
    done = run(code, KERAS_BACKEND="jax", KERAS_HOME=str(tmp_path))
    assert done.returncode == 1
    assert "but Keras has been imported and runs on 'jax'" in done.stderr.splitlines()[-1]


@pytest.mark.slow
def test_keras_on_tensorflow_may_be_there_already(tmp_path: pathlib.Path) -> None:
    done = run("import keras, albert_tf; print(albert_tf.AlbertEncoder.__name__)", KERAS_HOME=str(tmp_path))
    assert done.stdout == "AlbertEncoder\n", done.stderr
