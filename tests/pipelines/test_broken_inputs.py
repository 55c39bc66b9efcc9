"""Input as it comes from the wild, at the doors: what is refused gives one line and leaves nothing, the rest is read.

A door that answers in a moment is started once and forked for every row.
"""

from __future__ import annotations

import bz2
import contextlib
import gzip
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import zstandard

from tests.pipelines import building
from tests.pipelines.conftest import make_documents, write_corpus

TRAIN, BUILD = "pipelines.train_tokenizer", "pipelines.build_pretraining_data"
FORKED = """
import importlib, json, os, sys
from albert_tf import door
from pipelines import data_directory, files, vocabulary
name = sys.argv[1]
main = importlib.import_module(name).main
if name.endswith("data"):
    files.load_beam()
    from pipelines import transforms
for line in sys.stdin:
    folder, arguments = json.loads(line)
    child = os.fork()
    if not child:
        os.chdir(folder)
        for number in (1, 2):
            os.dup2(os.open(f"../{number}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
        sys.argv = [name, *arguments]
        door.run(main)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""
Run = Callable[..., tuple[int, str, str]]


@contextlib.contextmanager
def door_of(name: str) -> Iterator[Callable[[Path, list[str]], tuple[int, str, str]]]:
    """A function that runs the door in a folder: exit code, standard output, standard error."""
    with subprocess.Popen(
        [sys.executable, "-c", FORKED, name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env=building.environment(),
    ) as process:  # fmt: skip
        asked, answered = process.stdin, process.stdout
        assert asked is not None
        assert answered is not None

        def run(folder: Path, arguments: list[str]) -> tuple[int, str, str]:
            asked.write(json.dumps([str(folder), arguments]) + "\n")
            asked.flush()
            code = int(answered.readline())
            return code, (folder.parent / "1").read_text(), (folder.parent / "2").read_text()

        yield run
        asked.close()
        assert process.wait(timeout=60) == 0


@pytest.fixture(scope="module")
def doors() -> Iterator[dict[str, Callable[[Path, list[str]], tuple[int, str, str]]]]:
    with door_of(TRAIN) as train, door_of(BUILD) as build:
        yield {TRAIN: train, BUILD: build}


@pytest.fixture
def run(doors, tmp_path: Path, tokenizer_folder: Path) -> Run:
    """Runs a door in the folder `work`, with its output in `out`."""
    (tmp_path / "work").mkdir()
    more = {
        TRAIN: ["--vocab_size=150", "--num_threads=1", "--nobake_normalizer"],
        BUILD: [f"--tokenizer={tokenizer_folder}", "--max_seq_length=37", "--num_shards=1"],
    }

    def call(name: str, *arguments: str) -> tuple[int, str, str]:
        return doors[name](tmp_path / "work", ["--output_dir=out", *more[name], *arguments])

    return call


DOCUMENTS = make_documents(40, seed=9)
TEXT = "\n\n".join("\n".join(document) for document in DOCUMENTS).encode()
JSON_LINE = b'{"id": 7, "text": "An bel."}\n'
NOT_UTF_8 = "convert the file to UTF-8, or leave such documents out with --on_bad_input=skip"
ONE_OBJECT = 'one JSON object a line is expected, such as {"text": "..."}, or leave such documents out with --on_bad'

# Name of the file, its content (None: a folder), and what is said: by both doors, or by one and the other.
REFUSED: dict[str, tuple[str, bytes | None, str | tuple[str, str]]] = {
    "NUL byte": (
        "a.txt",
        b"an bel.\n\ncor\0dis\n",
        "a.txt: line 3, byte 12: a NUL byte, which no text has; give text files in UTF-8 (not UTF-16), or leave such",
    ),
    "lone surrogate": (
        "a.txt",
        b"an bel.\n\ncor \xed\xa0\x80 dis\n",
        f"a.txt: line 3, byte 13: not valid UTF-8 (0xed: invalid continuation byte); {NOT_UTF_8}",
    ),
    "cut character": (
        "a.txt",
        TEXT + b" \xe2\x82",
        f"a.txt: line {TEXT.count(10) + 1}, byte {len(TEXT) + 1}: not valid UTF-8 (0xe2: unexpected end of data)",
    ),
    "Latin-1": ("a.txt", b"caf\xe9 an\n", "a.txt: line 1, byte 3: not valid UTF-8 (0xe9: invalid cont"),
    "UTF-16 with a mark": (
        "a.txt",
        "an bel.\n".encode("utf-16"),
        f"a.txt: line 1, byte 0: not valid UTF-8 (0xff: invalid start byte), UTF-16 by its first bytes; {NOT_UTF_8}",
    ),
    "UTF-16 without": ("a.txt", "an bel.\n".encode("utf-16-le"), "a.txt: line 1, byte 1: a NUL byte, which no text"),
    "empty": (
        "a.txt",
        b"",
        ("a.txt: no line of text to train on (the input is empty)", "a.txt: no text; one sentence a line is expected"),
    ),
    "white space": (
        "a.txt",
        " \n\t\r\n\u3000\n\n".encode(),
        ("a.txt: no line of text to train on (the input is empty)", "a.txt: no text; one sentence a line is expected"),
    ),
    "folder without files": ("a.txt", None, "a.txt: a folder without files"),
    "gzip cut off": (
        "a.txt.gz",
        gzip.compress(TEXT)[:-500],
        "a.txt.gz: cut off, its gzip data goes on behind the end of the file; copy it again",
    ),
    "no gzip": (
        "a.txt.gz",
        TEXT,
        "a.txt.gz: not a gzip file, or a damaged one (Error -3 while decompressing data: incorrect header check); copy",
    ),
    "zstd cut off": ("a.txt.zst", zstandard.compress(TEXT)[:-500], "a.txt.zst: cut off, its zstd data goes on behind"),
    "bzip2 cut off": ("a.txt.bz2", bz2.compress(TEXT)[:-500], "a.txt.bz2: cut off, its bzip2 data goes on behind the"),
    "broken JSON": (
        "a.jsonl",
        JSON_LINE + b'{"text": "an bel"\n',
        f"a.jsonl: line 2, byte 46: not valid JSON: Expecting ',' delimiter; {ONE_OBJECT}",
    ),
    "JSON with a number of 5,000 digits": (
        "a.jsonl",
        JSON_LINE + b'{"text": "an", "n": ' + 5000 * b"9" + b"}\n",
        f"a.jsonl: line 2, byte 29: JSON with a number of too many digits; {ONE_OBJECT}",
    ),
    "JSON without the key": (
        "a.jsonl",
        JSON_LINE + b'{"id": 3, "body": "an bel"}\n',
        "a.jsonl: line 2, byte 29: the object has no key 'text' (it has 'id', 'body'); name the key of the text with "
        "--text_key, or leave such documents out with --on_bad_input=skip",
    ),
    "JSON text that is a number": (
        "a.jsonl",
        JSON_LINE + b'{"text": 5}\n',
        "a.jsonl: line 2, byte 29: 'text' holds no text; name the key of the text with --text_key, or leave such",
    ),
    "JSON null": (
        "a.jsonl",
        JSON_LINE + b"null\n",
        f"a.jsonl: line 2, byte 29: holds null, no object; {ONE_OBJECT}",
    ),
    "JSON array": ("a.json", b'[{"text": "an"}]\n', f"a.json: line 1, byte 0: holds an array, no object; {ONE_OBJECT}"),
}


def check_refused(run: Run, name: str, work: Path, code: int, message: str, *arguments: str) -> None:
    """One line with the message, and no file that was not there before."""
    before = {path: path.lstat().st_mtime_ns for path in work.rglob("*")}
    returned, printed, errors = run(name, *arguments)
    assert returned == code, errors
    assert printed == ""
    (line,) = errors.splitlines()
    assert line.startswith(f"{name}: error: ")
    assert message in line
    assert {path: path.lstat().st_mtime_ns for path in work.rglob("*")} == before


@pytest.mark.parametrize("name", [TRAIN, BUILD])
@pytest.mark.parametrize("row", REFUSED)
def test_broken_files_are_refused(run: Run, name: str, row: str, tmp_path: Path) -> None:
    file, content, said = REFUSED[row]
    work = tmp_path / "work"
    if content is None:
        (work / file / ".hidden").mkdir(parents=True)
    else:
        (work / file).write_bytes(content)
    message = said if isinstance(said, str) else said[[TRAIN, BUILD].index(name)]
    check_refused(run, name, work, 1, message, f"--input={file}")


@pytest.mark.parametrize("name", [TRAIN, BUILD])
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        # A file that nobody can read, the superuser neither.
        (["--input=/proc/self/mem"], "/proc/self/mem: Input/output error"),
        (["--output_dir=a.txt"], "a.txt: is a file, a folder was expected"),
        (["--output_dir=a.txt/b/out"], "a.txt"),
        (["--output_dir=/proc/albert"], "/proc/albert: No such file or directory"),  # nobody can write there
        (["--input=nested"], "nested: a folder without files"),
        (["--input=ne*"], "ne*: matches folders only; name the files in them, as in 'texts/*.txt'"),
        (["--input=link.txt"], "link.txt: is a link to a file that is not there"),
        (["--input=a.txt,none.txt"], "none.txt: no such file"),
    ],
)
def test_paths_of_the_wrong_kind_are_refused(
    run: Run, name: str, arguments: list[str], message: str, tmp_path: Path
) -> None:
    work = tmp_path / "work"
    write_corpus(work / "a.txt", DOCUMENTS)
    (work / "nested" / "deeper").mkdir(parents=True)
    (work / "link.txt").symlink_to("nowhere.txt")
    check_refused(run, name, work, 1, message, *(["--input=a.txt", *arguments]))


@pytest.mark.parametrize("name", [TRAIN, BUILD])
def test_other_forms_of_the_same_text_give_the_same_bytes(run: Run, name: str, tmp_path: Path) -> None:
    forms = {
        "plain.txt": TEXT,
        "windows.txt": b"\xef\xbb\xbf" + TEXT.replace(b"\n", b"\r\n") + b"\r\n",
        "packed.txt.gz": gzip.compress(TEXT[:900]) + gzip.compress(TEXT[900:]),
        "packed.txt.zst": zstandard.compress(TEXT),
    }
    results = set()
    for file, content in forms.items():
        (tmp_path / "work" / file).write_bytes(content)
        code, _, errors = run(name, f"--input={file}", f"--output_dir=of {file}")
        assert code == 0, errors
        made = tmp_path / "work" / f"of {file}"
        results.add(next(made.glob("*.tfrecord" if name == BUILD else "*.model")).read_bytes())
    assert len(results) == 1


def test_a_line_of_fifty_megabytes(run: Run, tmp_path: Path) -> None:
    work = tmp_path / "work"
    with open(work / "a.txt", "wb") as stream:
        stream.write(TEXT + b"\n")
        stream.writelines(b"an bel cor dis en fer " * 1000 for _ in range(2300))
    code, printed, errors = run(TRAIN, "--input=a.txt", "--max_sentence_length=4000000")
    assert code == 0, errors
    rows = [line.split() for line in printed.splitlines()]
    assert ["dropped:", "too", "long", "1"] in rows
    assert ["lines", "used", str(sum(map(len, DOCUMENTS)))] in rows
    os.truncate(work / "a.txt", len(TEXT) + 1 + 1_100_000)
    code, printed, errors = run(BUILD, "--input=a.txt", "--output_dir=data")
    assert code == 0, errors
    tokens = [line.split()[-1] for line in printed.splitlines() if "tokens" in line]
    assert len(set(tokens[:2])) == 1  # none is lost
    assert int(tokens[0].replace(",", "")) > 300_000


def test_documents_that_are_too_long_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pipelines import blocks, readers

    monkeypatch.setattr(blocks, "LONGEST_DOCUMENT", 100)
    lines = [b"a b.\n", b"\n", *[b"word " * 9 + b"\n"] * 3, b"\n", b"c d.\n"]
    for form, line, byte in (("sentences", 3, 6), ("paragraphs", 3, 6), ("files", 1, 0)):
        settings = readers.ReaderSettings(input_format=form)  # type: ignore[arg-type]
        expected = f"a.txt: line {line}, byte {byte}: a document of more than 128 MB; put blank lines between documents"
        with pytest.raises(readers.InputError, match=expected):
            list(readers.read_documents(lines, "a.txt", settings))
    reading = readers.ReaderSettings(on_bad_input="skip")
    assert list(readers.read_documents(lines, "a.txt", reading)) == [["a b."], ["c d."]]
    # Sentence by sentence no document is gathered.
    assert len(list(readers.read_sentences(lines, "a.txt"))) == 5
