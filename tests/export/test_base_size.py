"""Base size: size on disk, and agreement with Keras on 20 real texts of 3 to 512 tokens in mixed batches."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.inference.loaded_model import LoadedModel
from albert_tf.modeling.models import AlbertPretrainingModel
from albert_tf.tokenizer import AlbertTokenizer
from export import flatbuffer, parity, tflite
from export.artifacts import IDS_FOLDER, TEXT_FOLDER
from export.export_folders import export_paths
from export.saved_model_files import ServedSettings, served_from, variables_bytes, write_saved_models
from export.tflite_tokenizer import make_text_graph
from tests.conftest import REFERENCE_DATA, has_reference_data
from tests.export.texts import ids_outputs, real_batches, train_tokenizer

pytestmark = [pytest.mark.slow, pytest.mark.thorough, pytest.mark.xdist_group("base size")]


@pytest.fixture(scope="module")
def tokenizer() -> AlbertTokenizer:
    """The published vocabulary where it is present. A smaller one does: its ids are the first of the model's 30,000."""
    if has_reference_data():
        return AlbertTokenizer((REFERENCE_DATA / "data" / "albert_en_30k.model").read_bytes())
    return train_tokenizer()


@pytest.fixture(scope="module")
def model() -> AlbertPretrainingModel:
    return AlbertPretrainingModel(AlbertConfig.named("base"), seed=3)


@pytest.fixture(scope="module")
def batches(tokenizer: AlbertTokenizer) -> list[parity.Batch]:
    made = real_batches(tokenizer, longest=512)
    lengths = np.concatenate([batch["input_mask"].sum(axis=1) for batch in made])
    assert (len(lengths), lengths.min(), lengths.max()) == (20, 3, 512)
    assert all(batch["input_mask"].min() == 0 for batch in made)
    return made


@pytest.fixture(scope="module")
def expected(model: AlbertPretrainingModel, batches: list[parity.Batch]) -> list[dict[str, np.ndarray]]:
    return [parity.source_outputs(model, batch) for batch in batches]


def tflite_agreement(content: bytes, batches, expected) -> dict[str, parity.Agreement]:
    interpreter = tflite.make_interpreter(content, num_threads=2)
    return parity.agreement(expected, [tflite.run(interpreter, batch) for batch in batches], batches)


@pytest.fixture(scope="module")
def saved(model: AlbertPretrainingModel, tokenizer: AlbertTokenizer, tmp_path_factory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("base")
    loaded = LoadedModel(path="base", model=model, tokenizer=tokenizer, max_seq_length=512)
    write_saved_models(export_paths(folder), loaded, served_from(loaded, ServedSettings()))
    return folder


# Loads both SavedModels where nothing of this project can be imported, and TF-Text only for the second.
CLEAN_PROCESS = """
import sys, time
class Forbidden:
    names = {"albert_tf", "export", "pipelines", "demo", "tensorflow_text"}
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in self.names:
            raise ImportError(f"{name} must not be needed")
sys.meta_path.insert(0, Forbidden())
import numpy as np, tensorflow as tf
folder = sys.argv[1]
given = np.load(sys.argv[2])
begun = time.perf_counter()
model = tf.saved_model.load(folder + "/ids")
print("loaded ids in", time.perf_counter() - begun)
names = ("input_ids", "input_mask", "segment_ids")
outputs = model.signatures["serving_default"](**{n: tf.constant(given[n]) for n in names})
Forbidden.names.remove("tensorflow_text")
import tensorflow_text
begun = time.perf_counter()
model = tf.saved_model.load(folder + "/text")
print("loaded text in", time.perf_counter() - begun)
found = model.signatures["fill_mask"](text=tf.constant(["The [MASK] is red."]))
pooled = model.signatures["serving_default"](text=tf.constant(["A short text."]))["pooled_output"]
print("keras loaded:", "keras" in sys.modules)
capitals = model.signatures["tokenize"](text=tf.constant(["IN SPITE"]))["ids"]
np.savez(sys.argv[3], **outputs, mask_ids=found["ids"], text_pooled=pooled, capitals=capitals)
"""


def test_saved_model(
    saved: pathlib.Path, model: AlbertPretrainingModel, batches: list[parity.Batch], expected: list[dict]
) -> None:
    parameters = sum(int(np.prod(variable.shape)) for variable in model.named_weights().values())
    for folder in (TEXT_FOLDER, IDS_FOLDER):
        assert 4 * parameters <= variables_bytes(str(saved / folder)) <= 1.02 * 4 * parameters
    loaded = tf.saved_model.load(str(saved / IDS_FOLDER))
    found = parity.agreement(expected, [ids_outputs(loaded.signatures, batch) for batch in batches], batches)
    print({name: one.relative for name, one in found.items()})
    assert len(found) == 4
    parity.check(found, parity.Bound(relative=1e-5), artefact="base")  # sums in another order; measured: 2e-6


def test_clean_process(
    saved: pathlib.Path, model: AlbertPretrainingModel, tokenizer: AlbertTokenizer, tmp_path: pathlib.Path
) -> None:
    batch = parity.make_batch([tokenizer.encode_pair(tokenizer.encode(text), None, 64) for text in parity.SENTENCES])
    np.savez(tmp_path / "given.npz", **batch)  # type: ignore[arg-type]
    arguments = [str(saved), str(tmp_path / "given.npz"), str(tmp_path / "found.npz")]
    command = [sys.executable, "-I", "-c", CLEAN_PROCESS, *arguments]
    settings = {**os.environ, "LC_ALL": "tr_TR.UTF-8"}  # where ICU makes another letter of "I"
    done = subprocess.run(command, cwd=tmp_path, env=settings, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    print(done.stdout)
    found = np.load(tmp_path / "found.npz")
    names = ("sequence_output", "pooled_output")
    agreement = parity.agreement(
        [parity.source_outputs(model, batch)], [{name: found[name] for name in names}], [batch]
    )
    parity.check(agreement, parity.Bound(relative=1e-5), artefact="clean process")
    assert found["mask_ids"].shape == (1, 1, 10)
    assert found["capitals"].tolist() == [tokenizer.encode("in spite")]
    alone = parity.make_batch([tokenizer.encode_pair(tokenizer.encode("A short text."), None, 64)])
    pooled = parity.source_outputs(model, alone)["pooled_output"]
    np.testing.assert_allclose(found["text_pooled"], pooled, atol=1e-5)


def test_tflite_float32(model: AlbertPretrainingModel, batches: list[parity.Batch], expected: list[dict]) -> None:
    content = tflite.convert(model, quantization="float32", head="all")
    found = tflite_agreement(content, batches, expected)
    print({name: one.relative for name, one in found.items()}, len(content) / 1e6)
    assert len(found) == 4
    parity.check(found, parity.Bound(relative=1e-5), artefact="base")  # sums in another order; measured: 2e-6
    assert flatbuffer.count_tensors(content, [30_000, 128]) == 1


def test_tflite_int8(model: AlbertPretrainingModel, batches: list[parity.Batch], expected: list[dict]) -> None:
    content = tflite.convert(model, quantization="int8", head="all")
    assert len(content) <= 12.3e6
    assert flatbuffer.count_tensors(content, [30_000, 128]) == 1
    found = tflite_agreement(content, batches, expected)
    print({name: (one.cosine, one.probability) for name, one in found.items()}, len(content) / 1e6)
    assert len(found) == 4
    assert min(one.cosine for one in found.values()) >= 0.999


def test_size_of_the_int8_encoder(model: AlbertPretrainingModel) -> None:
    content = tflite.convert(model, quantization="int8", head="encoder")
    assert len(content) <= 12.0e6
    assert flatbuffer.count_tensors(content, [30_000, 128]) == 1


def test_size_with_the_tokenizer_inside(
    model: AlbertPretrainingModel, tokenizer: AlbertTokenizer, reference_data: pathlib.Path
) -> None:
    text = make_text_graph(tokenizer, 128)
    content = tflite.convert(model, quantization="int8", head="encoder", text=text)
    assert len(content) <= 12.8e6
    assert flatbuffer.count_tensors(content, [30_000, 128]) == 1
    rows = [tokenizer.encode_pair(tokenizer.encode(sentence), None, 128) for sentence in parity.SENTENCES]
    batch = parity.make_batch(rows)
    outputs = tflite.run(tflite.make_interpreter(content), {"text": np.array(parity.SENTENCES, object)})
    np.testing.assert_array_equal(outputs["input_ids"], batch["input_ids"])
    named = {name: outputs[name] for name in ("sequence_output", "pooled_output")}
    found = parity.agreement([parity.source_outputs(model, batch)], [named], [batch])
    assert min(one.cosine for one in found.values()) >= 0.999
