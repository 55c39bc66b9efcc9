"""The original's checkpoints: each head and grouping in and out with equal bits; what cannot be is refused."""

from __future__ import annotations

import pathlib
import shutil
from typing import Any

import numpy as np
import pytest

from albert_tf.dialects import albert_zh, original
from albert_tf.head_config import HeadConfig
from albert_tf.tokenizer import AlbertTokenizer, TokenizerConfig
from albert_tf.weight_files.checkpoint import Checkpoint
from tests.dialects.checks import assert_holds, left_over
from tests.dialects.tf1_names import original_tensors, random_weights, write_original
from tests.modeling.small_models import make_config

GOLDEN = ("shared_lamb", "two_groups", "classifier_3", "race", "squad_v2", "squad_v2_train")
HEADS = (
    HeadConfig(),
    HeadConfig(head="masked_lm"),
    HeadConfig(head="encoder"),
    HeadConfig(head="classifier", labels=("no", "maybe", "yes")),
    HeadConfig(head="regression"),
    HeadConfig(head="multiple_choice", dropout_prob=0.25),
    HeadConfig(head="token_classifier", num_labels=7),
    HeadConfig(head="span"),
    HeadConfig(head="conditional_span", start_n_top=3, end_n_top=2),
)
CONFIGS: dict[str, dict[str, Any]] = {
    "plain": {},
    "groups": {"num_hidden_groups": 3},
    "inner": {"num_hidden_groups": 2, "inner_group_num": 3},
    "square": {"embedding_size": 24, "hidden_act": "relu"},
}


@pytest.mark.parametrize("name", GOLDEN)
def test_golden_checkpoints_are_whole(name: str, reference_data: pathlib.Path, tmp_path: pathlib.Path) -> None:
    path = str(reference_data / "golden" / f"tf1_{name}" / "model.ckpt-0")
    assert original.recognises(path)
    assert not albert_zh.recognises(path)
    model = original.open_model(path)
    weights = {entry.ours: entry.transform.to_ours(model.weights.read(entry.theirs)) for entry in model.table}
    assert_holds(model, weights)
    original.save_model(str(tmp_path), model.config, model.head, weights, None)
    with Checkpoint(str(tmp_path)) as written:
        theirs = {entry.theirs for entry in model.table}
        assert dict(written.tensors) == {n: model.weights.tensors[n] for n in model.weights.tensors if n in theirs}
        for tensor in theirs:
            assert written.read(tensor).tobytes() == model.weights.read(tensor).tobytes()


def test_golden_heads_are_found(reference_data: pathlib.Path) -> None:
    heads = [original.open_model(str(reference_data / "golden" / f"tf1_{name}")).head for name in GOLDEN]
    assert [head.head for head in heads] == [
        "pretraining",
        "pretraining",
        "classifier",
        "multiple_choice",
        "conditional_span",
        "conditional_span",
    ]
    assert heads[2].num_labels == 3


@pytest.mark.parametrize("head", HEADS, ids=lambda head: head.head)
def test_each_head_goes_out_and_comes_back(head: HeadConfig, tmp_path: pathlib.Path) -> None:
    config = make_config()
    weights = random_weights(config, head)
    original.save_model(str(tmp_path), config, head, weights, None)
    expected = original_tensors(config, head, weights)
    with Checkpoint(str(tmp_path / "model.ckpt-0")) as file:
        assert {name: info.shape for name, info in file.tensors.items()} == {n: v.shape for n, v in expected.items()}
        for name, value in expected.items():
            np.testing.assert_array_equal(file.read(name), value, err_msg=name)
    back = original.open_model(str(tmp_path))
    assert (back.config, back.head, back.tokenizer) == (config, head, None)
    assert_holds(back, weights)


@pytest.mark.parametrize("name", CONFIGS)
def test_each_grouping_goes_in_and_out(name: str, tmp_path: pathlib.Path) -> None:
    config, head = make_config(**CONFIGS[name]), HeadConfig()
    weights = random_weights(config, head)
    write_original(tmp_path, original_tensors(config, head, weights), config)
    model = original.open_model(str(tmp_path))
    assert model.config == config
    assert_holds(model, weights)
    (tmp_path / "out").mkdir()
    original.save_model(str(tmp_path / "out"), config, head, weights, None)
    with Checkpoint(str(tmp_path)) as source, Checkpoint(str(tmp_path / "out")) as written:
        assert source.tensors == written.tensors
    assert original.open_model(str(tmp_path / "out")).config == config


def test_dtypes_are_kept(tmp_path: pathlib.Path) -> None:
    config, head = make_config(), HeadConfig(head="classifier", num_labels=5)
    weights = {name: value.astype(np.float16) for name, value in random_weights(config, head).items()}
    original.save_model(str(tmp_path), config, head, weights, None)
    model = original.open_model(str(tmp_path))
    assert {info.dtype for info in model.weights.tensors.values()} == {"float16"}
    assert_holds(model, weights)


def test_what_is_no_weight_has_a_reason(tmp_path: pathlib.Path) -> None:
    config, head = make_config(num_hidden_groups=2), HeadConfig(head="classifier", num_labels=3)
    pretraining = random_weights(config, HeadConfig(), seed=31)
    tensors = original_tensors(config, HeadConfig(), pretraining)
    tensors |= original_tensors(config, head, random_weights(config, head))
    tensors |= {f"{name}/{slot}": value for name, value in list(tensors.items()) for slot in ("adam_m", "adam_v")}
    tensors |= {
        "global_step": np.array(9, np.int64),
        "bert/pooler/dense/kernel_1": tensors["bert/pooler/dense/kernel"],
        "bert/pooler/dense/kernel/AdamWeightDecayOptimizer_1": tensors["bert/pooler/dense/kernel"],
        "bert/encoder/extra": np.zeros(3, np.float32),
    }
    write_original(tmp_path, tensors, config)
    model = original.open_model(str(tmp_path))
    assert model.head.head == "classifier"
    assert left_over(model) == ["bert/encoder/extra"]
    reasons = dict(model.ignored)
    assert reasons["cls/predictions/output_bias"] == "of a head that is left out"
    assert reasons["bert/pooler/dense/kernel_1"] == "a second copy beside bert/pooler/dense/kernel"


def test_the_user_names_the_head_where_tensors_cannot_tell(tmp_path: pathlib.Path) -> None:
    config = make_config()
    weights = random_weights(config, HeadConfig(head="regression"))
    write_original(tmp_path, original_tensors(config, HeadConfig(head="regression"), weights), config)
    model = original.open_model(str(tmp_path))
    assert model.head.head == "multiple_choice"
    assert any("name the head regression" in note for note in model.notes)
    model = original.open_model(str(tmp_path), head="regression")
    assert model.head == HeadConfig(head="regression")
    assert_holds(model, weights)
    assert original.open_model(str(tmp_path), head="classifier").head.num_labels == 1
    assert left_over(original.open_model(str(tmp_path), head="encoder")) == []
    with pytest.raises(
        ValueError, match=r"model.ckpt-best: has no tensors of the head 'span'; its heads can be: multip"
    ):
        original.open_model(str(tmp_path), head="span")
    with pytest.raises(ValueError, match=r"head must be one of pretraining, .*, got 'ner'"):
        original.open_model(str(tmp_path), head="ner")


def test_two_fine_tuned_heads_need_a_word(tmp_path: pathlib.Path) -> None:
    config = make_config()
    tensors: dict[str, np.ndarray] = {}
    for head in (HeadConfig(head="span"), HeadConfig(head="classifier", num_labels=3)):
        tensors |= original_tensors(config, head, random_weights(config, head))
    write_original(tmp_path, tensors, config)
    with pytest.raises(ValueError, match=r"has 2 heads \(output_weights, cls/squad/output_weights\): name one of"):
        original.open_model(str(tmp_path))
    assert left_over(original.open_model(str(tmp_path), head="span")) == []


def test_a_model_fine_tuned_out_of_a_hub_module(tmp_path: pathlib.Path) -> None:
    # google-research/albert: fine_tuning_utils.py puts the module's variables into the scope "module"
    config, head = make_config(), HeadConfig(head="classifier", num_labels=3)
    weights = random_weights(config, head)
    tensors = {
        f"module/{n}": v
        for n, v in original_tensors(config, HeadConfig(), random_weights(config, HeadConfig())).items()
    }
    for name, value in original_tensors(config, head, weights).items():
        tensors[name if name.startswith("output_") else f"module/{name}"] = value
    write_original(tmp_path, tensors, config)
    assert original.recognises(str(tmp_path))
    assert_holds(original.open_model(str(tmp_path)), weights)


def test_a_checkpoint_without_a_pooler(tmp_path: pathlib.Path) -> None:
    config, head = make_config(), HeadConfig(head="span", pooler=False)
    weights = random_weights(config, head)
    tensors = original_tensors(config, head, {**weights, **random_weights(config, HeadConfig(head="span"))} | weights)
    tensors = {name: value for name, value in tensors.items() if "pooler" not in name}
    write_original(tmp_path, tensors, config)
    model = original.open_model(str(tmp_path))
    assert model.head == head
    assert_holds(model, weights)


def test_the_vocabulary_comes_along(reference_data: pathlib.Path, tmp_path: pathlib.Path) -> None:
    vocabulary = (reference_data / "data" / "albert_en_30k.model").read_bytes()
    config, head = make_config(vocab_size=30000), HeadConfig(head="encoder")
    weights = random_weights(config, head)
    write_original(tmp_path, original_tensors(config, head, weights), config)
    (tmp_path / "30k-clean.model").write_bytes(vocabulary)
    (tmp_path / "30k-clean.vocab").write_text("not looked at")
    model = original.open_model(str(tmp_path))
    assert isinstance(model.tokenizer, AlbertTokenizer)
    assert (model.tokenizer.vocabulary, model.tokenizer.config) == (vocabulary, TokenizerConfig())
    assert any("letters are lowered" in note for note in model.notes)

    cased = AlbertTokenizer(vocabulary, config=TokenizerConfig(lower_case=False))
    (tmp_path / "out").mkdir()
    original.save_model(str(tmp_path / "out"), config, head, weights, cased)
    back = original.open_model(str(tmp_path / "out")).tokenizer
    assert back is not None
    assert back.digest == cased.digest

    (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": false, "model_max_length": 512}')
    model = original.open_model(str(tmp_path))
    assert model.tokenizer is not None
    assert model.tokenizer.config == TokenizerConfig(lower_case=False)

    shutil.copy(tmp_path / "30k-clean.model", tmp_path / "spiece.model")
    with pytest.raises(ValueError, match=r"holds several vocabularies \(spiece.model, 30k-clean.model\)"):
        original.open_model(str(tmp_path))
