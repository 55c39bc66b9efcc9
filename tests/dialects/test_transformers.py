"""The dialect of transformers on real files of it, and what it writes: names, shapes, dtypes and bits."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from albert_tf.config import AlbertConfig
from albert_tf.dialects import transformers
from albert_tf.dialects.matching import match
from albert_tf.head_config import HEADS, HeadConfig
from albert_tf.weight_shapes import weight_shapes
from tests.dialects.transformers_files import E, H, random_arrays, torch_shapes, write_directory

GOLDEN = ("hf_classifier_3", "hf_multiple_choice", "hf_pretraining", "hf_question_answering")
CONFIG = AlbertConfig(
    vocab_size=31,
    embedding_size=6,
    hidden_size=8,
    num_hidden_layers=5,
    num_hidden_groups=2,
    inner_group_num=3,
    num_attention_heads=2,
    intermediate_size=12,
    max_position_embeddings=10,
    type_vocab_size=4,
)


class OnceEach(Mapping[str, np.ndarray]):
    """Random weights of a model, each to be taken once."""

    def __init__(self, config: AlbertConfig, head: HeadConfig, dtype: Any = np.float32) -> None:
        generator = np.random.default_rng(5)
        self.arrays = {
            name: generator.normal(size=shape).astype(dtype) for name, shape in weight_shapes(config, head).items()
        }
        self.taken: list[str] = []

    def __getitem__(self, name: str) -> np.ndarray:
        self.taken.append(name)
        return self.arrays[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.arrays)

    def __len__(self) -> int:
        return len(self.arrays)


def assert_same_tensors(first: pathlib.Path, second: pathlib.Path) -> None:
    one, two = load_file(first), load_file(second)
    assert one.keys() == two.keys()
    for name, value in one.items():
        assert (value.dtype, value.shape) == (two[name].dtype, two[name].shape), name
        assert value.tobytes() == two[name].tobytes(), name


def convert(source: pathlib.Path, target: pathlib.Path, head: str | None = None) -> None:
    """transformers -> our weights in memory -> transformers."""
    target.mkdir()
    with (model := transformers.open_model(str(source), head=head)).weights:
        weights = match(model)
        transformers.save_model(str(target), model.config, model.head, weights, model.tokenizer)


@pytest.mark.parametrize("name", GOLDEN)
def test_real_files_come_back_bit_for_bit(name: str, reference_data: pathlib.Path, tmp_path: pathlib.Path) -> None:
    source = reference_data / "golden" / name
    assert transformers.recognises(str(source))
    convert(source, tmp_path / "back")
    assert_same_tensors(source / "model.safetensors", tmp_path / "back" / "model.safetensors")
    theirs = json.loads((source / "config.json").read_text())
    ours = json.loads((tmp_path / "back" / "config.json").read_text())
    # What no tokenizer said here, who wrote it, and a dropout that question answering has not.
    left_out = {"bos_token_id", "eos_token_id", "pad_token_id", "transformers_version"}
    left_out |= {"classifier_dropout_prob"} if name == "hf_question_answering" else set()
    assert {key: value for key, value in theirs.items() if key not in left_out} == ours


@pytest.mark.parametrize(
    ("name", "head"),
    [
        ("hf_classifier_3", HeadConfig(head="classifier", num_labels=3)),
        ("hf_multiple_choice", HeadConfig(head="multiple_choice")),
        ("hf_pretraining", HeadConfig(head="pretraining")),
        ("hf_question_answering", HeadConfig(head="span", pooler=False)),
    ],
)
def test_real_files_are_understood(name: str, head: HeadConfig, reference_data: pathlib.Path) -> None:
    folder = reference_data / "golden" / name
    with (model := transformers.open_model(str(folder))).weights:
        assert model.head == head
        assert model.config == AlbertConfig(
            vocab_size=211,
            embedding_size=16,
            hidden_size=48,
            num_hidden_layers=3,
            num_attention_heads=4,
            intermediate_size=96,
            max_position_embeddings=40,
        )
        without = "No vocabulary lies beside the weights: the model comes without a tokenizer."
        assert (model.notes, model.tokenizer) == ((without,), None)
        weights, theirs = match(model), load_file(folder / "model.safetensors")
        block = "albert.encoder.albert_layer_groups.0.albert_layers.0"
        ours = {
            "encoder/embeddings/word_embeddings": theirs["albert.embeddings.word_embeddings.weight"],
            "encoder/embedding_projection/kernel": theirs["albert.encoder.embedding_hidden_mapping_in.weight"].T,
            "encoder/group_0/inner_0/attention/output/kernel": theirs[f"{block}.attention.dense.weight"].T,
            "encoder/group_0/inner_0/attention/layer_norm/gamma": theirs[f"{block}.attention.LayerNorm.weight"],
            "encoder/group_0/inner_0/feed_forward/layer_norm/beta": theirs[f"{block}.full_layer_layer_norm.bias"],
            "encoder/group_0/inner_0/feed_forward/output/kernel": theirs[f"{block}.ffn_output.weight"].T,
        }
        for key, value in ours.items():
            np.testing.assert_array_equal(weights[key], value)


# A member for each class, whether the file holds the pooler or not.
FILES = {
    "AlbertModel": ((), "encoder"),
    "AlbertForPreTraining": (("predictions", "sop"), "pretraining"),
    "AlbertForMaskedLM": (("predictions",), "masked_lm"),
    "AlbertForSequenceClassification": (("classifier:5",), "classifier"),
    "AlbertForMultipleChoice": (("classifier:1",), "multiple_choice"),
    "AlbertForTokenClassification": (("classifier:5",), "token_classifier"),
    "AlbertForQuestionAnswering": (("qa",), "span"),
}
POOLED = ("AlbertForPreTraining", "AlbertForSequenceClassification", "AlbertForMultipleChoice")


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16], ids=["float32", "float16", "bfloat16"])
@pytest.mark.parametrize(("name", "pooler"), [(n, p) for n in FILES for p in (True, False) if p or n not in POOLED])
def test_every_class_comes_back_bit_for_bit(name: str, pooler: bool, dtype: Any, tmp_path: pathlib.Path) -> None:
    parts, head = FILES[name]
    prefix = "" if name == "AlbertModel" else "albert."
    labels = {str(n): f"LABEL_{n}" for n in range(5)} if "classifier:5" in parts else ...
    arrays = random_arrays(torch_shapes(*parts, pooler=pooler, prefix=prefix), dtype=dtype)
    write_directory(tmp_path / "theirs", arrays, architectures=[name], id2label=labels)
    with (model := transformers.open_model(str(tmp_path / "theirs"))).weights:
        assert (model.head.head, model.head.pooler) == (head, pooler)
    convert(tmp_path / "theirs", tmp_path / "back")
    assert_same_tensors(tmp_path / "theirs" / "model.safetensors", tmp_path / "back" / "model.safetensors")
    written = json.loads((tmp_path / "back" / "config.json").read_text())
    assert (written["architectures"], written["dtype"]) == ([name], np.dtype(dtype).name)


@pytest.mark.parametrize("head", [head for head in HEADS if head != "conditional_span"])
def test_what_is_written_is_read_again(head: Any, tmp_path: pathlib.Path) -> None:
    labels = ("O", "B-PER", "I-PER") if head in ("classifier", "token_classifier") else None
    dropout = 0.0 if head == "span" else 0.25  # their question answering head has none
    head_config = HeadConfig(head=head, dropout_prob=dropout, labels=labels)
    weights = OnceEach(CONFIG, head_config)
    transformers.save_model(str(tmp_path), CONFIG, head_config, weights, None)
    assert sorted(weights.taken) == sorted(weights.arrays)
    with (model := transformers.open_model(str(tmp_path))).weights:
        assert (model.config, model.head) == (CONFIG, head_config)
        found = match(model)
        for name, value in weights.arrays.items():
            assert found[name].tobytes() == value.tobytes(), name
        assert model.table == transformers.table(CONFIG, head_config)


@pytest.mark.parametrize(
    ("head", "kind"),
    [
        (HeadConfig(head="regression"), "regression"),
        (HeadConfig(head="classifier", num_labels=1), "multi_label_classification"),
        (HeadConfig(head="classifier", num_labels=2), None),
    ],
)
def test_one_output_keeps_its_meaning(head: HeadConfig, kind: str | None, tmp_path: pathlib.Path) -> None:
    transformers.save_model(str(tmp_path), CONFIG, head, OnceEach(CONFIG, head), None)
    assert json.loads((tmp_path / "config.json").read_text()).get("problem_type") == kind
    with (model := transformers.open_model(str(tmp_path))).weights:
        assert model.head == head


def test_a_model_without_projection_gets_an_identity(tmp_path: pathlib.Path) -> None:
    config = CONFIG.replace(embedding_size=8)
    assert not config.embedding_projection
    head = HeadConfig(head="encoder")
    transformers.save_model(str(tmp_path), config, head, OnceEach(config, head, np.float16), None)
    written = load_file(tmp_path / "model.safetensors")
    kernel, bias = (written[f"encoder.embedding_hidden_mapping_in.{leaf}"] for leaf in ("weight", "bias"))
    np.testing.assert_array_equal(kernel, np.eye(8, dtype=np.float16), strict=True)
    np.testing.assert_array_equal(bias, np.zeros(8, np.float16), strict=True)
    with (model := transformers.open_model(str(tmp_path))).weights:
        assert model.config == config.replace(embedding_projection=True)
        match(model)


def test_mixed_dtypes_stay_and_the_widest_is_named(tmp_path: pathlib.Path) -> None:
    head = HeadConfig(head="span", pooler=False)
    weights = OnceEach(CONFIG, head, np.float16)
    weights.arrays["span/bias"] = weights.arrays["span/bias"].astype(np.float32)
    transformers.save_model(str(tmp_path), CONFIG, head, weights, None)
    written = load_file(tmp_path / "model.safetensors")
    assert {name for name, value in written.items() if value.dtype == np.float32} == {"qa_outputs.bias"}
    assert json.loads((tmp_path / "config.json").read_text())["dtype"] == "float32"


@pytest.mark.parametrize(
    ("config", "head", "message"),
    [
        (CONFIG.replace(parameter_sharing="ffn"), "encoder", "no ALBERT with parameter_sharing 'ffn'"),
        (CONFIG.replace(embedding_factorization="words"), "encoder", "no ALBERT with embedding_factorization 'words'"),
        (CONFIG, "conditional_span", "no ALBERT with the head 'conditional_span'"),
        (
            CONFIG.replace(num_hidden_layers=18, num_hidden_groups=14),
            "encoder",
            "num_hidden_groups 14 of num_hidden_layers 18: layer 9",
        ),
    ],
)
def test_what_cannot_be_written_is_refused(
    config: AlbertConfig, head: Any, message: str, tmp_path: pathlib.Path
) -> None:
    head_config = HeadConfig(head=head)
    weights = OnceEach(config, head_config)
    for write in (
        lambda: transformers.save_model(str(tmp_path), config, head_config, weights, None),
        lambda: transformers.table(config, head_config),
    ):
        with pytest.raises(ValueError, match=message) as caught:
            write()
        assert "\n" not in str(caught.value)
    assert (weights.taken, list(tmp_path.iterdir())) == ([], [])


def test_shards_are_read(tmp_path: pathlib.Path) -> None:
    arrays = random_arrays(torch_shapes("qa", pooler=False))
    write_directory(tmp_path, arrays, architectures=["AlbertForQuestionAnswering"])
    (tmp_path / "model.safetensors").rename(tmp_path / "whole")
    names = sorted(arrays)
    shards = {"model-00001-of-00002.safetensors": names[:9], "model-00002-of-00002.safetensors": names[9:]}
    for shard, part in shards.items():
        save_file({name: arrays[name] for name in part}, tmp_path / shard)
    index = {"metadata": {"total_size": 1}, "weight_map": {name: s for s, part in shards.items() for name in part}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    for path in (tmp_path, tmp_path / "model.safetensors.index.json"):
        assert transformers.recognises(str(path))
        with (model := transformers.open_model(str(path))).weights:
            kernel = match(model)["encoder/embedding_projection/kernel"]
        assert kernel.shape == (E, H)
        np.testing.assert_array_equal(kernel, arrays["albert.encoder.embedding_hidden_mapping_in.weight"].T)
