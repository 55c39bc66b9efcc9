"""The tpu_check door: its flags, exit codes, table and file, with stand-ins for the lowering and the compiler."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys

import pytest

from tests.conftest import ROOT
from tests.tpu.test_compiling import BASE, TOO_LARGE

# Takes the place of the module that needs TensorFlow, and tells what it was called with.
RUN = """
import json, runpy, sys, types

class Lowering(types.ModuleType):
    def make_trainer(self, config, **options):
        print("lowered", json.dumps([config.to_dict(), options]))
    def example_batch(self, **sizes):
        print("batch", json.dumps(sizes))
    def lower(self, trainer, batch):
        return TEXT
    def obstacles(self, text):
        return [word for word in text.split() if "?" in word]

sys.modules["albert_tf.tpu.lowering"] = Lowering("albert_tf.tpu.lowering")
sys.argv = sys.argv[1:]
runpy.run_module("albert_tf.tpu_check", run_name="__main__", alter_sys=True)
"""
SIZES = ("--hidden_size=10", "--num_attention_heads=2", "--vocab_size=61", "--max_seq_length=40")


def run(folder: pathlib.Path, *flags: str, text: str = "module {}") -> subprocess.CompletedProcess[str]:
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); TEXT = {text!r}\n{RUN}"
    command = [sys.executable, "-c", code, "albert_tf.tpu_check", *flags]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60)


def compiler(folder: pathlib.Path, answer: dict) -> str:
    """A program that stands for the compiler's Python and gives `answer`."""
    path = folder / "python"
    versions = '[ "$2" = -c ] && echo 0.1 0.2 && exit'
    path.write_text(f"#!/bin/sh\n{versions}\ncat > \"$4\" <<'END'\n{json.dumps(answer)}\nEND\n", encoding="utf-8")
    path.chmod(0o755)
    return f"--compiler_python={path}"


def test_a_step_that_fits(tmp_path: pathlib.Path) -> None:
    done = run(tmp_path, *SIZES, "--train_batch_size=7", "--json=step.json", compiler(tmp_path, BASE))
    assert done.returncode == 0, done.stderr
    assert "shape flags, 7 x 40 on one v5e, bfloat16, lamb, dropout 0" in done.stdout
    assert "1.475 GiB of 15.750 GiB: fits" in done.stdout
    lines = dict(line.split(" ", 1) for line in done.stdout.splitlines() if line.startswith(("lowered", "batch")))
    shape, options = json.loads(lines["lowered"])
    assert (shape["vocab_size"], shape["hidden_size"]) == (61, 10)
    assert options == {"dtype": "bfloat16", "optimizer": "lamb", "remat": False, "gradient_accumulation_steps": 1}
    # 15 % of 40 positions, as the pipeline has it.
    assert json.loads(lines["batch"]) == {"batch_size": 7, "max_seq_length": 40, "max_predictions_per_seq": 6}
    written = json.loads((tmp_path / "step.json").read_text(encoding="utf-8"))
    assert (written["fits"], written["needed"]) == (True, 141897216 + 1024 + 1291894784 + 149619712)
    assert (written["chip"], written["train_batch_size"], written["config"]["hidden_size"]) == ("v5e", 7, 10)


def test_a_step_that_does_not_fit(tmp_path: pathlib.Path) -> None:
    flags = ("--remat", "--gradient_accumulation_steps=3", "--train_batch_size=9", "--max_predictions_per_seq=5")
    done = run(tmp_path, *SIZES, *flags, "--optimizer=adamw", compiler(tmp_path, TOO_LARGE))
    assert done.returncode == 1
    assert "does not fit: needs 20.830 GiB of 15.750 GiB" in done.stdout
    assert "Traceback" not in done.stderr
    (lowered,) = (line for line in done.stdout.splitlines() if line.startswith("lowered"))
    _, options = json.loads(lowered.partition(" ")[2])
    assert options == {"dtype": "bfloat16", "optimizer": "adamw", "remat": True, "gradient_accumulation_steps": 3}
    assert '"max_predictions_per_seq": 5' in done.stdout


@pytest.mark.parametrize(
    ("flags", "code", "words"),
    [
        ((), 2, "no model named: give --config, --model_size or shape flags"),
        (("--model_size=base", "--max_seq_length=513"), 2, "max_position_embeddings, 512, got 513"),
        (("--model_size=base", "--train_batch_size=0"), 2, "train_batch_size must be at least 1, got 0"),
        (("--model_size=base", "--max_seq_length=3"), 2, "max_seq_length must be at least 5"),
        (
            ("--model_size=base", "--gradient_accumulation_steps=5"),
            2,
            "train_batch_size must be a multiple of gradient_accumulation_steps, 5, got 32",
        ),
        (("--model_size=base", "--chip=v9"), 2, "v5e|v4|v5p|v6e"),
        (("--config=c.json", "--model_size=base"), 2, "give either --config or --model_size"),
        (("--model_size=base", "--compiler_python=none"), 1, "none: no such file; `make tpu-check` builds"),
    ],
)
def test_what_is_refused(tmp_path: pathlib.Path, flags: tuple[str, ...], code: int, words: str) -> None:
    done = run(tmp_path, *flags)
    assert done.returncode == code, done.stderr
    (line,) = done.stderr.splitlines()
    assert "error: " in line
    assert words in line
    assert done.stdout == ""


def test_a_step_with_dynamic_shapes_is_refused(tmp_path: pathlib.Path) -> None:
    done = run(tmp_path, *SIZES, compiler(tmp_path, BASE), text="abs %0 : tensor<?x3xf32>")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].endswith("the step holds what no TPU can run: tensor<?x3xf32>")
