"""Artefacts beside models and other artefacts: one weight changed by 1 % is seen, in whatever it is stored."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.model_directory import save_model_directory
from albert_tf.modeling.models import AlbertPretrainingModel
from export import comparison, flatbuffer, verify
from export.proof.passages import PASSAGES
from export.saved_model import SavedModelReport
from tests.conftest import ROOT
from tests.export.conftest import scaled

# Bias of the keys: softmax takes it away again. Last row of positions: only a text of the greatest length comes there.
UNSEEN_IN_OUTPUTS = "encoder/group_0/inner_0/attention/key/bias"
POSITIONS = "encoder/embeddings/position_embeddings"
SEEN = {
    POSITIONS: "sequence_output",
    "encoder/embeddings/token_type_embeddings": "sequence_output",
    "encoder/embeddings/word_embeddings": "sequence_output",
    "encoder/group_0/inner_0/feed_forward/output/bias": "sequence_output",
    "masked_lm/output_bias": "masked_lm_logits",
}


def largest(found: comparison.Comparison) -> dict[str, float]:
    """Differences by output, as shares of the output's magnitude."""
    return {one.output: one.largest / one.magnitude for one in found.differences if one.inputs == "random"}


def test_a_file_agrees_with_its_model_and_with_the_savedmodel(
    directory: pathlib.Path, float32: pathlib.Path, exported: SavedModelReport
) -> None:
    found = verify.compare(directory, float32)
    assert {one.inputs for one in found.differences} == {"random", "texts"}
    assert set(largest(found)) == {"masked_lm_logits", "pooled_output", "sentence_order_logits", "sequence_output"}
    assert (found.left_out, found.weights, found.missing_weights) == ((), 32, ())
    assert found.max_difference == 1e-5
    assert verify.within(found, 1e-5)
    assert not verify.within(found, 1e-9)  # it computes in another order

    found = verify.compare(float32, exported.text_folder)
    assert set(largest(found)) == {"pooled_output", "sequence_output"}
    assert found.left_out == ("masked_lm_logits", "sentence_order_logits")
    assert verify.within(found, 1e-5)


def test_the_tokenizer_inside_is_compared(directory: pathlib.Path, exported: SavedModelReport) -> None:
    found = verify.compare(exported.text_folder, directory)
    assert (found.different_ids, found.texts) == (0, len(PASSAGES) + 1)
    assert verify.within(found, found.max_difference)


@pytest.mark.parametrize("name", [UNSEEN_IN_OUTPUTS, *SEEN])
def test_one_weight_changed_by_one_percent(
    name: str, float32: pathlib.Path, model: AlbertPretrainingModel, tmp_path: pathlib.Path
) -> None:
    values = model.named_weights()[name].numpy()
    found = verify.compare(float32, scaled(float32, values, tmp_path / "changed.tflite"))
    assert len(found.missing_weights) == 1
    assert not verify.within(found, found.max_difference)
    apart = {output for output, share in largest(found).items() if share > 1e-5}
    if name == UNSEEN_IN_OUTPUTS:
        assert apart == set()
    else:
        assert SEEN[name] in apart


@pytest.mark.parametrize("row", [69, 300])
def test_one_row_is_reached_by_the_inputs_alone(
    row: int, float32: pathlib.Path, model: AlbertPretrainingModel, tmp_path: pathlib.Path
) -> None:
    name = POSITIONS if row == 69 else "encoder/embeddings/word_embeddings"
    values = model.named_weights()[name].numpy()[row]
    found = verify.compare(float32, scaled(float32, values, tmp_path / "changed.tflite"))
    assert largest(found)["sequence_output"] > 1e-4


def test_a_variable_of_a_savedmodel_changed_by_one_percent(
    exported: SavedModelReport, directory: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    loaded = tf.saved_model.load(exported.ids_folder)
    variable = loaded.weights["encoder/pooler/bias"]
    variable.assign(variable * 1.01)
    tf.saved_model.save(loaded, str(tmp_path / "changed"), signatures=dict(loaded.signatures))
    found = verify.compare(directory, tmp_path / "changed")
    assert found.missing_weights == ("encoder/pooler/bias",)
    shares = largest(found)
    assert shares["pooled_output"] > 1e-4
    assert shares["sequence_output"] < 1e-5
    assert not verify.within(found, found.max_difference)


def test_of_8_bits_the_weights_tell(
    directory: pathlib.Path, int8: pathlib.Path, tmp_path: pathlib.Path, model: AlbertPretrainingModel
) -> None:
    found = verify.compare(directory, int8)
    assert found.max_difference == 0.2
    assert verify.within(found, found.max_difference)

    # The steps of the pooler's levels, one for each output, 1 % wider.
    kernel = model.named_weights()["encoder/pooler/kernel"].numpy()
    steps = next(
        steps
        for _, values, steps, _ in flatbuffer.constants(int8.read_bytes())
        if steps is not None
        and values.shape == kernel.T.shape
        and np.abs(values * steps - kernel.T).max() <= steps.max()
    )
    path = scaled(int8, steps, tmp_path / "changed.tflite")
    found = verify.compare(int8, path)
    assert len(found.missing_weights) == 1
    assert not verify.within(found, found.max_difference)
    with_outputs_alone = max(largest(found).values())
    assert with_outputs_alone < found.max_difference  # they would have let it pass


def test_a_model_of_other_size_cannot_be_compared(
    float32: pathlib.Path, model: AlbertPretrainingModel, tmp_path: pathlib.Path
) -> None:
    config: AlbertConfig = model.config.replace(vocab_size=501)
    save_model_directory(tmp_path / "other", AlbertPretrainingModel(config, seed=3), None)
    with pytest.raises(ValueError, match="vocabularies of 500 and 501 pieces: nothing to compare"):
        verify.compare(float32, tmp_path / "other")


def test_door(float32: pathlib.Path, model: AlbertPretrainingModel, tmp_path: pathlib.Path) -> None:
    changed = scaled(float32, model.named_weights()[UNSEEN_IN_OUTPUTS].numpy(), tmp_path / "changed.tflite")

    def run(b: pathlib.Path) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "export.verify", f"--a={float32}", f"--b={b}"]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)

    done = run(float32)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (
        0,
        "the models agree (bound 1e-05 of the largest value)",
    )
    done = run(changed)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (
        1,
        "THE MODELS DIFFER (bound 1e-05 of the largest value)",
    )
    assert "are the same numbers in both; others in one: " in done.stdout
