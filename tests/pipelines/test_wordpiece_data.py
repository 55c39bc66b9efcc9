"""Data directories made with a vocab.txt: the files in them, the records, and what reads them."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from albert_tf import features
from albert_tf.config import AlbertConfig
from albert_tf.model_directory import load_tokenizer
from albert_tf.tokenizer import AlbertTokenizer
from albert_tf.training.inputs import read_inputs
from albert_tf.training.settings import PretrainingSettings
from albert_tf.wordpiece import WordPieceConfig, WordPieceTokenizer
from pipelines.audit import inspection, report
from pipelines.dataset import read_dataset
from pipelines.files import read_tokenizer
from tests import wordpiece_toys
from tests.pipelines import building
from tests.pipelines.conftest import write_corpus

GENERATOR = random.Random(5)
DOCUMENTS = [GENERATOR.choices(wordpiece_toys.SENTENCES, k=GENERATOR.randint(2, 9)) for _ in range(30)]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Documents of the toy sentences in mixed order."""
    return write_corpus(tmp_path_factory.mktemp("wordpiece") / "corpus.txt", DOCUMENTS)


@pytest.fixture(scope="module", params=["dynamic", "static"])
def data(request: pytest.FixtureRequest, corpus: Path) -> Path:
    """The data directory."""
    path = corpus.parent / request.param
    building.build(path, [corpus], wordpiece_toys.tokenizer(), masking=request.param, max_seq_length=59)
    return path


def test_the_directory_holds_the_vocabulary_under_its_name(data: Path) -> None:
    names = {path.name for path in data.iterdir() if not path.name.endswith(".tfrecord")}
    assert names == {"build.log.json", "dataset.json", "piece_counts.npy", "vocab.txt", "tokenizer_config.json"}
    tokenizer = wordpiece_toys.tokenizer()
    dataset = json.loads((data / "dataset.json").read_text())
    assert dataset["tokenizer"] == {
        "file": "vocab.txt", "config": "tokenizer_config.json", "digest": tokenizer.digest
    }  # fmt: skip
    assert (data / "vocab.txt").read_bytes() == tokenizer.vocabulary
    assert dataset["excluded_replacement_ids"] == sorted(tokenizer.special_ids)
    for read in (read_tokenizer, load_tokenizer):
        found = read(str(data))
        assert isinstance(found, WordPieceTokenizer)
        assert found.digest == tokenizer.digest


def test_records_hold_the_documents_ids_and_words(data: Path) -> None:
    tokenizer = wordpiece_toys.tokenizer()
    starts = tokenizer.word_start_table()
    # An id as a character, a line feed (no piece's id) between documents.
    source = "\n".join("".join(chr(1000 + i) for s in document for i in tokenizer.encode(s)) for document in DOCUMENTS)
    examples = building.read_examples(data)
    assert len(examples) > 30
    for example in examples:
        if data.name == "dynamic":
            tokens, word_starts = example[features.SEGMENT_TOKENS], example[features.WORD_STARTS]
            cut = example[features.SEGMENT_LENGTHS][0]
            segments = [tokens[:cut], tokens[cut:]]
            boundaries = [word_starts[:cut], word_starts[cut:]]
        else:
            tokens, word_starts = example[features.INPUT_IDS], example[features.TOKEN_BOUNDARY]
            used = sum(weight > 0 for weight in example[features.MASKED_LM_WEIGHTS])
            for position, label in list(
                zip(example[features.MASKED_LM_POSITIONS], example[features.MASKED_LM_IDS], strict=True)
            )[:used]:
                tokens[position] = label
            first, last = (at for at, i in enumerate(tokens) if i == tokenizer.sep_id)
            assert tokens[0] == tokenizer.cls_id
            assert set(tokens[last + 1 :]) <= {tokenizer.pad_id}
            spans = [(1, first), (first + 1, last)]
            if example[features.NEXT_SENTENCE_LABELS] == [1]:
                spans.reverse()
            segments = [tokens[begin:end] for begin, end in spans]
            boundaries = [word_starts[begin:end] for begin, end in spans]
        assert "".join(chr(1000 + i) for segment in segments for i in segment) in source
        for segment, boundary in zip(segments, boundaries, strict=True):
            assert boundary == [1, *(int(starts[i]) for i in segment[1:])]


def test_inspection_finds_no_fault_and_shows_text(data: Path) -> None:
    found = inspection.inspect(read_dataset(str(data)), show=4)
    assert found.faults == []
    shown = report.shown_examples(found)
    assert len(shown) == 4
    texts = " ".join(segment.text for example in shown for segment in example.segments)
    assert "[MASK]" in texts
    assert "##" not in texts
    assert all(text in texts for text in ("系统", "debian"))  # ideographs without spaces, words with them
    hidden = [(label, seen) for example in shown for label, seen in example.hidden]
    assert all(label and seen and "##" not in label for label, seen in hidden)


def test_pretraining_reads_it(data: Path) -> None:
    tokenizer = wordpiece_toys.tokenizer()
    config = AlbertConfig(
        vocab_size=tokenizer.vocab_size, embedding_size=6, hidden_size=20, num_hidden_layers=2, num_attention_heads=4,
        intermediate_size=28, max_position_embeddings=60,
    )  # fmt: skip
    settings = PretrainingSettings(
        data_dir=str(data),
        output_dir=str(data / "run"),
        config=config,
        train_batch_size=4,
        num_train_steps=2,
        learning_rate=1e-3,
    )
    found = read_inputs(settings).tokenizer
    assert isinstance(found, WordPieceTokenizer)
    assert found.encode("系统 reinstalls") == tokenizer.encode("系统 reinstalls")


def test_a_vocabulary_alone_is_known_by_its_name_or_its_content(tmp_path: Path, tokenizer: AlbertTokenizer) -> None:
    wordpiece = wordpiece_toys.tokenizer()
    (tmp_path / "chinese.txt").write_bytes(wordpiece.vocabulary)
    (tmp_path / "chinese").write_bytes(wordpiece.vocabulary)
    (tmp_path / "pieces").write_bytes(tokenizer.model_proto)
    assert read_tokenizer(str(tmp_path / "chinese.txt")).digest == wordpiece.digest
    assert read_tokenizer(str(tmp_path / "chinese")).digest == wordpiece.digest
    assert read_tokenizer(str(tmp_path / "pieces")).digest == tokenizer.digest


def test_folders_with_case(tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_bytes(wordpiece_toys.tokenizer().vocabulary)
    (tmp_path / "tokenizer_config.json").write_text('{"lower_case": false}')
    assert read_tokenizer(str(tmp_path)).config == WordPieceConfig(lower_case=False)
    assert load_tokenizer(tmp_path).config == WordPieceConfig(lower_case=False)


@pytest.mark.parametrize("read", [read_tokenizer, load_tokenizer])
def test_unfit_folders_are_refused(read, tmp_path: Path, tokenizer: AlbertTokenizer) -> None:
    folder = str(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text('{"lower_case": true}')
    with pytest.raises(FileNotFoundError, match=r"No vocabulary there; spiece\.model or vocab\.txt is expected"):
        read(folder)
    (tmp_path / "vocab.txt").write_bytes(b"[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\na\n")
    with pytest.raises(ValueError, match=r"vocab\.txt: line 7: 'a' stands on line 6 already"):
        read(folder)
    (tmp_path / "spiece.model").write_bytes(tokenizer.model_proto)
    with pytest.raises(ValueError, match=rf"{folder}: holds spiece\.model and vocab\.txt, two vocabularies: remove"):
        read(folder)
    (tmp_path / "spiece.model").unlink()
    (tmp_path / "tokenizer_config.json").write_text('{"strip_accents": true}')
    with pytest.raises(
        ValueError, match=r"tokenizer_config\.json: unknown key 'strip_accents'; known keys: lower_case"
    ):
        read(folder)
