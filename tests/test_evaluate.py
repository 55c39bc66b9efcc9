"""The door evaluate: figures of a split, reports of each, and models whose task must be named."""

from __future__ import annotations

import json
import pathlib

import pytest

from albert_tf import door, evaluate
from albert_tf.head_config import HeadConfig
from albert_tf.tasks.task_config import TaskConfig
from tests import doors
from tests.inference.conftest import ask, make, save

LABELS = ("contradiction", "entailment", "neutral")
HEAD = HeadConfig(head="classifier", labels=LABELS)
MNLI = TaskConfig(task="mnli", max_seq_length=24)
TEXTS = [(f"A name {'of a module ' * (n % 5)}", f"It {'is ' * (n % 3)}red.") for n in range(11)]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return save(tmp_path_factory.mktemp("mnli") / "model", HEAD, MNLI)


@pytest.fixture
def data(tmp_path: pathlib.Path) -> pathlib.Path:
    folder = tmp_path / "data"
    folder.mkdir()
    for split, count in (("dev_matched", 11), ("dev_mismatched", 7)):
        rows = [f"{n}\t{a}\t{b}\t{LABELS[n % 3]}" for n, (a, b) in enumerate(TEXTS[:count])]
        header = "index\tsentence1\tsentence2\tgold_label"
        (folder / f"{split}.tsv").write_text("\n".join([header, *rows]) + "\n")
    return folder


def test_reports_of_all_dev_sets(
    model: pathlib.Path, data: pathlib.Path, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "reports"
    doors.run(evaluate, f"--model={model}", f"--data_dir={data}", f"--output_dir={output}", "--batch_size=3")
    shown = capsys.readouterr().out
    found = ask(make(HEAD, task_config=MNLI), [{"text": a, "text_b": b} for a, b in TEXTS])
    for split, count in (("dev_matched", 11), ("dev_mismatched", 7)):
        right = sum(one["label"] == LABELS[n % 3] for n, one in enumerate(found[:count]))
        metrics = json.loads((output / split / "metrics.json").read_text())
        assert metrics["examples"] == count
        assert metrics["metrics"]["accuracy"] == pytest.approx(right / count)
        names = {path.name for path in (output / split).iterdir()}
        assert {"per_class.tsv", "confusion_matrix.png", "confusion_matrix.svg", "errors.tsv"} <= names
        assert len((output / split / "errors.tsv").read_text().splitlines()) == 1 + count - right
        assert f"mnli, {split}: {count} examples" in shown
    assert all(label in shown for label in LABELS)
    with pytest.raises(ValueError, match="has content already"):
        doors.run(evaluate, f"--model={model}", f"--data_dir={data}", f"--output_dir={output}")


def test_reports_do_not_replace_what_is_read(model: pathlib.Path, data: pathlib.Path, tmp_path: pathlib.Path) -> None:
    for output in (data, tmp_path, model, tmp_path / "new" / ".."):
        with pytest.raises(door.UsageError, match=r"is or holds .*, which is read; name a folder of its own"):
            doors.run(evaluate, f"--model={model}", f"--data_dir={data}", f"--output_dir={output}", "--overwrite")
    assert (data / "dev_matched.tsv").exists()
    assert (model / "model.safetensors").exists()


def test_a_task_may_be_named(data: pathlib.Path, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    plain = save(tmp_path / "plain", HEAD)
    with pytest.raises(door.UsageError, match="does not say what task it was fine-tuned on; name it with --task"):
        doors.run(evaluate, f"--model={plain}", f"--data_dir={data}")
    doors.run(evaluate, f"--model={plain}", "--task=mnli", f"--data_dir={data}", "--split=dev_mismatched")
    assert "mnli, dev_mismatched: 7 examples" in capsys.readouterr().out
    for task, message in (
        ("sts-b", "has the head 'classifier', the task sts-b is for 'regression'"),
        ("mrpc", "has 3"),
    ):
        with pytest.raises(ValueError, match=message):
            doors.run(evaluate, f"--model={plain}", f"--task={task}", f"--data_dir={data}")


def test_what_is_not_there(model: pathlib.Path, data: pathlib.Path, tmp_path: pathlib.Path) -> None:
    with pytest.raises(ValueError, match=r"no test_matched\.tsv, neither there nor in MNLI; there are dev_matched"):
        doors.run(evaluate, f"--model={model}", f"--data_dir={data}", "--split=test_matched")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="empty: has no dev set; name a --split"):
        doors.run(evaluate, f"--model={model}", f"--data_dir={tmp_path / 'empty'}")
    (data / "dev_mismatched.tsv").write_text("index\tsentence1\tsentence2\tgold_label\n0\ta\tb\tother\n")
    output = tmp_path / "out"
    with pytest.raises(ValueError, match=r"dev_mismatched\.tsv:2: label must be one of"):
        doors.run(evaluate, f"--model={model}", f"--data_dir={data}", f"--output_dir={output}")
    assert not output.exists()
