"""Chinese prose with a vocabulary trained on it: hardly anything is unknown, and the audit finds nothing wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from albert_tf.tokenizer import AlbertTokenizer, TokenizerConfig
from pipelines import vocabulary
from pipelines.audit import inspection, report
from pipelines.dataset import read_dataset
from pipelines.readers import read_documents
from tests.pipelines import building

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("chinese")]


@pytest.fixture(scope="module")
def path(reference_data: Path) -> Path:
    return reference_data / "data" / "corpora" / "chinese.txt"


@pytest.fixture(scope="module")
def tokenizer(path: Path) -> AlbertTokenizer:
    """Trained on the corpus, with the flags' defaults but for the size."""
    with path.open("rb") as stream:
        lines = [sentence for document in read_documents(stream, str(path)) for sentence in document]
    settings = vocabulary.VocabularySettings(vocab_size=6000)
    return vocabulary.train_vocabulary(lines, settings, TokenizerConfig())[0]


@pytest.mark.parametrize("masking", ["dynamic", "static"])
def test_audit_of_a_chinese_corpus(masking: str, path: Path, tokenizer: AlbertTokenizer, tmp_path: Path) -> None:
    building.build(tmp_path / "data", [path], tokenizer, masking=masking, max_seq_length=128, num_shards=2)
    found = inspection.inspect(read_dataset(str(tmp_path / "data")), show=2)
    assert found.faults == []
    assert report.failed(found) == []
    assert found.figures.unknown / found.figures.tokens < 0.005
    assert any("\u4e00" <= c <= "\u9fff" for shown in report.shown_examples(found) for c in str(shown))
