"""Inspection of data directories: figures against plain counts, and directories broken on purpose in every way."""

from __future__ import annotations

import hashlib
import html.parser
import io
import json
import math
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sentencepiece

from albert_tf.features import Feature
from albert_tf.tokenizer import AlbertTokenizer, TokenizerConfig
from pipelines import inspection, inspection_html, inspection_report, masked_rows
from pipelines.dataset import read_dataset
from pipelines.inspection import Inspection
from pipelines.records import frame_record, serialize_examples
from tests.conftest import ROOT
from tests.pipelines import building
from tests.pipelines.conftest import make_documents, write_corpus
from tests.reference.records import parse_example, read_payloads
from tests.test_help import RUN, loaded

Example = dict[str, list[Any]]

S, P, V = 61, 10, 211
PAD, UNK, CLS, SEP, MASK = range(5)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory, tokenizer: AlbertTokenizer) -> Path:
    """Folder with a data directory of either form; some tokens are unknown, some examples alike."""
    folder = tmp_path_factory.mktemp("built")
    documents = make_documents(45, seed=5)
    documents += [["An 日 bel 本 cor."], ["An bel cor dis.", "En fer gra."], ["An bel cor dis. En fer gra."]]
    corpus = write_corpus(folder / "corpus.txt", documents)
    building.build(folder / "dynamic", [corpus], tokenizer)
    building.build(folder / "static", [corpus], tokenizer, masking="static", dupe_factor=2)
    return folder


@pytest.fixture(params=["static", "dynamic"])
def data(request: pytest.FixtureRequest, built: Path, tmp_path: Path) -> Path:
    """A copy of a data directory, to be broken."""
    return Path(shutil.copytree(built / request.param, tmp_path / request.param))


@pytest.fixture
def static(built: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(built / "static", tmp_path / "static"))


@pytest.fixture
def dynamic(built: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(built / "dynamic", tmp_path / "dynamic"))


def inspect(folder: Path, show: int = 0) -> Inspection:
    return inspection.inspect(read_dataset(str(folder)), show=show)


def run(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pipelines.inspect_data", *arguments]
    return subprocess.run(command, cwd=cwd, env=building.environment(), capture_output=True, text=True)


def shard(folder: Path, index: int) -> Path:
    return folder / f"pretrain-{index:05d}-of-00003.tfrecord"


def change_dataset(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    path = folder / "dataset.json"
    values = json.loads(path.read_text())
    change(values)
    path.write_text(json.dumps(values))


def serialize(example: Example) -> bytes:
    """One record; types are those of the values."""
    columns, contract = {}, []
    for name, values in example.items():
        is_float = isinstance(values[0], float)
        contract.append(Feature(name=name, dtype="float32" if is_float else "int64", length=None))
        columns[name] = np.array(values, dtype=np.float32 if is_float else np.int64), np.array([len(values)])
    (payload,) = serialize_examples(contract, columns)
    return payload


def write_shard(folder: Path, index: int, payloads: list[bytes]) -> None:
    """Writes a shard anew, and dataset.json so that it tells of the new bytes."""
    content = b"".join(map(frame_record, payloads))
    shard(folder, index).write_bytes(content)

    def change(values: dict[str, Any]) -> None:
        values["shards"][index].update(bytes=len(content), sha256=hashlib.sha256(content).hexdigest())

    change_dataset(folder, change)


def edit_all(folder: Path, index: int, edit: Callable[[Example], Any]) -> None:
    """Edits every example of a shard."""
    examples = [parse_example(payload) for payload in read_payloads(shard(folder, index))]
    for example in examples:
        edit(example)
    write_shard(folder, index, [serialize(example) for example in examples])


# --- figures ---


def unmasked(example: Example) -> list[int]:
    """Row of a static record with its masks undone."""
    ids = list(example["input_ids"])
    for position, label, weight in zip(
        example["masked_lm_positions"], example["masked_lm_ids"], example["masked_lm_weights"], strict=True
    ):
        if weight:
            ids[position] = label
    return ids


def text_of(example: Example) -> tuple[int, ...]:
    """Tokens of a record in the order of the text."""
    if "segment_tokens" in example:
        return tuple(example["segment_tokens"])
    ids, real, second = unmasked(example), sum(example["input_mask"]), example["segment_ids"].index(1)
    one, two = ids[1 : second - 1], ids[second : real - 1]
    return tuple(two + one if example["next_sentence_labels"][0] else one + two)


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
    bins = inspection_report.length_bins(found)
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
    assert inspection_report.failed(found) == []


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
    assert inspection_report.failed(found) == []
    assert "drawn here" in inspection_report.drawn_note(found)
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
    assert f"words that are masked in part {cut}" in inspection_report.failed(found)
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


# --- broken records ---


Edit = Callable[[Example], str]


def put(name: str, at: int | Callable[[Example], int], value: Any, message: str) -> Edit:
    """Edit that writes one value; "@" in the message stands for the place."""

    def edit(example: Example) -> str:
        place = at(example) if callable(at) else at
        example[name][place] = value
        return message.replace("@", str(place))

    return edit


def replace(message: str, **values: Any) -> Edit:
    """Edit that replaces whole features; None removes one."""

    def edit(example: Example) -> str:
        for name, value in values.items():
            example.pop(name) if value is None else example.update({name: value})
        return message

    return edit


def first_sep(example: Example) -> int:
    return example["segment_ids"].index(1) - 1


def last(example: Example) -> int:
    return sum(example["input_mask"]) - 1


def used(example: Example) -> int:
    return int(sum(example["masked_lm_weights"]))


def visible(example: Example) -> int:
    """Position of a token that is not masked."""
    return next(i for i in range(1, first_sep(example)) if i not in example["masked_lm_positions"])


def masked(example: Example) -> int:
    return int(example["masked_lm_positions"][1])


def no_second_segment(example: Example) -> str:
    example["segment_ids"] = [0] * S
    return f"each segment must hold a token, got {last(example) - 1} and 0"


def descending(example: Example) -> str:
    one, two = example["masked_lm_positions"][:2]
    example["masked_lm_positions"][:2] = [two, one]
    return f"masked_lm_positions must ascend, got {one} at prediction 1"


SEGMENTS = "segment_ids must be zeros, then ones up to the last real position"
SEPARATOR = "input_ids must be [SEP] (3) where a segment ends"
BOUNDARY = "token_boundary must be 1 at special tokens and where a segment starts"
OUTSIDE = "masked_lm_positions must be tokens, not [CLS], [SEP] or padding"
SHOWN = "input_ids must show [MASK], the label or no special id where masked"

STATIC: dict[str, Edit] = {
    "id too large": put("input_ids", visible, V, f"input_ids must be in [0, {V}), got {V} at position @"),
    "id negative": put("input_ids", visible, -1, f"input_ids must be in [0, {V}), got -1 at position @"),
    "mask of 2": put("input_mask", 3, 2, "input_mask must be 0 or 1, got 2 at position 3"),
    "hole in the mask": put("input_mask", 3, 0, "input_mask must be ones, then zeros, got 0 at position 3"),
    "no [CLS]": put("input_ids", 0, 9, "input_ids must begin with [CLS] (2), got 9 at position 0"),
    "segment 2": put("segment_ids", 5, 2, "segment_ids must be 0 or 1, got 2 at position 5"),
    "segments mixed": put("segment_ids", 1, 1, f"{SEGMENTS}, got 1 at position 1"),
    "segment in padding": put("segment_ids", S - 1, 1, f"segment_ids must be 0 in padding, got 1 at position {S - 1}"),
    "one segment": no_second_segment,
    "no first [SEP]": put("input_ids", first_sep, 9, f"{SEPARATOR}, got 9 at position @"),
    "no last [SEP]": put("input_ids", last, 9, f"{SEPARATOR}, got 9 at position @"),
    "padding": put("input_ids", S - 1, 9, f"input_ids must be pad (0) in padding, got 9 at position {S - 1}"),
    "boundary 2": put("token_boundary", 4, 2, "token_boundary must be 0 or 1, got 2 at position 4"),
    "boundary of [CLS]": put("token_boundary", 0, 0, f"{BOUNDARY}, got 0 at position 0"),
    "boundary of A": put("token_boundary", 1, 0, f"{BOUNDARY}, got 0 at position 1"),
    "boundary of B": put("token_boundary", lambda e: first_sep(e) + 1, 0, f"{BOUNDARY}, got 0 at position @"),
    "boundary of [SEP]": put("token_boundary", last, 0, f"{BOUNDARY}, got 0 at position @"),
    "boundary of padding": put(
        "token_boundary", S - 1, 1,
        f"token_boundary must be 0 in padding, got 1 at position {S - 1}",
    ),
    "weight": put("masked_lm_weights", 1, 0.5, "masked_lm_weights must be 0 or 1, got 0.5 at prediction 1"),
    "weight NaN": put("masked_lm_weights", 1, math.nan, "masked_lm_weights must be 0 or 1, got nan at prediction 1"),
    "weights mixed": put(
        "masked_lm_weights", 1, 0.0, "masked_lm_weights must be ones, then zeros, got 0.0 at prediction 1"
    ),
    "unused position": put(
        "masked_lm_positions", used, 2, "masked_lm_positions must be 0 where the weight is 0, got 2 at prediction @"
    ),
    "unused label": put(
        "masked_lm_ids", used, 9, "masked_lm_ids must be 0 where the weight is 0, got 9 at prediction @"
    ),
    "position of [CLS]": put("masked_lm_positions", 0, 0, f"{OUTSIDE}, got 0 at prediction 0"),
    "position in padding": put("masked_lm_positions", 1, S - 1, f"{OUTSIDE}, got {S - 1} at prediction 1"),
    "position beyond": put("masked_lm_positions", 1, 2**40, f"{OUTSIDE}, got {2**40} at prediction 1"),
    "positions descend": descending,
    "label too large": put("masked_lm_ids", 1, V, f"masked_lm_ids must be in [0, {V}), got {V} at prediction 1"),
    "label special": put("masked_lm_ids", 1, MASK, "masked_lm_ids must be no special id, got 4 at prediction 1"),
    "special replacement": put("input_ids", masked, SEP, f"{SHOWN}, got 3 at prediction 1"),
    "[MASK] unpredicted": put(
        "input_ids", visible, MASK, "input_ids must be no special id among the tokens, got 4 at position @"
    ),
    "order label": put("next_sentence_labels", 0, 2, "next_sentence_labels must be 0 or 1, got 2"),
    "feature missing": replace("feature masked_lm_weights is missing", masked_lm_weights=None),
    "feature more": replace("feature 'target' is not in the contract", target=[1]),
    "type": replace("next_sentence_labels must be int64, got float32", next_sentence_labels=[1.0]),
    "length": replace(f"masked_lm_ids must have {P} values, got 2", masked_lm_ids=[5, 6]),
}  # fmt: skip


def first_length(example: Example) -> int:
    return int(example["segment_lengths"][0])


def wrong_sum(example: Example) -> str:
    one, two = example["segment_lengths"]
    example["segment_lengths"] = [one + 1, two]
    return f"segment_lengths must sum up to the {one + two} values of segment_tokens, got {one + 1} and {two}"


def huge_lengths(example: Example) -> str:
    total = sum(example["segment_lengths"])
    example["segment_lengths"] = [2**62, 2**62]
    return f"segment_lengths must sum up to the {total} values of segment_tokens, got {2**62} and {2**62}"


def one_word_start_less(example: Example) -> str:
    example["word_starts"].pop()
    return f"word_starts must have {len(example['segment_tokens'])} values, got {len(example['word_starts'])}"


DYNAMIC: dict[str, Edit] = {
    "empty segment": replace("segment_lengths must be at least 1, got 0 and 7", segment_lengths=[0, 7]),
    "sum": wrong_sum,
    "huge lengths": huge_lengths,
    "too long": replace(
        f"segment_tokens must have at most {S - 3} values, got {S - 2}",
        segment_tokens=[9] * (S - 2), word_starts=[1] * (S - 2), segment_lengths=[7, S - 9],
    ),
    "word starts": one_word_start_less,
    "id too large": put("segment_tokens", 2, V, f"segment_tokens must be in [0, {V}), got {V} at position 2"),
    "id negative": put("segment_tokens", 2, -3, f"segment_tokens must be in [0, {V}), got -3 at position 2"),
    "special id": put("segment_tokens", 2, SEP, "segment_tokens must be no special id, got 3 at position 2"),
    "word start 2": put("word_starts", 2, 2, "word_starts must be 0 or 1, got 2 at position 2"),
    "start of A": put("word_starts", 0, 0, "word_starts must be 1 where a segment starts"),
    "start of B": put("word_starts", first_length, 0, "word_starts must be 1 where a segment starts"),
    "feature missing": replace("feature word_starts is missing", word_starts=None),
    "lengths": replace("segment_lengths must have 2 values, got 3", segment_lengths=[1, 1, 1]),
}  # fmt: skip


@pytest.mark.parametrize(
    ("masking", "name"), [("static", name) for name in STATIC] + [("dynamic", name) for name in DYNAMIC]
)
def is_fit(example: Example) -> bool:
    """Whether every edit makes sense: there is padding, an unused prediction, and more than a token or two."""
    if "segment_lengths" in example:
        return min(example["segment_lengths"]) > 3
    return first_sep(example) > 8 and last(example) < S - 1 and 2 <= used(example) < P


@pytest.mark.parametrize(
    ("masking", "name"), [("static", name) for name in STATIC] + [("dynamic", name) for name in DYNAMIC]
)
def test_a_broken_record_is_named(masking: str, name: str, built: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(built / masking, tmp_path / "data"))
    payloads = read_payloads(shard(folder, 1))
    place = next(number for number in range(4, len(payloads)) if is_fit(parse_example(payloads[number])))
    offset = sum(16 + len(payload) for payload in payloads[:place])
    example = parse_example(payloads[place])
    message = {"static": STATIC, "dynamic": DYNAMIC}[masking][name](example)
    # A later one is broken too, and not told of.
    write_shard(folder, 1, [*payloads[:place], serialize(example), payloads[place + 1][:-1], *payloads[place + 2 :]])
    found = inspect(folder)
    assert found.faults == [f"{shard(folder, 1)}: record {place} at byte {offset}: {message}"]
    assert found.broken_shards == 1
    # The other shards were looked at, and of this one what comes before.
    assert found.figures.examples == found.data.num_examples - (len(payloads) - place)


def flip(at: int) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        content = bytearray(path.read_bytes())
        content[at] ^= 4
        path.write_bytes(content)

    return damage


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (flip(40), "record 0 at byte 0: checksum does not match its bytes"),
        (flip(3), "record 0 at byte 0: damaged length"),
        (lambda path: path.write_bytes(path.read_bytes()[:-3]), r"record \d+ at byte \d+: cut off: \d+ of \d+ bytes"),
        (lambda path: path.write_bytes(path.read_bytes() * 2), r"records: \d+, dataset.json says \d+"),
        (lambda path: path.write_bytes(b""), r"records: 0, dataset.json says \d+"),
        (lambda path: path.unlink(), "No such file or directory"),
    ],
)
def test_a_damaged_file_is_named(damage: Callable[[Path], None], message: str, data: Path) -> None:
    damage(shard(data, 2))
    found = inspect(data)
    (fault,) = found.faults
    assert re.fullmatch(re.escape(f"{shard(data, 2)}: ") + message, fault)
    assert found.broken_shards == 1


def set_shard(**values: Any) -> Callable[[dict[str, Any]], None]:
    return lambda dataset: dataset["shards"][1].update(values)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (set_shard(examples=7), "{shard}: records: {examples}, dataset.json says 7"),
        (set_shard(bytes=8), "{shard}: bytes: {bytes}, dataset.json says 8"),
        (set_shard(sha256="5" * 64), "{shard}: SHA-256: {sha256}, dataset.json says " + "5" * 64),
        (
            lambda dataset: dataset["piece_counts"].update(sha256="6" * 64),
            "{folder}/piece_counts.npy: SHA-256: {pieces}, dataset.json says " + "6" * 64,
        ),
        (
            lambda dataset: dataset["counts"].update(tokens_out=9),
            "{folder}/dataset.json: counts: tokens_out is 9, the records hold {tokens}",
        ),
        (
            lambda dataset: dataset["tokenizer"].update(digest="7"),
            "{folder}/dataset.json: tokenizer digest must be the tokenizer's, {digest}, got 7",
        ),
        (
            lambda dataset: dataset.update(excluded_replacement_ids=[0, 1, 2, 3, 4, 5]),
            "{folder}/dataset.json: excluded_replacement_ids must be the tokenizer's, [0, 1, 2, 3, 4], "
            "got [0, 1, 2, 3, 4, 5]",
        ),
    ],
)
def test_what_dataset_json_says_is_compared(
    change: Callable[[dict[str, Any]], None], message: str, data: Path, tokenizer: AlbertTokenizer
) -> None:
    dataset = json.loads((data / "dataset.json").read_text())
    entry = {**dataset["shards"][1], "shard": str(shard(data, 1)), "folder": str(data)}
    entry |= {"pieces": dataset["piece_counts"]["sha256"], "tokens": dataset["counts"]["tokens_out"]}
    change_dataset(data, change)
    found = inspect(data)
    if "excluded" in message:  # the records hold id 5, which must then be told too
        assert found.faults[-1] == message.format(**entry)
        return
    assert found.faults == [message.format(**entry, digest=tokenizer.digest)]
    assert found.broken_shards == ("{shard}" in message)


def test_piece_counts_are_compared_with_the_records(data: Path) -> None:
    counts = np.load(data / "piece_counts.npy")
    counts[[77, 78]] += [1, -1]
    np.save(data / "piece_counts.npy", counts)
    digest = hashlib.sha256((data / "piece_counts.npy").read_bytes()).hexdigest()
    change_dataset(data, lambda dataset: dataset["piece_counts"].update(sha256=digest))
    fault = f"{data}/piece_counts.npy: id 77: {counts[77]}, the records hold it {counts[77] - 1} times"
    assert inspect(data).faults == [fault]


# --- the door ---


def test_the_door_names_broken_shards(static: Path) -> None:
    payloads = [read_payloads(shard(static, index)) for index in range(3)]
    flip(-1)(shard(static, 0))
    write_shard(
        static, 2, [*payloads[2][:3], serialize({**parse_example(payloads[2][3]), "next_sentence_labels": [5]})]
    )
    done = run("--data_dir=static", "--html=r.html", "--show=1", cwd=static.parent)
    number = len(payloads[0]) - 1
    offsets = [sum(16 + len(payload) for payload in part) for part in (payloads[0][:-1], payloads[2][:3])]
    faults = [
        f"{shard(Path('static'), 0)}: record {number} at byte {offsets[0]}: checksum does not match its bytes",
        f"{shard(Path('static'), 2)}: record 3 at byte {offsets[1]}: next_sentence_labels must be 0 or 1, got 5",
    ]
    assert done.returncode == 1
    assert done.stdout.splitlines()[-2:] == faults
    error = f"pipelines.inspect_data: error: {faults[0]}; 2 of 3 shards are broken"
    assert done.stderr.splitlines()[-1] == error
    assert re.search(r"broken shards of 3 +2 +0 +NOT ok", done.stdout)
    assert "checksum does not match its bytes" in (static.parent / "r.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--data_dir=none"], 1, "none: no such folder; a data directory is wanted, as pipelines.build"),
        (["--data_dir=empty"], 1, "empty: is an empty folder; a data directory is wanted, as pipelines."),
        (["--data_dir=cut"], 1, "cut/dataset.json:1:11: not valid JSON: Expecting value"),
        (["--data_dir=other"], 1, "other/dataset.json: format must be \"albert_tf pretraining data\", got None"),
        (["--data_dir=dynamic", "--html=empty"], 1, "empty: is a folder, a file was expected"),
        (["--data_dir=dynamic", "--show=-1"], 2, "show must be in [0, 1000], got -1"),
        (["--data_dir=dynamic", "--show=x"], 2, "flag --show=x: invalid literal for int() with base 10: 'x'"),
        (["--show=3"], 2, "missing --data_dir; --help explains the flags"),
        (["dynamic"], 2, "unexpected argument 'dynamic'; every value belongs to a flag, as --name=value"),
    ],
)  # fmt: skip
def test_wrong_use(arguments: list[str], code: int, message: str, dynamic: Path) -> None:
    (dynamic.parent / "empty").mkdir()
    (dynamic.parent / "cut").mkdir()
    (dynamic.parent / "cut" / "dataset.json").write_text('{"format":')
    (dynamic.parent / "other").mkdir()
    (dynamic.parent / "other" / "dataset.json").write_text("{}")
    done = run(*arguments, cwd=dynamic.parent)
    assert (done.returncode, done.stdout) == (code, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"pipelines.inspect_data: error: {message}")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda dataset: dataset.pop("shards"), "missing key 'shards'"),
        (lambda dataset: dataset.update(shards=[]), "the data directory holds no example"),
        (lambda dataset: dataset.update(counts=3), "counts must be an object, got 3"),
    ],
)  # fmt: skip
def test_a_wrong_dataset_json_is_refused(change: Callable[[dict[str, Any]], None], message: str, dynamic: Path) -> None:
    change_dataset(dynamic, change)
    with pytest.raises(ValueError, match=re.escape(f"{dynamic}/dataset.json: {message}")):
        read_dataset(str(dynamic))


def test_the_door_loads_no_tensorflow_and_no_beam(dynamic: Path) -> None:
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r})\n{RUN}"
    command = [sys.executable, "-c", code, "pipelines.inspect_data", "--data_dir=dynamic", "--show=2"]
    done = subprocess.run(command, cwd=dynamic.parent, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "numpy" in loaded(done.stderr)
    assert loaded(done.stderr) & {"tensorflow", "keras", "apache_beam", "matplotlib"} == set()


# --- examples and HTML ---

ODD = ["<script>alert(1)</script>", "[red]", "\u202e", "\x1b", "&lt;", "\U0001f600"]


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Data directory whose vocabulary has pieces that look like markup or have no shape; half the words are such."""
    words = ["an", "bel", "cor", "dis"]
    lines = [" ".join([*(words * 2)[n % 4 :], ODD[n % 6], ODD[(n + 2) % 6], words[n % 3]]) for n in range(90)]
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=model, vocab_size=35, hard_vocab_limit=False, pad_id=0, unk_id=1,
        bos_id=-1, eos_id=-1, control_symbols=["[CLS]", "[SEP]", "[MASK]"], user_defined_symbols=ODD,
        normalization_rule_name="identity", minloglevel=2,
    )  # fmt: skip
    folder = tmp_path_factory.mktemp("odd")
    corpus = write_corpus(folder / "corpus.txt", [lines])
    tokenizer = AlbertTokenizer(model.getvalue(), config=TokenizerConfig(strip_accents=False))
    building.build(folder / "data", [corpus], tokenizer, masking="static", max_seq_length=67)
    return folder / "data"


def test_examples_are_shown_as_they_are(odd: Path) -> None:
    done = run("--data_dir=data", "--show=4", cwd=odd.parent)
    assert done.returncode == 0, done.stderr
    shown = done.stdout[done.stdout.index("\n\ndata/pretrain-") :]
    titles = re.findall(
        r"^data/pretrain-0000\d-of-00003\.tfrecord: record \d+: \d+ positions, .*$", shown, re.MULTILINE
    )
    assert len(titles) == len(set(titles)) == 4
    for text in ("<script>alert(1)</script>", "[red]", "[MASK]", "\\u202e", "\\x1b", "\U0001f600", "&lt;"):
        assert text in shown
    assert "\u202e" not in done.stdout
    assert "\x1b" not in done.stdout


def test_examples_are_those_of_the_records(static: Path, tokenizer: AlbertTokenizer) -> None:
    found = inspect(static, show=5)
    total = found.data.num_examples
    numbers = [(2 * i + 1) * total // 10 for i in range(5)]
    records = building.read_examples(static)
    shown = inspection_report.shown_examples(found)
    assert len(shown) == 5
    for number, example in zip(numbers, shown, strict=True):
        record = records[number]
        ids, second, real = unmasked(record), first_sep(record) + 1, last(record) + 1
        order = ["swapped (label 1)" if record["next_sentence_labels"][0] else "not swapped (label 0)"]
        assert example.title.endswith(f": {real} positions, {order[0]}")
        assert [segment.name for segment in example.segments] == (["B", "A"] if order[0][0] == "s" else ["A", "B"])
        for segment, (begin, end) in zip(example.segments, ((1, second - 1), (second, real - 1)), strict=True):
            shown_ids = record["input_ids"][begin:end]
            assert segment.text.count("[MASK]") == shown_ids.count(MASK)
            if MASK not in shown_ids:
                assert segment.text == "".join(map(tokenizer.id_to_piece, shown_ids)).replace("\u2581", " ").strip()
        labels = "".join(label.replace(" ", "") for label, _ in example.hidden)
        predicted = [ids[position] for position in record["masked_lm_positions"][: used(record)]]
        assert labels == "".join(map(tokenizer.id_to_piece, predicted)).replace("\u2581", "")
        assert sum(seen.count("[MASK]") for _, seen in example.hidden) == record["input_ids"].count(MASK)


@pytest.mark.parametrize("show", [0, 1, 7, 500])
def test_examples_are_chosen_evenly(show: int, built: Path) -> None:
    found = inspect(built / "dynamic", show=show)
    starts = np.cumsum([0, *(entry.examples for entry in found.data.shards)])
    paths = [entry.path for entry in found.data.shards]
    numbers = [int(starts[paths.index(example.path)]) + example.number for example in found.examples]
    total = found.data.num_examples
    assert len(numbers) == len(set(numbers)) == min(show, total)
    gaps: list[int] = np.diff([-1, *numbers, total]).tolist() if numbers else []
    assert all(0.4 * total / len(numbers) <= gap <= total / len(numbers) + 1.5 for gap in gaps)


class Page(html.parser.HTMLParser):
    """Elements of a page; fails where they are not nested properly."""

    def __init__(self, text: str):
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.cells: list[str] = []
        self.text = ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in ("meta", "br"):
            self.open.append(tag)
        if tag == "td":
            self.cells.append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.text += data
        if "td" in self.open:
            self.cells[-1] += data


def test_the_html_file_stands_by_itself(odd: Path) -> None:
    found = inspect(odd, show=6)
    text = inspection_html.render(found)
    page = Page(text)
    assert text.startswith("<!DOCTYPE html>")
    tags = Counter(tag for tag, _ in page.elements)
    assert (tags["svg"], tags["title"], tags["h1"]) == (3, 1, 1)
    assert tags.keys() & {"script", "link", "img", "iframe", "object", "a", "base", "foreignobject"} == set()
    attributes = [(name, value or "") for _, values in page.elements for name, value in values.items()]
    assert [
        name for name, _ in attributes if name.startswith(("on", "xmlns")) or name in ("src", "data", "action")
    ] == []
    assert "http" not in text
    assert "@import" not in text
    ids = [value for name, value in attributes if name == "id"]
    assert len(ids) == len(set(ids)) > 10
    references = [value for name, value in attributes if name.endswith("href")]
    references += re.findall(r"url\(([^)]*)\)", text)
    assert references
    assert {reference.removeprefix("#") for reference in references} <= set(ids)
    assert all(reference.startswith("#") for reference in references)
    assert "prefers-color-scheme: dark" in text
    assert "currentColor" in text
    assert "#010203" not in text


def test_the_html_file_holds_tables_and_examples(odd: Path) -> None:
    found = inspect(odd, show=6)
    page = Page(inspection_html.render(found))
    values = [value for table in inspection_report.tables(found) for row in table.rows for value in row]
    hidden = [value for example in inspection_report.shown_examples(found) for pair in example.hidden for value in pair]
    assert page.cells == values + hidden
    for example in inspection_report.shown_examples(found):
        for segment in example.segments:
            assert f"{segment.name}: {segment.text}" in page.text
    assert "<script>alert(1)</script>" in page.text
    assert "\\x1b" in page.text
    assert "\x1b" not in page.text
    assert "\u202e" not in page.text


def test_no_figures_of_nothing(dynamic: Path) -> None:
    for index in range(3):
        flip(0)(shard(dynamic, index))
    found = inspect(dynamic, show=2)
    assert len(found.faults) == found.broken_shards == 3
    assert inspection_report.tables(found) == []
    assert [path in Page(inspection_html.render(found)).text for path in found.faults] == [True] * 3


def test_printable() -> None:
    assert (
        inspection_report.printable("a b\u200cé日\n\x00\xad\U0001f600\ud800")
        == "a b\u200cé日\\n\\x00\\xad\U0001f600\\ud800"
    )
