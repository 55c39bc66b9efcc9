"""Versions of an export stand beside each other, and appear whole or not at all."""

from __future__ import annotations

import pathlib

import pytest

from albert_tf import files
from export.export_folders import new_export


def write(path: pathlib.Path, version: int | None, content: str, *, overwrite: bool = False) -> None:
    with new_export(path, version=version, overwrite=overwrite) as folders:
        for name in ("text", "ids"):
            pathlib.Path(folders[name]).mkdir(exist_ok=True)
            (pathlib.Path(folders[name]) / "saved_model.pb").write_text(content)


def write_half(path: pathlib.Path, version: int | None) -> None:
    with new_export(path, version=version) as folders:
        pathlib.Path(folders["text"]).mkdir(exist_ok=True)
        (pathlib.Path(folders["text"]) / "saved_model.pb").write_text("half")
        raise RuntimeError("half")


def content(path: pathlib.Path) -> dict[str, str]:
    return {str(file.relative_to(path)): file.read_text() for file in sorted(path.rglob("*")) if file.is_file()}


def test_versions_stand_beside_each_other(tmp_path: pathlib.Path) -> None:
    out = tmp_path / "out"
    write(out, 1, "one")
    write(out, 12, "twelve")
    both = {
        "ids/1/saved_model.pb": "one",
        "ids/12/saved_model.pb": "twelve",
        "text/1/saved_model.pb": "one",
        "text/12/saved_model.pb": "twelve",
    }
    assert content(out) == both
    with pytest.raises(ValueError, match=r"/1 has content already; name another version, or pass --overwrite"):
        write(out, 1, "other")
    assert content(out) == both
    write(out, 1, "other", overwrite=True)
    assert content(out) == {**both, "ids/1/saved_model.pb": "other", "text/1/saved_model.pb": "other"}
    assert sorted(path.name for path in (out / "text").iterdir()) == ["1", "12"]  # all that a server sees


def test_without_a_version_the_folders_are_the_models(tmp_path: pathlib.Path) -> None:
    out = tmp_path / "out"
    write(out, None, "one")
    write(out, None, "two", overwrite=True)
    assert content(out) == {"ids/saved_model.pb": "two", "text/saved_model.pb": "two"}
    with pytest.raises(ValueError, match="text: is a SavedModel without a version; name another output folder"):
        write(out, 1, "three")
    with pytest.raises(ValueError, match="out has content already; name another folder, or pass --overwrite"):
        write(out, None, "three")
    assert content(out) == {"ids/saved_model.pb": "two", "text/saved_model.pb": "two"}


def test_half_a_version_is_left_alone(tmp_path: pathlib.Path) -> None:
    write(tmp_path, 1, "one")
    (tmp_path / "ids" / "1" / "saved_model.pb").unlink()
    (tmp_path / "ids" / "1").rmdir()
    with pytest.raises(ValueError, match="/1 has content already"):
        write(tmp_path, 1, "other")
    assert content(tmp_path) == {"text/1/saved_model.pb": "one"}


@pytest.mark.parametrize("overwrite", [False, True])
def test_versions_are_not_replaced_by_an_export_without(tmp_path: pathlib.Path, overwrite: bool) -> None:
    out = tmp_path / "out"
    write(out, 3, "three")
    message = "holds version 3; --overwrite would remove all versions" if overwrite else "out has content already"
    with pytest.raises(ValueError, match=message):
        write(out, None, "none", overwrite=overwrite)
    assert content(out) == {"ids/3/saved_model.pb": "three", "text/3/saved_model.pb": "three"}


def test_what_is_no_export_is_not_replaced(tmp_path: pathlib.Path) -> None:
    (tmp_path / "notes").write_text("mine")
    with pytest.raises(ValueError, match="holds 'notes', which is no export"):
        write(tmp_path, None, "none", overwrite=True)
    assert content(tmp_path) == {"notes": "mine"}


@pytest.mark.parametrize("version", [None, 2])
def test_what_fails_leaves_nothing(tmp_path: pathlib.Path, version: int | None) -> None:
    with pytest.raises(RuntimeError, match="half"):
        write_half(tmp_path / "out", version)
    assert list(tmp_path.iterdir()) == []


def test_what_fails_leaves_other_versions(tmp_path: pathlib.Path) -> None:
    write(tmp_path, 1, "one")
    before = content(tmp_path)
    with pytest.raises(RuntimeError), new_export(tmp_path, version=2):
        raise RuntimeError("none")
    with pytest.raises(RuntimeError), new_export(tmp_path, version=1, overwrite=True):
        raise RuntimeError("none")
    assert content(tmp_path) == before


def test_one_of_two_that_got_its_place_alone_goes_again(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, 1, "one")
    move = files.move_directory
    moved: list[str] = []

    def fail_second(temporary: str, path: str, *, replace: bool = False) -> None:
        if moved:
            raise OSError(28, "No space left on device", path)
        moved.append(path)
        move(temporary, path, replace=replace)

    monkeypatch.setattr(files, "move_directory", fail_second)
    with pytest.raises(OSError, match="No space left"):
        write(tmp_path, 2, "two")
    assert content(tmp_path) == {"ids/1/saved_model.pb": "one", "text/1/saved_model.pb": "one"}


def test_a_version_is_a_number_from_one(tmp_path: pathlib.Path) -> None:
    with pytest.raises(ValueError, match="version must be at least 1, got 0"):
        write(tmp_path / "out", 0, "none")
    assert list(tmp_path.iterdir()) == []
