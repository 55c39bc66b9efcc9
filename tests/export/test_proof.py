"""The proof of an export: what runs an artefact, what it compares, what it refuses, and what it leaves in writing."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from albert_tf import features
from albert_tf.inference.loaded_model import LoadedModel, load
from albert_tf.model_directory import save_model_directory
from albert_tf.modeling.models import AlbertPretrainingModel
from albert_tf.tasks.task_config import TaskConfig
from albert_tf.tokenizer import AlbertTokenizer
from export import flatbuffer, parity, tflite
from export.artifacts import CARD_FILE, REPORT_FILE
from export.proof import alone, cases, markdown, weights
from export.proof.card import render
from export.proof.passages import PASSAGES
from export.proof.process import AloneProcess
from export.proof.proof import Artefact, prove
from export.proof.report import find_report, make_report, paths_beside
from export.saved_model import SavedModelReport
from tests.conftest import ROOT
from tests.export.conftest import scaled

FLOAT32 = parity.Bound(relative=1e-5)
KEY_BIAS = "encoder/group_0/inner_0/attention/key/bias"


@pytest.fixture(scope="module")
def source(directory: pathlib.Path) -> LoadedModel:
    return load(directory)


@pytest.mark.parametrize("package", ["keras", "albert_tf", "export", "pipelines", "tensorflow"])
def test_blocked_packages_cannot_be_imported(package: str, tmp_path: pathlib.Path) -> None:
    code = f"""
import runpy, sys
sys.path.insert(0, {str(ROOT)!r})
import importlib.util
assert importlib.util.find_spec({package!r}).origin
names = runpy.run_path({alone.__file__!r})
names["block"](names["OF_PROJECT"] + names["OF_KERAS"] + names["OF_TENSORFLOW"])
try:
    import {package}
except ImportError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-I", "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout == f"{package} is blocked: an artefact must do without it\n", done.stderr


def test_what_is_loaded_cannot_be_blocked() -> None:
    before = list(sys.meta_path)
    with pytest.raises(RuntimeError, match="before they could be blocked: tensorflow"):
        alone.block(("nothing", "tensorflow"))
    assert sys.meta_path == before


def test_tensorflow_alone_runs_ids_and_texts_need_its_text_operations(exported: SavedModelReport) -> None:
    with AloneProcess(exported.ids_folder) as process:
        assert set(process.loaded.needs) == {"python", "numpy", "tensorflow"}
        assert process.loaded.signatures["masked_lm"].inputs["input_ids"] == ("int32", (None, None))
        assert process.loaded.load_seconds > 0
        with pytest.raises(ValueError, match=r"ids: does not run on its own: .*at most 70 positions"):
            process.run(
                "serving_default",
                [dict.fromkeys(("input_ids", "input_mask", "segment_ids"), np.ones([1, 71], np.int32))],
            )
    with AloneProcess(exported.text_folder) as process:
        assert set(process.loaded.needs) == {"python", "numpy", "tensorflow", "tensorflow_text"}
        assert process.loaded.signatures["pair"].inputs["text_b"] == ("string", (None,))


def test_tflite_runs_without_tensorflow(float32: pathlib.Path, model: AlbertPretrainingModel) -> None:
    batch = cases.make_batches([([5, 6, 7], [1, 1, 1], [0, 0, 1]), ([8], [1], [0])])[0]
    with AloneProcess(float32) as process:
        assert set(process.loaded.needs) == {"python", "numpy", "ai-edge-litert"}
        outputs = process.run("serving_default", [batch])[0]
        assert len(process.time("serving_default", [batch, batch], repeats=3)[1]) == 3
        memory = process.memory()
    assert memory is None or memory < 200 << 20
    expected = parity.source_outputs(model, batch)
    np.testing.assert_allclose(outputs["pooled_output"], expected["pooled_output"], atol=1e-5)


def test_a_damaged_file_is_said_in_one_line(float32: pathlib.Path, tmp_path: pathlib.Path) -> None:
    content = float32.read_bytes()
    (tmp_path / "cut.tflite").write_bytes(content[: len(content) // 3])
    with pytest.raises(ValueError, match=r"cut\.tflite: ") as caught:
        AloneProcess(tmp_path / "cut.tflite")
    assert "\n" not in str(caught.value)
    (tmp_path / "notes.tflite").write_text("hello, world")
    with pytest.raises(FileNotFoundError, match="neither a SavedModel"):
        AloneProcess(tmp_path / "notes.tflite")


def test_cases_reach_everything(source: LoadedModel) -> None:
    config = source.model.config
    made = cases.make_cases(config, source.tokenizer)
    batches, reach = made.batches, made.reach
    assert 0 < made.text_batches < len(batches)
    assert len(set(PASSAGES)) == len(PASSAGES) >= 60
    masks = [batch[features.INPUT_MASK] > 0 for batch in batches]
    ids = np.concatenate([batch[features.INPUT_IDS][mask] for batch, mask in zip(batches, masks, strict=True)])
    assert sorted(set(ids.tolist())) == list(range(config.vocab_size))
    assert max(mask.shape[1] for mask in masks) == config.max_position_embeddings
    at_last = [batch[features.SEGMENT_IDS][mask] for batch, mask in zip(batches, masks, strict=True)]
    assert set(np.concatenate(at_last).tolist()) == {0, 1}
    lengths = np.concatenate([mask.sum(1) for mask in masks])
    assert (lengths.min(), len(lengths), lengths.sum()) == (reach.shortest, reach.rows, reach.tokens)
    assert (reach.shortest, reach.longest, reach.vocabulary, reach.segments) == (1, 70, 500, 2)
    assert all(mask.sum(1).min() < mask.sum(1).max() for mask in masks)
    assert any(mask.sum(1).min() == 1 and mask.sum(1).max() == 70 for mask in masks)


def test_every_weight_is_found_in_every_kind_of_artefact(
    exported: SavedModelReport, float32: pathlib.Path, int8: pathlib.Path, model: AlbertPretrainingModel
) -> None:
    named = {name: variable.numpy() for name, variable in model.named_weights().items()}
    wanted = weights.named_tensors(named)
    numbers = sum(value.size for value in named.values())
    for path in (exported.ids_folder, exported.text_folder, float32, int8):
        found = weights.compare_weights(wanted, weights.stored_tensors(path))
        assert (found.found, found.of, found.missing) == (len(named), len(named), ())
        assert found.parameters == numbers
        assert numbers <= found.stored < numbers + 20  # the constants of LayerNorm and the like
    half = tflite.convert(model, quantization="float16", head="all")
    rounded = {name: values.dtype for name, values, *_ in flatbuffer.constants(half) if values.size > 1}
    assert np.float16 in rounded.values()


def test_a_weight_may_be_stored_in_halves() -> None:
    generator = np.random.default_rng(2)
    kernel, other = (generator.standard_normal(shape).astype(np.float32) for shape in ((6, 5), (3, 5)))
    wanted = weights.named_tensors({"joined/kernel": kernel})
    halves = weights.named_tensors({"a": kernel[:3].T, "b": kernel[3:]})
    assert weights.compare_weights(wanted, halves).missing == ()
    changed = weights.named_tensors({"a": kernel[:3], "b": other})
    assert weights.compare_weights(wanted, changed).missing == ("joined/kernel",)


def test_8_bits_are_bound_on_texts(int8: pathlib.Path, source: LoadedModel) -> None:
    bound = tflite.bound_of("int8")
    found = prove([Artefact(path=str(int8), name="small")], source, bound).artefacts[0]
    assert (found.weights.found, found.weights.missing) == (32, ())
    assert all(0.999 <= one.cosine < 1 - 1e-6 for one in found.agreement["serving_default"].values())
    with pytest.raises(ValueError, match=r"small, signature 'serving_default': .* at most 1e-05 is allowed"):
        prove([Artefact(path=str(int8), name="small")], source, FLOAT32)


@pytest.mark.parametrize("name", [KEY_BIAS, "encoder/embeddings/position_embeddings", "sentence_order/bias"])
def test_a_weight_changed_by_one_percent_is_missed(
    name: str, float32: pathlib.Path, int8: pathlib.Path, model: AlbertPretrainingModel
) -> None:
    named = {key: variable.numpy() for key, variable in model.named_weights().items()}
    named[name] = named[name] * np.float32(1.01)
    for path in (float32, int8):
        found = weights.compare_weights(weights.named_tensors(named), weights.stored_tensors(path))
        assert found.missing == (name,)


def test_proof_of_savedmodels(exported: SavedModelReport, source: LoadedModel) -> None:
    # The export itself made the report; here its figures are those of independent counts.
    folder = pathlib.Path(exported.ids_folder).parent
    report = json.loads((folder / "ids" / REPORT_FILE).read_text(encoding="utf-8"))
    assert report == find_report(exported.text_folder) == find_report(exported.ids_folder + "/")
    text, ids = report["proof"]["artefacts"]
    assert set(ids["agreement"]) == {"serving_default", "masked_lm", "sentence_order"}
    assert {"ids", "serving_default", "pair"} <= set(text["agreement"])
    assert set(text["not_compared"]) & set(text["agreement"]) == set()
    assert text["equal_texts"] == len(PASSAGES) + 2
    for one in (text, ids):
        path = folder / one["name"].removeprefix("SavedModel ")
        written = (path / REPORT_FILE, path / CARD_FILE)  # after the artefact was measured
        files = [file for file in path.rglob("*") if file.is_file() and file not in written]
        assert one["bytes"] == sum(file.stat().st_size for file in files)
        assert one["weights"]["bytes"] == 4 * source.model.count_params()
        assert 0 < max(out["relative"] for outs in one["agreement"].values() for out in outs.values()) < 1e-5
        assert [latency["length"] for latency in one["latencies"]] == [8, 32, 70]
    card = (folder / "text" / CARD_FILE).read_text(encoding="utf-8")
    assert f"| parameters                      | {source.model.count_params():,}" in card
    assert "does not tell what the model was trained on" in card
    assert str(folder.parent) not in card  # whose machine it was is nobody's business


def test_proof_of_tflite(float32: pathlib.Path, source: LoadedModel) -> None:
    found = prove([Artefact(path=str(float32), name="small")], source, FLOAT32).artefacts[0]
    assert found.agreement.keys() == {"serving_default"}
    assert set(found.agreement["serving_default"]) == {
        "masked_lm_logits",
        "pooled_output",
        "sentence_order_logits",
        "sequence_output",
    }
    assert (found.kind, found.bytes, found.equal_texts) == ("TFLite", float32.stat().st_size, None)


@pytest.mark.parametrize("name", [KEY_BIAS, "encoder/embeddings/token_type_embeddings", "encoder/pooler/kernel"])
def test_a_changed_file_is_refused(
    name: str, float32: pathlib.Path, source: LoadedModel, tmp_path: pathlib.Path
) -> None:
    values = source.model.named_weights()[name].numpy()
    stored = values.T if name.endswith("kernel") else values
    path = scaled(float32, stored, tmp_path / "changed.tflite")
    # The pooler may be left out of a file, so its weights are not looked for; the outputs tell.
    message = "pooled_output differs from the source" if "pooler" in name else f"small: stores .*; {name} of the source"
    with pytest.raises(ValueError, match=message):
        prove([Artefact(path=str(path), name="small")], source, FLOAT32)


def test_a_file_without_the_weights_is_refused(
    model: AlbertPretrainingModel, source: LoadedModel, tmp_path: pathlib.Path
) -> None:
    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32, name=name) for name in model.encoder.input])
    def nothing(*ids: tf.Tensor) -> dict[str, tf.Tensor]:
        shape = tf.concat([tf.shape(ids[0]), [48]], 0)
        return {"sequence_output": tf.zeros(shape) * tf.cast(tf.reduce_sum(sum(ids)), tf.float32)}

    converter = tf.lite.TFLiteConverter.from_concrete_functions([nothing.get_concrete_function()], tf.Module())
    path = tmp_path / "empty.tflite"
    path.write_bytes(converter.convert())
    with pytest.raises(ValueError, match=r"empty: stores 1 numbers of a model of 31,174; .* nor 22 more"):
        prove([Artefact(path=str(path), name="empty")], source, FLOAT32)


def test_an_export_that_differs_leaves_nothing(
    directory: pathlib.Path,
    float32: pathlib.Path,
    source: LoadedModel,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    values = source.model.named_weights()["masked_lm/output_bias"].numpy()
    content = scaled(float32, values, tmp_path / "changed").read_bytes()
    monkeypatch.setattr(tflite, "convert", lambda *_, **__: content)
    with pytest.raises(ValueError, match="masked_lm_logits differs from the source"):
        tflite.export_tflite(directory, tmp_path / "out" / "small.tflite", quantization="float32", head="all")
    assert [path.name for path in tmp_path.iterdir()] == ["changed"]


def test_an_export_stands_with_its_report_and_card(
    directory: pathlib.Path,
    float32: pathlib.Path,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    content = float32.read_bytes()
    monkeypatch.setattr(tflite, "convert", lambda *_, **__: content)
    path = tmp_path / "small.tflite"
    done = tflite.export_tflite(directory, path, quantization="float32", head="all")
    assert sorted(one.name for one in tmp_path.iterdir()) == ["small.card.md", "small.report.json", "small.tflite"]
    assert done.bytes == path.stat().st_size
    report = find_report(path)
    assert report is not None
    assert report["proof"]["artefacts"][0]["name"] == "small.tflite"
    assert (tmp_path / "small.card.md").read_text(encoding="utf-8") == render(report)
    assert paths_beside(path) == (str(tmp_path / "small.report.json"), str(tmp_path / "small.card.md"))


TRAINING = {
    "step": 1200,
    "max_seq_length": 64,
    "start": "models/base",
    "evaluation": {"accuracy": 0.87654321, "f1": 0.5},
    "settings": {"learning_rate": 2e-5, "train_batch_size": 32, "config.hidden_size": 48},
    "collapse": None,
}


@pytest.fixture(scope="module")
def trained(
    model: AlbertPretrainingModel, tokenizer: AlbertTokenizer, tmp_path_factory: pytest.TempPathFactory
) -> LoadedModel:
    """The model with a history, and a task that its labels belong to."""
    path = tmp_path_factory.mktemp("trained") / "reviews_v2"
    save_model_directory(path, model, tokenizer, training=TRAINING)
    task = TaskConfig(task="cola", max_seq_length=64)
    return LoadedModel(path=str(path), model=model, tokenizer=tokenizer, max_seq_length=64, task_config=task)


def test_card_tells_training_scores_and_limits(trained: LoadedModel, float32: pathlib.Path) -> None:
    proof = prove([Artefact(path=str(float32), name="small.tflite")], trained, FLOAT32)
    report = json.loads(make_report(trained, proof).to_json())
    report["model"].update(head="classifier", labels=["bad|", "*good*"], num_labels=2)
    report["proof"]["artefacts"][0]["latencies"] = [
        {"signature": "serving_default", "batch_size": 1, "length": 8, "seconds": 0.0123},
        {"signature": "serving_default", "batch_size": 1, "length": 70, "seconds": 0.5},
    ]
    report["proof"]["reach"]["vocabulary"] = 490
    card = render(report)
    rows = {tuple(cell.strip() for cell in line.strip("|").split(" | ")) for line in card.splitlines() if "|" in line}
    assert "# reviews_v2: ALBERT for a label for one or two texts" in card.splitlines()
    assert {("accuracy", "0.8765"), ("f1", "0.5"), ("step", "1,200"), ("start", "models/base")} <= rows
    assert {("learning_rate", "2e-05"), ("train_batch_size", "32"), ("task", "cola")} <= rows
    assert ("config.hidden_size", "48") not in rows  # stands above, with the sizes
    assert ("1", r"\*good\*") in rows
    assert ("0", r"bad\|") in rows
    times = next(row for row in rows if row[0] == "small.tflite" and len(row) == 5 and row[-1] == "500")
    assert times[-2:] == ("12.3", "500")
    assert "10 pieces of the vocabulary were in none of the compared rows" in card
    assert "trained on up to 64" in card


def test_markdown_tables_are_aligned() -> None:
    rows: list[tuple[Any, ...]] = [("a|b", 1234, None), ("中文", 5, 0.123456)]
    assert markdown.table(("name", "count", "share"), rows).splitlines() == [
        "| name | count |  share |",
        "| ---- | ----: | -----: |",
        "| a\\|b | 1,234 |      - |",
        "| 中文 |     5 | 0.1235 |",
    ]
    with pytest.raises(ValueError, match=r"row 1 must have 2 values \(a, b\), got 3"):
        markdown.table(("a", "b"), [(1, 2), (1, 2, 3)])
    assert markdown.text("[CLS] snake_case *bold* <b> _x_ [a](b)") == r"[CLS] snake_case \*bold\* \<b\> \_x\_ [a\](b)"
