"""Fine-tuning starts from other projects' checkpoints as it does from the model directory with their weights."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest

from albert_tf import conversion
from tests.end_to_end.rows_of_a_task import write_rows
from tests.training import task_rows

pytestmark = pytest.mark.xdist_group("finetune")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Holds a task, a new model and the same one in two other formats."""
    path = tmp_path_factory.mktemp("checkpoints")
    task_rows.write_start(path / "start")
    for format in ("transformers", "original"):
        conversion.convert(path / "start", path / format, format=format)
    (path / "data").mkdir()
    write_rows(path / "data" / "train.tsv", 33, 1)
    return path


def finetune(folder: pathlib.Path, output: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "albert_tf.finetune", "--task=classification", f"--data_dir={folder / 'data'}"]
    command += [f"--output_dir={folder / output}", "--strategy=cpu", "--num_train_steps=3", "--train_batch_size=8"]
    return subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=240)


def weights(folder: pathlib.Path, output: str) -> bytes:
    return (folder / output / "model" / "model.safetensors").read_bytes()


@pytest.mark.thorough
@pytest.mark.slow
def test_the_same_weights_in_other_formats_end_in_the_same_bits(folder: pathlib.Path) -> None:
    starts = {
        "own": (f"--model={folder / 'start'}",),
        "found": (f"--model={folder / 'transformers'}",),
        "named": (f"--model={folder / 'original'}", "--model_format=original", "--model_head=pretraining"),
        "encoder": (f"--model={folder / 'transformers'}", "--model_format=transformers", "--model_head=masked_lm"),
    }
    for output, arguments in starts.items():
        done = finetune(folder, output, *arguments)
        assert done.returncode == 0, done.stderr
    assert all(weights(folder, output) == weights(folder, "own") for output in starts)


@pytest.mark.parametrize(
    ("argument", "code", "message"),
    [
        ("--model_format=keras", 2, "--model_format=keras: value should be one of <kerashub|transformers|"),
        ("--model_format=original", 1, "transformers: No checkpoint there: no file ends with .index"),
        ("--model_head=classfier", 2, "--model_head=classfier: value should be one of <pretraining|masked_lm|"),
    ],
)
def test_a_wrong_format_or_head_is_refused(folder: pathlib.Path, argument: str, code: int, message: str) -> None:
    done = finetune(folder, "refused", f"--model={folder / 'transformers'}", argument)
    assert done.returncode == code
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert not (folder / "refused").exists()
