"""What tells documents apart, and what their draws depend on."""

from __future__ import annotations

from pipelines.documents import document_digest, document_seed


def test_digest_depends_on_sentences_only() -> None:
    digest = document_digest(["a", "b"])
    assert len(digest) == 16
    assert len({document_digest(d) for d in (["a", "b"], ["a b"], ["b", "a"], ["ab"], ["a"])}) == 5


def test_each_argument_changes_the_seed() -> None:
    digest = document_digest(["a"])
    base = {"seed": 3, "copy": 0}
    seeds = [document_seed(digest, **(base | change)) for change in ({}, {"seed": 4}, {"copy": 1})]
    seeds.append(document_seed(document_digest(["b"]), **base))
    assert len(set(seeds)) == 4
    assert all(0 <= seed < 2**128 for seed in seeds)
    # Written down once: another value would change every data directory that exists.
    assert document_seed(digest, **base) == 0x8C20D065E9F07C4F6ACF65312FC5789C
