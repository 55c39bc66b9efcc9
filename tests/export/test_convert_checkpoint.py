"""The doors of conversion and comparison: what they print, exit codes, and mistakes of one line that leave nothing."""

from __future__ import annotations

import json
import os
import pathlib
import pickle
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from albert_tf.conversion import convert
from albert_tf.head_config import HeadConfig
from albert_tf.weight_files.safetensors_file import write_safetensors
from tests.conftest import ROOT
from tests.test_conversion import write


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A model directory of a classifier, and what transformers has of it, in ours/ and theirs/."""
    folder = tmp_path_factory.mktemp("conversion")
    write(folder / "ours", HeadConfig(head="classifier", num_labels=5))
    convert(folder / "ours", folder / "theirs", format="transformers")
    return folder


def door(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", f"export.{name}", *arguments]
    environment = {**os.environ, "COLUMNS": "100"}
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment, timeout=300)


def test_in_and_out_and_beside_each_other(directory: pathlib.Path, tmp_path: pathlib.Path) -> None:
    done = door("convert_checkpoint", f"--from={directory}/theirs", f"--to={tmp_path}/ours")
    assert (done.returncode, done.stderr) == (0, "")
    assert "classifier/kernel                                          classifier.weight " in done.stdout
    assert "27 used, 0 missing, 0 left over, 0 ignored" in done.stdout
    assert f"transformers -> albert_tf: {tmp_path}/ours\n" in done.stdout

    done = door("verify", f"--a={directory}/theirs", f"--b={tmp_path}/ours")
    assert done.returncode == 0, done.stderr
    assert "the models agree (bound 1e-05)" in done.stdout
    assert "logits" in done.stdout
    assert "sequence_output" in done.stdout

    weights = load_file(tmp_path / "ours" / "model.safetensors")
    weights["encoder/pooler/bias"] = weights["encoder/pooler/bias"] + 0.01
    write_safetensors(tmp_path / "ours" / "model.safetensors", weights, {"format": "albert_tf"})
    done = door("verify", f"--a={directory}/theirs", f"--b={tmp_path}/ours")
    assert done.returncode == 1
    assert "THE MODELS DIFFER (bound 1e-05)" in done.stdout


def cut(folder: pathlib.Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1000])


def page(folder: pathlib.Path) -> None:
    (folder / "model.safetensors").write_text("<!DOCTYPE html>\n<html><body>404 Not Found</body></html>")


def pointer(folder: pathlib.Path) -> None:
    text = "version https://git-lfs.github.com/spec/v1\noid sha256:" + "0" * 64 + "\nsize 47372894\n"
    (folder / "model.safetensors").write_text(text)


def harmful(folder: pathlib.Path) -> None:
    """A pickle that would make a folder if it were run."""

    class Harm:
        def __reduce__(self) -> tuple:
            return os.mkdir, (str(folder / "harm"),)

    (folder / "model.safetensors").unlink()
    with zipfile.ZipFile(folder / "pytorch_model.bin", "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps({"albert.pooler.bias": Harm()}, protocol=2))
        archive.writestr("archive/version", "3\n")


def other_config(folder: pathlib.Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "hidden_size": 28}))


def no_json(folder: pathlib.Path) -> None:
    (folder / "config.json").write_text('{"model_type": "albert",\n "vocab_size": }')


def wrong_shape(folder: pathlib.Path) -> None:
    path = folder / "model.safetensors"
    weights = {**load_file(path), "classifier.weight": np.zeros((5, 23), np.float32)}
    save_file(weights, path, metadata={"format": "pt"})


def surplus(folder: pathlib.Path) -> None:
    path = folder / "model.safetensors"
    save_file({**load_file(path), "albert.extra.weight": np.zeros(3, np.float32)}, path, metadata={"format": "pt"})


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (cut, "cut short"),
        (page, "HTML"),
        (pointer, "git lfs pull"),
        (harmful, "holds code: "),
        (other_config, "config.json: hidden_size must be a multiple of num_attention_heads, got 28 and 3"),
        (no_json, "config.json:2:16: not valid JSON"),
        (wrong_shape, "classifier.weight has shape [5, 23], the configuration needs [5, 24]"),
        (surplus, "the model has no place for albert.extra.weight"),
    ],
)
def test_broken_sources(
    directory: pathlib.Path, tmp_path: pathlib.Path, spoil: Callable[[pathlib.Path], None], message: str
) -> None:
    shutil.copytree(directory / "theirs", tmp_path / "theirs")
    spoil(tmp_path / "theirs")
    done = door("convert_checkpoint", f"--from={tmp_path}/theirs", f"--to={tmp_path}/ours")
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith(f"export.convert_checkpoint: error: {tmp_path}/theirs/")
    assert message in done.stderr
    assert done.stdout == ""
    assert sorted(path.name for path in tmp_path.iterdir()) == ["theirs"]
    assert not (tmp_path / "theirs" / "harm").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--from={theirs}"], 2, "missing --to"),
        (["--from={theirs}", "--to={out}", "--format=onnx"], 2, "--format"),
        (["--from={theirs}", "--to={out}", "--head=chapter"], 2, "--head"),
        (["--from={ours}", "--to={out}"], 2, "is a model directory already; name what to write with --format: origin"),
        (["--from={ours}", "--to={out}", "--format=tf_hub"], 1, "is read only"),
        (["--from={ours}", "--to={ours}", "--format=original", "--overwrite"], 1, "must lie apart"),
        (["--from={theirs}", "--to={theirs}/ours"], 1, "must lie apart"),
        (["--from={theirs}", "--to={ours}"], 1, "has content already; name another folder, or pass --overwrite"),
        (["--from={theirs}/nowhere", "--to={out}"], 1, "no such checkpoint, file or folder"),
        (["--from={theirs}", "--to={out}", "--labels=a,b"], 1, "labels must be 5"),
    ],
)
def test_wrong_flags(
    directory: pathlib.Path, tmp_path: pathlib.Path, arguments: list[str], code: int, message: str
) -> None:
    places = {"theirs": directory / "theirs", "ours": directory / "ours", "out": tmp_path / "out"}
    done = door("convert_checkpoint", *(argument.format(**places) for argument in arguments))
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("format", ["original", "transformers", "kerashub"])
def test_a_full_disk_leaves_nothing(tmp_path: pathlib.Path, format: str) -> None:
    """Files of at most 64 KB stand for it; the weights take more."""
    source = write(tmp_path / "ours", HeadConfig(head="classifier", num_labels=5), vocab_size=3000)
    command = [sys.executable, "-m", "export.convert_checkpoint", f"--from={source}", f"--to={tmp_path}/there"]
    limited = ["bash", "-c", 'ulimit -f 64; exec "$@"', "bash", *command, f"--format={format}"]
    done = subprocess.run(limited, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.count("\n") == 1, done.stderr
    assert "there" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["ours"]


def test_a_source_in_another_spelling_is_not_replaced(tmp_path: pathlib.Path) -> None:
    source = write(tmp_path / "ours")
    done = door(
        "convert_checkpoint", f"--from={source}", f"--to=file://{source}", "--format=transformers", "--overwrite"
    )
    assert done.returncode == 1
    assert "must lie apart" in done.stderr
    assert (source / "albert_config.json").exists()


def test_a_pipe_in_place_of_a_file_is_not_waited_for(directory: pathlib.Path, tmp_path: pathlib.Path) -> None:
    shutil.copytree(directory / "theirs", tmp_path / "theirs")
    (tmp_path / "theirs" / "config.json").unlink()
    os.mkfifo(tmp_path / "theirs" / "config.json")
    done = door("convert_checkpoint", f"--from={tmp_path}/theirs", f"--to={tmp_path}/ours")
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
