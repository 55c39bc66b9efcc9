"""Questions to exported models: SavedModel and TFLite answer alike, and mistakes get one line."""

from __future__ import annotations

import json
import pathlib
import shutil
import subprocess
import sys

import pytest

from albert_tf.modeling.models import AlbertPretrainingModel
from albert_tf.tokenizer import AlbertTokenizer
from export import runners, tflite
from export.run_saved_model import ask
from export.saved_model import SavedModelReport
from tests import test_help
from tests.conftest import ROOT
from tests.test_imports import TENSORFLOW

TEXT, TEXT_B = "The [MASK] is a [MASK].", "It [MASK] an object."


@pytest.fixture(scope="module")
def from_saved_model(exported: SavedModelReport) -> runners.SavedModelRunner:
    return runners.SavedModelRunner(exported.text_folder)


@pytest.fixture(scope="module")
def tflite_file(directory: pathlib.Path) -> pathlib.Path:
    path = directory.parent / "float32.tflite"
    tflite.export_tflite(directory, path, quantization="float32")
    return path


@pytest.fixture(scope="module")
def from_tflite(tflite_file: pathlib.Path, directory: pathlib.Path) -> runners.TFLiteRunner:
    return runners.load_tflite_runner(tflite_file, directory)


def run_door(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "export.run_saved_model", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


@pytest.mark.parametrize("text_b", [None, TEXT_B, "no marker", ""])
def test_both_kinds_answer_alike(
    from_saved_model: runners.SavedModelRunner, from_tflite: runners.TFLiteRunner, text_b: str | None
) -> None:
    first, second = (ask(runner, TEXT, text_b, top_k=4) for runner in (from_saved_model, from_tflite))
    assert len(first["masks"]) == 2 + (text_b == TEXT_B)
    for one, other in zip(first["masks"], second["masks"], strict=True):
        assert one["position"] == other["position"]
        assert len(one["candidates"]) == 4
        for candidate, expected in zip(one["candidates"], other["candidates"], strict=True):
            assert (candidate["piece"], candidate["id"]) == (expected["piece"], expected["id"])
            assert candidate["probability"] == pytest.approx(expected["probability"], rel=1e-4)
    assert (first["in_order"] is None) == (text_b is None)
    if text_b is not None:
        assert first["in_order"] == pytest.approx(second["in_order"], rel=1e-4)


def test_order_alone(from_saved_model: runners.SavedModelRunner) -> None:
    answer = ask(from_saved_model, "One.", "Two.")
    assert answer["masks"] == []
    assert 0.0 < answer["in_order"] < 1.0


@pytest.mark.parametrize("kind", ["from_saved_model", "from_tflite"])
@pytest.mark.parametrize(
    ("text", "top_k", "message"),
    [
        ("no marker", 3, r"there is no \[MASK\], in capitals, in 'no marker'"),
        ("word " * 90 + "[MASK]", 3, r"1 of 1 \[MASK\] lie behind the first 70 tokens"),
        ("[MASK]", 9_999, "top_k must be"),
    ],
)
def test_questions_without_an_answer(kind: str, text: str, top_k: int, message: str, request) -> None:
    with pytest.raises(ValueError, match=message):
        ask(request.getfixturevalue(kind), text, top_k=top_k)


def test_other_kinds_of_files_are_refused(
    exported: SavedModelReport, tokenizer: AlbertTokenizer, tmp_path: pathlib.Path
) -> None:
    with pytest.raises(ValueError, match="has no signature 'fill_mask'"):
        runners.SavedModelRunner(exported.ids_folder)
    with pytest.raises(FileNotFoundError, match="is an empty folder; a SavedModel is wanted"):
        runners.SavedModelRunner(tmp_path)
    with pytest.raises(ValueError, match=r"some\.tflite: not a TFLite file"):
        runners.TFLiteRunner(b"nothing", tokenizer, max_seq_length=70, source="some.tflite")


@pytest.mark.parametrize(
    "damage", ["saved_model.pb", "variables/variables.index", "variables/variables.data-00000-of-00001"]
)
def test_damaged_saved_model_is_refused(exported: SavedModelReport, tmp_path: pathlib.Path, damage: str) -> None:
    shutil.copytree(exported.text_folder, tmp_path / "text")
    content = (tmp_path / "text" / damage).read_bytes()
    (tmp_path / "text" / damage).write_bytes(content[: len(content) // 2])
    with pytest.raises(ValueError, match="text: the SavedModel is damaged or incomplete"):
        runners.SavedModelRunner(tmp_path / "text")


def test_file_of_another_vocabulary_or_head_is_refused(
    tflite_file: pathlib.Path, tokenizer: AlbertTokenizer, model: AlbertPretrainingModel
) -> None:
    class Larger(AlbertTokenizer):
        def __init__(self) -> None:
            super().__init__(tokenizer.model_proto)
            self.vocab_size += 1

    with pytest.raises(ValueError, match=f"made for {tokenizer.vocab_size} pieces, the tokenizer has"):
        runners.TFLiteRunner(tflite_file.read_bytes(), Larger(), max_seq_length=70)
    encoder_alone = tflite.convert(model, quantization="float32", head="encoder")
    with pytest.raises(ValueError, match="has no masked_lm_logits; export it with --head=pretraining"):
        runners.TFLiteRunner(encoder_alone, tokenizer, max_seq_length=70)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--saved_model={model}", "--text=a [MASK]"], "is a model directory; a SavedModel is wanted"),
        (["--saved_model={model}/..", "--text=a [MASK]"], "has no saved_model.pb; a SavedModel is wanted"),
        (["--saved_model=nowhere", "--text=a [MASK]"], "nowhere: no such folder; a SavedModel is wanted"),
        (["--saved_model=nowhere", "--text=none"], "there is no [MASK], in capitals, in 'none'"),
    ],
)
def test_mistakes_are_found_before_tensorflow_is_loaded(
    directory: pathlib.Path, tmp_path: pathlib.Path, arguments: list[str], message: str
) -> None:
    done = test_help.run("export.run_saved_model", tmp_path, *(one.format(model=directory) for one in arguments))
    assert done.returncode == 1
    assert message in done.stderr
    assert test_help.loaded(done.stderr) & TENSORFLOW == set()


def test_door_prints_tables_or_json(tflite_file: pathlib.Path, directory: pathlib.Path) -> None:
    model = [f"--tflite={tflite_file}", f"--model={directory}", f"--text={TEXT}", f"--text_b={TEXT_B}", "--top_k=3"]
    done = run_door(*model)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""  # not even the line that LiteRT writes about its delegate
    assert "[MASK] 3 of 3" in done.stdout
    assert "the second text follows the first: 0." in done.stdout
    done = run_door(*model, "--json")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert [len(mask["candidates"]) for mask in answer["masks"]] == [3, 3, 3]
    assert sorted(answer) == ["in_order", "masks", "text", "text_b"]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--text=a [MASK]"], 2, "give one of --saved_model and --tflite"),
        (["--text=a [MASK]", "--saved_model=a", "--tflite=b"], 2, "give one of --saved_model and --tflite"),
        (["--text=a [MASK]", "--tflite=b"], 2, "--tflite needs --model"),
        (["--text=a [MASK]", "--saved_model=a", "--model=b"], 2, "--model goes with --tflite"),
        (["--saved_model=a"], 2, "missing --text"),
        (["--text=a [MASK]", "--tflite=nowhere.tflite", "--model={model}"], 1, "nowhere.tflite: No such file"),
        (
            ["--text=a [MASK]", "--tflite={tflite}", "--model=nowhere"],
            1,
            "nowhere: no such folder; a model directory is wanted",
        ),
        (["--text=none", "--tflite={tflite}", "--model={model}"], 1, "there is no [MASK], in capitals, in 'none'"),
    ],
)
def test_mistakes_get_one_line(
    tflite_file: pathlib.Path, directory: pathlib.Path, arguments: list[str], code: int, message: str
) -> None:
    done = run_door(*(one.format(tflite=tflite_file, model=directory) for one in arguments))
    assert done.returncode == code
    lines = done.stderr.splitlines()
    assert len(lines) == 1, lines
    assert lines[0].startswith("export.run_saved_model: error: ")
    assert message in lines[0]
    assert done.stdout == ""
