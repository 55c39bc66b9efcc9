"""Mistakes at the exporters' doors: one line, the right exit code, and nothing left behind."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest

from tests.conftest import ROOT


@pytest.mark.parametrize(
    ("door", "arguments", "code", "message"),
    [
        (
            "saved_model",
            ["--model=nowhere", "--output_dir={out}/a"],
            1,
            "nowhere: no such folder; a model directory is wanted",
        ),
        ("saved_model", ["--model={model}", "--output_dir={out}"], 1, "has content already"),
        ("saved_model", ["--model={model}", "--output_dir={out}/a", "--max_seq_length=71"], 1, "in [5, 70]"),
        ("saved_model", ["--model={model}", "--output_dir={out}/a", "--max_seq_length=4"], 2, "max_seq_length"),
        ("saved_model", ["--model={model}"], 2, "missing --output_dir"),
        ("saved_model", ["--model={model}", "--output={out}/a"], 2, "did you mean --output_dir?"),
        ("saved_model", ["--model={model}", "--output_dir={model}", "--overwrite"], 1, "must lie apart from the model"),
        ("saved_model", ["--model={model}", "--output_dir={model}/a/b"], 1, "must lie apart from the model directory"),
        (
            "saved_model",
            ["--model={model}", "--output_dir={model}/..", "--overwrite"],
            1,
            "must lie apart from the model",
        ),
        ("tflite", ["--model={model}", "--output={model}/a.tflite"], 1, "must lie apart from the model directory"),
        ("tflite", ["--model={model}", "--output=/dev/null", "--overwrite"], 2, "must end in .tflite, got '/dev/null'"),
        (
            "tflite",
            ["--model={model}", "--output={out}/folder.tflite", "--overwrite"],
            1,
            "is a folder, a file was expected",
        ),
        ("tflite", ["--model={model}", "--output={out}/a.TFLITE"], 2, "--output must end in .tflite, got "),
        (
            "tflite",
            ["--model={data}", "--output={out}/b.tflite"],
            1,
            "is a data directory; a model directory is wanted",
        ),
        ("saved_model", ["--model={data}", "--output_dir={out}/b"], 1, "is a data directory; a model directory is"),
        (
            "tflite",
            ["--model=nowhere", "--output={out}/a.tflite"],
            1,
            "nowhere: no such folder; a model directory is wanted",
        ),
        (
            "tflite",
            ["--model={model}", "--output={out}/notes.tflite"],
            1,
            "exists; name another file or pass --overwrite",
        ),
        ("tflite", ["--model={model}", "--output={out}/a.tflite", "--quantization=int4"], 2, "quantization"),
        ("tflite", ["--output={out}/a.tflite"], 2, "missing --model"),
        (
            "tflite",
            ["--model={model}", "--output={out}/a.tflite", "--quantization=full_int8"],
            2,
            "full_int8 and representative_data go together",
        ),
        (
            "tflite",
            ["--model={model}", "--output={out}/a.tflite", "--representative_data={data}"],
            2,
            "full_int8 and representative_data go together",
        ),
        (
            "tflite",
            ["--model={model}", "--output={out}/a.tflite", "--tokenizer=inside", "--head=pretraining"],
            1,
            "masked_lm outputs are for positions of masks, which texts have not",
        ),
    ],
)
def test_mistakes_get_one_line(
    directory: pathlib.Path, tmp_path: pathlib.Path, door: str, arguments: list[str], code: int, message: str
) -> None:
    (tmp_path / "notes.tflite").write_text("mine")
    (tmp_path / "folder.tflite").mkdir()
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "dataset.json").write_text("{}")
    before = sorted(tmp_path.rglob("*"))
    given = [one.format(model=directory, out=tmp_path, data=tmp_path / "data") for one in arguments]
    command = [sys.executable, "-m", f"export.{door}", *given]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == code, done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith(f"export.{door}: error: ")
    assert message in done.stderr
    assert done.stdout == ""
    assert sorted(tmp_path.rglob("*")) == before
