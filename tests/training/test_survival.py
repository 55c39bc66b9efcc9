"""What a run keeps when something goes wrong: a full disk, values that are not finite, a stop between checkpoints."""

from __future__ import annotations

import dataclasses
import itertools
import json
import pathlib
import resource
import shutil
import types
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
import tensorflow as tf

from albert_tf import progress
from albert_tf.data import batches
from albert_tf.data.manifest import read_data_directory
from albert_tf.data.reading import Order
from albert_tf.training import run as run_module
from albert_tf.training.loop import DivergedError
from albert_tf.training.pretraining import Pretraining
from albert_tf.training.settings import PretrainingSettings
from tests.data import toy

pytestmark = pytest.mark.xdist_group("survival")

COUNTS = (7, 8, 11)


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    shards = [toy.random_rows(count, max_seq_length=20, vocab_size=61, seed=count) for count in COUNTS]
    path = tmp_path_factory.mktemp("survival") / "data"
    return toy.write_directory(path, shards, max_seq_length=20, max_predictions_per_seq=3)


@pytest.fixture
def settings(tmp_path: pathlib.Path, data_dir: pathlib.Path) -> PretrainingSettings:
    return PretrainingSettings(
        data_dir=str(data_dir),
        output_dir=str(tmp_path / "run"),
        config=dataclasses.replace(toy.CONFIG, hidden_dropout_prob=0.1),
        strategy="cpu",
        num_train_steps=6,
        learning_rate=0.01,
        train_batch_size=4,
        seed=2,
    )


def _checkpoints(settings: PretrainingSettings) -> list[str]:
    return sorted(path.stem for path in pathlib.Path(settings.output_dir, "checkpoints").glob("*.index"))


def _saved(settings: PretrainingSettings, step: int, kind: str) -> dict[str, np.ndarray]:
    """Tensors of one kind ("weights", "average") in a checkpoint, by their keys without the kind."""
    reader = tf.train.load_checkpoint(f"{settings.output_dir}/checkpoints/step-{step}")
    names = [name for name in reader.get_variable_to_shape_map() if name.startswith(f"{kind}/")]
    return {name.removeprefix(f"{kind}/"): reader.get_tensor(name) for name in names}


@pytest.fixture
def small_files() -> Iterator[None]:
    """No file may grow beyond 3 kB: as a full disk, but for this process alone."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (3000, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_keeps_the_last_checkpoint_and_says_so(
    settings: PretrainingSettings, request: pytest.FixtureRequest
) -> None:
    first = dataclasses.replace(settings, save_checkpoints_steps=2)
    run = Pretraining(first, progress.progress)
    write = run._checkpoints.save

    def save() -> str:
        if run._trainer.step == 4:
            request.getfixturevalue("small_files")
        return write()

    run._checkpoints.save = save  # type: ignore[method-assign]
    with pytest.raises(
        OSError,
        match=r"checkpoints: the checkpoint of step 4 cannot be written: .*File too large.*the last whole "
        r"checkpoint \(step 2\)",
    ):
        run.run()
    assert _checkpoints(settings) == ["step-2"]
    assert not [path.name for path in pathlib.Path(settings.output_dir, "checkpoints").iterdir() if "temp" in path.name]


def test_values_that_are_not_finite_are_traced_to_tensor_and_records(settings: PretrainingSettings) -> None:
    run = Pretraining(dataclasses.replace(settings, num_train_steps=9), progress.progress)
    step = run._trainer.run
    tables = run._model.encoder.embeddings

    def spoil(iterator: Iterator, count: int) -> tuple:
        if run._trainer.step >= 3:  # as if a weight had overflowed
            tables.position_embeddings.assign(tf.fill(tables.position_embeddings.shape, np.float32(np.inf)))
        return step(iterator, 3 if run._trainer.step == 0 else count)

    run._trainer.run = spoil  # type: ignore[method-assign]
    with pytest.raises(DivergedError) as caught:
        run.run()
    path = pathlib.Path(settings.output_dir, "diverged.json")
    found = json.loads(path.read_text())
    assert found["first_not_finite"] == "weight encoder/embeddings/position_embeddings"
    data = read_data_directory(settings.data_dir)
    order = itertools.islice(Order(data=data, seed=2).sequence((found["step"] - 1) * 4), 4)
    expected: list[dict[str, Any]] = [{"epoch": e, "example": n, "place": data.locate(n)} for e, n in order]
    assert found["examples"] == expected
    message = str(caught.value)
    assert message.startswith(f"step {found['step']} gave values that are not finite: masked_lm_loss nan")
    for part in (min(example["place"] for example in expected), "and 1 more", str(path), "are kept: stopped at step"):
        assert part in message, part
    # what is kept is what was there before the step
    assert _checkpoints(settings) == [f"step-{found['step'] - 1}"]
    assert run._trainer.step == found["step"] - 1
    for name, value in _saved(settings, found["step"] - 1, "weights").items():
        assert np.isfinite(value).all() == ("position_embeddings" not in name), name


def test_divergence_leaves_the_weights_of_the_step_before(settings: PretrainingSettings) -> None:
    """A real one: with a rate beyond all measure the second or third step overflows."""
    run = Pretraining(dataclasses.replace(settings, learning_rate=1e30, optimizer="adamw"), progress.progress)
    with pytest.raises(DivergedError, match=r"The first tensor that is not finite is (output|gradient|masked)"):
        run.run()
    (checkpoint,) = _checkpoints(settings)
    step = int(checkpoint.removeprefix("step-"))
    assert step >= 1
    assert all(np.isfinite(value).all() for value in _saved(settings, step, "weights").values())


@pytest.mark.thorough
def test_checkpoints_by_minutes_the_average_and_the_best_model(
    settings: PretrainingSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A clock that goes on by 40 s at each look: with a minute between checkpoints every second step has one."""
    ticks = itertools.count(step=40.0)
    clock = types.SimpleNamespace(monotonic=lambda: next(ticks) / 3)  # a call is timed at both of its ends
    monkeypatch.setattr(run_module, "time", clock)
    changed = dataclasses.replace(
        settings,
        eval_data_dir=settings.data_dir,
        moving_average_decay=0.5,
        save_checkpoints_minutes=1.0,
        eval_steps=2,
        keep_checkpoints=2,
        gradient_accumulation_steps=2,
        remat=True,
    )
    run = Pretraining(changed, progress.progress)
    figures = run.run()
    assert len(_checkpoints(settings)) == 2  # the newest two
    lines = [json.loads(line) for line in pathlib.Path(settings.output_dir, "metrics.jsonl").read_text().splitlines()]
    losses = {line["step"]: line["masked_lm_loss"] for line in lines if line["kind"] == "eval"}
    assert list(losses) == [2, 4, 6]
    best = min(losses, key=lambda step: losses[step])
    assert json.loads(pathlib.Path(settings.output_dir, "best", "training.json").read_text())["step"] == best
    assert figures["masked_lm_loss"] == pytest.approx(losses[6], rel=1e-6)
    # The model directory holds the average, the checkpoint both; and they differ.
    model = safetensors.numpy.load_file(pathlib.Path(settings.output_dir, "model", "model.safetensors"))
    averages = _saved(settings, 6, "average")
    weights = _saved(settings, 6, "weights")
    assert averages.keys() == weights.keys()
    assert len(model) == len(averages)
    for name, value in averages.items():
        assert any(np.array_equal(value, other) for other in model.values() if other.shape == value.shape), name
        assert not np.array_equal(value, weights[name]) or "key" in name, name


def test_an_evaluation_that_a_stop_has_cut_off_is_made_up_for(
    settings: PretrainingSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed = dataclasses.replace(settings, eval_data_dir=settings.data_dir, eval_steps=2, max_eval_examples=9)
    run = Pretraining(changed, progress.progress)
    evaluate = run._evaluate

    def interrupt(step: int, **given: Any) -> dict[str, float]:
        if step == 4:
            raise KeyboardInterrupt
        return evaluate(step, **given)

    monkeypatch.setattr(run, "_evaluate", interrupt)
    with pytest.raises(KeyboardInterrupt):
        run.run()
    assert run.stop().startswith("stopped at step 4 of 6; the same command goes on from the checkpoint of step 4")
    Pretraining(changed, progress.progress).run()
    metrics = pathlib.Path(settings.output_dir, "metrics.jsonl")

    def evaluated() -> list[int]:
        return [line["step"] for line in map(json.loads, metrics.read_text().splitlines()) if line["kind"] == "eval"]

    assert evaluated() == [2, 4, 6]
    shutil.rmtree(pathlib.Path(settings.output_dir, "model"))
    Pretraining(changed, progress.progress).run()  # as after a kill between the last evaluation and the model
    assert evaluated() == [2, 4, 6]
    assert pathlib.Path(settings.output_dir, "model", "model.safetensors").exists()


def test_a_resume_reads_no_more_than_the_shards_in_flight(tmp_path: pathlib.Path, data_dir: pathlib.Path) -> None:
    """All other shards are away: a resume far into the run does without them."""
    copy = tmp_path / "data"
    copy.mkdir()
    for file in data_dir.iterdir():
        (copy / file.name).write_bytes(file.read_bytes())
    data = read_data_directory(str(copy))
    order = Order(data=data, seed=2, group_size=1)
    step = 10_000
    epoch, group, skip = order.locate(step * 4)
    assert skip + 4 <= COUNTS[order.groups(epoch)[group][0]], "the batch lies within one shard"
    for index, shard in enumerate(data.shards):
        if index != order.groups(epoch)[group][0]:
            pathlib.Path(shard.path).unlink()
    batch = next(iter(batches.training_batches(order, step=step, batch_size=4)))
    expected = [n for _, n in itertools.islice(order.sequence(step * 4), 4)]
    assert batch[batches.EXAMPLE].numpy().tolist() == expected
