"""`config.json` of transformers: what each key becomes, and what is refused."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest

from albert_tf.config import AlbertConfig
from albert_tf.dialects import transformers
from albert_tf.dialects.matching import match
from albert_tf.dialects.transformers.configuration import read_configuration
from albert_tf.dialects.transformers.names import check_groups
from albert_tf.head_config import HeadConfig
from tests.dialects.transformers_files import CONFIG, random_arrays, torch_shapes, write_config, write_directory


def read(**values: Any) -> AlbertConfig:
    return read_configuration(values, source="some/config.json").config


def test_defaults_are_those_of_the_library() -> None:
    # configuration_albert.py: the sizes of xxlarge
    configuration = read_configuration({"model_type": "albert"}, source="some/config.json")
    expected = AlbertConfig(hidden_size=4096, num_attention_heads=64, intermediate_size=16384)
    assert configuration.config == expected.replace(embedding_projection=True)
    assert "hidden_size 4096" in configuration.notes[0]
    assert read_configuration(CONFIG, source="some/config.json").notes == ()


def test_every_size_is_taken() -> None:
    values: dict[str, Any] = {
        "vocab_size": 97,
        "embedding_size": 12,
        "hidden_size": 20,
        "num_hidden_layers": 6,
        "num_hidden_groups": 3,
        "inner_group_num": 2,
        "num_attention_heads": 5,
        "intermediate_size": 28,
        "hidden_dropout_prob": 0.1,
        "attention_probs_dropout_prob": 0.2,
        "max_position_embeddings": 33,
        "type_vocab_size": 4,
        "initializer_range": 0.03,
    }
    assert read(**values) == AlbertConfig(**values, embedding_projection=True)
    assert read(**{**values, "embedding_size": 20}).embedding_projection


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("gelu", "gelu_exact"),
        ("gelu_python", "gelu_exact"),
        ("gelu_new", "gelu"),
        ("gelu_pytorch_tanh", "gelu"),
        ("gelu_fast", "gelu"),
        ("relu", "relu"),
        ("tanh", "tanh"),
        ("linear", "linear"),
    ],
)
def test_activations(theirs: str, ours: str) -> None:
    assert read(**{**CONFIG, "hidden_act": theirs}).hidden_act == ours


def test_keys_without_effect_pass() -> None:
    # As in published files: the original's keys, and what belongs to other parts of the library.
    inert = {"net_structure_type": 0, "gap_size": 0, "down_scale_factor": 1, "layers_to_keep": [], "output_past": True}
    more = {"pruned_heads": {}, "is_decoder": False, "position_embedding_type": "absolute", "torch_dtype": "float16"}
    assert read(**{**CONFIG, **inert, **more}) == read(**CONFIG)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_type": "bert"}, "model_type must be 'albert', got 'bert'"),
        ({"hidden_act": "silu"}, "hidden_act must be one of gelu, .*, got 'silu'"),
        ({"hidden_act": None}, "hidden_act must be one of .*, got None"),
        ({"layer_norm_eps": 1e-5}, "layer_norm_eps is supported at 1e-12 only, got 1e-05"),
        ({"position_embedding_type": "relative_key"}, "position_embedding_type is supported at 'absolute' only"),
        ({"pruned_heads": {"0": [1]}}, r"pruned_heads is supported at \{\} only, got \{'0': \[1\]\}"),
        ({"is_decoder": True}, "is_decoder is supported at False only"),
        ({"quantization_config": {"bits": 4}}, "quantization_config is supported at"),
        ({"hidden_size": 9}, "hidden_size must be a multiple of num_attention_heads, got 9 and 2"),
        ({"hidden_size": "8"}, "hidden_size must be a whole number of at least 1, got '8'"),
        ({"num_hidden_layers": 18, "num_hidden_groups": 14}, "num_hidden_groups 14 of num_hidden_layers 18"),
    ],
)
def test_what_is_another_model_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"^some/config.json: {message}") as caught:
        read(**{**CONFIG, **changes})
    assert "\n" not in str(caught.value)


def test_exactly_the_pairs_that_are_grouped_otherwise_are_refused() -> None:
    refused = set()
    for layers in range(1, 31):
        for groups in range(1, layers + 1):
            config = AlbertConfig(num_hidden_layers=layers, num_hidden_groups=groups)
            try:
                check_groups(config)
            except ValueError:
                refused.add((layers, groups))
            theirs = [int(i / (layers / groups)) for i in range(layers)]  # modeling_albert.py, AlbertTransformer
            ours = [int(i / layers * groups) for i in range(layers)]  # google-research/albert, modeling.py
            assert ((layers, groups) in refused) == (theirs != ours)
    assert (18, 14) in refused
    assert not {(12, 1), (12, 2), (12, 4), (12, 12), (24, 6)} & refused


def opened(folder: pathlib.Path, *parts: str, head: str | None = None, **changes: Any) -> tuple[HeadConfig, str]:
    """Head of the small model with these tensors and this configuration, matched; and the notes."""
    write_directory(folder, random_arrays(torch_shapes(*parts)), **changes)
    with (model := transformers.open_model(str(folder), head=head)).weights:
        match(model)
        return model.head, " ".join(model.notes)


SEQUENCE = ["AlbertForSequenceClassification"]


@pytest.mark.parametrize(
    ("parts", "changes", "expected"),
    [
        (["classifier:2"], {"architectures": SEQUENCE}, HeadConfig(head="classifier", num_labels=2)),
        (
            ["classifier:3"],
            {"architectures": ["TFAlbertForSequenceClassification"], "id2label": {"2": "c", "0": "a", "1": "b"}},
            HeadConfig(head="classifier", num_labels=3, labels=("a", "b", "c")),
        ),
        (["classifier:4"], {"architectures": SEQUENCE, "num_labels": 4}, HeadConfig(head="classifier", num_labels=4)),
        (["classifier:1"], {"architectures": SEQUENCE, "id2label": {"0": "LABEL_0"}}, HeadConfig(head="regression")),
        (
            ["classifier:1"],
            {
                "architectures": SEQUENCE,
                "id2label": {"0": "x"},
                "problem_type": "multi_label_classification",
                "classifier_dropout_prob": 0.3,
            },
            HeadConfig(head="classifier", labels=("x",), dropout_prob=0.3),
        ),
        (
            ["classifier:3"],
            {
                "architectures": ["AlbertForTokenClassification"],
                "id2label": {"0": "LABEL_0", "1": "LABEL_1", "2": "LABEL_2"},
                "classifier_dropout_prob": None,
                "hidden_dropout_prob": 0.2,
            },
            HeadConfig(head="token_classifier", num_labels=3, dropout_prob=0.2),
        ),
        (["classifier:1"], {"architectures": ["AlbertForMultipleChoice"]}, HeadConfig(head="multiple_choice")),
        (["qa"], {"architectures": ["AlbertForQuestionAnswering"]}, HeadConfig(head="span", dropout_prob=0.0)),
        # no class that is known: by the tensors
        (["predictions", "sop"], {}, HeadConfig(head="pretraining")),
        (["predictions"], {"architectures": ["AlbertForPoetry"]}, HeadConfig(head="masked_lm")),
        (["qa"], {"architectures": None}, HeadConfig(head="span")),
        ([], {}, HeadConfig(head="encoder")),
        # a class that is less than what is there
        (["predictions", "sop"], {"architectures": ["AlbertForMaskedLM"]}, HeadConfig(head="pretraining")),
        (["predictions"], {"architectures": ["AlbertModel"]}, HeadConfig(head="masked_lm")),
    ],
)
def test_heads(parts: list[str], changes: dict[str, Any], expected: HeadConfig, tmp_path: pathlib.Path) -> None:
    head, notes = opened(tmp_path, *parts, **changes)
    assert head == expected
    is_plain = (changes.get("architectures") or [""])[0].removeprefix("TF") in (
        *SEQUENCE,
        "AlbertForTokenClassification",
        "AlbertForMultipleChoice",
        "AlbertForQuestionAnswering",
    )
    assert ("config.json names" in notes) == (not is_plain)


@pytest.mark.parametrize(("head", "count"), [("encoder", 7), ("masked_lm", 2)])
def test_a_part_is_taken_out(head: Any, count: int, tmp_path: pathlib.Path) -> None:
    write_directory(tmp_path, random_arrays(torch_shapes("predictions", "sop")), architectures=["AlbertForPreTraining"])
    with (model := transformers.open_model(str(tmp_path), head=head)).weights:
        rows = match(model).rows
        assert model.head == HeadConfig(head=head)
    ignored = [row for row in rows if row.status == "ignored"]
    assert len(ignored) == count
    assert {row.note for row in ignored} == {f"of another head than {head!r}"}


@pytest.mark.parametrize(
    ("parts", "head", "changes", "message"),
    [
        (["classifier:1"], None, {}, "has a classifier, and no known class under architectures in .*config.json says"),
        (["qa"], "conditional_span", {}, "head must be one of .* in a transformers model, got 'conditional_span'"),
        (
            ["classifier:2"],
            None,
            {"architectures": SEQUENCE, "id2label": {"1": "a", "2": "b"}},
            "id2label must give each",
        ),
        (["classifier:2"], None, {"architectures": SEQUENCE, "id2label": "ab"}, "id2label must give each number"),
        (["classifier:2"], None, {"architectures": SEQUENCE, "num_labels": 0}, r"num_labels must be in \[1,"),
        (["classifier:2"], None, {"architectures": SEQUENCE, "classifier_dropout_prob": 1}, r"dropout_prob must be in"),
        # the library would draw these at random
        ([], None, {"architectures": SEQUENCE}, "the file lacks classifier.weight, classifier.bias"),
        (["classifier:3"], None, {"architectures": SEQUENCE}, r"classifier.weight has shape \[3, 8\], .* \[2, 8\]"),
        (["sop:3", "predictions"], None, {}, r"sop_classifier.classifier.weight has shape \[3, 8\]"),
        (["qa:3"], None, {}, r"qa_outputs.weight has shape \[3, 8\]"),
    ],
)
def test_heads_that_are_refused(
    parts: list[str], head: str | None, changes: dict[str, Any], message: str, tmp_path: pathlib.Path
) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        opened(tmp_path, *parts, head=head, **changes)
    assert str(caught.value).startswith(str(tmp_path))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"id2label": {"0": "same", "1": "same"}}, "id2label gives one label to several numbers"),
        ({"problem_type": "multi_label_classification"}, "problem_type is 'multi_label_classification'"),
    ],
)
def test_what_is_not_carried_over_is_said(changes: dict[str, Any], words: str, tmp_path: pathlib.Path) -> None:
    head, notes = opened(tmp_path, "classifier:2", architectures=SEQUENCE, **changes)
    assert head == HeadConfig(head="classifier", num_labels=2)
    assert words in notes


# --- Finding the files ---


def test_what_is_recognised(tmp_path: pathlib.Path) -> None:
    write_directory(tmp_path / "model", random_arrays(torch_shapes("qa")))
    assert transformers.recognises(str(tmp_path / "model"))
    assert transformers.recognises(str(tmp_path / "model" / "model.safetensors"))
    for name in ("config.json", "nothing.bin"):
        assert not transformers.recognises(str(tmp_path / "model" / name))
    assert not transformers.recognises(str(tmp_path / "nowhere"))
    assert not transformers.recognises(str(tmp_path))
    (tmp_path / "ours").mkdir()
    for name in ("albert_config.json", "model.safetensors"):
        (tmp_path / "ours" / name).write_text("{}")
    assert not transformers.recognises(str(tmp_path / "ours"))
    assert not transformers.recognises(str(tmp_path / "ours" / "model.safetensors"))
    (tmp_path / "hub").mkdir()  # a KerasHub preset
    (tmp_path / "hub" / "config.json").write_text(json.dumps({"module": "keras_hub.src.models", "config": {}}))
    assert not transformers.recognises(str(tmp_path / "hub"))


def test_missing_and_damaged_files_are_named(tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "model"
    write_config(folder)
    assert transformers.recognises(str(folder))
    with pytest.raises(FileNotFoundError, match=r"has no weights, model.safetensors, .* or tf_model.h5 is expected"):
        transformers.open_model(str(folder))
    (folder / "flax_model.msgpack").write_bytes(b"x")
    with pytest.raises(FileNotFoundError, match=r"; flax_model\.msgpack cannot be read"):
        transformers.open_model(str(folder))
    write_directory(folder, random_arrays(torch_shapes("qa")))
    (folder / "config.json").write_text("<!DOCTYPE html><html>not found</html>")
    assert transformers.recognises(str(folder))
    with pytest.raises(ValueError, match=r"config.json:1:1: not valid JSON"):
        transformers.open_model(str(folder))
    (folder / "config.json").unlink()
    assert transformers.recognises(str(folder))
    with pytest.raises(FileNotFoundError, match=r"no such file or folder: '.*nowhere"):
        transformers.open_model(str(tmp_path / "nowhere"))
    for path in (folder, folder / "model.safetensors"):
        with pytest.raises(FileNotFoundError, match=r"says the model's shape and belongs beside .*config.json"):
            transformers.open_model(str(path))


def test_what_else_lay_there_is_said(tmp_path: pathlib.Path) -> None:
    write_directory(tmp_path, random_arrays(torch_shapes("qa")))
    for name in ("pytorch_model.bin", "tf_model.h5"):
        (tmp_path / name).write_bytes(b"not looked at")
    with (model := transformers.open_model(str(tmp_path))).weights:
        assert "model.safetensors was read; pytorch_model.bin, tf_model.h5 beside it not." in model.notes
