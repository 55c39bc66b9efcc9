"""Near-duplicates, and held-out sentences in the training text, on sentences made here."""

from __future__ import annotations

import random

from demo import duplicates


def test_near_duplicates_are_found_wherever_they_are() -> None:
    seen = duplicates.NearDuplicates()
    assert seen.add("The name of the operation is given by the caller of it.")
    assert not seen.add("the name of THE operation is given by the caller of it!")
    # 7 of its 9 runs of four words were there.
    assert not seen.add("The name of the operation is given by the caller of us too.")
    assert seen.add("The name of the operation is taken from the scope.")
    assert (
        list(
            duplicates.without_near_duplicates(
                [["A name for the new scope.", "The name of the operation is taken from the scope."]], seen
            )
        )
        == []
    )


def test_held_out_sentences_are_found_inside_and_across_sentences() -> None:
    held_out = duplicates.HeldOutSentences([["The cat sat on it.", "Short one here now."]])
    assert held_out.found_in(["Yes.", "It says that the cat sat on it today.", "No."]) == {1}
    assert held_out.found_in(["Look at the cat!", "Sat on it, it did.", "Short one here now."]) == {0, 1}
    assert held_out.found_in(["The cat sat on them."]) == set()


def test_training_text_keeps_no_held_out_sentence() -> None:
    # Words from a tiny vocabulary, so that sentences often occur in others and across two; checked by plain search.
    draw = random.Random(11)
    words = ["la", "le", "lo"]
    held_out = [[" ".join(draw.choices(words, k=5)) for _ in range(2)] for _ in range(3)]
    training = [[" ".join(draw.choices(words, k=draw.randint(2, 9))) for _ in range(7)] for _ in range(40)]
    kept, removed = duplicates.without_held_out(training, duplicates.HeldOutSentences(held_out))

    def occurrences(documents: list[list[str]]) -> int:
        texts = [f" {' '.join(document)} " for document in documents]
        return sum(f" {sentence} " in text for text in texts for document in held_out for sentence in document)

    assert occurrences(training) > 10
    assert removed > 10
    assert len(kept) > 5
    assert occurrences(kept) == 0
