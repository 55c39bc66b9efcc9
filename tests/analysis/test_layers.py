"""Layer similarity: against a NumPy restatement, on the original's layers and others; padding and long texts."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest

import albert_tf
from albert_tf.analysis.layers import LayerChange, LayerChanges, changes, make_batches, measure_layers
from albert_tf.config import AlbertConfig
from albert_tf.modeling.encoder import AlbertEncoder
from tests import wordpiece_toys
from tests.golden import original
from tests.modeling.small_models import SHARING_CASES, make_batch, make_config, randomize
from tests.reference import albert_numpy

# The models compute in float32, whose layers are within 1e-5 of the restatement: as much over a length of 5 to 10.
TOLERANCE = 1e-5


def restated(first: np.ndarray, outputs: np.ndarray, mask: np.ndarray) -> list[LayerChange]:
    """Means over the tokens: first [B, S, H], outputs [L, B, S, H], mask [B, S]."""
    found = []
    before = first
    for after in outputs:
        distances, cosines, degrees, norms = [], [], [], []
        for row, column in zip(*np.nonzero(mask), strict=True):
            a, b = before[row, column].astype(np.float64), after[row, column].astype(np.float64)
            distances.append(np.sqrt(((b - a) ** 2).sum()))
            cosines.append(a @ b / np.sqrt((a @ a) * (b @ b)))
            degrees.append(np.arccos(cosines[-1]) * 180 / np.pi)
            norms.append(np.sqrt(a @ a))
        means = [float(np.mean(values)) for values in (distances, cosines, degrees, norms)]
        found.append(
            LayerChange(l2_distance=means[0], cosine_similarity=means[1], degrees=means[2], input_norm=means[3])
        )
        before = after
    return found


def check(found: LayerChanges, expected: list[LayerChange]) -> None:
    assert len(found.layers) == len(expected)
    for layer, (one, other) in enumerate(zip(found.layers, expected, strict=True)):
        for name in ("l2_distance", "cosine_similarity", "degrees", "input_norm"):
            assert getattr(one, name) == pytest.approx(getattr(other, name), rel=TOLERANCE), (layer, name)


def inputs_of(batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {key: batch[key] for key in ("input_ids", "input_mask", "segment_ids")}


def test_the_originals_layers(reference_data: pathlib.Path) -> None:
    """The encoder of the original's checkpoint, the restatement from its weights, and the original's own layers."""
    folder = reference_data / "golden" / "tf1_shared_lamb"
    expected = dict(np.load(folder / "forward.npz"))
    config = AlbertConfig.from_json((folder / "albert_config.json").read_text())
    weights = {name: value.astype(np.float64) for name, value in original.read_weights(folder / "model.ckpt-0").items()}
    model = albert_tf.load_model(folder / "model.ckpt-0", head="encoder")
    found = measure_layers(model.encoder, [inputs_of(expected)], name="original")
    mask = expected["input_mask"]
    assert found.num_tokens == int(mask.sum()) < mask.size
    encoded = albert_numpy.encode(config, weights, inputs_of(expected))

    def projected(embedded: np.ndarray) -> np.ndarray:
        return albert_numpy.dense(weights, "encoder/embedding_projection", embedded)

    restatement = restated(projected(encoded["embedding_output"]), encoded["encoder_outputs"], mask)
    check(found, restatement)
    check(found, restated(projected(expected["embedding_output"]), expected["all_encoder_layers"], mask))
    distances = [layer.l2_distance for layer in restatement]
    assert max(distances) > 2 * min(distances)  # the layers differ, so that their order is seen


@pytest.mark.parametrize("case", ["none", "inner_blocks", "no_projection", "words_alone_two_groups"])
def test_other_shapes(case: str) -> None:
    config = make_config(**SHARING_CASES[case])
    encoder = AlbertEncoder(config)
    weights = randomize(encoder.named_weights())
    batch = inputs_of(make_batch())
    encoded = albert_numpy.encode(config, weights, batch)
    first = encoded["embedding_output"]
    if config.embedding_projection:
        first = albert_numpy.dense(weights, "encoder/embedding_projection", first)
    found = measure_layers(encoder, [batch], name=case)
    check(found, restated(first, encoded["encoder_outputs"], batch["input_mask"]))


def test_padding_and_batches_change_nothing() -> None:
    encoder = AlbertEncoder(make_config(), seed=3)
    batch = inputs_of(make_batch())
    whole = measure_layers(encoder, [batch], name="whole")
    padding = batch["input_mask"] == 0
    other = {**batch, "input_ids": np.where(padding, 96 - batch["input_ids"], batch["input_ids"])}
    # Rows of one, three and one: a mean of the batches' means would count the short row as much as the others.
    parts = [{key: value[start:end] for key, value in other.items()} for start, end in ((0, 1), (1, 4), (4, 5))]
    found = measure_layers(encoder, parts, name="parts")
    assert found.num_tokens == whole.num_tokens == int(batch["input_mask"].sum())
    check(found, list(whole.layers))


def test_values_by_hand() -> None:
    before = np.array([[3.0, 4.0], [3.0, 4.0], [1.0, 0.0]])
    after = np.array([[-4.0, 3.0], [6.0, 8.0], [-2.0, 0.0]])
    expected = [[50**0.5, 0.0, 90.0, 5.0], [5.0, 1.0, 0.0, 5.0], [3.0, -1.0, 180.0, 1.0]]
    np.testing.assert_allclose(changes(before, after, source="here"), expected, rtol=1e-12, atol=1e-12)


def test_a_small_angle_is_no_noise() -> None:
    # Its cosine is 1 in float64; the arc cosine of that is 0.
    found = changes(np.array([[1.0, 0.0]]), np.array([[1.0, 1e-9]]), source="here")
    assert found[0, 1] == 1.0
    assert found[0, 2] == pytest.approx(np.degrees(1e-9))


def test_values_without_meaning() -> None:
    one = np.ones((2, 3))
    with pytest.raises(ValueError, match="m, layer 2: has values that are not finite"):
        changes(one, one * [[1.0], [np.nan]], source="m, layer 2")
    with pytest.raises(ValueError, match="m, layer 2: has a token whose vector is zero"):
        changes(one * [[0.0], [1.0]], one, source="m, layer 2")
    encoder = AlbertEncoder(make_config(), seed=3)
    with pytest.raises(ValueError, match="m: the text has no token"):
        measure_layers(encoder, [], name="m")


def test_a_long_text_goes_on_in_the_next_row() -> None:
    tokenizer = wordpiece_toys.tokenizer()
    texts = ["", *wordpiece_toys.SENTENCES]
    batches = list(make_batches(texts, tokenizer, max_seq_length=11, batch_size=4))
    rows = [
        (ids[mask > 0].tolist(), segments)
        for batch in batches
        for ids, mask, segments in zip(batch["input_ids"], batch["input_mask"], batch["segment_ids"], strict=True)
    ]
    assert all(row[0] == tokenizer.cls_id and row[-1] == tokenizer.sep_id and len(row) <= 11 for row, _ in rows)
    assert not any(segments.any() for _, segments in rows)
    wanted = [token for text in texts for token in tokenizer.encode(text)]
    assert [token for row, _ in rows for token in row[1:-1]] == wanted
    assert len(rows) > len(texts)
    assert [len(batch["input_ids"]) for batch in batches[:-1]] == [4] * (len(batches) - 1)
    # as long as the longest row, and no longer
    assert all(batch["input_mask"].any(0).all() for batch in batches)
    with pytest.raises(ValueError, match="max_seq_length must be at least 3"):
        next(make_batches(texts, tokenizer, max_seq_length=2, batch_size=4))
