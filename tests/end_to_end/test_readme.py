"""Runs every example of the README, in its order, on a small corpus; only sizes are changed, as `SMALLER` says."""

from __future__ import annotations

import os
import pathlib
import pydoc_data.topics
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
# A flag of the README and what the test gives instead, so that all of it takes two minutes.
SMALLER = {
    "--vocab_size=4000": "--vocab_size=700",
    "--max_seq_length=20": "--max_seq_length=40",
    "--num_shards=8": "--num_shards=3",
    "--embedding_size=64": "--embedding_size=20",
    "--hidden_size=128": "--hidden_size=40",
    "--max_position_embeddings=20": "--max_position_embeddings=44",
    "--intermediate_size=256": "--intermediate_size=52",
    "--train_batch_size=56": "--train_batch_size=16",
    "--num_train_steps=3200": "--num_train_steps=6",
    "--num_warmup_steps=320": "--num_warmup_steps=2",
    "--num_train_epochs=3": "--num_train_epochs=2 --train_batch_size=8",
}


def examples() -> list[tuple[str, str]]:
    """Language and text of each fenced example."""
    return re.findall(r"^```(bash|python)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def write_corpus(folder: pathlib.Path) -> None:
    """Python's own language reference, one sentence a line: a few hundred documents, the last twenty held out."""
    documents = []
    for text in pydoc_data.topics.topics.values():
        sentences = re.split(r"(?<=[.:])\s+", " ".join(text.split()))
        documents.append("\n".join(s for s in sentences if len(s) < 400))
    (folder / "corpus").mkdir()
    (folder / "heldout").mkdir()
    (folder / "corpus" / "topics.txt").write_text("\n\n".join(documents[:-20]), encoding="utf-8")
    (folder / "heldout" / "topics.txt").write_text("\n\n".join(documents[-20:]), encoding="utf-8")
    (folder / "reviews").mkdir()
    for split, count in (("train", 24), ("dev", 10)):
        lines = [f"Film {i} was {word}.\t{word}" for i in range(count // 2) for word in ("good", "bad")]
        (folder / "reviews" / f"{split}.tsv").write_text("\n".join(["review\tverdict", *lines]), encoding="utf-8")


def run(command: list[str], folder: pathlib.Path) -> str:
    environment = {**os.environ, "PATH": f"{pathlib.Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    environment["PYTHONPATH"] = str(ROOT)
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_every_size_that_is_changed_is_in_the_readme():
    assert [flag for flag in SMALLER if flag not in README] == []


@pytest.mark.thorough
@pytest.mark.slow
def test_examples_run_in_their_order(tmp_path):
    write_corpus(tmp_path)
    printed = []
    for language, text in examples():
        if language == "python":
            printed.append(run([sys.executable, "-c", text], tmp_path))
            continue
        for flag, smaller in SMALLER.items():
            text = text.replace(flag, smaller)
        for command in text.replace("\\\n", " ").strip().splitlines():
            printed.append(run(["bash", "-c", command], tmp_path))
    for path in (
        "tokenizer/spiece.model",
        "data/dataset.json",
        "heldout_data/dataset.json",
        "runs/small/metrics.jsonl",
        "runs/small/model/model.safetensors",
        "runs/reviews/model/task_config.json",
        "report/dev/errors.tsv",
        "analysis/parameters.csv",
        "analysis/layers.csv",
        "exported/text/saved_model.pb",
        "exported/ids/saved_model.pb",
        "serving/text/1/saved_model.pb",
        "serving/ids/1/assets.extra/tf_serving_warmup_requests",
        "small_int8.tflite",
        "for_transformers/tokenizer.json",
        "back/conversion_report.json",
    ):
        assert (tmp_path / path).is_file(), path
    assert len(printed) == 26
    assert "probabilities" in printed[-1]  # the fill_mask signature's output by name
