"""The door predict: where questions come from, the order and form of answers, and mistakes."""

from __future__ import annotations

import json
import pathlib

import pytest

from albert_tf import door, predict
from albert_tf.head_config import HeadConfig
from albert_tf.tasks.task_config import TaskConfig
from tests import doors
from tests.inference.conftest import save

CLASSIFIER = HeadConfig(head="classifier", labels=("0", "1"))
SST2 = TaskConfig(task="sst-2", max_seq_length=24)
TEXTS = ("A good film.", "The value of the names of the module is found in it again and again.", "", "No.", "It was.")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return save(tmp_path_factory.mktemp("sst2") / "model é", CLASSIFIER, SST2)


def answers(capsys: pytest.CaptureFixture[str], *arguments: object) -> list[dict]:
    doors.run(predict, *arguments)
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def probabilities(found: list[dict]) -> list[float]:
    return [one["probabilities"]["1"] for one in found]


def test_texts_of_the_command_line(model: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = answers(capsys, f"--model={model}", *(f"--text={text}" for text in TEXTS))
    assert [(one["id"], one["text"]) for one in found] == [(str(n + 1), text) for n, text in enumerate(TEXTS)]
    assert list(found[0]) == ["id", "text", "label", "probability", "probabilities"]


def test_every_way_in_gives_the_same_answers(
    model: pathlib.Path, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = answers(capsys, f"--model={model}", *(f"--text={text}" for text in TEXTS))
    files = {
        "a.txt": "".join(f"{text}\r\n" for text in TEXTS),
        "test.tsv": "index\tsentence\n" + "".join(f"{n}\t{text}\n" for n, text in enumerate(TEXTS)),
        "a.csv": "name,text\n" + "".join(f"{n},{text}\n" for n, text in enumerate(TEXTS)),
        "a.jsonl": "".join(json.dumps({"review": text}) + "\n" for text in TEXTS),
    }
    for name, content in files.items():
        (tmp_path / name).write_bytes(content.encode())
    ways = {
        (f"--input={tmp_path}/a.txt",): [f"a.txt:{n}" for n in range(1, 6)],
        (f"--input={tmp_path}/a.txt", "--read_ahead=2", "--batch_size=1"): [f"a.txt:{n}" for n in range(1, 6)],
        (f"--input={tmp_path}/a.txt", "--nosort_by_length", "--batch_size=2"): [f"a.txt:{n}" for n in range(1, 6)],
        (f"--input={tmp_path}/test.tsv",): list("01234"),
        (f"--input={tmp_path}/a.csv", "--text_column=text", "--id_column=name"): list("01234"),
        (f"--input={tmp_path}/a.jsonl", "--text_column=review"): [f"a.jsonl:{n}" for n in range(1, 6)],
        (f"--data_dir={tmp_path}",): list("01234"),
    }
    for way, ids in ways.items():
        found = answers(capsys, f"--model={model}", *way)
        assert [one["id"] for one in found] == ids, way
        assert probabilities(found) == pytest.approx(probabilities(expected), abs=1e-5), way  # sums in another order


def test_a_file_is_there_when_it_is_whole(model: pathlib.Path, tmp_path: pathlib.Path) -> None:
    good, bad, output = tmp_path / "good.txt", tmp_path / "bad.txt", tmp_path / "out" / "answers.jsonl"
    good.write_text("One.\nTwo.\n", encoding="utf-8")
    bad.write_bytes(b"One.\nTwo.\n\xff\n")
    with pytest.raises(ValueError, match=r"bad\.txt:3: not UTF-8"):
        doors.run(predict, f"--model={model}", f"--input={bad}", f"--output={output}", "--read_ahead=1")
    assert list(output.parent.iterdir()) == []
    doors.run(predict, f"--model={model}", f"--input={good}", f"--output={output}")
    assert [json.loads(line)["id"] for line in output.read_text(encoding="utf-8").splitlines()] == [
        "good.txt:1",
        "good.txt:2",
    ]


def test_pairs_and_other_heads(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    span = save(tmp_path / "span", HeadConfig(head="span", pooler=False))
    (found,) = answers(capsys, f"--model={span}", "--text=What was red?", "--text_b=In 2010, it was red.", "--top_k=2")
    assert list(found)[:4] == ["id", "question", "context", "answer"]
    assert found["context"][found["start"] : found["end"]] == found["answer"]
    assert len(found["answers"]) == 2
    choice = save(tmp_path / "choice", HeadConfig(head="multiple_choice"))
    (tmp_path / "a.jsonl").write_text('{"context": "a", "choices": ["b", "c"]}\n', encoding="utf-8")
    assert answers(capsys, f"--model={choice}", f"--input={tmp_path}/a.jsonl")[0]["text"] in "bc"
    with pytest.raises(door.UsageError, match="a model that chooses takes --input: JSON lines"):
        doors.run(predict, f"--model={choice}", "--text=a")
    tagging = TaskConfig(task="tagging", options={"labels": ["B-X", "O"]}, max_seq_length=24)
    tags = save(tmp_path / "tags", HeadConfig(head="token_classifier", labels=("B-X", "O")), tagging)
    (tmp_path / "a.conll").write_text("A B-Y\nname O\n\nTwo O\n", encoding="utf-8")
    found_tags = answers(capsys, f"--model={tags}", f"--input={tmp_path}/a.conll")
    assert [one["words"] for one in found_tags] == [["A", "name"], ["Two"]]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give one of --text, --input and --data_dir"),
        (["--text=a", "--input=b"], "give one of --text and --input"),
        (["--text=a", "--data_dir=b"], "give one of --text, --input and --data_dir"),
        (["--text=a", "--text=b", "--text_b=c"], "give as many --text_b as --text, got 1 and 2"),
        (["--input=-", "--text_b=c"], "--text_b goes with --text"),
        (["--text=a", "--text_column=c"], "--text_column is of --input"),
        (["--text=a", "--split=dev"], "--split is of --data_dir"),
        (["--data_dir=b", "--id_column=c"], "--id_column is of --input"),
        (["--text=a", "--text_b=b"], "--text_b is for models of two texts, this one takes one"),
    ],
)
def test_flags_that_do_not_go_together(model: pathlib.Path, arguments: list[str], message: str) -> None:
    with pytest.raises(door.UsageError, match=message):
        doors.run(predict, f"--model={model}", *arguments)


def test_an_input_is_not_replaced_by_its_answers(model: pathlib.Path, tmp_path: pathlib.Path) -> None:
    content = "index\tsentence\n0\tA good film.\n"
    test, link = tmp_path / "test.tsv", tmp_path / "link.tsv"
    test.write_text(content)
    link.symlink_to(test)
    for source in (f"--input={test}", f"--data_dir={tmp_path}"):
        for output in (test, link):
            with pytest.raises(
                door.UsageError, match=r"is the file that is read, .*test\.tsv, and would take its place"
            ):
                doors.run(predict, f"--model={model}", source, f"--output={output}")
            assert test.read_text() == content


def test_what_is_not_there(model: pathlib.Path, tmp_path: pathlib.Path) -> None:
    for arguments, error in (
        ([f"--model={model}", "--input=nowhere.txt"], FileNotFoundError),
        ([f"--model={model}", f"--input={tmp_path}"], IsADirectoryError),
        (["--model=nowhere", "--text=a"], FileNotFoundError),
    ):
        with pytest.raises(error):
            doors.run(predict, *arguments)
    plain = save(tmp_path / "plain", CLASSIFIER)
    with pytest.raises(ValueError, match="was not fine-tuned on a task whose files --data_dir could hold"):
        doors.run(predict, f"--model={plain}", f"--data_dir={tmp_path}")
    with pytest.raises(ValueError, match=r"no test\.tsv, neither there nor in SST-2"):
        doors.run(predict, f"--model={model}", f"--data_dir={tmp_path}")
    (tmp_path / "test.tsv").write_text("review\nfine\n")
    with pytest.raises(ValueError, match=r"test\.tsv:2: no column 'sentence'; columns: 'review'$"):  # no flag names it
        doors.run(predict, f"--model={model}", f"--data_dir={tmp_path}")
    table = tmp_path / "table.tsv"
    table.write_text("review\nfine\n")
    with pytest.raises(
        ValueError, match=r"table\.tsv:2: no column 'sentence'; columns: 'review'; name .* --text_column,"
    ):
        doors.run(predict, f"--model={model}", f"--input={table}")
    (plain / "tokenizer_config.json").unlink()
    with pytest.raises(ValueError, match="has no tokenizer, so no text can be read"):
        doors.run(predict, f"--model={plain}", "--text=a")
