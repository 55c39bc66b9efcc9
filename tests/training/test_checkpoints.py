"""Checkpoints that are damaged, or cannot be written."""

from __future__ import annotations

import pathlib
import shutil

import keras
import numpy as np
import pytest

from albert_tf.training.checkpoints import Checkpoints
from albert_tf.training.optimizers import Lamb


def make(folder: pathlib.Path) -> tuple[Checkpoints, keras.Variable, Lamb]:
    weight = keras.Variable(np.zeros([3, 5], np.float32), name="w")
    optimizer = Lamb(0.1)
    optimizer.build([weight])
    return Checkpoints(str(folder), weights={"w": weight}, optimizer=optimizer, keep=3), weight, optimizer


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    """Checkpoints of steps 3, 7 and 11, in which every weight is the step."""
    checkpoints, weight, optimizer = make(tmp_path / "checkpoints")
    for step in (3, 7, 11):
        weight.assign(np.full([3, 5], step))
        optimizer.iterations.assign(step)
        checkpoints.save()
    return tmp_path / "checkpoints"


def restored(folder: pathlib.Path) -> tuple[int, float]:
    """Step and weight after a restart."""
    checkpoints, weight, _ = make(folder)
    step = checkpoints.restore()
    return step, float(np.unique(weight.numpy()).item())


def test_the_newest_is_taken(folder: pathlib.Path) -> None:
    assert restored(folder) == (11, 11.0)
    assert restored(folder.parent / "nothing") == (0, 0.0)


@pytest.mark.parametrize("damage", [b"{{{{", b"", None])
def test_the_list_is_damaged_or_gone(folder: pathlib.Path, damage: bytes | None) -> None:
    if damage is None:
        (folder / "checkpoint").unlink()
    else:
        (folder / "checkpoint").write_bytes(damage)
    assert restored(folder) == (11, 11.0)


def test_the_newest_is_taken_though_it_is_not_listed(folder: pathlib.Path) -> None:
    """A kill between writing and listing."""
    listed = (folder / "checkpoint").read_bytes()
    checkpoints, weight, optimizer = make(folder)
    weight.assign(np.full([3, 5], 12))
    optimizer.iterations.assign(12)
    checkpoints.save()
    (folder / "checkpoint").write_bytes(listed)
    assert restored(folder) == (12, 12.0)


def test_what_is_damaged_is_passed_over(folder: pathlib.Path, caplog: pytest.LogCaptureFixture) -> None:
    newest = folder / "step-11.data-00000-of-00001"
    newest.write_bytes(newest.read_bytes()[:40])
    assert restored(folder) == (7, 7.0)
    assert "step-11 is damaged" in caplog.text
    assert "{{" not in caplog.text
    (folder / "step-7.index").unlink()
    assert restored(folder) == (3, 3.0)
    flipped = bytearray((folder / "step-3.data-00000-of-00001").read_bytes())
    flipped[20] ^= 4
    (folder / "step-3.data-00000-of-00001").write_bytes(flipped)
    with pytest.raises(ValueError, match=f"^{folder}: none of its 2 checkpoints can be read"):
        restored(folder)


def test_a_run_goes_on_after_damage_as_if_there_was_none(folder: pathlib.Path) -> None:
    (folder / "step-11.index").write_bytes(b"")
    checkpoints, weight, optimizer = make(folder)
    assert checkpoints.restore() == 7
    weight.assign(np.full([3, 5], 11.5))
    optimizer.iterations.assign(11)
    checkpoints.save()
    assert restored(folder) == (11, 11.5)


def test_another_models_checkpoints_are_refused(folder: pathlib.Path) -> None:
    weight = keras.Variable(np.zeros([3, 6], np.float32), name="w")
    optimizer = Lamb(0.1)
    optimizer.build([weight])
    checkpoints = Checkpoints(str(folder), weights={"w": weight}, optimizer=optimizer, keep=3)
    with pytest.raises(ValueError, match="none of its 3 checkpoints can be read"):
        checkpoints.restore()


def test_a_checkpoint_that_cannot_be_written(folder: pathlib.Path) -> None:
    checkpoints, _, optimizer = make(folder)
    checkpoints.restore()
    shutil.rmtree(folder)
    folder.write_text("a file in the place of the folder")
    optimizer.iterations.assign(12)
    with pytest.raises(OSError, match=f"^{folder}: the checkpoint of step 12 cannot be written: .+Make room") as caught:
        checkpoints.save()
    assert "{{" not in str(caught.value)


def test_what_an_unfinished_save_has_left_is_removed(folder: pathlib.Path) -> None:
    (folder / "step-14_temp").mkdir()
    (folder / "step-14_temp" / "part-00000-of-00001.data-00000-of-00001").write_bytes(b"half")
    assert restored(folder) == (11, 11.0)
    assert not (folder / "step-14_temp").exists()
