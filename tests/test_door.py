"""Doors as a user meets them: a small door in a folder of its own, run as a process."""

from __future__ import annotations

import os
import pathlib
import re
import shlex
import signal
import subprocess
import sys
import time

import pytest

from albert_tf import door
from tests import conftest

DOOR = '''"""Counts things.

Example:
  python -m counting --input=things.txt
"""
import os, sys, time
from absl import flags, logging
from albert_tf import door

with door.group("Input"):
    INPUT = flags.DEFINE_string("input", None, "Files with things, a glob pattern.")
    MODE = flags.DEFINE_enum("mode", "fast", ["fast", "slow"], "How to count.")
with door.group("Counting"):
    flags.DEFINE_integer("num_things", 17, "Things to count.", lower_bound=1)
    flags.DEFINE_bool("lower_case", True, "Whether to count in lower case.")
flags.DEFINE_list("colours", ["red", "blue"], "Colours to count.")
flags.DEFINE_multi_string("shape", [], "Shape to count. May be repeated.")

def main():
    what = INPUT.value
    if what == "value": raise ValueError("things.txt:3: a thing must be round,\\n  got 'square'")
    if what == "user": raise door.UserError("no things: give --input another pattern")
    if what == "usage": raise door.UsageError("--mode=slow needs --colours")
    if what == "missing": open("no/such/file")
    if what == "fault": raise KeyError("colour")
    if what == "scheme": raise NotImplementedError("File system scheme 's3' not implemented (file: 's3://a/b')")
    if what == "interrupt": raise KeyboardInterrupt
    if what == "code": return 7
    if what == "news":
        logging.info("%d things", 5)
        logging.warning("one is square")
    if what.startswith("write"): door.write_whole(what.removeprefix("write "), "things")
    if what == "wait":
        with door.whole_directory("made") as folder:
            open(os.path.join(folder, "half"), "w").close()
            print("ready", flush=True)
            time.sleep(60)
    if what == "progress":
        with door.progress(total=41, description="counting", unit="things") as bar:
            for _ in range(41):
                bar.advance(loss=0.123456)
    if what == "table":
        door.print_table("Counts", ["piece", "count", "share"], [("[mask]", 12345, 0.5), ("\\u2581der", 7, 0.25)])
    print("mode", MODE.value, "imports", sorted({"tensorflow", "keras", "rich"} & set(sys.modules)))

if __name__ == "__main__":
    door.run(main, required=["input"])
'''


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    (tmp_path / "counting.py").write_text(DOOR, encoding="utf-8")
    return tmp_path


def environment(**variables: str) -> dict[str, str]:
    paths = [str(conftest.ROOT), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), **variables}


def run(folder: pathlib.Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "counting", *arguments]
    return subprocess.run(
        command, cwd=folder, env=environment(**variables), capture_output=True, text=True, encoding="utf-8"
    )


def test_help_teaches_and_lists_only_the_doors_flags(folder: pathlib.Path) -> None:
    done = run(folder, "--help", COLUMNS="100")
    assert done.returncode == 0
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert lines[0] == "python -m counting"
    assert lines[2] == "Counts things."
    assert "  python -m counting --input=things.txt" in lines
    # groups in the order of their definition, then what stands in no group, then what every door has
    titles = ["Input:", "Counting:", "Other flags:", "Every command:"]
    assert [line for line in lines if line in titles] == titles
    assert "      Shape to count. May be repeated. (default: none)" in lines
    forms = [line.strip().split()[0] for line in lines if line.startswith("  --")]
    assert forms == [
        "--input=TEXT",
        "--mode=fast|slow",
        "--num_things=NUMBER",
        "--[no]lower_case",
        "--colours=VALUE",
        "--shape=VALUE",
        "--help",
        "--flagfile=FILE",
        "--verbosity=LEVEL",
    ]
    assert "      Files with things, a glob pattern. (required)" in lines
    assert "      How to count. (default: fast)" in lines
    assert "      Whether to count in lower case. (default: true)" in lines
    assert "      Colours to count. (default: red,blue)" in lines


def test_runs_and_imports_nothing_heavy(folder: pathlib.Path) -> None:
    done = run(folder, "--input=x", "--mode=slow")
    assert (done.returncode, done.stdout, done.stderr) == (0, "mode slow imports []\n", "")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ((), 2, "missing --input; --help explains the flags"),
        (("--inptu=x",), 2, "unknown flag --inptu; did you mean --input?"),
        (("--input=x", "--nolowercase"), 2, "unknown flag --nolowercase; did you mean --lower_case?"),
        (("--input=x", "--zzz=1"), 2, "unknown flag --zzz; --help lists the flags"),
        (("--input=x", "--num_things=many"), 2, "flag --num_things=many: invalid literal for int()"),
        (("--input=x", "--num_things=0"), 2, "flag --num_things=0: 0 is not a positive integer"),
        (("--input=x", "--mode=odd"), 2, "flag --mode=odd: value should be one of <fast|slow>"),
        (("--input=a.txt", "b.txt"), 2, "unexpected argument 'b.txt'"),
        (("--input=usage",), 2, "--mode=slow needs --colours"),
        (("--input=value",), 1, "things.txt:3: a thing must be round, got 'square'"),
        (("--input=user",), 1, "no things: give --input another pattern"),
        (("--input=scheme",), 1, "File system scheme 's3' not implemented (file: 's3://a/b')"),
        (("--input=missing",), 1, "no/such/file: No such file or directory"),
    ],
)
def test_a_mistake_is_one_line(folder: pathlib.Path, arguments: tuple[str, ...], code: int, message: str) -> None:
    done = run(folder, *arguments)
    assert done.returncode == code
    assert done.stdout == ""
    assert done.stderr.startswith(f"counting: error: {message}")
    assert done.stderr.count("\n") == 1


def test_a_fault_of_the_program_keeps_its_traceback(folder: pathlib.Path) -> None:
    done = run(folder, "--input=fault")
    assert done.returncode == 1
    assert done.stderr.startswith("Traceback")
    assert done.stderr.endswith("KeyError: 'colour'\n")


def test_verbosity_shows_the_traceback_of_a_mistake(folder: pathlib.Path) -> None:
    done = run(folder, "--input=value", "--verbosity=1")
    assert done.returncode == 1
    assert done.stderr.startswith("Traceback")
    assert done.stderr.endswith("counting: error: things.txt:3: a thing must be round, got 'square'\n")


def test_exit_code_of_main_is_passed_on(folder: pathlib.Path) -> None:
    assert run(folder, "--input=code").returncode == 7


def test_interrupt_is_130_and_one_line(folder: pathlib.Path) -> None:
    done = run(folder, "--input=interrupt")
    assert (done.returncode, done.stderr) == (130, "counting: interrupted\n")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_leaves_no_half_made_folder(folder: pathlib.Path, number: signal.Signals, code: int) -> None:
    command = [sys.executable, "-m", "counting", "--input=wait"]
    with subprocess.Popen(command, cwd=folder, env=environment(), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.1)
        process.send_signal(number)
        assert process.wait(timeout=30) == code
    assert [path.name for path in folder.iterdir() if path.name.startswith("made")] == []


def test_a_reader_that_goes_away_is_no_error(folder: pathlib.Path) -> None:
    command = f"{shlex.quote(sys.executable)} -u -m counting --help | head -n 1"
    done = subprocess.run(command, shell=True, cwd=folder, env=environment(), capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("python -m counting\n", "")


def test_progress_in_a_pipe_is_plain_lines(folder: pathlib.Path) -> None:
    done = run(folder, "--input=progress")
    assert done.returncode == 0
    assert done.stderr.startswith("counting: 41 of 41 things (100%), ")
    assert done.stderr.endswith(" things/s, loss 0.1235\n")
    assert "\x1b" not in done.stderr
    assert "counting:" not in done.stdout


def test_table_keeps_brackets_and_aligns_numbers(folder: pathlib.Path) -> None:
    done = run(folder, "--input=table", PYTHONIOENCODING="utf-8")
    rows = [line.split() for line in done.stdout.splitlines()]
    assert ["[mask]", "12,345", "0.5"] in rows
    assert ["▁der", "7", "0.25"] in rows


def test_table_under_another_encoding(folder: pathlib.Path) -> None:
    done = run(folder, "--input=table", PYTHONIOENCODING="latin-1")
    assert done.returncode == 0
    assert "\\u2581der" in done.stdout


def test_flags_from_a_file(folder: pathlib.Path) -> None:
    (folder / "settings").write_text("--input=x\n--mode=slow\n", encoding="utf-8")
    assert run(folder, "--flagfile=settings").stdout == "mode slow imports []\n"


def test_tensorflows_file_errors_are_mistakes_of_the_caller() -> None:
    import tensorflow as tf

    from albert_tf import door

    expected = door._expected_errors()
    assert issubclass(tf.errors.NotFoundError, expected)
    assert issubclass(tf.errors.DataLossError, expected)
    assert not issubclass(tf.errors.InternalError, expected)
    error = tf.errors.NotFoundError(None, None, "a/b.txt;\n No such file")
    assert door._one_line(error) == "a/b.txt; No such file"


def test_news_come_with_the_time_of_day_and_warnings_say_so(folder: pathlib.Path) -> None:
    first, second = run(folder, "--input=news").stderr.splitlines()
    assert re.fullmatch(r"\d\d:\d\d:\d\d 5 things", first)
    assert re.fullmatch(r"\d\d:\d\d:\d\d warning: one is square", second)
    assert "counting.py:" in run(folder, "--input=news", "--verbosity=1").stderr


@pytest.mark.parametrize("flag", ["--input=", "--mode=", "--colours=", "--shape="])
def test_flag_without_a_value(folder: pathlib.Path, flag: str) -> None:
    done = run(folder, "--input=value", flag)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert f"{flag} has no value" in done.stderr or "--mode=: value should be one of" in done.stderr, done.stderr


def test_errors_name_the_file_that_was_asked_for(folder: pathlib.Path) -> None:
    for path, reason in ((f"{'a' * 300}.txt", "File name too long"), ("counting.py/a/b", "Not a directory")):
        done = run(folder, f"--input=write {path}")
        assert done.returncode == 1
        assert done.stderr.count("\n") == 1
        assert "partial" not in done.stderr
        assert done.stderr.endswith(f"{reason}\n")


def test_attributes_of_a_settings_class_become_help() -> None:
    class Settings:
        """Settings of the count.

        Attributes:
          things: how many, and a line that is long enough to be
            continued on the next: with a colon.
          colour: of each.

        Raises:
          ValueError: never.
        """

    assert door.attribute_help(Settings) == {
        "things": "how many, and a line that is long enough to be continued on the next: with a colon.",
        "colour": "of each.",
    }
    assert door.attribute_help(int) == {}


def test_counts_have_their_noun() -> None:
    assert [door.counted(count, "file") for count in (0, 1, 2, 4321)] == ["0 files", "1 file", "2 files", "4,321 files"]


def test_settings_made_from_flags_are_wrong_usage() -> None:
    with pytest.raises(door.UsageError, match="num_things must be odd, got 4"), door.checking_flags():
        raise ValueError("num_things must be odd, got 4")
    with pytest.raises(KeyError), door.checking_flags():
        raise KeyError("a fault of the program")
