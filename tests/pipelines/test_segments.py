"""Documents to pairs of segments: nothing is lost, everything is in its place."""

from __future__ import annotations

import numpy as np
import pytest

from albert_tf.tokenizer import AlbertTokenizer
from pipelines.segments import Segments, cut_document
from pipelines.sentences import TokenizedDocument, tokenize_document, word_start_rule
from tests.pipelines.conftest import make_documents


def make_document(sentence_words: list[list[int]]) -> TokenizedDocument:
    """Document from the token counts of its words, by sentence; the ids are 100, 101, ..."""
    lengths = [length for words in sentence_words for length in words]
    starts = np.zeros(sum(lengths), dtype=bool)
    starts[np.cumsum([0, *lengths[:-1]])] = True
    sizes = np.array([sum(words) for words in sentence_words])
    return TokenizedDocument(
        ids=np.arange(100, 100 + len(starts), dtype=np.int32),
        word_starts=starts,
        sentence_starts=np.cumsum(sizes) - sizes,
        empty_sentences=0,
    )


def empty_document() -> TokenizedDocument:
    none = np.zeros(0, dtype=np.int64)
    return TokenizedDocument(
        ids=none.astype(np.int32), word_starts=none.astype(bool), sentence_starts=none, empty_sentences=1
    )


def random_document(generator: np.random.Generator) -> TokenizedDocument:
    return make_document(
        [generator.integers(1, 5, size=generator.integers(1, 14)).tolist() for _ in range(generator.integers(1, 9))]
    )


def cut(
    document: TokenizedDocument, *, room: int, short: float = 0.0, seed: int = 1, in_pairs: bool = True
) -> Segments:
    generator = np.random.default_rng(seed)
    return cut_document(document, room=room, short_seq_prob=short, generator=generator, in_pairs=in_pairs)


def test_tokenized_document_holds_the_sentences_ids(tokenizer: AlbertTokenizer) -> None:
    sentences = [*make_documents(1, seed=8)[0], "\u0301", "An in."]
    document = tokenize_document(sentences, tokenizer, word_start_rule(tokenizer))
    expected = [i for sentence in sentences for i in tokenizer.encode(sentence)]
    assert document.ids.tolist() == expected
    assert document.ids.dtype == np.int32
    assert document.empty_sentences == 1
    assert len(document.sentence_starts) == len(sentences) - 1
    ends = [*document.sentence_starts[1:], len(expected)]
    kept = [s for s in sentences if s != "\u0301"]
    for begin, end, sentence in zip(document.sentence_starts, ends, kept, strict=True):
        assert document.ids[begin:end].tolist() == tokenizer.encode(sentence)
        assert document.word_starts[begin:end].tolist() == tokenizer.word_starts(tokenizer.encode(sentence))


def test_spans_cover_the_document_in_order() -> None:
    generator = np.random.default_rng(11)
    for round_ in range(300):
        document = random_document(generator)
        room = int(generator.integers(4, 40))
        segments = cut(document, room=room, short=0.3, seed=round_)
        size, at = len(document.ids), 0
        assert segments.words_cut == 0
        for begin, middle, end in segments.spans.tolist():
            assert at <= begin < middle < end <= begin + room
            assert document.word_starts[[begin, middle]].all()
            assert end == size or document.word_starts[end]
            inner = document.sentence_starts[(document.sentence_starts > begin) & (document.sentence_starts < end)]
            assert not len(inner) or middle in inner
            at = end
        covered = int((segments.spans[:, 2] - segments.spans[:, 0]).sum())
        assert covered + segments.tokens_single_word == size
        if document.word_starts.sum() > 1 and room >= 12:  # room for three words of four tokens
            assert segments.tokens_single_word == 0


def test_chunks_are_filled_to_the_last_word_that_fits() -> None:
    document = make_document([[1, 2, 1], [2, 2, 1, 1], [3, 1, 1, 1, 1, 1, 1, 1, 1]])  # 4, 6 and 11 tokens
    segments = cut(document, room=9)
    assert segments.spans[:, [0, 2]].tolist() == [[0, 9], [9, 18], [18, 21]]
    assert segments.spans[0, 1] == 4
    assert segments.spans[1, 1] == 10


def test_a_last_word_gets_a_companion() -> None:
    document = make_document([[1, 1, 1, 1], [1, 2]])
    assert cut(document, room=5).spans[:, [0, 2]].tolist() == [[0, 4], [4, 7]]
    document = make_document([[1, 1, 1, 1], [2]])
    assert cut(document, room=4).spans[:, [0, 2]].tolist() == [[0, 3], [3, 6]]


def test_documents_of_one_word_are_left_out_and_counted() -> None:
    segments = cut(make_document([[3]]), room=7)
    assert segments.spans.shape == (0, 3)
    assert segments.tokens_single_word == 3
    empty = cut(empty_document(), room=7)
    assert empty.spans.shape == (0, 3)
    assert empty.tokens_single_word == 0


def test_one_sentence_is_split_at_each_of_its_words() -> None:
    document = make_document([[1, 2, 3, 1]])
    middles = [int(cut(document, room=9, seed=seed).spans[0, 1]) for seed in range(300)]
    assert set(middles) == {1, 3, 6}
    # 300 draws of three values: 100 each, standard deviation 8.2.
    assert all(67 <= middles.count(value) <= 133 for value in (1, 3, 6))


def test_a_word_longer_than_the_room_is_cut_inside() -> None:
    document = make_document([[1, 17, 1, 1]])
    for seed in range(20):
        segments = cut(document, room=6, seed=seed)
        assert segments.words_cut == 2
        # Parts of the long word are split at any of their tokens; the words of one token beside it stand alone.
        assert segments.spans[:, [0, 2]].tolist() == [[1, 7], [7, 13], [13, 19]]
        assert all(begin < middle < end for begin, middle, end in segments.spans.tolist())
        assert segments.tokens_single_word == 2


def test_short_targets_are_drawn_for_each_example() -> None:
    document = make_document([[1]] * 60_000)
    room = 41
    spans = cut(document, room=room, short=0.25, seed=5).spans
    lengths = spans[:-1, 2] - spans[:-1, 0]
    # A short target is drawn evenly from 2 to 41; one time in forty it is the full length.
    expected, count = 0.25 * 39 / 40, len(lengths)
    share = float((lengths < room).mean())
    assert abs(share - expected) < 4 * (expected * (1 - expected) / count) ** 0.5
    assert lengths.min() == 2
    assert cut(document, room=room, short=0.25, seed=5).short_targets - (lengths < room).sum() in (0, 1)  # the last one
    full = cut(document, room=room, short=0.0).spans
    assert set((full[:-1, 2] - full[:-1, 0]).tolist()) == {room}


def test_a_sentence_of_one_word_is_joined_with_the_next() -> None:
    document = make_document([[3], [1, 1, 1], [2], [1, 1]])
    for seed in range(40):
        segments = cut(document, room=6, short=1.0, seed=seed)
        assert segments.tokens_single_word == 0
        assert segments.spans[0, 1] == 3


@pytest.mark.parametrize(("room", "short", "message"), [(1, 0.1, "room must be"), (9, 1.1, "short_seq_prob must be")])
def test_arguments_out_of_range_are_refused(room: int, short: float, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        cut(make_document([[1, 1]]), room=room, short=short)


def test_segments_by_themselves_cover_the_document_and_lose_nothing() -> None:
    generator = np.random.default_rng(12)
    for round_ in range(200):
        document = random_document(generator)
        room = int(generator.integers(4, 40))
        segments = cut(document, room=room, short=0.3, seed=round_, in_pairs=False)
        at = 0
        for begin, middle, end in segments.spans.tolist():
            assert at == begin < middle == end <= begin + room
            assert document.word_starts[begin]
            at = end
        assert at == len(document.ids)
        assert segments.tokens_single_word == segments.words_cut == 0
    one_word = cut(make_document([[3]]), room=7, in_pairs=False)
    assert one_word.spans.tolist() == [[0, 3, 3]]
    # Sentences of 3, 3, 1 and 6 tokens: a chunk ends with the sentence that fills it, or at the last word that fits.
    filled = cut(make_document([[1, 2], [1, 1, 1], [1], [3, 3]]), room=6, in_pairs=False)
    assert filled.spans[:, [0, 2]].tolist() == [[0, 6], [6, 10], [10, 13]]
