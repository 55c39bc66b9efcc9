"""Held-out figures against plain NumPy over the model's own logits."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.data import batches
from albert_tf.data.manifest import DataDirectory, read_data_directory
from albert_tf.modeling.models import AlbertPretrainingModel
from albert_tf.training import evaluation
from tests.data import toy

BATCH = 6


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> DataDirectory:
    rows = toy.random_rows(23, max_seq_length=40, vocab_size=61, seed=8)
    path = tmp_path_factory.mktemp("held_out")
    toy.write_directory(path, [rows[:9], rows[9:]], max_seq_length=40, max_predictions_per_seq=6)
    return read_data_directory(path)


@pytest.fixture(scope="module")
def model() -> AlbertPretrainingModel:
    config = AlbertConfig(
        vocab_size=61, embedding_size=6, hidden_size=10, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=14, max_position_embeddings=41, initializer_range=0.5, hidden_dropout_prob=0.5,
    )  # fmt: skip
    return AlbertPretrainingModel(config, seed=5)


def _cross_entropy(logits: np.ndarray, labels: np.ndarray) -> np.ndarray:
    logits = logits.astype(np.float64)
    log_probs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    return -np.take_along_axis(log_probs, labels[..., None], axis=-1)[..., 0]


def _cluster_error(differences: list[np.ndarray]) -> float:
    """Standard error of the mean over all positions, rows being independent."""
    count = sum(map(len, differences))
    mean = sum(d.sum() for d in differences) / count
    return float(np.sqrt(sum((d - mean).sum() ** 2 for d in differences)) / count)


def test_figures(data: DataDirectory, model: AlbertPretrainingModel) -> None:
    counts = evaluation.count_labels(data)
    assert counts.shape == (61,)
    assert counts[:5].sum() == 0
    strategy = tf.distribute.OneDeviceStrategy("/cpu:0")
    figures = evaluation.Evaluator(model, strategy, data, counts, batch_size=BATCH).run()

    loss, right, unigram, order_loss, order_right, orders = [], [], [], [], [], []
    permuted, permuted_own = [], []
    smoothed = -np.log((counts + 1) / (counts + 1).sum())
    seen = np.zeros(61, np.int64)
    for batch in batches.evaluation_batches(data, batch_size=BATCH).as_numpy_iterator():
        outputs = model.forward(batch)
        logits, labels = outputs["masked_lm_logits"].numpy(), batch["masked_lm_ids"]
        used = batch["masked_lm_weights"] > 0
        np.add.at(seen, labels[used], 1)
        shown = np.take_along_axis(batch["input_ids"], batch["masked_lm_positions"], axis=1)
        chosen = used & (shown == 4)
        own = _cross_entropy(logits, labels)
        for row in range(BATCH):
            loss.append(own[row][chosen[row]])
            right.append((logits[row].argmax(-1) == labels[row])[chosen[row]])
            unigram.append(smoothed[labels[row]][chosen[row]])
            other = (row - BATCH // 2) % BATCH  # whose labels are scored
            both = chosen[row] & chosen[other]
            permuted.append(_cross_entropy(logits[row], labels[other])[both])
            permuted_own.append(own[other][both])
            if batch["example_weight"][row]:
                order_loss.append(
                    _cross_entropy(outputs["sentence_order_logits"].numpy(), batch["sentence_order_label"])[row]
                )
                orders.append(batch["sentence_order_label"][row])
                order_right.append(outputs["sentence_order_logits"].numpy()[row].argmax() == orders[-1])
    np.testing.assert_array_equal(seen, counts)
    flat = {"loss": np.concatenate(loss), "permuted": np.concatenate(permuted)}
    assert figures["positions_at_mask"] == len(flat["loss"])
    assert figures["positions"] == counts.sum()
    assert figures["examples"] == 23
    expected = {
        "masked_lm_loss_at_mask": flat["loss"].mean(),
        "masked_lm_accuracy_at_mask": np.concatenate(right).mean(),
        "context_free_loss_at_mask": np.concatenate(unigram).mean(),
        "gain_over_context_free_at_mask": np.concatenate(unigram).mean() - flat["loss"].mean(),
        "gain_over_context_free_at_mask_error": _cluster_error([u - o for u, o in zip(unigram, loss, strict=True)]),
        "permuted_loss_at_mask": flat["permuted"].mean(),
        "gain_over_permuted_at_mask": flat["permuted"].mean() - np.concatenate(permuted_own).mean(),
        "gain_over_permuted_at_mask_error": _cluster_error(
            [p - o for p, o in zip(permuted, permuted_own, strict=True)]
        ),
        "sentence_order_loss": np.mean(order_loss),
        "sentence_order_accuracy": np.mean(order_right),
        "sentence_order_majority": max(np.mean(orders), 1 - np.mean(orders)),
    }
    for name, value in expected.items():
        # packed against padded form, sums in float32
        assert figures[name] == pytest.approx(value, rel=2e-5, abs=2e-5), name


def test_few_examples(data: DataDirectory, model: AlbertPretrainingModel) -> None:
    strategy = tf.distribute.OneDeviceStrategy("/cpu:0")
    made = evaluation.Evaluator(model, strategy, data, np.ones(61, np.int64), batch_size=4, max_examples=5)
    figures = made.run()
    assert figures["examples"] == 5
    assert figures["context_free_loss"] == pytest.approx(np.log(61), rel=1e-6)


def test_batch_size_is_checked(data: DataDirectory, model: AlbertPretrainingModel) -> None:
    strategy = tf.distribute.OneDeviceStrategy("/cpu:0")
    with pytest.raises(ValueError, match="eval_batch_size must be a multiple of the 1 replicas, at least 2"):
        evaluation.Evaluator(model, strategy, data, np.ones(61, np.int64), batch_size=1)
