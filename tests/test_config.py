"""AlbertConfig: checks, named sizes, JSON."""

from __future__ import annotations

import dataclasses
import json
import math
from fractions import Fraction

import pytest

from albert_tf.config import AlbertConfig


def test_json_round_trip():
    config = AlbertConfig(vocab_size=31, hidden_size=24, num_attention_heads=3, parameter_sharing="ffn")
    assert AlbertConfig.from_json(config.to_json()) == config


def test_projection_follows_the_sizes():
    assert AlbertConfig(embedding_size=16, hidden_size=24, num_attention_heads=3).embedding_projection is True
    square = AlbertConfig(embedding_size=24, hidden_size=24, num_attention_heads=3)
    assert square.embedding_projection is False
    assert square.replace(embedding_size=16).embedding_projection is True


def test_original_file_with_inert_keys_is_read():
    inert = {
        "net_structure_type": 0,
        "gap_size": 0,
        "num_memory_blocks": 0,
        "layers_to_keep": [],
        "down_scale_factor": 1,
    }
    assert AlbertConfig.from_dict({"vocab_size": 31, **inert}) == AlbertConfig(vocab_size=31)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"vocab_sise": 3}, "unknown key 'vocab_sise'"),
        ({"gap_size": 2}, "gap_size is supported at 0 only, got 2"),
        ({"hidden_size": 770}, "hidden_size must be a multiple of num_attention_heads, got 770 and 12"),
        ({"num_hidden_layers": 0}, "num_hidden_layers must be a whole number of at least 1, got 0"),
        ({"num_hidden_layers": True}, "num_hidden_layers must be a whole number"),
        ({"num_hidden_layers": 12.0}, "num_hidden_layers must be a whole number"),
        ({"num_hidden_groups": 13}, "num_hidden_groups must be at most num_hidden_layers, got 13 and 12"),
        ({"hidden_act": "swish"}, "hidden_act must be one of gelu"),
        ({"hidden_dropout_prob": 1.0}, r"hidden_dropout_prob must be in \[0, 1\), got 1.0"),
        ({"hidden_dropout_prob": math.nan}, r"hidden_dropout_prob must be in \[0, 1\), got nan"),
        ({"initializer_range": 0}, "initializer_range must be a positive number"),
        ({"initializer_range": "0.02"}, "initializer_range must be a number, got '0.02'"),
        ({"parameter_sharing": "some"}, "parameter_sharing must be one of all, attention, ffn, none"),
        ({"embedding_projection": False}, "may be false only where embedding_size equals hidden_size, got 128 and 768"),
        ({"hidden_dropout_prob": 10**400}, "hidden_dropout_prob must be a number, got 1000"),
        ({"embedding_projection": 1}, "embedding_projection must be true, false or null"),
    ],
)
def test_bad_values_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        AlbertConfig.from_dict(changes)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"vocab_size": 3,}', r"a\.json:1:\d+: not valid JSON"),
        ("[]", r"a\.json: must hold a JSON object, got list"),
        ('{"depth": 3}', r"a\.json: unknown key 'depth'"),
    ],
)
def test_bad_files_are_named(text, message):
    with pytest.raises(ValueError, match=message):
        AlbertConfig.from_json(text, source="a.json")


@pytest.mark.parametrize(
    ("name", "width", "depth", "heads", "feed_forward"),
    [
        ("base", 768, 12, 12, 3072),
        ("large", 1024, 24, 16, 4096),
        ("xlarge", 2048, 24, 16, 8192),
        ("xxlarge", 4096, 12, 64, 16384),
    ],
)
def test_named_sizes(name, width, depth, heads, feed_forward):
    config = AlbertConfig.named(name)
    got = (config.hidden_size, config.num_hidden_layers, config.num_attention_heads, config.intermediate_size)
    assert got == (width, depth, heads, feed_forward)
    assert config.hidden_dropout_prob == 0.0
    assert AlbertConfig.named(f"albert_{name}_v1").hidden_dropout_prob == (0.0 if name == "xxlarge" else 0.1)


# The files that lie in the released archives, as pretrained configurations of other libraries repeat them:
# PaddlePaddle/PaddleNLP, paddlenlp/transformers/albert/modeling.py; v2 of base also ngoanpv/albert_vi, README.md; tiny
# also 34127chi/albert_zh_sr, albert_config_tiny_g.json (with fewer layers).
PUBLISHED = {
    "base_v1": (768, 12, 12, 3072, 0.1, 30000),
    "base_v2": (768, 12, 12, 3072, 0.0, 30000),
    "large_v1": (1024, 24, 16, 4096, 0.1, 30000),
    "large_v2": (1024, 24, 16, 4096, 0.0, 30000),
    "xlarge_v1": (2048, 24, 16, 8192, 0.1, 30000),
    "xlarge_v2": (2048, 24, 16, 8192, 0.0, 30000),
    "xxlarge_v1": (4096, 12, 64, 16384, 0.0, 30000),
    "xxlarge_v2": (4096, 12, 64, 16384, 0.0, 30000),
    "tiny_zh": (312, 4, 12, 1248, 0.0, 21128),
    "small_zh": (384, 6, 12, 1536, 0.0, 21128),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_files(name):
    width, depth, heads, feed_forward, dropout, vocabulary = PUBLISHED[name]
    expected = AlbertConfig.from_dict(
        {
            "attention_probs_dropout_prob": dropout,
            "hidden_act": "gelu",
            "hidden_dropout_prob": dropout,
            "embedding_size": 128,
            "hidden_size": width,
            "initializer_range": 0.02,
            "intermediate_size": feed_forward,
            "max_position_embeddings": 512,
            "num_attention_heads": heads,
            "num_hidden_layers": depth,
            "num_hidden_groups": 1,
            "net_structure_type": 0,
            "gap_size": 0,
            "num_memory_blocks": 0,
            "inner_group_num": 1,
            "down_scale_factor": 1,
            "type_vocab_size": 2,
            "vocab_size": vocabulary,
        }
    )
    assert AlbertConfig.named(name) == AlbertConfig.named(f"albert_{name}") == expected


@pytest.mark.parametrize("name", ["huge", "tiny", "tiny_zh_v2", "base_zh", "base_v3", ""])
def test_unknown_name_is_refused(name):
    with pytest.raises(ValueError, match=rf"unknown configuration '{name}': .*, plain .* one of tiny_zh, small_zh"):
        AlbertConfig.named(name)


def test_words_alone():
    config = AlbertConfig(embedding_factorization="words")
    assert config.embedding_projection is False
    assert AlbertConfig.from_json(config.to_json()) == config
    assert config.replace(embedding_factorization="all").embedding_projection is True
    with pytest.raises(ValueError, match='embedding_projection must be false where embedding_factorization is "words"'):
        AlbertConfig(embedding_factorization="words", embedding_projection=True)
    with pytest.raises(ValueError, match="embedding_factorization must be one of all, words, got 'positions'"):
        AlbertConfig.from_dict({"embedding_factorization": "positions"})


def test_named_takes_changes():
    assert AlbertConfig.named("base", vocab_size=8000).vocab_size == 8000


def test_groups_follow_the_original_in_floating_point():
    config = AlbertConfig(num_hidden_layers=18, num_hidden_groups=14)
    groups = [config.group_of_layer(layer) for layer in range(18)]
    exact = [math.floor(Fraction(layer, 18) * 14) for layer in range(18)]
    # 9 / 18 * 14 is exact; the two rules part only where rounding falls below a whole number
    assert groups == [int(layer / 18 * 14) for layer in range(18)]
    assert groups[9] == exact[9] == 7
    assert [AlbertConfig(num_hidden_layers=4, num_hidden_groups=3).group_of_layer(i) for i in range(4)] == [0, 0, 1, 2]
    with pytest.raises(ValueError, match=r"layer must be in \[0, 18\), got 18"):
        config.group_of_layer(18)


def test_config_is_frozen_and_plain_json():
    config = AlbertConfig()
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.hidden_size = 3  # type: ignore[misc]
    assert json.loads(config.to_json())["embedding_projection"] is True
