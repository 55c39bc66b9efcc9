"""Records of real text, mapped back to the text: 1,000 examples in each form, and the shares over all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from albert_tf import features
from albert_tf.tokenizer import AlbertTokenizer
from albert_tf.word_starts import is_word_start
from pipelines.readers import read_documents
from tests.pipelines import building

pytestmark = pytest.mark.xdist_group("real corpora")

SEPARATOR = 65_535  # no id of a vocabulary of 30,000
FILES = ("Moby-Dick--Or-The-Whale_2701.txt", "wikitext2_valid_test.txt")


@pytest.fixture(scope="module")
def english(reference_data: Path) -> AlbertTokenizer:
    """The published vocabulary."""
    return AlbertTokenizer((reference_data / "data" / "albert_en_30k.model").read_bytes())


@pytest.fixture(scope="module")
def corpora(reference_data: Path) -> list[Path]:
    """A novel and a part of Wikipedia."""
    return [reference_data / "data" / "corpora" / name for name in FILES]


@pytest.fixture(scope="module")
def source(corpora: list[Path], english: AlbertTokenizer) -> bytes:
    """Ids of all documents, two bytes each, a separator after each document; made piece by piece, not in batches."""
    ids: list[int] = []
    for path in corpora:
        with path.open("rb") as stream:
            for document in read_documents(stream, str(path)):
                for sentence in document:
                    ids += [english.piece_to_id(piece) for piece in english.tokenize(sentence)]
                ids.append(SEPARATOR)
    return np.array(ids, dtype=np.uint16).tobytes()


class Built(NamedTuple):
    """A data directory, its dataset.json, and its examples."""

    path: Path
    dataset: dict[str, Any]
    examples: list[dict[str, list[Any]]]


@pytest.fixture(scope="module")
def build(
    corpora: list[Path], english: AlbertTokenizer, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., Built]:
    """Makes, once, the data directory of a form and a length."""
    made: dict[str, Built] = {}

    def get(masking: str, max_seq_length: int = 128, **settings: Any) -> Built:
        name = f"{masking}-{max_seq_length}-{settings}"
        if name not in made:
            output = tmp_path_factory.mktemp("real") / "data"
            chosen = {"masking": masking, "max_seq_length": max_seq_length, "num_shards": 8, "seed": 7, **settings}
            dataset = building.build(output, corpora, english, **chosen)
            made[name] = Built(output, dataset, building.read_examples(output))
        return made[name]

    return get


def stands_in(source: bytes, ids: list[int]) -> bool:
    """Whether `ids` follow each other in one document."""
    wanted = np.array(ids, dtype=np.uint16).tobytes()
    at = source.find(wanted)
    while at > 0 and at % 2:  # found between two ids
        at = source.find(wanted, at + 1)
    return at >= 0


def sample(examples: list[dict[str, list[Any]]], count: int) -> list[dict[str, list[Any]]]:
    """`count` examples, evenly over all shards."""
    return [examples[i] for i in np.linspace(0, len(examples) - 1, count).astype(int)]


def test_tokens_are_kept_and_counted(build: Callable[..., Built], source: bytes) -> None:
    tokens = np.frombuffer(source, dtype=np.uint16)
    for masking in ("dynamic", "static"):
        counts = build(masking).dataset["counts"]
        assert counts["documents"] == (tokens == SEPARATOR).sum()
        assert counts["tokens_in"] == (tokens != SEPARATOR).sum()
        assert counts["tokens_out"] >= 0.999 * counts["tokens_in"]
        assert counts["tokens_out"] + sum(counts["tokens_dropped"].values()) == counts["tokens_in"]


def test_dynamic_examples_are_adjacent_segments_in_order(
    build: Callable[..., Built], source: bytes, english: AlbertTokenizer
) -> None:
    for example in sample(build("dynamic").examples, 1000):
        tokens, starts = example[features.SEGMENT_TOKENS], example[features.WORD_STARTS]
        length_a, length_b = example[features.SEGMENT_LENGTHS]
        assert min(length_a, length_b) >= 1
        assert length_a + length_b == len(tokens) == len(starts) <= 125
        assert stands_in(source, tokens)
        assert starts == [int(is_word_start(english.id_to_piece(i))) for i in tokens]


def test_static_examples_are_adjacent_segments_in_the_order_of_their_label(
    build: Callable[..., Built], source: bytes, english: AlbertTokenizer
) -> None:
    chosen = sample(build("static").examples, 1000)
    labels, told = [], 0
    for example in chosen:
        ids = np.array(example[features.INPUT_IDS])
        used = np.array(example[features.MASKED_LM_WEIGHTS]) > 0
        positions = np.array(example[features.MASKED_LM_POSITIONS])[used]
        ids[positions] = np.array(example[features.MASKED_LM_IDS])[used]
        real = sum(example[features.INPUT_MASK])
        first_sep = example[features.SEGMENT_IDS].index(1) - 1
        first, second = ids[1:first_sep].tolist(), ids[first_sep + 1 : real - 1].tolist()
        assert (ids[0], ids[first_sep], ids[real - 1]) == (2, 3, 3)
        assert not ids[real:].any()
        (label,) = example[features.NEXT_SENTENCE_LABELS]
        assert stands_in(source, second + first if label else first + second)
        told += not stands_in(source, first + second if label else second + first)
        labels.append(label)

        boundary = np.array(example[features.TOKEN_BOUNDARY])
        expected = [int(is_word_start(english.id_to_piece(int(i)))) for i in ids[:real]]
        assert boundary[:real].tolist() == expected
        assert not boundary[real:].any()
        masked = np.zeros(129, dtype=bool)
        masked[positions] = True
        inside = np.flatnonzero(boundary[:real] == 0)
        assert (masked[inside] == masked[inside - 1]).all(), "a word is masked in part"
    assert told > 990  # nearly no text reads the same in both orders
    assert abs(np.mean(labels) - 0.5) < 4 * 0.5 / 1000**0.5


@pytest.mark.representatives("128")
@pytest.mark.parametrize("S", [64, 128, 512])
def test_shares_over_all_static_examples(S: int, build: Callable[..., Built], english: AlbertTokenizer) -> None:
    _, dataset, examples = build("static", S)
    labels = np.array([example[features.NEXT_SENTENCE_LABELS][0] for example in examples])
    assert abs(labels.mean() - 0.5) < 4 * 0.5 / len(labels) ** 0.5
    ids = np.array([example[features.INPUT_IDS] for example in examples])
    weights = np.array([example[features.MASKED_LM_WEIGHTS] for example in examples])
    positions = np.array([example[features.MASKED_LM_POSITIONS] for example in examples])
    originals = np.array([example[features.MASKED_LM_IDS] for example in examples])[weights > 0]
    real = sum(sum(example[features.INPUT_MASK]) for example in examples)
    assert abs(weights.sum() / real - 0.15) < 0.002
    shown = np.take_along_axis(ids, positions, axis=1)[weights > 0]
    is_mask, is_kept = shown == english.mask_id, shown == originals
    assert abs(is_mask.mean() - 0.8) < 0.005
    assert abs(is_kept.mean() - 0.1) < 0.005
    replaced = shown[~is_mask & ~is_kept]
    assert not english.special_ids & set(replaced.tolist())
    assert len(set(replaced.tolist())) > 5000
    ngrams = dataset["counts"]["ngrams"]
    shares = np.array([ngrams[str(n)] for n in (1, 2, 3)]) / sum(ngrams.values())
    assert np.abs(shares - np.array([6, 3, 2]) / 11).max() < 0.01
    assert dataset["counts"]["positions_masked"] == int(weights.sum())
    assert dataset["counts"]["examples_swapped"] == int(labels.sum())


@pytest.mark.representatives("128")
@pytest.mark.slow
@pytest.mark.parametrize("S", [64, 128, 512])
def test_shares_over_all_dynamic_examples(S: int, build: Callable[..., Built], english: AlbertTokenizer) -> None:
    """Order and masks as training draws them."""
    import tensorflow as tf

    from albert_tf.data import batches
    from albert_tf.data.manifest import read_data_directory

    path, dataset, _ = build("dynamic", S)
    assert dataset["counts"]["tokens_out"] >= 0.97 * dataset["counts"]["tokens_in"]
    sums: Counter[str] = Counter()
    for batch in batches.evaluation_batches(read_data_directory(path), batch_size=256).as_numpy_iterator():
        rows = batch[batches.EXAMPLE_WEIGHT] > 0
        weights, labels = batch[features.MASKED_LM_WEIGHTS][rows], batch[features.MASKED_LM_IDS][rows]
        shown = tf.gather(batch[features.INPUT_IDS], batch[features.MASKED_LM_POSITIONS], batch_dims=1).numpy()[rows]
        is_mask = (weights > 0) & (shown == english.mask_id)
        sums["real"] += int(batch[features.INPUT_MASK][rows].sum())
        sums["masked"] += int(weights.sum())
        sums["mask"] += int(is_mask.sum())
        sums["kept"] += int(((weights > 0) & (shown == labels)).sum())
        sums["examples"] += int(rows.sum())
        sums["swapped"] += int(batch[features.SENTENCE_ORDER_LABEL][rows].sum())
        replaced = shown[(weights > 0) & ~is_mask & (shown != labels)]
        assert not english.special_ids & set(replaced.tolist())
    assert sums["examples"] == dataset["counts"]["examples"]
    assert abs(sums["masked"] / sums["real"] - 0.15) < 0.002
    assert abs(sums["mask"] / sums["masked"] - 0.8) < 0.005
    assert abs(sums["kept"] / sums["masked"] - 0.1) < 0.005
    assert abs(sums["swapped"] / sums["examples"] - 0.5) < 4 * 0.5 / sums["examples"] ** 0.5


@pytest.mark.representatives("64-*")
@pytest.mark.parametrize(
    ("S", "labels_of_1", "short", "truncated"),
    [(64, (0.60, 0.69), (0.10, 0.25), (0.2, 0.5)), (512, (0.50, 0.56), (0.21, 0.26), (0.03, 0.07))],
)
def test_statistics_of_the_original(
    S: int,
    labels_of_1: tuple[float, float],
    short: tuple[float, float],
    truncated: tuple[float, float],
    build: Callable[..., Built],
) -> None:
    _, dataset, examples = build("static", S, original_compatible=True)
    counts = dataset["counts"]
    labels = [example[features.NEXT_SENTENCE_LABELS][0] for example in examples]
    assert labels_of_1[0] < np.mean(labels) < labels_of_1[1]
    assert short[0] < counts["examples_short"] / counts["examples"] < short[1]
    assert truncated[0] < counts["tokens_dropped"]["truncated"] / counts["tokens_in"] < truncated[1]
    # Chunks of one sentence have text of another document beside them; the others are cut, but of one document.
    masked = [sum(example[features.MASKED_LM_WEIGHTS]) for example in examples]
    assert max(masked) == min(20, round(0.15 * S))
    if S == 512:
        real = sum(sum(example[features.INPUT_MASK]) for example in examples)
        assert sum(masked) / real < 0.05
        full = [m for m, example in zip(masked, examples, strict=True) if sum(example[features.INPUT_MASK]) == S]
        assert np.mean(full) / S == pytest.approx(0.039, abs=0.001)
