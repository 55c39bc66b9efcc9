"""What a folder is said to be where another kind was wanted."""

from __future__ import annotations

import pathlib
import re

import pytest

from albert_tf import folder_kinds, model_directory


def make(folder: pathlib.Path, *names: str) -> pathlib.Path:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("")
    return folder


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (["x/dataset.json", "x/spiece.model", "x/tokenizer_config.json"], "is a data directory"),
        (["x/building.json"], "is a data directory that is not finished"),
        (["x/albert_config.json", "x/spiece.model", "x/tokenizer_config.json"], "is a model directory"),
        (["x/saved_model.pb"], "is a SavedModel"),
        (["x/text/saved_model.pb", "x/ids/saved_model.pb"], "is the folder of an export"),
        (["x/settings.json", "x/checkpoints/step-3.index"], "is the folder of a pretraining run"),
        (["x/spiece.model", "x/tokenizer_config.json"], "is a tokenizer's folder"),
        (["x/a.txt"], "has no wanted.json"),
        (["x"], "is a file"),
        (["y"], "no such folder"),
    ],
)
def test_kinds(names: list[str], found: str, tmp_path: pathlib.Path) -> None:
    folder = make(tmp_path, *names) / "x"
    with pytest.raises(FileNotFoundError) as caught:
        folder_kinds.check(folder, "wanted.json", folder_kinds.DATA)
    assert caught.value.filename == str(folder)
    assert caught.value.strerror == (f"{found}; a data directory is wanted, as pipelines.build_pretraining_data makes")


def test_an_empty_folder_and_one_that_is_right(tmp_path: pathlib.Path) -> None:
    with pytest.raises(FileNotFoundError, match="is an empty folder; a model directory is wanted"):
        folder_kinds.check(tmp_path, "albert_config.json", folder_kinds.MODEL)
    folder_kinds.check(make(tmp_path, "albert_config.json"), "albert_config.json", folder_kinds.MODEL)
    folder_kinds.check("gs://bucket/x", "albert_config.json", folder_kinds.MODEL)  # not looked at


def test_the_folder_inside_is_named(tmp_path: pathlib.Path) -> None:
    run = make(tmp_path / "run", "settings.json", "checkpoints/a", "model/albert_config.json")
    make(run, "model/tokenizer_config.json")
    for read in (model_directory.read_config, model_directory.load_tokenizer):
        with pytest.raises(FileNotFoundError, match=re.escape(f"did you mean {run}/model?")):
            read(run)
    exported = make(tmp_path / "exported", "text/saved_model.pb", "ids/saved_model.pb")
    with pytest.raises(FileNotFoundError, match=re.escape(f"did you mean {exported}/text?")):
        folder_kinds.check(exported, "saved_model.pb", folder_kinds.SAVED_MODEL)
    served = make(tmp_path / "served", *(f"{one}/{n}/saved_model.pb" for one in ("text", "ids") for n in (2, 10)))
    for folder in (served, served / "text"):
        with pytest.raises(FileNotFoundError, match=re.escape(f"did you mean {served}/text/10?")):
            folder_kinds.check(folder, "saved_model.pb", folder_kinds.SAVED_MODEL)
