"""The keyed folder: what counts as done, what is cleaned up, and that one run at a time works in it."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest

from demo import workspace


def test_key_depends_on_settings_and_versions_only() -> None:
    key = workspace.folder_key({"a": 1, "b": 2.5}, {"python": "3.12"})
    assert key == workspace.folder_key({"b": 2.5, "a": 1}, {"python": "3.12"}) == "cb9db59cfca7"
    assert key != workspace.folder_key({"a": 1, "b": 2.5}, {"python": "3.13"})
    assert key != workspace.folder_key({"a": 2, "b": 2.5}, {"python": "3.12"})


def test_source_digest_follows_content_and_names(tmp_path: pathlib.Path) -> None:
    (tmp_path / "one" / "sub").mkdir(parents=True)
    (tmp_path / "one" / "a.py").write_text("x = 1\n")
    before = workspace.digest_of_sources(str(tmp_path), ("one",))
    (tmp_path / "one" / "a.txt").write_text("not a source\n")
    assert workspace.digest_of_sources(str(tmp_path), ("one",)) == before
    (tmp_path / "one" / "sub" / "b.py").write_text("")
    after = workspace.digest_of_sources(str(tmp_path), ("one",))
    assert after != before
    (tmp_path / "one" / "sub" / "b.py").rename(tmp_path / "one" / "sub" / "c.py")
    assert workspace.digest_of_sources(str(tmp_path), ("one",)) not in (before, after)


def test_stage_is_done_only_with_its_whole_note(tmp_path: pathlib.Path) -> None:
    with workspace.open_workspace(str(tmp_path / "w")) as room:
        assert room.finished("corpus") is None
        room.finish("corpus", {"seconds": 1.5})
        assert room.finished("corpus") == {"seconds": 1.5}
        (tmp_path / "w" / "stages" / "corpus.json").write_text('{"seconds": 1')
        assert room.finished("corpus") is None


def test_opening_removes_what_a_killed_run_left(tmp_path: pathlib.Path) -> None:
    for name in ("model.partial-7-ab/x", "a.json.partial-7-ab", "data/b.partial-7-ab", "data/c", "training/d"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    with workspace.open_workspace(str(tmp_path)) as room:
        left = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
        assert left == {"lock", "data/c", "training/d"}
        assert room.clear("data") == str(tmp_path / "data")
        assert not (tmp_path / "data").exists()
        room.clear("training", "d")
        room.clear("was", "never", "there")
        assert list((tmp_path / "training").iterdir()) == []


def test_folder_stays_locked_while_a_child_works(tmp_path: pathlib.Path) -> None:
    child = [sys.executable, "-c", "input()"]
    with workspace.open_workspace(str(tmp_path)) as room:
        with pytest.raises(workspace.FolderInUseError), workspace.open_workspace(str(tmp_path)):
            pass
        process = subprocess.Popen(child, stdin=subprocess.PIPE, pass_fds=(room.lock_file,))
    with pytest.raises(workspace.FolderInUseError), workspace.open_workspace(str(tmp_path)):
        pass
    process.communicate(b"\n")
    with workspace.open_workspace(str(tmp_path)) as room:
        assert room.folder == str(tmp_path)
