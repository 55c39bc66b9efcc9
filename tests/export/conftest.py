"""A small vocabulary, a model directory of tiny size, and its SavedModel."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest

from albert_tf.config import AlbertConfig
from albert_tf.model_directory import save_model_directory
from albert_tf.modeling.models import AlbertPretrainingModel
from albert_tf.tokenizer import AlbertTokenizer
from albert_tf.tokenizer_base import Tokenizer
from export import tflite
from export.saved_model import SavedModelReport, export_saved_model
from tests.export.texts import train_tokenizer
from tests.modeling.small_models import SHARING_CASES


@pytest.fixture(scope="session")
def tokenizer() -> AlbertTokenizer:
    return train_tokenizer()


def tiny_config(tokenizer: Tokenizer, **changes) -> AlbertConfig:
    """All sizes differ; as wide as H = 48, so that 8 bits say something."""
    fields = {
        "vocab_size": tokenizer.vocab_size,
        "embedding_size": 16,
        "hidden_size": 48,
        "num_hidden_layers": 4,
        "num_attention_heads": 3,
        "intermediate_size": 80,
        "max_position_embeddings": 70,
        "initializer_range": 0.1,
    }
    return AlbertConfig(**{**fields, **changes})


def sharing_config(tokenizer: AlbertTokenizer, case: str) -> AlbertConfig:
    """Tiny size with the sharing mode `case` of the model's tests."""
    changes = SHARING_CASES[case].copy()
    if "embedding_size" in changes:  # there it is as wide as the layers
        changes["embedding_size"] = 48
    return tiny_config(tokenizer, num_hidden_layers=3, **changes)


def spread_weights(model: AlbertPretrainingModel) -> None:
    """Gives every weight, biases and LayerNorm included, a random value; mild, so that float32 keeps six digits."""
    generator = np.random.default_rng(11)
    for name, variable in model.named_weights().items():
        centre = 1.0 if name.endswith("/gamma") else 0.0
        variable.assign(centre + 0.1 * generator.standard_normal(tuple(variable.shape)))


@pytest.fixture(scope="session")
def model(tokenizer: AlbertTokenizer) -> AlbertPretrainingModel:
    """Every weight random, biases and LayerNorm included."""
    made = AlbertPretrainingModel(tiny_config(tokenizer))
    spread_weights(made)
    return made


@pytest.fixture(scope="session")
def directory(
    tmp_path_factory: pytest.TempPathFactory, model: AlbertPretrainingModel, tokenizer: AlbertTokenizer
) -> pathlib.Path:
    """The model directory."""
    path = tmp_path_factory.mktemp("source") / "model é"
    save_model_directory(path, model, tokenizer)
    return path


@pytest.fixture(scope="session")
def exported(directory: pathlib.Path) -> SavedModelReport:
    """Both SavedModels of the directory."""
    return export_saved_model(directory, directory.parent / "exported", top_k=7)


@pytest.fixture(scope="session")
def float32(model: AlbertPretrainingModel, tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A TFLite file of the whole model."""
    path = tmp_path_factory.mktemp("float32") / "model é.tflite"
    path.write_bytes(tflite.convert(model, quantization="float32", head="all"))
    return path


@pytest.fixture(scope="session")
def int8(model: AlbertPretrainingModel, tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The same with weights in 8 bits."""
    path = tmp_path_factory.mktemp("int8") / "model.tflite"
    path.write_bytes(tflite.convert(model, quantization="int8", head="all"))
    return path


def scaled(path: pathlib.Path, values: np.ndarray, to: pathlib.Path) -> pathlib.Path:
    """A copy of a float32 TFLite file in which the tensor with `values` is 1 % larger."""
    content, wanted = path.read_bytes(), np.ascontiguousarray(values, "<f4").tobytes()
    assert content.count(wanted) == 1
    to.write_bytes(content.replace(wanted, (np.frombuffer(wanted, "<f4") * np.float32(1.01)).tobytes()))
    return to
