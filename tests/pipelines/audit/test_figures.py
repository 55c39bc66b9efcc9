"""Figures of the audit against plain counts."""

from __future__ import annotations

import math
import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipelines.audit import masked_rows, report
from tests.pipelines import building
from tests.pipelines.audit.directories import (
    MASK,
    UNK,
    Example,
    P,
    S,
    V,
    change_dataset,
    edit_all,
    inspect,
    run,
    text_of,
    unmasked,
    used,
)


def test_counts_are_those_of_the_records(data: Path) -> None:
    found, examples = inspect(data), building.read_examples(data)
    assert found.faults == []
    texts = [text_of(example) for example in examples]
    tokens = [token for text in texts for token in text]
    figures = found.figures
    assert (figures.examples, figures.tokens) == (len(texts), len(tokens))
    assert figures.unknown == tokens.count(UNK) > 0
    assert figures.duplicates() == len(texts) - len(set(texts)) > 0
    assert figures.padding().measured == pytest.approx(1 - (len(tokens) + 3 * len(texts)) / (S * len(texts)))
    assert figures.lengths.tolist() == [Counter(len(text) + 3 for text in texts)[length] for length in range(S + 1)]
    assert figures.piece_counts.tolist() == [Counter(tokens)[piece] for piece in range(V)]
    assert found.bytes == sum(path.stat().st_size for path in data.glob("*.tfrecord"))
    bins = report.length_bins(found)
    assert [begin for begin, _, _ in bins] == [1, *(end + 1 for _, end, _ in bins[:-1])]
    assert bins[-1][1] == S
    for begin, end, count in bins:
        assert count == sum(begin <= len(text) + 3 <= end for text in texts)


def words_of(example: Example) -> list[list[list[int]]]:
    """Positions of the words of each segment of a static record."""
    real, second = sum(example["input_mask"]), example["segment_ids"].index(1)
    segments = []
    for begin, end in ((1, second - 1), (second, real - 1)):
        words: list[list[int]] = []
        for position in range(begin, end):
            if example["token_boundary"][position]:
                words.append([])
            words[-1].append(position)
        segments.append(words)
    return segments


def test_masks_of_static_records_are_counted(built: Path) -> None:
    found, examples = inspect(built / "static"), building.read_examples(built / "static")
    shown: Counter[str] = Counter()
    runs: Counter[int] = Counter()
    real = full = left_over = 0
    expected = variance = 0.0
    for example in examples:
        count = sum(weight == 1 for weight in example["masked_lm_weights"])
        predicted = set(example["masked_lm_positions"][:count])
        ids = unmasked(example)
        for position in predicted:
            seen = example["input_ids"][position]
            shown["mask" if seen == MASK else "same" if seen == ids[position] else "other"] += 1
        lengths = [S]
        for words in words_of(example):
            pattern = "".join("x" if set(word) <= predicted else "-" for word in words)
            assert sum(len(word) for word, sign in zip(words, pattern, strict=True) if sign == "x") == len(
                predicted & {position for word in words for position in word}
            )
            runs.update(len(run) for run in re.findall("x+", pattern))
            lengths += [len(word) for word, sign in zip(words, pattern, strict=True) if sign == "-"]
        budget = 0.15 * sum(example["input_mask"])
        up = budget - math.floor(budget)
        low, high = (min(max(math.floor(budget) + more, 1), P) for more in (0, 1))
        real, full = real + sum(example["input_mask"]), full + (count == P)
        expected, variance = expected + low + up * (high - low), variance + up * (1 - up) * (high - low)
        left_over += min(max(0, (high if up else low) - count), min(lengths) - 1)
    masks = found.figures.masks
    assert (masks.shown_mask, masks.shown_same, masks.shown_other) == (shown["mask"], shown["same"], shown["other"])
    assert masks.masked == sum(shown.values())
    assert dict(enumerate(masks.runs.tolist())) == {words: runs[words] for words in range(len(masks.runs))}
    assert sum(runs.values()) == masks.runs.sum() > 100
    assert (masks.full, masks.words_cut, masks.left_over) == (full, 0, left_over)
    assert (masks.expected, masks.variance) == pytest.approx((expected, variance))
    share, error = found.figures.masked(), 4 * math.sqrt(variance)
    assert share[:2] == pytest.approx((sum(shown.values()) / real, expected / real))
    assert share[2:] == pytest.approx(((expected - error - left_over) / real, (expected + error) / real))
    mask = found.figures.shown()["[MASK]"]
    error = 4 * math.sqrt(0.16 / masks.masked)
    assert mask == pytest.approx((shown["mask"] / masks.masked, 0.8, 0.8 - error, 0.8 + error))
    assert sum(figure.expected or 0 for figure in found.figures.shown().values()) == pytest.approx(1)
    assert found.figures.labels_1 == sum(example["next_sentence_labels"][0] for example in examples)
    assert report.failed(found) == []


def test_masks_of_dynamic_records_are_drawn(built: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = []
    draw = masked_rows.draw

    def keep(*arguments: Any) -> masked_rows.MaskedRows:
        drawn.append(draw(*arguments))
        return drawn[-1]

    monkeypatch.setattr(masked_rows, "draw", keep)
    found = inspect(built / "dynamic")
    examples = building.read_examples(built / "dynamic")
    texts = [text for rows in drawn for text in rows.texts()]
    assert texts == [np.array(text_of(example), dtype=np.int32).tobytes() for example in examples]
    swapped = np.concatenate([rows.is_swapped for rows in drawn])
    lengths = [example["segment_lengths"] for example in examples]
    assert np.concatenate([rows.first_lengths for rows in drawn]).tolist() == [
        pair[int(exchanged)] for pair, exchanged in zip(lengths, swapped, strict=True)
    ]
    assert 0.3 < swapped.mean() < 0.7
    masks = found.figures.masks
    assert masks.masked == sum(int(rows.is_masked.sum()) for rows in drawn)
    assert found.figures.masked().is_ok
    assert masks.words_cut == 0
    assert report.failed(found) == []
    assert "drawn here" in report.drawn_note(found)
    assert inspect(built / "dynamic").figures.masks.shown_mask == masks.shown_mask


def test_a_word_masked_in_part_is_counted(static: Path) -> None:
    cut = 0

    def edit(example: Example) -> None:
        nonlocal cut
        count = used(example)
        final = example["masked_lm_positions"][count - 1]
        word = next(word for words in words_of(example) for word in words if final in word)
        if len(word) > 1:
            example["input_ids"][final] = example["masked_lm_ids"][count - 1]
            for name in ("masked_lm_positions", "masked_lm_ids", "masked_lm_weights"):
                example[name][count - 1] *= 0
            cut += 1

    edit_all(static, 1, edit)
    found = inspect(static)
    assert found.figures.masks.words_cut == cut > 10
    assert f"words that are masked in part {cut}" in report.failed(found)
    assert ["positions_masked is" in fault for fault in found.faults] == [True]


def test_a_figure_off_its_range_is_a_warning(static: Path) -> None:
    for index in range(3):
        edit_all(static, index, lambda example: example.update(next_sentence_labels=[1]))
    change_dataset(static, lambda values: values["counts"].update(examples_swapped=values["counts"]["examples"]))
    done = run("--data_dir=static", cwd=static.parent)
    assert done.returncode == 0, done.stderr
    assert "warning: NOT ok: examples with exchanged segments (label 1) 100.000%" in done.stderr
    assert re.search(r"exchanged segments \(label 1\) +100\.000% +50\.000% \(\S+ to \S+\) +NOT ok", done.stdout)
    assert done.stdout.count("NOT ok") == 1
