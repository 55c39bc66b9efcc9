"""KerasHub presets: real ones, written by the installed KerasHub, are read; what we write, it loads.

KerasHub's own classes run in each comparison (keras_hub/src/models/albert, version 0.32).
"""

from __future__ import annotations

import json
import pathlib
from typing import Any

import h5py
import numpy as np
import pytest

from albert_tf.config import AlbertConfig
from albert_tf.dialects import kerashub
from albert_tf.head_config import HeadConfig
from albert_tf.weight_shapes import weight_shapes
from tests.dialects.kerashub_presets import (
    CONFIG,
    HEADS,
    INPUTS,
    TOLERANCE,
    assert_same_preset,
    inputs,
    load_theirs,
    make_ours,
    make_theirs,
    read,
    save_ours,
    saved,
)


@pytest.mark.representatives("masked_lm-*")
@pytest.mark.parametrize(
    ("head", "dtype"), [*((h, "float32") for h in HEADS), ("masked_lm", "bfloat16"), ("encoder", "float16")]
)
def test_round_trip_is_what_kerashub_writes(tmp_path: pathlib.Path, head: str, dtype: str) -> None:
    """Names, shapes, dtypes, bits and the JSON files, the source being gone before the second half."""
    theirs = saved(tmp_path / "theirs", head, dtype=dtype)
    found = read(theirs)
    assert (found.model.config, found.model.head) == (CONFIG, HEADS[head])
    assert {value.dtype.name for value in found.weights.values()} == {dtype}
    assert_same_preset(save_ours(tmp_path / "ours", found), theirs)


@pytest.mark.representatives("masked_lm")
@pytest.mark.parametrize("head", HEADS)
def test_outputs_agree(tmp_path: pathlib.Path, head: str) -> None:
    """KerasHub's outputs, of what it wrote and of what we wrote, and ours, on rows of different lengths."""
    theirs = saved(tmp_path / "theirs", head)
    found = read(theirs)
    loaded = load_theirs(save_ours(tmp_path / "ours", found), head)
    values = inputs()
    our_values = {INPUTS[name]: value for name, value in values.items()}
    if head == "masked_lm":
        # Its epsilon is 1e-5 there and 1e-12 here: seen, and then set aside.
        norm = loaded.masked_lm_head._intermediate_layer_norm
        assert norm.epsilon == 1e-5
        norm.epsilon = 1e-12
        positions = np.array([[0, 18, 7], [1, 3, 2], [10, 4, 4], [0, 0, 0]], np.int32)
        values["mask_positions"] = our_values["masked_lm_positions"] = positions
    ours = make_ours(found)(our_values)
    expected = loaded(values)
    if head == "encoder":
        is_real = values["padding_mask"][..., None] == 1
        for name in ("sequence_output", "pooled_output"):
            mask = is_real if name == "sequence_output" else True
            np.testing.assert_allclose(ours[name] * mask, expected[name] * mask, rtol=0, atol=TOLERANCE)
            assert np.abs(expected[name]).max() > 0.5
    else:
        logits = ours["masked_lm_logits" if head == "masked_lm" else "logits"]
        np.testing.assert_allclose(logits, expected, rtol=0, atol=TOLERANCE)
        assert np.std(expected) > 0.1


@pytest.mark.peers
def test_fine_tuned_preset_and_shards(tmp_path: pathlib.Path) -> None:
    """An optimizer's slots are no weights; a backbone in shards is the same backbone."""
    theirs = make_theirs("classifier")
    theirs.fit(inputs(), np.array([0, 4, 2, 1]), shuffle=False, verbose=0)
    theirs.save_to_preset(str(tmp_path / "whole"))
    (tmp_path / "shards").mkdir()
    for name in ("config.json", "task.json", "task.weights.h5"):
        (tmp_path / "shards" / name).write_bytes((tmp_path / "whole" / name).read_bytes())
    theirs.backbone.save_weights(tmp_path / "shards" / "model.weights.json", max_shard_size=1e-5)
    assert len(list((tmp_path / "shards").glob("model_*.weights.h5"))) > 2
    whole, shards = (read(tmp_path / name) for name in ("whole", "shards"))
    reasons = [row.note for row in whole.rows if row.status == "ignored"]
    assert len(reasons) > 100
    assert set(reasons) == {"state of an optimizer"}
    for name, shape in weight_shapes(CONFIG, HEADS["classifier"]).items():
        assert whole.weights[name].shape == shape
        assert whole.weights[name].tobytes() == shards.weights[name].tobytes()


@pytest.mark.peers
def test_names_of_older_keras_are_read(tmp_path: pathlib.Path) -> None:
    theirs = saved(tmp_path / "theirs", "encoder")
    expected = {name: value.tobytes() for name, value in read(theirs).weights.items()}
    with h5py.File(theirs / "model.weights.h5", "a") as file:
        for layer in list(file["layers"]):
            attention = file["layers"][layer].get("_self_attention_layer")
            for name in ("query", "key", "value", "output") if attention is not None else ():
                attention.move(f"{name}_dense", f"_{name}_dense")
        file.move("layers", "_layer_checkpoint_dependencies")
    config = json.loads((theirs / "config.json").read_text())
    config["registered_name"] = "keras_nlp>AlbertBackbone"
    (theirs / "config.json").write_text(json.dumps(config))
    assert {name: value.tobytes() for name, value in read(theirs).weights.items()} == expected


def test_head_can_be_left_away_or_be_regression(tmp_path: pathlib.Path) -> None:
    one = saved(tmp_path / "one", "classifier", task={"num_classes": 1})
    assert read(one).model.head == HeadConfig(head="classifier", num_labels=1, dropout_prob=0.375)
    regression = read(one, head="regression")
    assert regression.model.head == HeadConfig(head="regression", dropout_prob=0.375)
    assert_same_preset(save_ours(tmp_path / "ours", regression), one)
    encoder = read(one / "task.weights.h5", head="encoder")
    assert encoder.model.head == HEADS["encoder"]
    assert not any(row.theirs.startswith("task/") for row in encoder.rows)
    with pytest.raises(ValueError, match=r"task\.json: the preset's head is 'classifier', not 'masked_lm'"):
        kerashub.open_model(str(one), head="masked_lm")
    (one / "task.json").unlink()
    with pytest.raises(
        ValueError, match=r"config\.json: the preset is a backbone without a head, of which 'masked_lm'"
    ):
        kerashub.open_model(str(one), head="masked_lm")


@pytest.mark.peers
def test_softmax_is_left_out_and_said(tmp_path: pathlib.Path) -> None:
    theirs = saved(tmp_path / "theirs", "classifier", task={"activation": "softmax"})
    found = read(theirs)
    assert any("ends with softmax, which is left out" in note for note in found.model.notes)
    values = inputs()
    probabilities = np.asarray(load_theirs(theirs, "classifier")(values))
    logits = np.asarray(make_ours(found)({INPUTS[name]: value for name, value in values.items()})["logits"])
    exponents = np.exp(logits - logits.max(-1, keepdims=True))
    np.testing.assert_allclose(exponents / exponents.sum(-1, keepdims=True), probabilities, rtol=0, atol=TOLERANCE)


def test_dtype_policy_of_the_preset(tmp_path: pathlib.Path) -> None:
    mixed = read(saved(tmp_path / "mixed", "encoder", dtype="mixed_bfloat16"))
    assert any("computes in mixed_bfloat16" in note for note in mixed.model.notes)
    assert {value.dtype.name for value in mixed.weights.values()} == {"float32"}


@pytest.mark.parametrize(
    ("file", "changes", "message"),
    [
        ("config.json", {"registered_name": "keras_hub>BertBackbone"}, "is a preset of BertBackbone; expected Albert"),
        (
            "config.json",
            {"registered_name": "Functional"},
            r"is no object of KerasHub \(registered_name 'Functional'\)",
        ),
        ("config.json", {"config": {"width": 3}}, "has an unknown key 'width'"),
        ("config.json", {"config": {"num_groups": None}}, "has no num_groups"),
        ("config.json", {"config": {"num_groups": 4}}, "must be a multiple of num_hidden_groups, got 6 and 4"),
        ("config.json", {"config": {"hidden_dim": "28"}}, "hidden_size must be a whole number of at least 1, got '28'"),
        ("config.json", {"config": {"dropout": 1.5}}, r"hidden_dropout_prob must be in \[0, 1\), got 1.5"),
        ("config.json", {"config": {"dtype": {"class_name": "QuantizedDTypePolicy"}}}, "is it quantised"),
        (
            "config.json",
            {"config": {"num_layers": 22, "num_groups": 22}},
            "layer 15 is in group 15 in KerasHub and in group 14 in the original",
        ),
        ("task.json", {"registered_name": "keras_hub>AlbertTagger"}, "is a task AlbertTagger; expected AlbertMaskedLM"),
        ("task.json", {"config": {"activation": "relu"}}, "activation must be linear, softmax, .* got 'relu'"),
        ("task.json", {"config": {"num_classes": 0}}, r"num_labels must be in \[1, "),
        ("task.json", None, "not valid JSON"),
    ],
)
def test_what_we_have_not_is_refused(
    tmp_path: pathlib.Path, preset: pathlib.Path, file: str, changes: dict[str, Any] | None, message: str
) -> None:
    for name in ("config.json", "task.json"):
        values = json.loads((preset / name).read_text())
        if name == file and changes is not None:
            values["config"].update(changes.get("config", {}))
            values["config"] = {key: value for key, value in values["config"].items() if value is not None}
            values.update({key: value for key, value in changes.items() if key != "config"})
        (tmp_path / name).write_text("{" if name == file and changes is None else json.dumps(values))
    with pytest.raises(ValueError, match=rf"{file}:.*{message}"):
        kerashub.open_model(str(tmp_path))


@pytest.fixture(scope="module")
def preset(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A classifier's preset."""
    return saved(tmp_path_factory.mktemp("preset") / "theirs", "classifier")


def test_missing_and_damaged_files(tmp_path: pathlib.Path, preset: pathlib.Path) -> None:
    for path in preset.iterdir():
        if path.is_file():
            (tmp_path / path.name).write_bytes(path.read_bytes())
    task = tmp_path / "task.weights.h5"
    task.write_bytes(task.read_bytes()[:-100])
    with pytest.raises(ValueError, match=r"task\.weights\.h5: not an HDF5 file, cut short or damaged"):
        kerashub.open_model(str(tmp_path))
    task.unlink()
    with pytest.raises(FileNotFoundError, match=r"task\.weights\.h5"):
        kerashub.open_model(str(tmp_path))
    (tmp_path / "model.weights.h5").unlink()
    with pytest.raises(FileNotFoundError, match=r"model\.weights\.h5"):
        kerashub.open_model(str(tmp_path))
    for target in ("../elsewhere.h5", 3):
        (tmp_path / "model.weights.json").write_text(json.dumps({"weight_map": {"/vars": ["m.h5", target]}}))
        with pytest.raises(
            ValueError, match=rf"model\.weights\.json: expected names of files beside it, got {target!r}"
        ):
            kerashub.open_model(str(tmp_path))


def test_recognises_presets_alone(tmp_path: pathlib.Path, preset: pathlib.Path) -> None:
    assert kerashub.recognises(str(preset))
    assert kerashub.recognises(str(preset / "model.weights.h5"))
    assert not kerashub.recognises(str(preset / "config.json"))
    assert not kerashub.recognises(str(tmp_path / "absent"))
    (tmp_path / "config.json").write_text('{"model_type": "albert"}')
    assert not kerashub.recognises(str(tmp_path))
    (tmp_path / "config.json").write_text("[]")
    assert not kerashub.recognises(str(tmp_path))


@pytest.mark.parametrize(
    ("config", "head", "message"),
    [
        (CONFIG, HeadConfig(), "KerasHub has no sentence-order head: --head=masked_lm leaves it out"),
        (CONFIG, HeadConfig(head="span"), "KerasHub's ALBERT has no head 'span': --head=encoder writes the encoder"),
        (CONFIG, HeadConfig(head="encoder", pooler=False), "always has a pooler, this model has none"),
        (
            CONFIG.replace(hidden_act="gelu_exact"),
            HEADS["encoder"],
            "has hidden_act 'gelu' only, this model has 'gelu_e",
        ),
        (CONFIG.replace(parameter_sharing="ffn"), HEADS["encoder"], "has parameter_sharing 'all' only"),
        (
            CONFIG.replace(embedding_factorization="words"),
            HEADS["encoder"],
            "has embedding_factorization 'all' only, this model has 'words'",
        ),
        (
            CONFIG.replace(embedding_size=28, embedding_projection=False),
            HEADS["encoder"],
            "has embedding_projection True only, this model has False",
        ),
        (CONFIG.replace(hidden_dropout_prob=0.0), HEADS["encoder"], "must be equal, got 0.0 and 0.25"),
        (CONFIG.replace(num_hidden_layers=7), HEADS["encoder"], "must be a multiple of num_hidden_groups, got 7 and 3"),
        (
            CONFIG.replace(num_hidden_layers=23, num_hidden_groups=23),
            HEADS["encoder"],
            "of 23 layers in 23 groups, lay",
        ),
    ],
)
def test_what_kerashub_has_not_is_refused_before_anything_is_written(
    tmp_path: pathlib.Path, config: AlbertConfig, head: HeadConfig, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        kerashub.save_model(str(tmp_path), config, head, {}, None)
    assert list(tmp_path.iterdir()) == []


def test_notes_on_what_is_lost() -> None:
    labelled = HeadConfig(head="classifier", labels=("no", "yes"))
    assert kerashub.written_notes(CONFIG, labelled, None) == (
        "KerasHub stores no names of classes; they are, from 0 on: no, yes",
    )
    (note,) = kerashub.written_notes(CONFIG, HEADS["masked_lm"], None)
    assert "epsilon 1e-5" in note
