"""Chinese prose with a vocabulary trained on it: hardly anything is unknown, and the audit finds nothing wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from albert_tf.tokenizer import TokenizerConfig
from pipelines import vocabulary
from pipelines.audit import inspection, report
from pipelines.dataset import read_dataset
from pipelines.readers import read_documents
from tests.pipelines import building


@pytest.mark.slow
@pytest.mark.parametrize("masking", ["dynamic", "static"])
def test_audit_of_a_chinese_corpus(masking: str, reference_data: Path, tmp_path: Path) -> None:
    path = reference_data / "data" / "corpora" / "chinese.txt"
    with path.open("rb") as stream:
        lines = [sentence for document in read_documents(stream, str(path)) for sentence in document]
    # Every character counts in a script of thousands: with 0.99995 of them the rest would be unknown.
    settings = vocabulary.VocabularySettings(vocab_size=6000, character_coverage=0.9998)
    tokenizer, _ = vocabulary.train_vocabulary(lines, settings, TokenizerConfig())
    building.build(tmp_path / "data", [path], tokenizer, masking=masking, max_seq_length=128, num_shards=2)
    found = inspection.inspect(read_dataset(str(tmp_path / "data")), show=2)
    assert found.faults == []
    assert report.failed(found) == []
    assert found.figures.unknown / found.figures.tokens < 0.005
    assert any("\u4e00" <= c <= "\u9fff" for shown in report.shown_examples(found) for c in str(shown))
