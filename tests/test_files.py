"""Files and folders appear whole or not at all."""

from __future__ import annotations

import fcntl
import os
import pathlib
import subprocess

import pytest

from albert_tf import files, leftovers


def names(folder: pathlib.Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_write_whole_replaces_and_makes_folders(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "a" / "b" / "text.json"
    files.write_whole(path, "ä\n")
    assert path.read_bytes() == b"\xc3\xa4\n"
    files.write_whole(path, b"\x00\x01")
    assert path.read_bytes() == b"\x00\x01"
    assert names(path.parent) == ["text.json"]


def test_a_failed_file_leaves_the_old_one(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "weights"
    files.write_whole(path, "old")

    def write_half() -> None:
        with files.whole_file(path) as temporary:
            pathlib.Path(temporary).write_text("half", encoding="utf-8")
            raise RuntimeError("disk full")

    with pytest.raises(RuntimeError, match="disk full"):
        write_half()
    assert path.read_text(encoding="utf-8") == "old"
    assert names(tmp_path) == ["weights"]


def test_a_block_that_writes_nothing_fails(tmp_path: pathlib.Path) -> None:
    with pytest.raises(FileNotFoundError), files.whole_file(tmp_path / "x"):
        pass
    assert names(tmp_path) == []


def test_a_file_never_replaces_a_folder(tmp_path: pathlib.Path) -> None:
    with pytest.raises(IsADirectoryError, match="a file was expected"):
        files.write_whole(tmp_path, "x")


def test_folder_appears_at_the_end(tmp_path: pathlib.Path) -> None:
    target = tmp_path / "deep" / "model"
    with files.whole_directory(target) as temporary:
        assert pathlib.Path(temporary).parent == target.parent
        files.write_whole(pathlib.Path(temporary) / "config.json", "{}")
        assert not target.exists()
    assert names(target) == ["config.json"]
    assert names(target.parent) == ["model"]


def test_failed_folder_is_removed(tmp_path: pathlib.Path) -> None:
    def fill_half() -> None:
        with files.whole_directory(tmp_path / "model") as temporary:
            files.write_whole(pathlib.Path(temporary) / "half", "x")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fill_half()
    assert names(tmp_path) == []


def test_folder_with_content_is_refused_before_any_work(tmp_path: pathlib.Path) -> None:
    files.write_whole(tmp_path / "model" / "old", "1")
    begun = []
    with pytest.raises(ValueError, match="has content already"), files.whole_directory(tmp_path / "model"):
        begun.append(1)
    assert begun == []
    assert names(tmp_path) == ["model"]


def test_folder_with_content_is_replaced_on_demand(tmp_path: pathlib.Path) -> None:
    files.write_whole(tmp_path / "model" / "old", "1")
    with files.whole_directory(f"{tmp_path}/model/", replace=True) as temporary:
        files.write_whole(pathlib.Path(temporary) / "new", "2")
        assert names(tmp_path / "model") == ["old"]
    assert names(tmp_path / "model") == ["new"]
    assert names(tmp_path) == ["model"]


def test_empty_folder_is_taken_over(tmp_path: pathlib.Path) -> None:
    (tmp_path / "model").mkdir()
    with files.whole_directory(tmp_path / "model") as temporary:
        files.write_whole(pathlib.Path(temporary) / "new", "2")
    assert names(tmp_path / "model") == ["new"]


def test_content_that_came_meanwhile_is_kept(tmp_path: pathlib.Path) -> None:
    def fill() -> None:
        with files.whole_directory(tmp_path / "model") as temporary:
            files.write_whole(pathlib.Path(temporary) / "mine", "2")
            files.write_whole(tmp_path / "model" / "theirs", "3")

    with pytest.raises(ValueError, match="in the meantime"):
        fill()
    assert names(tmp_path / "model") == ["theirs"]
    assert names(tmp_path) == ["model"]


def test_a_folder_never_replaces_a_file(tmp_path: pathlib.Path) -> None:
    files.write_whole(tmp_path / "model", "x")
    with pytest.raises(NotADirectoryError, match="a folder was expected"), files.whole_directory(tmp_path / "model"):
        pass


def test_remote_paths_go_through_tensorflow() -> None:
    # ram:// is TensorFlow's file system in memory; it stands for gs:// here.
    import tensorflow as tf

    files.write_whole("ram://bucket/folder/file", "one")
    files.write_whole("ram://bucket/folder/file", "two")
    with tf.io.gfile.GFile("ram://bucket/folder/file") as stream:
        assert stream.read() == "two"
    assert tf.io.gfile.listdir("ram://bucket/folder") == ["file"]
    with pytest.raises(ValueError, match="has content already"), files.whole_directory("ram://bucket/folder"):
        pass
    with files.whole_directory("ram://bucket/model") as temporary:
        files.write_whole(f"{temporary}/config.json", "3")
        files.write_whole(f"{temporary}/deep/weights", "4")
    assert sorted(tf.io.gfile.listdir("ram://bucket")) == ["folder", "model"]
    with tf.io.gfile.GFile("ram://bucket/model/deep/weights") as stream:
        assert stream.read() == "4"
    assert files.is_remote("gs://a")
    assert not files.is_remote("/a/b")


def test_an_error_without_a_name_gets_one() -> None:
    with pytest.raises(OSError, match=r"\[Errno 28\] No space left on device: 'a/b'"), files.naming("a/b"):
        raise OSError(28, "No space left on device")
    with pytest.raises(OSError, match="'other'"), files.naming("a/b"):
        raise OSError(28, "No space left on device", "other")
    with pytest.raises(OSError, match=r"^in words$"), files.naming("a/b"):
        raise OSError("in words")


def test_a_folder_is_locked_for_others_until_the_block_ends(tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "a" / "b"
    taken = "a/b: another run works there; wait for it, or name another output_dir"
    for _ in range(2):
        with files.lock_directory(folder):
            with pytest.raises(ValueError, match=taken), files.lock_directory(folder):
                pass
            assert folder.is_dir()
        assert not folder.exists()  # nothing was put into it
    with files.lock_directory(folder):
        (folder / "content").touch()
    with files.lock_directory(folder):
        pass
    assert names(folder) == ["content"]
    with files.lock_directory("gs://bucket/a"), files.lock_directory("gs://bucket/a"):
        pass  # remote ones have no locks
    with pytest.raises(NotADirectoryError, match="is a file"), files.lock_directory(folder / "content"):
        pass


def test_a_folder_is_probed_without_being_made(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files.check_writable(tmp_path)
    files.check_writable(tmp_path / "a" / "b")
    assert names(tmp_path) == []
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "a"):
        with pytest.raises(NotADirectoryError, match=rf"is a file, a folder was expected: '{tmp_path}/file'"):
            files.check_writable(path)

    def refuse(path: str) -> None:
        raise OSError(30, "Read-only file system", path)

    monkeypatch.setattr(os, "mkdir", refuse)
    with pytest.raises(OSError, match=rf"Read-only file system: '{tmp_path}/a'"):
        files.check_writable(tmp_path / "a")


def test_what_a_killed_process_left_is_removed(tmp_path: pathlib.Path) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    (tmp_path / f"model.partial-{ended.pid}-0123abcd").mkdir()
    (tmp_path / f"model.partial-{ended.pid}-0123abcd" / "weights").write_text("half")
    (tmp_path / f"settings.json.partial-{ended.pid}-0123abcd").write_text("half")
    kept = {
        f"model.partial-{os.getpid()}-0123abcd",  # of a process that is alive
        f"other.partial-{ended.pid}-0123abcd",
        f"model.partial-{ended.pid}-0123abcd.txt",
        f"a model.partial-{ended.pid}-0123abcd",
        "model.partial",
        "settings.json",
    }
    for name in kept:
        (tmp_path / name).write_text("kept")
    leftovers.remove_leftovers(tmp_path, ("model", "settings.json"))
    assert set(names(tmp_path)) == kept
    leftovers.remove_leftovers(tmp_path / "nowhere", ("model",))


def test_a_file_system_without_locks_keeps_nobody_out(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def flock(handle: int, operation: int) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr(fcntl, "flock", flock)
    with files.lock_directory(tmp_path), files.lock_directory(tmp_path):
        assert tmp_path.is_dir()


def test_a_link_to_a_folder_leads_to_what_is_replaced(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "old.txt").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with files.whole_directory(tmp_path / "link", replace=True) as folder:
        pathlib.Path(folder, "new.txt").write_text("new")
    assert (tmp_path / "link").is_symlink()
    assert [path.name for path in (tmp_path / "real").iterdir()] == ["new.txt"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "real"]

    (tmp_path / "dangling").symlink_to(tmp_path / "later")
    with files.whole_directory(tmp_path / "dangling") as folder:
        pathlib.Path(folder, "new.txt").write_text("new")
    assert (tmp_path / "later" / "new.txt").exists()


def test_a_mount_point_is_refused_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr(os.path, "ismount", lambda path: path == str(tmp_path / "out"))
    message = "is a mount point, which cannot be replaced; name a folder in it"
    with pytest.raises(OSError, match=message), files.whole_directory(tmp_path / "out"):
        pytest.fail("the work has begun")
