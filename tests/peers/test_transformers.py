"""Live models of transformers against ours, in both directions, through the public calls alone."""

from __future__ import annotations

import pathlib
import zipfile
from types import ModuleType
from typing import Any

import pytest

from tests.peers.live_models import (
    CONFIGURATIONS,
    HEADS,
    assert_same_outputs,
    our_outputs,
    random_model,
    save,
    their_outputs,
)

pytestmark = [pytest.mark.peers, pytest.mark.slow]


def convert(source: pathlib.Path, target: pathlib.Path) -> pathlib.Path:
    """`target`: a model directory of ours out of one of theirs, or one of theirs out of ours."""
    from albert_tf import conversion

    conversion.convert(source, target, format="transformers" if conversion.is_model_directory(source) else None)
    return target


def load(path: pathlib.Path) -> Any:
    """The model there, whatever its format."""
    import albert_tf

    return albert_tf.load_model(path)


# Every head in one configuration, every configuration with one head, and both pretraining heads in all.
CASES = [(head, "inner groups") for head in HEADS] + [
    (head, name)
    for name in CONFIGURATIONS
    for head in ("AlbertForPreTraining", "AlbertForSequenceClassification")
    if name != "inner groups"
]


@pytest.mark.parametrize(("head", "name"), CASES)
def test_there_and_back(head: str, name: str, hf: ModuleType, tmp_path: pathlib.Path) -> None:
    model = random_model(hf, head, **CONFIGURATIONS[name])
    expected = their_outputs(model, head)
    source = save(model, tmp_path / "theirs")
    assert_same_outputs(expected, our_outputs(load(source), head))  # straight from their files

    ours = convert(source, tmp_path / "ours")
    assert load(ours).head_config.head == HEADS[head][1]
    assert_same_outputs(expected, our_outputs(load(ours), head))

    back = convert(ours, tmp_path / "back")
    loaded, report = type(model).from_pretrained(back, output_loading_info=True)
    assert {key: list(names) for key, names in report.items() if names} == {}
    assert_same_outputs(expected, their_outputs(loaded.eval(), head))
    before, after = model.state_dict(), loaded.state_dict()
    assert before.keys() == after.keys()
    for key, value in before.items():
        assert value.dtype == after[key].dtype
        assert value.equal(after[key]), key
    assert type(hf.AutoModel.from_pretrained(back)).__name__ == "AlbertModel"


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_stays(dtype: str, hf: ModuleType, tmp_path: pathlib.Path) -> None:
    import torch

    head = "AlbertForPreTraining"
    model = random_model(hf, head, dtype=getattr(torch, dtype))
    ours = convert(save(model, tmp_path / "theirs"), tmp_path / "ours")
    # Both compute in float32 with the same half-precision numbers.
    assert_same_outputs(their_outputs(model.float(), head), our_outputs(load(ours), head))
    back = convert(ours, tmp_path / "back")
    loaded, report = type(model).from_pretrained(back, output_loading_info=True)
    assert {key: list(names) for key, names in report.items() if names} == {}
    assert loaded.dtype == getattr(torch, dtype)
    for key, value in model.state_dict().items():  # by now float32, which holds every such number
        assert value.equal(loaded.state_dict()[key].float()), key


def test_shards(hf: ModuleType, tmp_path: pathlib.Path) -> None:
    head = "AlbertForMaskedLM"
    model = random_model(hf, head, **CONFIGURATIONS["two groups"])
    source = save(model, tmp_path / "theirs", max_shard_size="20KB")
    assert len(list(source.glob("model-*.safetensors"))) > 1
    assert_same_outputs(their_outputs(model, head), our_outputs(load(source), head))
    assert_same_outputs(their_outputs(model, head), our_outputs(load(source / "model.safetensors.index.json"), head))


@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "before 1.6"])
@pytest.mark.parametrize("tied", [True, False], ids=["with copies", "without"])
def test_pytorch_files(zipped: bool, tied: bool, hf: ModuleType, tmp_path: pathlib.Path) -> None:
    import torch

    head = "AlbertForPreTraining"
    model = random_model(hf, head, **CONFIGURATIONS["inner groups"])
    source = save(model, tmp_path / "theirs")
    (source / "model.safetensors").unlink()
    tensors = model.state_dict()
    assert {"predictions.decoder.weight", "predictions.decoder.bias"} <= tensors.keys()
    if not tied:
        tensors = {name: value for name, value in tensors.items() if not name.startswith("predictions.decoder.")}
    torch.save(tensors, source / "pytorch_model.bin", _use_new_zipfile_serialization=zipped)
    assert zipfile.is_zipfile(source / "pytorch_model.bin") == zipped
    assert_same_outputs(their_outputs(model, head), our_outputs(load(source), head))
    assert_same_outputs(their_outputs(model, head), our_outputs(load(source / "pytorch_model.bin"), head))


def test_a_bias_that_is_not_tied_is_refused(hf: ModuleType, tmp_path: pathlib.Path) -> None:
    import torch

    model = random_model(hf, "AlbertForMaskedLM")
    source = save(model, tmp_path / "theirs")
    (source / "model.safetensors").unlink()
    tensors = {name: value.clone() for name, value in model.state_dict().items()}
    tensors["predictions.decoder.weight"][0, 0] += 1
    torch.save(tensors, source / "pytorch_model.bin")
    with pytest.raises(ValueError, match=r"predictions\.decoder\.weight differs from albert\.embeddings\.word"):
        load(source)


def test_ours_without_projection_is_theirs_with_an_identity(hf: ModuleType, tmp_path: pathlib.Path) -> None:
    from albert_tf.config import AlbertConfig
    from albert_tf.dialects import transformers
    from albert_tf.head_config import HeadConfig
    from albert_tf.modeling.models import make_model
    from tests.peers.live_models import SIZES

    config = AlbertConfig(**{**SIZES, "embedding_size": 24}, initializer_range=0.3)
    assert not config.embedding_projection
    model = make_model(config, HeadConfig(head="classifier", num_labels=5), seed=3)
    weights = {name: variable.numpy() for name, variable in model.named_weights().items()}
    (tmp_path / "theirs").mkdir()
    transformers.save_model(str(tmp_path / "theirs"), config, model.head_config, weights, None)
    theirs = hf.AlbertForSequenceClassification.from_pretrained(tmp_path / "theirs").eval()
    head = "AlbertForSequenceClassification"
    assert_same_outputs(their_outputs(theirs, head), our_outputs(model, head))
