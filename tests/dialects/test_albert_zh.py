"""albert_zh's own layout comes in with equal bits; the other architecture under the same names is refused."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import numpy as np
import pytest

from albert_tf.dialects import albert_zh, original
from albert_tf.head_config import HeadConfig
from albert_tf.weight_files.checkpoint import write_checkpoint
from albert_tf.wordpiece import WordPieceTokenizer
from tests.dialects.checks import assert_holds, left_over
from tests.dialects.tf1_names import random_weights, zh_tensors
from tests.modeling.small_models import make_config

CONFIG = make_config(
    embedding_factorization="words", hidden_dropout_prob=0.2, attention_probs_dropout_prob=0.3, type_vocab_size=3
)
# brightmart/albert_zh: albert_config/albert_config_base.json has these keys beside the sizes.
INERT = {
    "directionality": "bidi",
    "pooler_fc_size": 768,
    "pooler_num_attention_heads": 12,
    "pooler_num_fc_layers": 3,
    "pooler_size_per_head": 128,
    "pooler_type": "first_token_transform",
}
SIZES = {
    "vocab_size": 97,
    "embedding_size": 8,
    "hidden_size": 24,
    "num_hidden_layers": 4,
    "num_attention_heads": 3,
    "intermediate_size": 40,
    "max_position_embeddings": 17,
    "type_vocab_size": 3,
    "hidden_act": "gelu",
    "initializer_range": 0.3,
    "hidden_dropout_prob": 0.2,
    "attention_probs_dropout_prob": 0.3,
}


def write(folder: pathlib.Path, tensors: dict[str, np.ndarray], **changes: Any) -> str:
    """Folder as of a published archive; a key that is changed to None is left out of the configuration."""
    write_checkpoint(str(folder / "albert_model.ckpt"), tensors)
    values = {key: value for key, value in {**SIZES, **INERT, **changes}.items() if value is not None}
    (folder / "albert_config_tiny.json").write_text(json.dumps(values))
    return str(folder)


@pytest.mark.parametrize(
    "head",
    [HeadConfig(), HeadConfig(head="classifier", num_labels=5), HeadConfig(head="encoder")],
    ids=lambda head: head.head,
)
def test_each_head_comes_in(head: HeadConfig, tmp_path: pathlib.Path) -> None:
    weights = random_weights(CONFIG, head)
    path = write(tmp_path, zh_tensors(head, weights), ln_type="postln")
    assert albert_zh.recognises(path)
    assert not original.recognises(path)
    model = albert_zh.open_model(path)
    assert (model.config, model.head) == (CONFIG, head)
    assert_holds(model, weights)


def test_vocabulary_and_slots(tmp_path: pathlib.Path) -> None:
    head = HeadConfig()
    tensors = zh_tensors(head, random_weights(CONFIG, head))
    # its optimization.py is BERT's, with a LAMB beside it whose slots are lamb_m and lamb_v
    tensors |= {f"{name}/lamb_m": value for name, value in list(tensors.items())}
    tensors["global_step"] = np.array(125000, np.int64)
    path = write(tmp_path, tensors)
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"字{i}" for i in range(92))]
    (tmp_path / "vocab.txt").write_text("\n".join(pieces), encoding="utf-8")
    model = albert_zh.open_model(path)
    assert left_over(model) == []
    assert isinstance(model.tokenizer, WordPieceTokenizer)
    assert model.tokenizer.config.lower_case


def test_what_its_first_configurations_leave_out(tmp_path: pathlib.Path) -> None:
    head = HeadConfig(head="encoder")
    tensors = zh_tensors(head, random_weights(CONFIG, head))
    left_out = ("embedding_size", "type_vocab_size", "hidden_dropout_prob", "attention_probs_dropout_prob")
    model = albert_zh.open_model(write(tmp_path, tensors, **dict.fromkeys(left_out)))
    assert model.config == CONFIG.replace(hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.1)


def test_a_model_that_normalises_before_its_sublayers_is_refused(tmp_path: pathlib.Path) -> None:
    head = HeadConfig(head="encoder")
    tensors = zh_tensors(head, random_weights(CONFIG, head))
    with pytest.raises(ValueError, match=r"albert_config_tiny.json: ln_type is 'preln': .*another architecture"):
        albert_zh.open_model(write(tmp_path, tensors, ln_type="preln"))
    xlarge = {"hidden_size": 2048, "num_hidden_layers": 24, "num_attention_heads": 32}
    with pytest.raises(ValueError, match=r'size of albert_xlarge_zh, which .*add "ln_type": "postln" there'):
        albert_zh.open_model(write(tmp_path, tensors, **xlarge))
    assert albert_zh.open_model(write(tmp_path, tensors, **xlarge, ln_type="postln")).config.hidden_size == 2048


def test_other_layouts_are_refused(reference_data: pathlib.Path) -> None:
    with pytest.raises(
        ValueError, match=r"has not the tensors bert/encoder/layer_shared/.*albert_\*_google have the or"
    ):
        albert_zh.open_model(str(reference_data / "golden" / "tf1_shared_lamb"))


def test_an_albert_zh_checkpoint_is_not_the_originals(tmp_path: pathlib.Path) -> None:
    head = HeadConfig(head="encoder")
    path = write(tmp_path, zh_tensors(head, random_weights(CONFIG, head)))
    with pytest.raises(ValueError, match="has the names of albert_zh"):
        original.open_model(path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"embedding_factorization": "all"}, "this one has 'all' and 'all'"),
        ({"parameter_sharing": "ffn"}, "this one has 'words' and 'ffn'"),
        ({"num_hidden_groups": 2}, "this model has num_hidden_groups 2"),
    ],
)
def test_models_that_it_has_not(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        albert_zh.table(make_config(**{"embedding_factorization": "words", **changes}), HeadConfig())
