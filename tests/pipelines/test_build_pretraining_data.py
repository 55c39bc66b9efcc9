"""The whole pipeline on a small corpus: what it writes, that nothing but text and settings decides it."""

from __future__ import annotations

import bz2
import fcntl
import gzip
import hashlib
import json
import os
import random
import signal
from pathlib import Path

import numpy as np
import pytest

from albert_tf import features
from albert_tf.tokenizer import AlbertTokenizer, TokenizerConfig
from pipelines.readers import ReaderSettings
from tests.pipelines import building, memory_filesystem
from tests.pipelines.conftest import make_documents, write_corpus

DOCUMENTS = make_documents(90, seed=5)
S = 61


@pytest.fixture
def corpus(tmp_path: Path) -> list[Path]:
    """Two files in a folder whose name has a space."""
    folder = tmp_path / "the corpus"
    folder.mkdir()
    return [write_corpus(folder / "a.txt", DOCUMENTS[:50]), write_corpus(folder / "b.txt", DOCUMENTS[50:])]


def small_build(corpus: list[Path], tokenizer_folder: Path, output: Path) -> list[str]:
    """Flags of the door that make what `building.build` makes."""
    return [
        f"--input={','.join(map(str, corpus))}",
        f"--tokenizer={tokenizer_folder}",
        f"--output_dir={output}",
        f"--max_seq_length={S}",
        "--num_shards=3",
        "--seed=11",
    ]


def segments_of(example: dict[str, list[int]]) -> tuple[list[int], list[int]]:
    """Both segments, in the order of the record, masks undone in static ones."""
    if features.SEGMENT_TOKENS in example:
        length = example[features.SEGMENT_LENGTHS][0]
        return example[features.SEGMENT_TOKENS][:length], example[features.SEGMENT_TOKENS][length:]
    ids = list(example[features.INPUT_IDS])
    for position, label, weight in zip(
        example[features.MASKED_LM_POSITIONS],
        example[features.MASKED_LM_IDS],
        example[features.MASKED_LM_WEIGHTS],
        strict=True,
    ):
        if weight:
            ids[position] = label
    real = sum(example[features.INPUT_MASK])
    second = example[features.SEGMENT_IDS].index(1)
    return ids[1 : second - 1], ids[second : real - 1]


@pytest.mark.parametrize("masking", ["dynamic", "static"])
def test_a_data_directory_is_complete_and_true(
    masking: str, tmp_path: Path, corpus: list[Path], tokenizer: AlbertTokenizer, tokenizer_folder: Path
) -> None:
    output = tmp_path / "new" / "data"
    done = building.run(
        f"--input={corpus[0].parent}/*.txt",
        f"--tokenizer={tokenizer_folder}",
        f"--output_dir={output}",
        f"--max_seq_length={S}",
        "--num_shards=3",
        "--seed=11",
        f"--masking={masking}",
    )
    assert done.returncode == 0, done.stderr
    dataset = json.loads((output / "dataset.json").read_text())
    names = [f"pretrain-{shard:05d}-of-00003.tfrecord" for shard in range(3)]
    others = ["build.log.json", "dataset.json", "piece_counts.npy", "spiece.model", "tokenizer_config.json"]
    assert sorted(path.name for path in output.iterdir()) == sorted([*names, *others])
    assert not list(tmp_path.glob("new/*.partial*"))

    assert dataset["format"] == "albert_tf pretraining data"
    assert dataset["contract_version"] == features.RECORD_CONTRACT_VERSION
    assert (dataset["masking"], dataset["max_seq_length"], dataset["max_predictions_per_seq"]) == (masking, S, 10)
    assert (dataset["seed"], dataset["vocab_size"], dataset["masked_lm_prob"], dataset["max_ngram"]) == (
        11,
        211,
        0.15,
        3,
    )
    assert dataset["special_ids"] == {"pad": 0, "unk": 1, "cls": 2, "sep": 3, "mask": 4}
    assert dataset["excluded_replacement_ids"] == [0, 1, 2, 3, 4]
    reading = {"input_format": "auto", "language": "en", "text_key": "text", "on_bad_input": "fail"}
    chosen = {"num_shards": 3, "short_seq_prob": 0.1, "dupe_factor": 1, "original_compatible": False}
    assert dataset["settings"] == {**chosen, **reading, "word_separator": None}
    assert dataset["sentence_objective"] == "sop"
    copied = AlbertTokenizer(
        (output / "spiece.model").read_bytes(),
        config=TokenizerConfig.from_json((output / "tokenizer_config.json").read_text()),
    )
    assert copied.digest == tokenizer.digest == dataset["tokenizer"]["digest"]

    counts = dataset["counts"]
    assert counts["documents"] == 90
    assert counts["sentences"] == sum(len(document) for document in DOCUMENTS)
    assert counts["tokens_in"] == sum(len(tokenizer.encode(s)) for document in DOCUMENTS for s in document)
    assert f"{counts['tokens_in']:,}" in done.stdout
    assert counts["duplicate_documents"] == 0
    assert [line for line in done.stdout.splitlines() if line.split()[-1:] == ["0"]] == []  # it is left out
    assert counts["tokens_in"] == counts["tokens_out"] + sum(counts["tokens_dropped"].values())
    examples = building.read_examples(output)
    assert counts["examples"] == len(examples) == sum(shard["examples"] for shard in dataset["shards"])
    pieces = np.zeros(211, dtype=np.int64)
    for example in examples:
        a, b = segments_of(example)
        assert min(len(a), len(b)) >= 1
        assert len(a) + len(b) <= S - 3
        np.add.at(pieces, a + b, 1)
    assert counts["tokens_out"] == pieces.sum()
    assert (np.load(output / "piece_counts.npy") == pieces).all()
    for shard, name in zip(dataset["shards"], names, strict=True):
        content = (output / name).read_bytes()
        assert shard["file"] == name
        assert (shard["bytes"], shard["sha256"]) == (len(content), hashlib.sha256(content).hexdigest())
        assert shard["examples"] > 0


def test_dynamic_records_hold_the_documents_tokens_once(
    tmp_path: Path, corpus: list[Path], tokenizer: AlbertTokenizer
) -> None:
    building.build(tmp_path / "data", corpus, tokenizer)
    starts_table = tokenizer.word_start_table()
    seen = []
    for example in building.read_examples(tmp_path / "data"):
        assert sorted(example) == sorted(feature.name for feature in features.dynamic_features("sop"))
        tokens = example[features.SEGMENT_TOKENS]
        length_a, length_b = example[features.SEGMENT_LENGTHS]
        assert length_a + length_b == len(tokens)
        expected = [int(starts_table[i]) for i in tokens]
        expected[0] = expected[length_a] = 1
        assert example[features.WORD_STARTS] == expected
        seen += tokens
    ids = [i for document in DOCUMENTS for sentence in document for i in tokenizer.encode(sentence)]
    assert sorted(seen) == sorted(ids)


def test_original_feature_map_reads_static_records(
    tmp_path: Path, corpus: list[Path], tokenizer: AlbertTokenizer
) -> None:
    import tensorflow as tf

    P = 7
    output = tmp_path / "data"
    building.build(output, corpus, tokenizer, masking="static", max_predictions_per_seq=P)
    wanted = {
        "input_ids": tf.io.FixedLenFeature([S], tf.int64),
        "input_mask": tf.io.FixedLenFeature([S], tf.int64),
        "segment_ids": tf.io.FixedLenFeature([S], tf.int64),
        "token_boundary": tf.io.FixedLenFeature([S], tf.int64),
        "masked_lm_positions": tf.io.FixedLenFeature([P], tf.int64),
        "masked_lm_ids": tf.io.FixedLenFeature([P], tf.int64),
        "masked_lm_weights": tf.io.FixedLenFeature([P], tf.float32),
        "next_sentence_labels": tf.io.FixedLenFeature([1], tf.int64),
    }
    shards = sorted(str(path) for path in output.glob("*.tfrecord"))
    read = [tf.io.parse_single_example(record, wanted) for record in tf.data.TFRecordDataset(shards).take(50)]
    plain = building.read_examples(output)
    assert len(read) == 50
    for example, expected in zip(read, plain, strict=False):
        assert set(expected) == set(wanted)
        for name, value in expected.items():
            assert example[name].numpy().tolist() == value


@pytest.fixture(params=["dynamic", "static"])
def masking(request: pytest.FixtureRequest) -> str:
    """Both forms of records."""
    return str(request.param)


@pytest.fixture
def baseline(masking: str, tmp_path: Path, corpus: list[Path], tokenizer: AlbertTokenizer) -> Path:
    """A data directory made with one worker."""
    building.build(tmp_path / "baseline", corpus, tokenizer, masking=masking)
    return tmp_path / "baseline"


@pytest.mark.slow
def test_workers_and_runner_change_no_byte(
    baseline: Path, masking: str, tmp_path: Path, corpus: list[Path], tokenizer: AlbertTokenizer
) -> None:
    building.build(tmp_path / "two", corpus, tokenizer, masking=masking, num_workers=2)
    assert building.content(tmp_path / "two") == building.content(baseline)
    log = building.read_log(tmp_path / "two")
    assert (log["runner"], log["num_workers"]) == ("FnApiRunner", 2)
    assert len(log["processes"]) == 2
    assert str(log["launcher"]) not in log["processes"]
    assert sum(process["documents"] for process in log["processes"].values()) == 90
    assert min(process["documents"] for process in log["processes"].values()) > 20
    alone = building.read_log(baseline)
    assert list(alone["processes"]) == [str(alone["launcher"])]

    building.build(tmp_path / "other", corpus, tokenizer, masking=masking, runner="BundleBasedDirectRunner")
    assert building.content(tmp_path / "other") == building.content(baseline)
    assert building.read_log(tmp_path / "other")["runner"] == "BundleBasedDirectRunner"


def test_files_and_their_order_change_no_byte(
    baseline: Path, masking: str, tmp_path: Path, tokenizer: AlbertTokenizer
) -> None:
    shuffled = list(DOCUMENTS)
    random.Random(2).shuffle(shuffled)
    first = write_corpus(tmp_path / "z.txt", shuffled[30:])
    second = tmp_path / "y.text"
    second.write_bytes(
        b"\xef\xbb\xbf\n" + b"\r\n\r\n\r\n".join("\r\n".join(document).encode() for document in shuffled[:30])
    )
    building.build(tmp_path / "again", [first, second], tokenizer, masking=masking)
    assert building.content(tmp_path / "again") == building.content(baseline)


def test_seed_and_shards_do_change_bytes(
    baseline: Path, masking: str, tmp_path: Path, corpus: list[Path], tokenizer: AlbertTokenizer
) -> None:
    building.build(tmp_path / "seed", corpus, tokenizer, masking=masking, seed=12)
    first, second = building.read_examples(baseline), building.read_examples(tmp_path / "seed")
    same = {str(example) for example in first} & {str(example) for example in second}
    assert len(same) < 0.5 * len(first)
    building.build(tmp_path / "shards", corpus, tokenizer, masking=masking, num_shards=5)
    third = building.read_examples(tmp_path / "shards")
    assert sorted(map(str, third)) == sorted(map(str, first))


def test_equal_documents_are_used_once_and_counted(tmp_path: Path, tokenizer: AlbertTokenizer) -> None:
    twice = write_corpus(tmp_path / "twice.txt", DOCUMENTS[:40] + DOCUMENTS[:40])
    turned = write_corpus(tmp_path / "turned.txt", DOCUMENTS[:40][::-1])
    once = write_corpus(tmp_path / "once.txt", DOCUMENTS[:40])
    dataset = building.build(tmp_path / "one", [twice], tokenizer, masking="static")
    assert dataset["counts"]["documents"] == 40
    assert dataset["counts"]["duplicate_documents"] == 40
    assert dataset["counts"]["duplicate_sentences"] == sum(map(len, DOCUMENTS[:40]))
    building.build(tmp_path / "two", [turned, once], tokenizer, masking="static")
    assert building.content(tmp_path / "one") == building.content(tmp_path / "two")
    building.build(tmp_path / "three", [once], tokenizer, masking="static")
    shards = [building.content(tmp_path / name)["pretrain-00001-of-00003.tfrecord"] for name in ("one", "three")]
    assert shards[0] == shards[1]


def test_layout_and_format_of_the_input_change_no_record(tmp_path: Path, tokenizer: AlbertTokenizer) -> None:
    """The same documents as one file, as a folder of many in other formats and compressions, and from memory."""
    plain = write_corpus(tmp_path / "all.txt", DOCUMENTS)
    folder = tmp_path / "texts"
    (folder / "deep").mkdir(parents=True)
    (folder / ".hidden").mkdir()
    (folder / ".hidden" / "a.txt").write_text("Not to be read. Never.")
    write_corpus(folder / "a.txt", DOCUMENTS[:20])
    compressed = gzip.compress(write_corpus(tmp_path / "b", DOCUMENTS[20:50]).read_bytes())
    (folder / "deep" / "b.txt.gz").write_bytes(compressed)
    lines = [json.dumps({"text": "\n".join(document)}) for document in DOCUMENTS[50:]]
    (folder / "c.jsonl.bz2").write_bytes(bz2.compress("\n".join(lines).encode()))
    expected = building.build(tmp_path / "one", [plain], tokenizer)["shards"]
    assert building.build(tmp_path / "two", [folder], tokenizer)["shards"] == expected
    memory_filesystem.write("memory://texts/b.txt", write_corpus(tmp_path / "b", DOCUMENTS[::-1]).read_bytes())
    assert building.build(tmp_path / "three", ["memory://texts/*"], tokenizer)["shards"] == expected
    assert building.build(tmp_path / "four", ["memory://texts/"], tokenizer)["shards"] == expected


def test_documents_with_bad_input_are_left_out_on_demand(tmp_path: Path, tokenizer: AlbertTokenizer) -> None:
    good = write_corpus(tmp_path / "good.txt", DOCUMENTS[:30])
    bad = tmp_path / "bad.txt"
    bad.write_bytes(b"an bel\n\nan\xffbel\ncor dis\n\nen\0fer\n\n" + "\n".join(DOCUMENTS[31]).encode())
    expected = building.build(
        tmp_path / "one", [write_corpus(tmp_path / "c.txt", [*DOCUMENTS[:30], ["an bel"], DOCUMENTS[31]])], tokenizer
    )
    with pytest.raises(ValueError, match=r"bad\.txt: line 3, byte 10: not valid UTF-8"):
        building.build(tmp_path / "two", [good, bad], tokenizer)
    assert not (tmp_path / "two").exists()
    reading = ReaderSettings(on_bad_input="skip")
    found = building.build(tmp_path / "two", [good, bad], tokenizer, reading=reading)
    assert found["shards"] == expected["shards"]
    assert found["counts"]["bad_input"] == 2
    assert [(fault["file"], fault["byte"]) for fault in building.read_log(tmp_path / "two")["bad_input"]] == [
        (str(bad), 10),
        (str(bad), 26),
    ]


def test_copies_are_cut_and_masked_differently(tmp_path: Path, corpus: list[Path], tokenizer: AlbertTokenizer) -> None:
    once = building.build(tmp_path / "one", corpus, tokenizer, masking="static")
    thrice = building.build(tmp_path / "three", corpus, tokenizer, masking="static", dupe_factor=3)
    assert thrice["counts"]["tokens_in"] == 3 * once["counts"]["tokens_in"]
    assert thrice["counts"]["documents"] == once["counts"]["documents"] == 90
    assert thrice["counts"]["tokens_out"] > 0.99 * thrice["counts"]["tokens_in"]
    first = {str(example) for example in building.read_examples(tmp_path / "one")}
    all_copies = [str(example) for example in building.read_examples(tmp_path / "three")]
    assert first <= set(all_copies)
    assert len(set(all_copies)) > 0.95 * len(all_copies)


def test_more_shards_than_examples_leave_empty_files(tmp_path: Path, tokenizer: AlbertTokenizer) -> None:
    one = write_corpus(tmp_path / "one.txt", [["An bel cor.", "Dis en fer."]])
    dataset = building.build(tmp_path / "data", [one], tokenizer, num_shards=4)
    assert [shard["examples"] for shard in dataset["shards"]].count(0) == 3
    assert len(building.read_examples(tmp_path / "data")) == 1


def test_same_settings_replace_other_settings_are_refused(
    tmp_path: Path, corpus: list[Path], tokenizer: AlbertTokenizer
) -> None:
    output = tmp_path / "data"
    building.build(output, corpus, tokenizer)
    before = building.content(output)
    with pytest.raises(
        ValueError, match=r"json: made with settings\.short_seq_prob = 0\.1, asked for 0\.25; name another"
    ):
        building.build(output, corpus, tokenizer, short_seq_prob=0.25)
    assert building.content(output) == before
    more = write_corpus(tmp_path / "c.txt", make_documents(4, seed=77))
    dataset = building.build(output, [*corpus, more], tokenizer)
    assert dataset["counts"]["documents"] == 94
    assert not [name for name in os.listdir(tmp_path) if ".partial" in name or ".old" in name]


def test_finished_shards_are_kept_when_a_run_is_killed(
    baseline: Path, masking: str, tmp_path: Path, corpus: list[Path], tokenizer_folder: Path, tokenizer: AlbertTokenizer
) -> None:
    """Killed after its first shard, and begun again: the same bytes, and that shard is not made again."""
    output, working = tmp_path / "killed", tmp_path / "killed.building"
    arguments = [*small_build(corpus, tokenizer_folder, output), f"--masking={masking}"]
    killed = building.run_and_kill_after_first_shard(*arguments)
    assert killed.returncode == -signal.SIGKILL
    assert not output.exists()
    (kept,) = (int(path.name[9:14]) for path in working.glob("manifest-*.json"))
    shard = working / f"pretrain-{kept:05d}-of-00003.tfrecord"
    before = shard.stat().st_ino, shard.stat().st_mtime_ns
    (working / ".pretrain-00002-of-00003.tfrecord.0a1b").write_bytes(b"half")

    refused = building.run(*arguments, "--short_seq_prob=0.25")
    assert refused.returncode == 1
    assert "building.json: made with settings.short_seq_prob = 0.1, asked for 0.25; name another" in refused.stderr
    assert shard.exists()

    done = building.run(*arguments)
    assert done.returncode == 0, done.stderr
    assert "kept 1 finished shard of an earlier run" in done.stderr
    assert building.content(output) == building.content(baseline)
    shard = output / shard.name
    assert (shard.stat().st_ino, shard.stat().st_mtime_ns) == before
    assert [work.get("kept", False) for work in building.read_log(output)["shards"]] == [i == kept for i in range(3)]
    assert not working.exists()


@pytest.mark.parametrize("damage", ["shard", "manifest", "input"])
def test_what_does_not_fit_any_more_is_made_again(
    tmp_path: Path, corpus: list[Path], tokenizer_folder: Path, tokenizer: AlbertTokenizer, damage: str
) -> None:
    output, working = tmp_path / "killed", tmp_path / "killed.building"
    arguments = small_build(corpus, tokenizer_folder, output)
    building.run_and_kill_after_first_shard(*arguments)
    (manifest,) = working.glob("manifest-*.json")
    if damage == "shard":
        (shard,) = working.glob(f"pretrain-{manifest.name[9:14]}-*")
        content = bytearray(shard.read_bytes())
        content[-9] ^= 1
        shard.write_bytes(content)
    elif damage == "manifest":
        manifest.write_bytes(manifest.read_bytes()[:30])
    else:
        write_corpus(corpus[1], DOCUMENTS[49:])
    done = building.run(*arguments)
    assert done.returncode == 0, done.stderr
    assert "of an earlier run" not in done.stderr
    assert ("the input has changed" in done.stderr) == (damage == "input")
    building.build(tmp_path / "undisturbed", corpus, tokenizer)
    assert building.content(output) == building.content(tmp_path / "undisturbed")


def test_two_runs_do_not_work_in_one_folder(tmp_path: Path, corpus: list[Path], tokenizer: AlbertTokenizer) -> None:
    output = tmp_path / "data"
    (tmp_path / "data.building").mkdir()
    handle = os.open(tmp_path / "data.building", os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    try:
        with pytest.raises(ValueError, match=r"data\.building: another run works there"):
            building.build(output, corpus, tokenizer)
    finally:
        os.close(handle)
    building.build(output, corpus, tokenizer)
    assert output.exists()
