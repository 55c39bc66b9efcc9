"""Files of transformers of other ages and kinds: old names, copies of tied weights, `tf_model.h5`."""

from __future__ import annotations

import pathlib
import re
from typing import Any

import numpy as np
import pytest

from albert_tf.dialects import transformers
from albert_tf.dialects.matching import MatchedWeights, match
from albert_tf.weight_files.hdf5_file import write_hdf5
from tests.dialects.transformers_files import (
    E,
    P,
    V,
    keras_paths,
    random_arrays,
    torch_shapes,
    write_config,
    write_directory,
)

TABLE, BIAS = "albert.embeddings.word_embeddings.weight", "predictions.bias"
COPY, OTHER_BIAS = "predictions.decoder.weight", "predictions.decoder.bias"


def opened(folder: pathlib.Path, **settings: Any) -> tuple[MatchedWeights, dict[str, np.ndarray], str]:
    """What was matched, all weights by our names, and the notes."""
    with (model := transformers.open_model(str(folder), **settings)).weights:
        weights = match(model)
        return weights, {name: weights[name] for name in weights}, " ".join(model.notes)


def ignored(weights: MatchedWeights) -> dict[str, str]:
    return {row.theirs: row.note for row in weights.rows if row.status == "ignored"}


def test_old_names_of_layer_norms(tmp_path: pathlib.Path) -> None:
    arrays = random_arrays(torch_shapes("predictions"))

    def old(name: str) -> str:
        found = re.fullmatch(r"(.*(?:LayerNorm|layer_norm))\.(weight|bias)", name)
        return f"{found[1]}.{'gamma' if found[2] == 'weight' else 'beta'}" if found else name

    renamed = {old(name): value for name, value in arrays.items()}
    assert len(renamed.keys() - arrays.keys()) == 20
    write_directory(tmp_path / "old", renamed)
    write_directory(tmp_path / "new", arrays)
    (weights, first, _), (_, second, _) = opened(tmp_path / "old"), opened(tmp_path / "new")
    assert first.keys() == second.keys()
    for name, value in second.items():
        np.testing.assert_array_equal(first[name], value)
    assert "albert.embeddings.LayerNorm.gamma" in {row.theirs for row in weights.rows}


# --- Copies ---


def with_copies(**changes: np.ndarray) -> dict[str, np.ndarray]:
    arrays = random_arrays(torch_shapes("predictions"))
    counters = {"albert.embeddings.position_ids": np.arange(P, dtype=np.int64)[None]}
    copies = {COPY: arrays[TABLE].copy(), OTHER_BIAS: arrays[BIAS].copy()}
    return {**arrays, **copies, **counters, **{name.replace("__", "."): value for name, value in changes.items()}}


def test_equal_copies_are_left_out(tmp_path: pathlib.Path) -> None:
    arrays = with_copies()
    write_directory(tmp_path, arrays)
    weights, values, notes = opened(tmp_path)
    assert ignored(weights) == {
        COPY: f"a copy of {TABLE}, to which it is tied",
        OTHER_BIAS: f"tied to {BIAS}, or zero",
        "albert.embeddings.position_ids": "a buffer of counters, no weight",
    }
    np.testing.assert_array_equal(values["masked_lm/output_bias"], arrays[BIAS])
    assert "tied" not in notes


def test_one_bit_of_difference_is_seen(tmp_path: pathlib.Path) -> None:
    arrays = with_copies()
    arrays[COPY].view(np.int32)[V - 1, E - 1] ^= 1
    write_directory(tmp_path, arrays)
    message = (
        r"model\.safetensors: predictions\.decoder\.weight differs from albert\.embeddings\.word_embeddings\.weight;"
    )
    with pytest.raises(ValueError, match=message):
        transformers.open_model(str(tmp_path))
    # of no consequence for a model without that product
    weights, _, _ = opened(tmp_path, head="encoder")
    assert COPY in ignored(weights)


def test_zeros_of_another_sign_are_another_number(tmp_path: pathlib.Path) -> None:
    arrays = with_copies()
    arrays[TABLE][3, 2], arrays[COPY][3, 2] = 0.0, -0.0
    write_directory(tmp_path, arrays)
    with pytest.raises(ValueError, match=r"differs from"):
        transformers.open_model(str(tmp_path))


@pytest.mark.parametrize(("zero", "taken"), [(OTHER_BIAS, BIAS), (BIAS, OTHER_BIAS)])
def test_of_two_biases_the_one_that_is_not_zero_is_taken(zero: str, taken: str, tmp_path: pathlib.Path) -> None:
    arrays = with_copies()
    arrays[zero] = np.zeros(V, np.float32)
    write_directory(tmp_path, arrays)
    weights, values, notes = opened(tmp_path)
    np.testing.assert_array_equal(values["masked_lm/output_bias"], arrays[taken])
    assert f"{zero} is zero and {taken} is not" in notes
    assert zero in ignored(weights)


def test_two_biases_that_differ_are_refused(tmp_path: pathlib.Path) -> None:
    arrays = with_copies()
    arrays[OTHER_BIAS] = arrays[BIAS] + 1
    write_directory(tmp_path, arrays)
    with pytest.raises(
        ValueError, match=r"predictions\.bias and predictions\.decoder\.bias differ, and neither is zero"
    ):
        transformers.open_model(str(tmp_path))


def test_either_name_of_a_tied_weight_will_do(tmp_path: pathlib.Path) -> None:
    arrays = with_copies()
    table, bias = arrays.pop(TABLE), arrays.pop(BIAS)
    write_directory(tmp_path, arrays)
    weights, values, _ = opened(tmp_path)
    np.testing.assert_array_equal(values["encoder/embeddings/word_embeddings"], table)
    np.testing.assert_array_equal(values["masked_lm/output_bias"], bias)
    assert set(ignored(weights)) == {"albert.embeddings.position_ids"}


def test_an_output_table_of_its_own_that_is_missing_is_refused(tmp_path: pathlib.Path) -> None:
    write_directory(tmp_path / "untied", random_arrays(torch_shapes("predictions")), tie_word_embeddings=False)
    with pytest.raises(ValueError, match=r"tie_word_embeddings is false .* predictions\.decoder\.weight"):
        transformers.open_model(str(tmp_path / "untied"))
    write_directory(tmp_path / "equal", with_copies(), tie_word_embeddings=False)
    opened(tmp_path / "equal")


# --- tf_model.h5 ---


def write_keras(folder: pathlib.Path, arrays: dict[str, np.ndarray], **changes: Any) -> None:
    write_config(folder, **changes)
    write_hdf5(folder / "tf_model.h5", arrays)


@pytest.mark.parametrize(
    ("model", "parts", "architecture", "head"),
    [
        ("tf_albert_for_pre_training", ["predictions", "sop"], "AlbertForPreTraining", "pretraining"),
        ("tf_albert_for_masked_lm_1", ["predictions"], "TFAlbertForMaskedLM", "masked_lm"),
        ("tf_albert_model", [], "AlbertModel", "encoder"),
        ("tf_albert_for_question_answering", ["qa"], "AlbertForQuestionAnswering", "span"),
        ("tf_albert_for_multiple_choice", ["classifier:1"], "AlbertForMultipleChoice", "multiple_choice"),
        ("tf_albert_for_token_classification", ["classifier:2"], "AlbertForTokenClassification", "token_classifier"),
        ("tf_albert_for_sequence_classification", ["classifier:2"], "AlbertForSequenceClassification", "classifier"),
    ],
)
def test_keras_files(model: str, parts: list[str], architecture: str, head: Any, tmp_path: pathlib.Path) -> None:
    arrays = random_arrays(keras_paths(model, *parts))
    write_keras(tmp_path, arrays, architectures=[architecture])
    for path in (tmp_path, tmp_path / "tf_model.h5"):
        assert transformers.recognises(str(path))
    with (opened_model := transformers.open_model(str(tmp_path))).weights:
        assert opened_model.head.head == head
    weights, values, _ = opened(tmp_path)
    main = f"albert/{model}/albert"
    place = f"{main}/encoder/albert_layer_groups_._1/albert_layers_._0"
    expected = {
        "encoder/embeddings/token_type_embeddings": f"{main}/embeddings/token_type_embeddings/embeddings:0",
        "encoder/embedding_projection/kernel": f"{main}/encoder/embedding_hidden_mapping_in/kernel:0",
        "encoder/group_1/inner_0/attention/output/kernel": f"{place}/attention/dense/kernel:0",
        "encoder/group_1/inner_0/feed_forward/intermediate/kernel": f"{place}/ffn/kernel:0",
        "encoder/group_1/inner_0/feed_forward/layer_norm/beta": f"{place}/full_layer_layer_norm/beta:0",
        "encoder/pooler/kernel": f"{main}/pooler/kernel:0",
    }
    if "predictions" in parts:
        # the one that their model adds
        expected["masked_lm/output_bias"] = f"predictions/{model}/predictions/decoder/bias:0"
        unused = f"predictions/{model}/predictions/bias:0"
        assert ignored(weights)[unused].startswith("without effect in Keras' model")
    if "sop" in parts:
        expected["sentence_order/kernel"] = f"sop_classifier/{model}/sop_classifier/classifier/kernel:0"
    for name, stored in expected.items():
        assert values[name].tobytes() == arrays[stored].tobytes(), name
    used = {row.theirs for row in weights.rows if row.status == "used"}
    assert used | ignored(weights).keys() == arrays.keys()


def test_embeddings_that_keras_stores_twice(tmp_path: pathlib.Path) -> None:
    model = "tf_albert_for_masked_lm"
    arrays = random_arrays(keras_paths(model, "predictions", pooler=False))
    main, copy = f"albert/{model}/albert/embeddings", f"predictions/{model}/albert/embeddings"
    for name in ("word_embeddings/weight:0", "position_embeddings/embeddings:0", "LayerNorm/gamma:0"):
        arrays[f"{copy}/{name}"] = arrays[f"{main}/{name}"].copy()
    write_keras(tmp_path / "equal", arrays, architectures=["AlbertForMaskedLM"])
    weights, _, _ = opened(tmp_path / "equal")
    assert len(ignored(weights)) == 4
    arrays[f"{copy}/word_embeddings/weight:0"][0, 0] += 1
    write_keras(tmp_path / "different", arrays, architectures=["AlbertForMaskedLM"])
    with pytest.raises(ValueError, match=r"predictions/.*/word_embeddings/weight:0 differs from albert/.*weight:0"):
        transformers.open_model(str(tmp_path / "different"))


def test_the_first_releases_bare_model_has_no_main_layer(tmp_path: pathlib.Path) -> None:
    # 2.2: the model's own layers are embeddings, encoder and pooler
    paths = keras_paths("tf_albert_model")
    bare = {
        re.sub(r"^albert/tf_albert_model/albert/(\w+)/", r"\1/tf_albert_model/\1/", path): shape
        for path, shape in paths.items()
    }
    assert "pooler/tf_albert_model/pooler/kernel:0" in bare
    arrays = random_arrays(bare)
    write_keras(tmp_path, arrays, architectures=["AlbertModel"])
    _, values, _ = opened(tmp_path)
    np.testing.assert_array_equal(values["encoder/pooler/bias"], arrays["pooler/tf_albert_model/pooler/bias:0"])


def test_a_weight_that_keras_lacks_is_named(tmp_path: pathlib.Path) -> None:
    arrays = random_arrays(keras_paths("tf_albert_model"))
    del arrays["albert/tf_albert_model/albert/encoder/embedding_hidden_mapping_in/bias:0"]
    write_keras(tmp_path, arrays, architectures=["AlbertModel"])
    with pytest.raises(ValueError, match=r"lacks albert\.encoder\.embedding_hidden_mapping_in\.bias"):
        opened(tmp_path)
