"""Presets of KerasHub's ALBERT: written by the installed KerasHub and by us, read, and compared file by file."""

from __future__ import annotations

import dataclasses
import json
import pathlib
from typing import Any

import h5py
import numpy as np

from albert_tf.config import AlbertConfig
from albert_tf.dialects import kerashub
from albert_tf.dialects.foreign_model import ForeignModel
from albert_tf.dialects.matching import Row, match
from albert_tf.head_config import HeadConfig
from albert_tf.tokenizer import TokenizerConfig
from albert_tf.tokenizer_base import Tokenizer
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
CLASSES = {"encoder": "AlbertBackbone", "masked_lm": "AlbertMaskedLM", "classifier": "AlbertTextClassifier"}
LENGTHS = np.array([19, 4, 11, 1])
INPUTS = {"token_ids": "input_ids", "segment_ids": "segment_ids", "padding_mask": "input_mask"}
TOLERANCE = 1e-5  # float32: the same sums in another order, values of about 1


def make_theirs(head: str, *, dtype: str = "float32", tokenizer: Any = None, task: Any = None, **sizes: Any) -> Any:
    """A model of KerasHub's with random weights, biases and norms included."""
    import keras
    import keras_hub

    keras.backend.clear_session()  # else the names in its JSON files count up from test to test
    models = keras_hub.models
    backbone = models.AlbertBackbone(**{**SIZES, **sizes}, dtype=dtype)
    given = {}
    if tokenizer is not None and head != "encoder":
        kind = models.AlbertMaskedLMPreprocessor if head == "masked_lm" else models.AlbertTextClassifierPreprocessor
        given = {"preprocessor": kind(tokenizer, sequence_length=19)}
    if head == "encoder":
        model = backbone
    elif head == "masked_lm":
        model = models.AlbertMaskedLM(backbone, **given)
    else:
        model = models.AlbertTextClassifier(backbone, **{"num_classes": 5, "dropout": 0.375, **given, **(task or {})})
    rng = np.random.default_rng(7)
    for weight in model.weights:
        weight.assign(rng.normal(0.0, 0.3, weight.shape))
    return model


def saved(folder: pathlib.Path, head: str, **settings: Any) -> pathlib.Path:
    """A preset that KerasHub has written."""
    make_theirs(head, **settings).save_to_preset(str(folder))
    return folder


def inputs() -> dict[str, np.ndarray]:
    """Rows of different lengths, in KerasHub's names."""
    rng = np.random.default_rng(11)
    return {
        "token_ids": rng.integers(5, 211, (4, 19)).astype(np.int32),
        "segment_ids": rng.integers(0, 3, (4, 19)).astype(np.int32),
        "padding_mask": (np.arange(19) < LENGTHS[:, None]).astype(np.int32),
    }


@dataclasses.dataclass(frozen=True)
class Read:
    """What a preset held, and what became of each tensor; the file is closed again."""

    model: ForeignModel
    weights: dict[str, np.ndarray]
    rows: tuple[Row, ...]


def read(folder: pathlib.Path, head: str | None = None) -> Read:
    model = kerashub.open_model(str(folder), head=head)
    with model.weights:
        matched = match(model)
        return Read(model, dict(matched), matched.rows)


def make_ours(found: Read) -> Any:
    """Our model with the weights of a preset."""
    from albert_tf.modeling.models import make_model

    ours = make_model(found.model.config, found.model.head)
    for name, variable in ours.named_weights().items():
        variable.assign(found.weights[name])
    return ours


def save_ours(folder: pathlib.Path, found: Read) -> pathlib.Path:
    folder.mkdir()
    model = found.model
    kerashub.save_model(str(folder), model.config, model.head, found.weights, model.tokenizer)
    return folder


def load_theirs(folder: pathlib.Path, head: str, **settings: Any) -> Any:
    import keras_hub

    return getattr(keras_hub.models, CLASSES[head]).from_preset(str(folder), **settings)


def read_tree(path: pathlib.Path) -> dict[str, tuple[Any, ...]]:
    """Shape, dtype, Keras' mark and bits of each dataset of an HDF5 file."""
    rows = {}
    with h5py.File(path) as file:

        def visit(name: str, item: Any) -> None:
            if isinstance(item, h5py.Dataset):
                rows[name] = (item.shape, item.dtype, dict(item.attrs), item[()].tobytes())

        file.visititems(visit)
    return rows


def assert_same_preset(found: pathlib.Path, expected: pathlib.Path) -> None:
    """Two presets have the same files; HDF5 files equal trees, JSON files equal values but for the date."""
    names = sorted(str(path.relative_to(expected)) for path in expected.rglob("*") if path.is_file())
    assert sorted(str(path.relative_to(found)) for path in found.rglob("*") if path.is_file()) == names
    assert {"config.json", "model.weights.h5"} <= set(names)
    for name in names:
        if name.endswith(".h5"):
            assert read_tree(found / name) == read_tree(expected / name)
        elif name.endswith(".json"):
            values = [json.loads((folder / name).read_text()) for folder in (found, expected)]
            for value in values:
                value.pop("date_saved", None)
            assert values[0] == values[1]
        else:
            assert (found / name).read_bytes() == (expected / name).read_bytes()


def toy_vocabulary(*, capitals: bool) -> bytes:
    """SentencePiece model of 211 pieces without rules of its own for case or accents."""
    from pipelines import vocabulary
    from tests.pipelines.conftest import make_documents

    lines = [sentence for document in make_documents(60, seed=3) for sentence in document]
    settings = vocabulary.VocabularySettings(vocab_size=211, num_threads=1)
    config = TokenizerConfig(lower_case=not capitals)
    return vocabulary.train_vocabulary(lines, settings, config)[0].model_proto


TEXTS = ["The cor dis ánbel 4 AND", "lorem Dis, cor: 12!", ""]


def write_ours(folder: pathlib.Path, head: str, tokenizer: Tokenizer | None) -> pathlib.Path:
    rng = np.random.default_rng(5)
    shapes = weight_shapes(CONFIG, HEADS[head])
    weights = {name: rng.normal(0.0, 0.3, shape).astype(np.float32) for name, shape in shapes.items()}
    folder.mkdir()
    kerashub.save_model(str(folder), CONFIG, HEADS[head], weights, tokenizer)
    return folder
