"""Runs in stages: how they are named, what each step sees, and that a stop at any place changes nothing."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import subprocess
import sys

import numpy as np
import pytest
import safetensors.numpy

from albert_tf import progress
from albert_tf.training import stages
from albert_tf.training.pretraining import Pretraining
from albert_tf.training.settings import PretrainingSettings
from albert_tf.training.stages import Stage
from tests.data import toy

SHORT, LONG = 12, 20


def stage(path: str, steps: int, batch: int) -> Stage:
    return Stage(data_dir=path, num_train_steps=steps, train_batch_size=batch)


def test_names_of_stages() -> None:
    found = stages.parse(["data128:9000", " gs://bucket/data512:1000:8", "a:b:7"], train_batch_size=32)
    assert found == (stage("data128", 9000, 32), stage("gs://bucket/data512", 1000, 8), stage("a:b", 7, 32))


@pytest.mark.parametrize("text", ["", "data", ":7", "data:", "data:x", "data:1.5", "data:-3"])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="stages must each be DATA_DIR:STEPS or DATA_DIR:STEPS:BATCH, got "):
        stages.parse([text], train_batch_size=32)


def test_a_stage_has_steps() -> None:
    with pytest.raises(ValueError, match="num_train_steps of a stage must be a whole number of at least 1, got 0"):
        stages.parse(["data:0"], train_batch_size=32)


def test_which_stage_a_step_is_of() -> None:
    three = (stage("a", 3, 1), stage("b", 1, 1), stage("c", 2, 1))
    assert stages.ends(three) == (3, 4, 6)
    assert [stages.at(three, step) for step in range(6)] == [(0, 0), (0, 1), (0, 2), (1, 0), (2, 0), (2, 1)]
    with pytest.raises(ValueError, match=r"step must be in \[0, 6\), got 6"):
        stages.at(three, 6)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Holds data of two lengths, and a third of another vocabulary."""
    path = tmp_path_factory.mktemp("stages")
    for name, length, size in (("short", SHORT, 61), ("long", LONG, 61), ("other", LONG, 59)):
        shards = [toy.random_rows(9 + i, max_seq_length=length, vocab_size=size, seed=length + i) for i in range(3)]
        vocabulary = toy.tokenizer(size)
        toy.write_directory(
            path / name, shards, max_seq_length=length, max_predictions_per_seq=3, vocabulary=vocabulary
        )
    return path


def make_settings(folder: pathlib.Path, output: pathlib.Path, parts: tuple[Stage, ...]) -> PretrainingSettings:
    return PretrainingSettings(
        data_dir=parts[0].data_dir,
        output_dir=str(output),
        config=toy.CONFIG,
        strategy="cpu",
        num_train_steps=stages.ends(parts)[-1],
        train_batch_size=parts[0].train_batch_size,
        stages=parts,
        eval_data_dir=str(folder / "long"),
        learning_rate=0.01,
        num_warmup_steps=2,
        log_steps=1,
        save_checkpoints_steps=2,
        log_example_ids=True,
        seed=3,
    )


def two_stages(folder: pathlib.Path) -> tuple[Stage, ...]:
    return stage(str(folder / "short"), 5, 6), stage(str(folder / "long"), 4, 3)


@pytest.fixture(scope="module")
def whole(folder: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> Pretraining:
    """A run in two stages that nothing disturbs."""
    output = tmp_path_factory.mktemp("whole") / "run"
    run = Pretraining(make_settings(folder, output, two_stages(folder)), progress.progress)
    run.run()
    return run


def examples(output: pathlib.Path) -> list[list[str]]:
    """Of each step the examples, without the step's number."""
    return [line.split("\t")[1:] for line in (output / "example_ids.tsv").read_text().splitlines()]


def test_each_stage_sees_its_own_data_under_one_schedule(
    folder: pathlib.Path, tmp_path: pathlib.Path, whole: Pretraining
) -> None:
    output = pathlib.Path(whole.settings.output_dir)
    alone = []
    for number, part in enumerate(two_stages(folder)):
        Pretraining(make_settings(folder, tmp_path / f"alone-{number}", (part,)), progress.progress).run()
        alone += examples(tmp_path / f"alone-{number}")
    assert examples(output) == alone
    lines = [json.loads(line) for line in (output / "metrics.jsonl").read_text().splitlines()]
    rates = [line["learning_rate"] for line in lines if "learning_rate" in line]
    expected = [0.005] + [0.01 * (1 - step / 9) for step in range(2, 10)]
    np.testing.assert_allclose(rates, expected, rtol=1e-6)  # float32
    noted = json.loads((output / "model" / "training.json").read_text())
    assert noted["max_seq_length"] == LONG
    assert noted["settings"]["stages"] == [[5, 6], [4, 3]]
    assert len(noted["settings"]["data"]) == 2


@pytest.mark.slow
@pytest.mark.representatives("5")
@pytest.mark.parametrize("stop", [4, 5, 6])
def test_a_stop_before_at_and_after_the_end_of_a_stage_changes_nothing(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, whole: Pretraining, stop: int
) -> None:
    pieced = dataclasses.replace(whole.settings, output_dir=str(tmp_path / "pieced"), save_checkpoints_steps=1)
    run = Pretraining(pieced, progress.progress)
    save = run._save

    def stop_after() -> None:
        save()
        if run._trainer.step == stop:
            raise KeyboardInterrupt

    monkeypatch.setattr(run, "_save", stop_after)
    with pytest.raises(KeyboardInterrupt):
        run.run()
    Pretraining(pieced, progress.progress).run()
    folders = pathlib.Path(whole.settings.output_dir), tmp_path / "pieced"
    one, other = (safetensors.numpy.load_file(path / "model" / "model.safetensors") for path in folders)
    assert one.keys() == other.keys()
    for name, value in one.items():
        np.testing.assert_array_equal(other[name], value, err_msg=name)
    assert examples(folders[0]) == examples(folders[1])
    assert evaluated(folders[0]) == evaluated(folders[1]) == [5, 9]


def evaluated(output: pathlib.Path) -> list[int]:
    lines = map(json.loads, (output / "metrics.jsonl").read_text().splitlines())
    return [line["step"] for line in lines if line["kind"] == "eval"]


def test_graphs_of_each_stage_have_static_shapes(whole: Pretraining) -> None:
    """As a TPU needs them: what is traced for the second stage must not make the first one's lengths open."""
    graphs = whole._trainer._run
    assert len(graphs) == 2
    for kind, function in graphs.items():
        assert function.experimental_get_tracing_count() == 1
        assert "None" not in kind.replace("name=None", "")


def door(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "albert_tf.pretrain", "--learning_rate=0.01", "--strategy=cpu", *arguments]
    shape = ["--hidden_size=10", "--num_attention_heads=2", "--num_hidden_layers=1", "--max_position_embeddings=23"]
    return subprocess.run([*command, *shape], capture_output=True, text=True, timeout=200)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("--stages=short:3", "--num_train_steps=3"), 2, "give either --stages or --num_train_steps"),
        (("--stages=short:3", "--data_dir=short"), 2, "give either --stages or --data_dir"),
        (("--stages=short",), 2, "stages must each be DATA_DIR:STEPS or DATA_DIR:STEPS:BATCH, got 'short'"),
        (("--num_train_steps=3",), 2, "give --data_dir and --num_train_steps, or --stages"),
        (("--stages=FOLDER/short:3,FOLDER/other:3",), 1, "made with another tokenizer than"),
        (("--stages=FOLDER/short:3:4,FOLDER/long:3:200",), 1, "at most the number of examples, 30, got 200"),
        (("--stages=FOLDER/nowhere:3",), 1, "nowhere"),
    ],
)
def test_what_is_refused(
    folder: pathlib.Path, tmp_path: pathlib.Path, arguments: tuple[str, ...], code: int, message: str
) -> None:
    done = door(f"--output_dir={tmp_path / 'run'}", *(one.replace("FOLDER", str(folder)) for one in arguments))
    assert done.returncode == code, done.stderr
    assert message in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "run").exists()


def test_through_the_door(folder: pathlib.Path, tmp_path: pathlib.Path) -> None:
    done = door(f"--output_dir={tmp_path / 'run'}", f"--stages={folder / 'short'}:2:5,{folder / 'long'}:1:3")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "run" / "model" / "model.safetensors").exists()
