"""What pretraining is worth: how rows are set aside, what is held out, the bag of words, and the table's arithmetic."""

from __future__ import annotations

import pathlib

import pytest

from albert_tf.door import UserError
from tests import doors

gain = doors.load("benchmarks.pretraining_gain")


def test_rows_to_choose_on_are_taken_out_of_the_training_rows(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the six sentences every other is chosen; none of its phrases stays, nor what holds it."""
    monkeypatch.setattr(gain, "CHOICE_ROWS", 3)
    monkeypatch.setattr(gain, "LONG", 4)
    sentences = [f"a{number} long sentence {number} ends \t{number % 2}" for number in range(6)]
    parts = [f"long sentence {number} \t1" for number in range(6)]
    around = "so a2 long sentence 2 ends here \t0"
    words = ["ends \t1", "a \t0", "end \t1"]
    rows = [*sentences, *parts, around, *words]
    (tmp_path / "train.tsv").write_text("\n".join(["sentence\tlabel", *rows]) + "\n")
    folder = pathlib.Path(gain.Experiment(str(tmp_path / "out")).rows_to_choose_on(str(tmp_path)))
    train, dev = ((folder / name).read_text().splitlines() for name in ("train.tsv", "dev.tsv"))
    assert train[0] == dev[0] == "sentence\tlabel"
    assert dev[1:] == [sentences[0], sentences[2], sentences[4]]
    assert train[1:] == [*sentences[1::2], *parts[1::2], *words[1:]]
    (tmp_path / "train.tsv").write_text("\n".join(["sentence\tlabel", *rows[:5]]) + "\n")
    with pytest.raises(UserError, match=r"train\.tsv: must have 6 rows of 4 words, got 5"):
        gain.Experiment(str(tmp_path / "out")).rows_to_choose_on(str(tmp_path))


def test_a_result_of_another_command_is_not_taken_for_this_ones(tmp_path: pathlib.Path) -> None:
    experiment = gain.Experiment(str(tmp_path))
    result = str(tmp_path / "tokenizer")
    text = tmp_path / "text.txt"
    text.write_text("One sentence of words.\n")
    with pytest.raises(UserError, match=r"pipelines\.train_tokenizer ended with exit code 1"):  # too little text
        experiment.run("pipelines.train_tokenizer", result, input=text, output_dir=result, vocab_size=9000)
    with pytest.raises(UserError, match=r"tokenizer: made by another command .*; name another --output_dir"):
        experiment.run("pipelines.train_tokenizer", result, input=text, output_dir=result, vocab_size=8000)


def test_one_document_in_twenty_is_held_out(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    documents = [f"Document {number}.\nIts end." for number in range(45)]
    (tmp_path / "a.txt").write_text("\n\n".join(documents) + "\n")
    experiment = gain.Experiment(str(tmp_path / "out"))
    monkeypatch.setattr(experiment, "run", lambda *_, **__: None)
    experiment.pretrain(str(tmp_path / "*.txt"), steps=10, length=32)
    kept, held_out = (
        (tmp_path / "out" / "text" / side / "a.txt").read_text().strip().split("\n\n")
        for side in ("training", "held_out")
    )
    assert held_out == [documents[19], documents[39]]
    assert kept == [one for one in documents if one not in held_out]
    with pytest.raises(UserError, match="--text: no file matches"):
        experiment.pretrain(str(tmp_path / "*.md"), steps=10, length=32)


def test_the_bag_of_words_learns_words_and_pairs(tmp_path: pathlib.Path) -> None:
    # "not" turns the word behind it: no word alone tells the label.
    good, bad = ("fine film", "not dull film"), ("dull film", "not fine film")
    for name in ("train.tsv", "dev.tsv"):
        rows = [f"{text}\t1" for text in good] + [f"{text}\t0" for text in bad]
        (tmp_path / name).write_text("\n".join(["sentence\tlabel", *rows * 5]) + "\n")
    found = gain.bag_of_words(str(tmp_path), str(tmp_path))
    assert found["accuracies"] == [1.0]
    assert found["C"] in gain.STRENGTHS


def test_mean_and_standard_error_are_in_points() -> None:
    assert gain.summarize([0.80, 0.82, 0.84]) == (pytest.approx(82.0), pytest.approx(2 / 3**0.5))
    assert gain.summarize([0.5]) == (50.0, 0.0)
