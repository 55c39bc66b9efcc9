"""What the door does with bad input and when it is stopped: one line, the right exit code, nothing left behind."""

from __future__ import annotations

import io
import os
import re
import resource
import signal
import subprocess
import time
from pathlib import Path

import pytest
import sentencepiece

from albert_tf.tokenizer import AlbertTokenizer
from tests.pipelines import building
from tests.pipelines.conftest import make_documents, write_corpus

needs_proc = pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="needs /proc to see the workers")


def model_without_mask() -> bytes:
    """SentencePiece model as it comes without ALBERT's special pieces."""
    model = io.BytesIO()
    lines = [sentence for document in make_documents(30, seed=3) for sentence in document]
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=model, vocab_size=90, pad_id=3, minloglevel=2
    )
    return model.getvalue()


@pytest.fixture
def folder(tmp_path: Path, tokenizer_folder: Path, tokenizer: AlbertTokenizer) -> Path:
    """Good and bad inputs side by side."""
    write_corpus(tmp_path / "good.txt", make_documents(7, seed=1))
    (tmp_path / "empty.txt").write_bytes(b"\n \n")
    (tmp_path / "words.txt").write_bytes(b"an\n\nan\n")
    (tmp_path / "bad.txt").write_bytes(b"an bel.\n\ncor \xe2\x82 dis\n")
    (tmp_path / "no.model").write_bytes(b"this is no model")
    (tmp_path / "cut.model").write_bytes(tokenizer.model_proto[:-9])
    (tmp_path / "plain.model").write_bytes(model_without_mask())
    for name, config in {"unknown": '{"lowercase": true}', "broken": '{"lower_case": tru}'}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "spiece.model").write_bytes(tokenizer.model_proto)
        (tmp_path / name / "tokenizer_config.json").write_text(config)
    (tmp_path / "hollow" / ".git").mkdir(parents=True)
    (tmp_path / "hollow" / ".git" / "config").write_text("hidden")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").write_text("keep me")
    return tmp_path


def check_refused(folder: Path, arguments: list[str], code: int, message: str) -> None:
    before = {path: path.stat().st_mtime_ns for path in sorted(folder.rglob("*"))}
    defaults = ["--input=good.txt", "--tokenizer=tokenizer", "--output_dir=out", "--max_seq_length=37"]
    done = building.run(*defaults, *arguments, cwd=folder)
    assert done.returncode == code, done.stderr
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("pipelines.build_pretraining_data: error: ")
    assert message in line
    assert {path: path.stat().st_mtime_ns for path in sorted(folder.rglob("*"))} == before


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--input=missing.txt"], 1, "missing.txt: no such file"),
        (["--input=good.txt,none-*.txt"], 1, "none-*.txt: no such file"),
        (["--input=hollow"], 1, "hollow: a folder without files"),
        (["--input=hol*"], 1, "hol*: matches folders only; name the files in them, as in 'texts/*.txt'"),
        (["--language=e1"], 2, "language must be a code such as en or zh, got 'e1'"),
        (
            ["--tokenizer=missing"],
            1,
            "missing: no such folder; a folder with spiece.model or vocab.txt and",
        ),
        (["--tokenizer=full"], 1, "full: has no tokenizer_config.json; a folder with spiece.model"),
        (["--tokenizer=no.model"], 1, "no.model: not a SentencePiece model, or a damaged one (16 bytes)"),
        (["--tokenizer=cut.model"], 1, "cut.model: not a SentencePiece model, or a damaged one"),
        (["--tokenizer=plain.model"], 1, "plain.model: the vocabulary of 90 pieces has no [CLS], [SEP], [MASK]"),
        (["--tokenizer=unknown"], 1, "unknown/tokenizer_config.json: unknown key 'lowercase'; known keys: lower_case"),
        (["--tokenizer=broken"], 1, "broken/tokenizer_config.json:1:16: not valid JSON"),
        (["--output_dir=full"], 1, "full has content already"),
        (["--output_dir=good.txt"], 1, "good.txt"),
        (["--output_dir=good.txt/out"], 1, "good.txt"),
        (["--max_seq_length=4"], 2, "max_seq_length must be at least 5"),
        (["--masked_lm_prob=1.5"], 2, "masked_lm_prob must be in (0, 1), got 1.5"),
        (["--short_seq_prob=-0.1"], 2, "short_seq_prob must be in [0, 1], got -0.1"),
        (["--num_shards=0"], 2, "num_shards must be in [1, 99999], got 0"),
        (["--num_workers=0"], 2, "num_workers must be in [1, "),
        (["--num_workers=1000000"], 2, "got 1000000"),
        (["--max_ngram=1000000000"], 2, "max_ngram must be in [1, 64], got 1000000000"),
        (["--max_seq_length=1000000000"], 2, "max_seq_length must be at most 65536, got 1000000000"),
        (["--max_predictions_per_seq=38"], 2, "max_predictions_per_seq must be in [1, 37], got 38"),
        (["--dupe_factor=1000000000", "--masking=static"], 2, "dupe_factor must be in [1, 1000], got 1000000000"),
        (["--beam_option=--flink_master=a:1"], 2, "beam_option --flink_master=a:1 is for another --runner"),
        (["--output_dir="], 2, "--output_dir= has no value; give one or leave the flag out"),
        (["--input="], 2, "--input= has no value"),
        (["--input=/dev/null"], 1, "/dev/null: is no regular file"),
        (["--seed=-1"], 2, "seed must be in [0, 2**62), got -1"),
        (["--dupe_factor=2"], 2, "dupe_factor must be 1 with masking=dynamic, got 2"),
        (["--masking=none"], 2, "masking"),
        (["--num_workers=2", "--runner=FlinkRunner"], 2, "num_workers is for --runner=local, got runner FlinkRunner"),
        (["--max_seq=9"], 2, "unknown flag --max_seq; did you mean --max_seq_length?"),
    ],
)
def test_faults_found_before_any_work(folder: Path, arguments: list[str], code: int, message: str) -> None:
    check_refused(folder, arguments, code, message)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--input=empty.txt"], "empty.txt: no text; one sentence a line is expected"),
        (["--input=words.txt"], "words.txt: no document of two words or more"),
        (["--input=good.txt,bad.txt"], "bad.txt: line 3, byte 13: not valid UTF-8 (0xe2: invalid continuation byte)"),
        (["--runner=NoSuchRunner"], "Unexpected pipeline runner: NoSuchRunner"),
    ],
)
def test_faults_found_while_working(folder: Path, arguments: list[str], message: str) -> None:
    check_refused(folder, arguments, 1, message)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_a_file_that_cannot_be_written_is_named(folder: Path, workers: int) -> None:
    limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (3_000, 3_000))  # noqa: E731
    arguments = ["--input=good.txt", "--tokenizer=tokenizer", "--output_dir=out", f"--num_workers={workers}"]
    done = subprocess.run(
        building.command(*arguments, "--num_shards=1"), capture_output=True, text=True, timeout=300, cwd=folder,
        env=building.environment(), preexec_fn=limit,
    )  # fmt: skip
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line == (
        "pipelines.build_pretraining_data: error: out.building/pretrain-00000-of-00001.tfrecord: File too large"
    )
    assert not (folder / "out").exists()


@pytest.mark.slow
def test_a_fault_in_a_worker_process_reads_the_same(folder: Path) -> None:
    message = f"{folder}/bad.txt: line 3, byte 13: not valid UTF-8 (0xe2: invalid continuation byte)"
    check_refused(folder, ["--input=good.txt,bad.txt", "--num_workers=2"], 1, message)


def worker_processes(launcher: int) -> list[int]:
    """Ids of the workers that process `launcher` started and that still run."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            arguments = path.read_bytes().split(b"\0")
        except OSError:
            continue  # it has just ended
        if b"pipelines.worker" in arguments and str(launcher).encode() in arguments:
            found.append(int(path.parent.name))
    return found


def wait_for_workers(launcher: int, count: int, seconds: float) -> bool:
    """Whether exactly `count` workers of `launcher` run within some seconds."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if len(worker_processes(launcher)) == count:
            return True
        time.sleep(0.05)
    return False


def start(tmp_path: Path, tokenizer_folder: Path) -> subprocess.Popen[str]:
    """The door at work for some seconds, with two workers."""
    write_corpus(tmp_path / "big.txt", make_documents(3000, seed=8))
    arguments = (
        f"--input={tmp_path}/big.txt",
        f"--tokenizer={tokenizer_folder}",
        f"--output_dir={tmp_path}/out/data",
        "--max_seq_length=37",
        "--masking=static",
        "--dupe_factor=9",
        "--num_workers=2",
    )
    return subprocess.Popen(
        building.command(*arguments),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**building.environment(), "TMPDIR": str(tmp_path)},
        start_new_session=True,
    )


@pytest.mark.slow
@needs_proc
@pytest.mark.parametrize("delay", [0.1, 5.0])  # while it starts; while it works
def test_a_killed_worker_ends_the_command_with_one_line(delay: float, tmp_path: Path, tokenizer_folder: Path) -> None:
    process = start(tmp_path, tokenizer_folder)
    try:
        assert wait_for_workers(process.pid, 2, seconds=60)
        time.sleep(delay)
        os.kill(worker_processes(process.pid)[0], signal.SIGKILL)
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 1
        assert "Traceback" not in errors
        assert "error: a worker process ended before its work was done" in errors.splitlines()[-1]
        assert wait_for_workers(process.pid, 0, seconds=10)
    finally:
        process.kill()
        process.communicate()
    assert not list((tmp_path / "out").iterdir())


@pytest.mark.representatives("2-*", "9-*")
@pytest.mark.slow
@needs_proc
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -signal.SIGKILL)]
)
def test_no_worker_outlives_the_command(
    number: signal.Signals, code: int, tmp_path: Path, tokenizer_folder: Path
) -> None:
    process = start(tmp_path, tokenizer_folder)
    try:
        assert wait_for_workers(process.pid, 2, seconds=60)
        time.sleep(1.0)
        assert process.poll() is None
        process.send_signal(number)
        _, errors = process.communicate(timeout=30)
        assert process.returncode == code
        assert "Traceback" not in errors
        assert wait_for_workers(process.pid, 0, seconds=10)
    finally:
        process.kill()
        process.communicate()
    assert not (tmp_path / "out" / "data").exists()
    if number != signal.SIGKILL:  # which leaves no time to tidy up
        assert not list((tmp_path / "out").iterdir())
        assert not list(tmp_path.glob("albert-pipeline-*"))


def test_a_file_name_that_is_not_utf8_is_refused(folder: Path) -> None:
    (folder / "texts").mkdir()
    (folder / os.fsdecode(b"texts/b\xff.txt")).write_text("One two. Three.\n")
    check_refused(folder, ["--input=texts"], 1, "b\\udcff.txt': the name of this file is not UTF-8; rename it")


def test_text_that_is_lost_is_a_warning(folder: Path) -> None:
    (folder / "words.txt").write_text("an\n\nbel\n\ncor\n\nan bel cor. Dis en fer.\n")
    done = building.run(
        "--input=words.txt", "--tokenizer=tokenizer", "--output_dir=out", "--max_seq_length=37", cwd=folder
    )
    assert done.returncode == 0, done.stderr
    assert re.search(r"warning: \d\d\.\d\d % of the tokens are in the examples", done.stderr)
