"""Weights brought in and taken out again: equal bits, names, shapes and dtypes, and a report of every tensor."""

from __future__ import annotations

import json
import pathlib
import re
import shutil

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import albert_tf
from albert_tf import conversion
from albert_tf.conversion import convert
from albert_tf.head_config import HeadConfig
from albert_tf.model_directory import read_config, read_head_config, write_model_directory
from albert_tf.weight_files.checkpoint import Checkpoint
from albert_tf.weight_files.safetensors_file import SafetensorsFile, write_safetensors
from albert_tf.weight_files.weight_file import WeightFile
from albert_tf.weight_shapes import weight_shapes
from tests.modeling.small_models import make_config

TF1 = ["tf1_shared_lamb", "tf1_two_groups", "tf1_classifier_3", "tf1_race", "tf1_squad_v2"]
HF = ["hf_pretraining", "hf_classifier_3", "hf_multiple_choice", "hf_question_answering"]


def write(folder: pathlib.Path, head: HeadConfig | None = None, dtype: type = np.float32, **changes) -> pathlib.Path:
    """A model directory with random weights and no tokenizer."""
    config, head = make_config(**changes), head or HeadConfig()
    generator, weights = np.random.default_rng(7), dict[str, np.ndarray]()
    for name, shape in weight_shapes(config, head).items():
        weights[name] = generator.standard_normal(shape).astype(dtype)
    folder.mkdir()
    write_model_directory(folder, config, head, weights, None)
    return folder


def tensors(file: WeightFile) -> dict[str, tuple[tuple[int, ...], str, bytes]]:
    """Shape, dtype and bits of every tensor that is no optimizer's slot."""
    with file:
        return {
            name: (info.shape, info.dtype, file.read(name).tobytes())
            for name, info in file.tensors.items()
            if not re.search(r"/adam_[mv]$|^global_step$", name)
        }


def file_of(folder: pathlib.Path) -> WeightFile:
    if (folder / "model.safetensors").exists():
        return SafetensorsFile(str(folder / "model.safetensors"))
    return Checkpoint(str(folder / "model.ckpt-0"))


@pytest.mark.parametrize("name", [*TF1, *HF])
def test_there_and_back_changes_no_bit(reference_data: pathlib.Path, tmp_path: pathlib.Path, name: str) -> None:
    there = tmp_path / "there"
    shutil.copytree(reference_data / "golden" / name, there)
    expected = tensors(file_of(there))
    convert(there / "model.ckpt-0" if name in TF1 else there, tmp_path / "ours")
    shutil.rmtree(there)
    report = convert(tmp_path / "ours", tmp_path / "back", format="original" if name in TF1 else "transformers")
    shutil.rmtree(tmp_path / "ours")
    assert tensors(file_of(tmp_path / "back")) == expected
    assert {row.theirs for row in report.rows} == set(expected)
    assert report.counts() == {"used": len(expected), "missing": 0, "left over": 0, "ignored": 0}


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_narrow_weights_stay_narrow(reference_data: pathlib.Path, tmp_path: pathlib.Path, dtype: type) -> None:
    there = tmp_path / "there"
    shutil.copytree(reference_data / "golden" / "hf_pretraining", there)
    narrow = {name: value.astype(dtype) for name, value in load_file(there / "model.safetensors").items()}
    save_file(narrow, there / "model.safetensors", metadata={"format": "pt"})
    expected = tensors(file_of(there))
    convert(there, tmp_path / "ours")
    convert(tmp_path / "ours", tmp_path / "back", format="transformers")
    assert tensors(file_of(tmp_path / "back")) == expected
    model = albert_tf.load_model(tmp_path / "ours")
    np.testing.assert_array_equal(
        model.named_weights()["encoder/pooler/bias"].numpy(), narrow["albert.pooler.bias"].astype(np.float32)
    )


def test_the_report_is_kept(tmp_path: pathlib.Path) -> None:
    source = write(tmp_path / "ours", num_hidden_groups=2)
    report = convert(source, tmp_path / "there", format="transformers")
    kept = json.loads((tmp_path / "there" / conversion.REPORT_FILE).read_text())
    assert kept["counts"] == {"used": 48, "missing": 0, "left over": 0, "ignored": 0}
    assert (kept["source_format"], kept["target_format"]) == ("albert_tf", "transformers")
    assert kept["config"]["num_hidden_groups"] == 2
    row = next(row for row in kept["rows"] if row["ours"] == "encoder/embedding_projection/kernel")
    assert row == {
        "status": "used",
        "ours": "encoder/embedding_projection/kernel",
        "theirs": "albert.encoder.embedding_hidden_mapping_in.weight",
        "our_shape": [8, 24],
        "their_shape": [24, 8],
        "dtype": "float32",
        "note": "transposed",
    }
    assert len(report.rows) == 48


@pytest.mark.parametrize(("head", "count"), [("masked_lm", 30), ("encoder", 25)])
def test_a_part_of_a_model_can_be_taken_out(tmp_path: pathlib.Path, head: str, count: int) -> None:
    source = write(tmp_path / "ours")
    report = convert(source, tmp_path / "there", format="transformers", head=head)
    assert report.counts() == {"used": count, "missing": 0, "left over": 0, "ignored": 32 - count}
    convert(tmp_path / "there", tmp_path / "back")
    assert read_head_config(tmp_path / "back").head == head
    ours, back = (tensors(file_of(path)) for path in (source, tmp_path / "back"))
    assert back.items() <= ours.items()


def test_a_new_head_must_be_asked_for(tmp_path: pathlib.Path) -> None:
    source = write(tmp_path / "ours")
    settings = {"labels": ["no", "yes", "perhaps"]}
    with pytest.raises(ValueError, match="the file lacks classifier/kernel, classifier/bias; if that is meant, let"):
        convert(source, tmp_path / "there", format="transformers", head="classifier", head_settings=settings)
    assert not (tmp_path / "there").exists()
    with pytest.raises(ValueError, match="num_labels must be a whole number for the head 'classifier', got None"):
        albert_tf.load_model(source, head="classifier", allow_missing=["classifier/*"])

    convert(source, tmp_path / "foreign", format="transformers")
    for path in (source, tmp_path / "foreign"):  # from a model directory and from foreign files alike
        made = albert_tf.load_model(path, head="classifier", head_settings=settings, allow_missing=["classifier/*"])
        assert (made.head_config.labels, made.output["logits"].shape) == (("no", "yes", "perhaps"), (None, 3))
        weights = {name: value.numpy() for name, value in made.named_weights().items()}
        np.testing.assert_array_equal(weights["classifier/bias"], np.zeros(3, np.float32))
        assert weights["classifier/kernel"].std() > 0.1
        old = load_file(source / "model.safetensors")
        assert all(np.array_equal(value, old[name]) for name, value in weights.items() if name in old)
        assert len(weights) == 25 + 2


def test_a_format_that_it_is_not(tmp_path: pathlib.Path) -> None:
    source = write(tmp_path / "ours")
    convert(source, tmp_path / "original", format="original")
    with pytest.raises(
        ValueError, match=r"is written in the format 'original', not 'transformers'\. From one project's"
    ):
        convert(tmp_path / "original" / "model.ckpt-0", tmp_path / "theirs", format="transformers")


def test_settings_of_a_head_that_files_do_not_hold(tmp_path: pathlib.Path) -> None:
    write(tmp_path / "ours", HeadConfig(head="classifier", num_labels=3))
    convert(tmp_path / "ours", tmp_path / "there", format="original")
    (tmp_path / "there" / "head_config.json").unlink(missing_ok=True)
    convert(tmp_path / "there", tmp_path / "back", head_settings={"labels": ["no", "yes", "perhaps"]})
    assert read_head_config(tmp_path / "back").labels == ("no", "yes", "perhaps")
    with pytest.raises(ValueError, match="labels must be 3, as many as num_labels, got 2"):
        convert(tmp_path / "there", tmp_path / "again", head_settings={"labels": ["no", "yes"]})


def test_missing_weights_start_as_in_a_new_model(tmp_path: pathlib.Path) -> None:
    source = write(tmp_path / "ours")
    convert(source, tmp_path / "there", format="transformers")
    file = tmp_path / "there" / "model.safetensors"
    rest = {name: value for name, value in load_file(file).items() if not name.startswith("sop_classifier")}
    save_file(rest, file, metadata={"format": "pt"})
    with pytest.raises(
        ValueError, match=r"the file lacks sop_classifier\.classifier\.weight, sop_classifier\.classifie"
    ):
        convert(tmp_path / "there", tmp_path / "back", head="pretraining")
    report = convert(tmp_path / "there", tmp_path / "back", head="pretraining", allow_missing=["sentence_order/*"])
    assert report.counts()["missing"] == 2
    model = albert_tf.load_model(tmp_path / "back")
    np.testing.assert_array_equal(model.named_weights()["sentence_order/bias"].numpy(), np.zeros(2, np.float32))
    assert model.named_weights()["sentence_order/kernel"].numpy().std() > 0.1
    assert read_config(tmp_path / "back") == read_config(source)


def test_a_model_directory_needs_a_format_to_go_out(tmp_path: pathlib.Path) -> None:
    source = write(tmp_path / "ours")
    with pytest.raises(ValueError, match="is a model directory already; --format says what to write: original, trans"):
        convert(source, tmp_path / "there")
    with pytest.raises(ValueError, match="'tf_hub' is read only; a model directory can be written as original, "):
        convert(source, tmp_path / "there", format="tf_hub")


def test_a_folder_of_several_formats_is_what_its_weights_are(tmp_path: pathlib.Path) -> None:
    source = write(tmp_path / "ours")
    convert(source, tmp_path / "mixed", format="transformers")
    assert not conversion.is_model_directory(tmp_path / "mixed")
    shutil.copy(source / "albert_config.json", tmp_path / "mixed")
    assert not conversion.is_model_directory(tmp_path / "mixed")
    report = convert(tmp_path / "mixed", tmp_path / "back")
    assert report.source_format == "transformers"
    shutil.copy(source / "model.safetensors", tmp_path / "mixed")
    assert conversion.is_model_directory(tmp_path / "mixed")


def test_weights_of_several_narrow_dtypes_are_said_to_be_float32(tmp_path: pathlib.Path) -> None:
    source = write(tmp_path / "ours", dtype=np.float16)
    weights = load_file(source / "model.safetensors")
    weights["encoder/pooler/bias"] = np.full(24, 1e30, ml_dtypes.bfloat16)  # more than float16 holds
    write_safetensors(source / "model.safetensors", weights)
    convert(source, tmp_path / "there", format="transformers")
    assert json.loads((tmp_path / "there" / "config.json").read_text())["dtype"] == "float32"
    assert albert_tf.load_model(tmp_path / "there").named_weights()["encoder/pooler/bias"].numpy().min() > 9e29


def test_nothing_and_nothing_known(tmp_path: pathlib.Path) -> None:
    with pytest.raises(FileNotFoundError, match="no such checkpoint, file or folder"):
        convert(tmp_path / "nowhere", tmp_path / "new" / "ours")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "notes.txt").write_text("nothing")
    with pytest.raises(ValueError, match=r"folder: no weights of a known format there \(it holds notes\.txt\)\. Known"):
        convert(tmp_path / "folder", tmp_path / "ours")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder"]
