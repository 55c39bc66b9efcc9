"""The original's checkpoints: what does not fit, or cannot be said, is refused in one line."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
import pytest

from albert_tf.dialects import original
from albert_tf.head_config import HeadConfig
from albert_tf.wordpiece import WordPieceTokenizer
from tests.dialects.tf1_names import original_tensors, random_weights, write_original
from tests.modeling.small_models import make_config


def test_a_vocabulary_of_another_model_is_refused(tmp_path: pathlib.Path) -> None:
    config, head = make_config(), HeadConfig(head="encoder")
    weights = random_weights(config, head)
    write_original(tmp_path, original_tensors(config, head, weights), config)
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "的"]
    (tmp_path / "vocab_chinese.txt").write_text("\n".join(pieces), encoding="utf-8")
    with pytest.raises(ValueError, match=r"vocab_chinese.txt: has 6 pieces, the weights are for 97: another model's"):
        original.open_model(str(tmp_path))
    pieces += [f"字{i}" for i in range(91)]
    (tmp_path / "vocab_chinese.txt").write_text("\n".join(pieces), encoding="utf-8")
    assert isinstance(original.open_model(str(tmp_path)).tokenizer, WordPieceTokenizer)
    with pytest.raises(ValueError, match="the tokenizer has 97 pieces, the model is for 96"):
        original.save_model(
            str(tmp_path), config.replace(vocab_size=96), head, weights, original.open_model(str(tmp_path)).tokenizer
        )


def test_configurations_that_do_not_do(tmp_path: pathlib.Path) -> None:
    config, head = make_config(), HeadConfig(head="encoder")
    tensors = original_tensors(config, head, random_weights(config, head))
    path = write_original(tmp_path, tensors, config) / "albert_config.json"
    for changes, message in (
        ({"hidden_size": None, "vocab_size": None}, "has no vocab_size, hidden_size; is it the configuration of"),
        ({"net_structure_type": 1}, "net_structure_type is supported at 0 only"),
        ({"directionality": "left"}, "directionality is supported at 'bidi' only"),
        ({"hidden_act": "swish"}, "hidden_act must be one of gelu"),
        ({"some_key": 1}, "unknown key 'some_key'"),
        ({"ln_type": "preln"}, "ln_type is supported at 'postln' only"),
    ):
        write_original(tmp_path, tensors, config, **changes)
        with pytest.raises(ValueError, match=f"albert_config.json: {message}"):
            original.open_model(str(tmp_path))
    path.write_text("<html>")
    with pytest.raises(ValueError, match=r"albert_config.json:1:1: not valid JSON"):
        original.open_model(str(tmp_path))
    path.unlink()
    with pytest.raises(
        FileNotFoundError, match=f"No albert_config.json there, which .*model.ckpt-best needs.*{tmp_path}"
    ):
        original.open_model(str(tmp_path))
    (tmp_path / "config_a.json").write_text("{}")
    (tmp_path / "config_b.json").write_text("{}")
    with pytest.raises(ValueError, match=r"has several configurations \(config_a.json, config_b.json\)"):
        original.open_model(str(tmp_path))


def test_what_the_original_takes_for_linear(tmp_path: pathlib.Path) -> None:
    config, head = make_config(hidden_act="linear"), HeadConfig(head="encoder")
    tensors = original_tensors(config, head, random_weights(config, head))
    for act in ("", "Linear"):
        write_original(tmp_path, tensors, config, hidden_act=act, pooler_fc_size=768)
        assert original.open_model(str(tmp_path)).config == config


@pytest.mark.parametrize(
    ("changes", "head", "message"),
    [
        ({"parameter_sharing": "attention"}, {}, "this model has parameter_sharing 'attention'"),
        ({"embedding_factorization": "words"}, {}, "this model has embedding_factorization 'words'"),
        (
            {"embedding_size": 24, "embedding_projection": True},
            {},
            "no embedding_projection where embedding_size equals",
        ),
        ({"hidden_act": "gelu_exact"}, {}, 'hidden_act "gelu_exact" is unknown to the original'),
        ({}, {"head": "span", "pooler": False}, "bert/pooler/dense/kernel and bert/pooler/dense/bias would be missing"),
    ],
)
def test_what_the_original_cannot_say_is_refused_and_nothing_is_written(
    changes: dict[str, Any], head: dict[str, Any], message: str, tmp_path: pathlib.Path
) -> None:
    with pytest.raises(ValueError, match=message):
        original.save_model(str(tmp_path), make_config(**changes), HeadConfig(**head), {}, None)
    assert list(tmp_path.iterdir()) == []


def test_checkpoints_that_are_not_the_originals(tmp_path: pathlib.Path) -> None:
    config, head = make_config(), HeadConfig(head="encoder")
    tensors = original_tensors(config, head, random_weights(config, head))
    # As reported of a port to TensorFlow 2: google-research/albert, issue 241.
    port = {
        n.replace("LayerNorm_1", "layer_normalization_2").replace("LayerNorm", "layer_normalization"): v
        for n, v in tensors.items()
    }
    write_original(tmp_path, port, config)
    assert original.recognises(str(tmp_path))
    with pytest.raises(ValueError, match=r"its LayerNorms are Keras layers .*, one set for each layer"):
        original.open_model(str(tmp_path))
    write_original(tmp_path, {"dense/kernel": np.zeros((2, 3), np.float32)}, config)
    assert not original.recognises(str(tmp_path))
    with pytest.raises(
        ValueError, match=r"has no tensor bert/encoder/transformer/group_0/.*; its first is dense/kernel"
    ):
        original.open_model(str(tmp_path))
    assert not original.recognises(str(tmp_path / "nothing"))


def test_our_word_on_the_head_must_fit(tmp_path: pathlib.Path) -> None:
    config, head = make_config(), HeadConfig(head="classifier", num_labels=3)
    write_original(tmp_path, original_tensors(config, head, random_weights(config, head)), config)
    (tmp_path / "head_config.json").write_text(HeadConfig(head="classifier", num_labels=4).to_json())
    with pytest.raises(ValueError, match=r"has 3 labels, but head_config.json beside it says 4"):
        original.open_model(str(tmp_path))
    (tmp_path / "head_config.json").write_text('{"head": "classifier"}')
    with pytest.raises(ValueError, match=r"head_config.json: num_labels must be a whole number"):
        original.open_model(str(tmp_path))


def test_a_damaged_checkpoint_is_recognised_so_that_opening_it_says_what_is_wrong(tmp_path: pathlib.Path) -> None:
    config, head = make_config(), HeadConfig(head="encoder")
    write_original(tmp_path, original_tensors(config, head, random_weights(config, head)), config)
    prefix, index = str(tmp_path / "model.ckpt-best"), tmp_path / "model.ckpt-best.index"
    content = index.read_bytes()
    for damaged, message in (
        (b"<html>", "is a web page"),
        (content[:-1], "is no index of a TensorFlow checkpoint, or"),
    ):
        index.write_bytes(damaged)
        for path in (prefix, str(tmp_path), str(index)):
            assert original.recognises(path)
            with pytest.raises(ValueError, match=rf"model\.ckpt-best\.index: {message}"):
                original.open_model(path)
    index.unlink()
    for path in (prefix, str(tmp_path), f"{prefix}.data-00000-of-00001"):
        assert original.recognises(path)
        with pytest.raises(FileNotFoundError, match="No checkpoint there"):
            original.open_model(path)
    for name in ("model.ckpt-1.index", "model.ckpt-2.index"):
        (tmp_path / name).write_bytes(content)
    assert original.recognises(str(tmp_path))
    with pytest.raises(ValueError, match=r"holds 2 checkpoints \(model.ckpt-1, model.ckpt-2\)"):
        original.open_model(str(tmp_path))
