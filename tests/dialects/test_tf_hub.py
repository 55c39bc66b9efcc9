"""TensorFlow Hub's modules of both forms come in with equal bits; sizes are found or asked for, never guessed."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from albert_tf.config import AlbertConfig
from albert_tf.dialects import garden_names, tf_hub
from albert_tf.head_config import HeadConfig
from albert_tf.tokenizer import AlbertTokenizer
from albert_tf.weight_files.checkpoint import Checkpoint
from albert_tf.wordpiece import WordPieceTokenizer
from tests.dialects.checks import assert_holds, left_over
from tests.dialects.hub_modules import encoder_settings, garden_tensors, write_keras_model, write_module
from tests.dialects.tf1_names import original_tensors, random_weights
from tests.modeling.small_models import make_config

CONFIG = make_config(initializer_range=0.02)
MASKED_LM = HeadConfig(head="masked_lm")
PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"字{i}" for i in range(92))]
VOCABULARY = {"vocab.txt": "\n".join(PIECES).encode()}
WIDE = {"hidden_size": 768, "intermediate_size": 3072}  # of the published base model


def widen(values: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name: np.broadcast_to(np.float32(0), value.shape) for name, value in values.items()}


def module_tensors(config: AlbertConfig, head: HeadConfig) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Our weights, and a module's variables with those that the exporting program leaves in it."""
    weights = random_weights(config, head)
    return weights, {**original_tensors(config, head, weights), "Variable": np.zeros(2, np.float32)}


@pytest.mark.parametrize(
    "changes",
    [{}, {"num_hidden_groups": 2, "inner_group_num": 2, "hidden_act": "relu"}],
    ids=["plain", "groups"],
)
def test_a_module_of_tensorflow_1_is_read_without_a_configuration(
    changes: dict[str, Any], tmp_path: pathlib.Path
) -> None:
    config, head = CONFIG.replace(**changes), HeadConfig()
    weights, tensors = module_tensors(config, head)
    path = write_module(tmp_path / "m", config, tensors, VOCABULARY, lower_case=False)
    assert tf_hub.recognises(path)
    assert tf_hub.recognises(f"{path}/saved_model.pb")
    model = tf_hub.open_model(path)
    assert (model.config, model.head) == (config, head)
    assert_holds(model, weights)
    assert isinstance(model.tokenizer, WordPieceTokenizer)
    assert not model.tokenizer.config.lower_case
    assert any("num_hidden_layers, num_attention_heads, hidden_act were read from its graph" in n for n in model.notes)
    assert tf_hub.open_model(f"{path}/saved_model.pb", head="encoder").head == HeadConfig(head="encoder")


def test_the_configuration_in_assets_or_beside_goes_first(tmp_path: pathlib.Path) -> None:
    weights, tensors = module_tensors(CONFIG, HeadConfig())
    assets = {**VOCABULARY, "albert_config.json": CONFIG.replace(num_hidden_layers=7).to_json().encode()}
    path = write_module(tmp_path / "m", CONFIG, tensors, assets, with_layers=False, lower_case=None)
    model = tf_hub.open_model(path)
    assert model.config.num_hidden_layers == 7
    assert_holds(model, weights)
    (tmp_path / "m" / "albert_config.json").write_text(CONFIG.replace(num_hidden_layers=5).to_json())
    assert tf_hub.open_model(path).config.num_hidden_layers == 5


def test_a_graph_that_says_nothing_leaves_published_sizes_or_a_question(tmp_path: pathlib.Path) -> None:
    _, tensors = module_tensors(CONFIG, HeadConfig(head="encoder"))
    path = write_module(tmp_path / "m", CONFIG, tensors, {}, with_layers=False)
    with pytest.raises(
        ValueError,
        match=r"m: has no albert_config.json, its graph does not tell num_hidden_layers and num_attention_heads, and "
        r"no published model has hidden_size 24 with intermediate_size 40: put the model's albert_config.json into",
    ):
        tf_hub.open_model(path)
    wide = CONFIG.replace(**WIDE)
    tensors = widen(
        original_tensors(wide, HeadConfig(head="encoder"), random_weights(wide, HeadConfig(head="encoder")))
    )
    model = tf_hub.open_model(write_module(tmp_path / "wide", wide, tensors, {}, with_layers=False))
    assert model.config == wide.replace(num_hidden_layers=12, num_attention_heads=12)
    assert any("are those of the published models of size base" in note for note in model.notes)
    assert any("dropout, which version 1 of the models" in note for note in model.notes)


@pytest.mark.parametrize("earlier", [False, True], ids=["today", "earlier names"])
@pytest.mark.parametrize("head", [MASKED_LM, HeadConfig(head="encoder")], ids=lambda head: head.head)
def test_a_keras_model_of_tensorflow_2_is_read(head: HeadConfig, earlier: bool, tmp_path: pathlib.Path) -> None:
    config = CONFIG.replace(hidden_dropout_prob=0.2)
    weights = random_weights(config, head)
    tensors = garden_tensors(config, weights, earlier=earlier)
    path = write_keras_model(tmp_path / "m", tensors, None, settings=encoder_settings(config))
    with Checkpoint(f"{path}/variables/variables") as file:  # else the test would not be one of names
        assert not set(file.tensors) & set(tensors)
    assert tf_hub.recognises(path)
    model = tf_hub.open_model(path)
    assert (model.config, model.head) == (config, head)
    assert_holds(model, weights)
    model = tf_hub.open_model(path, head="encoder")
    assert (model.head.head, left_over(model)) == ("encoder", [])
    with pytest.raises(ValueError, match=r"has no tensors of the head 'pretraining'; its heads can be: .*encoder"):
        tf_hub.open_model(path, head="pretraining")


def test_settings_inside_the_saved_model(tmp_path: pathlib.Path) -> None:
    # As Keras kept them before there was a keras_metadata.pb
    head = HeadConfig(head="encoder")
    tensors = garden_tensors(CONFIG, random_weights(CONFIG, head))
    path = write_keras_model(tmp_path / "m", tensors, None)
    with pytest.raises(ValueError, match="its graph does not tell num_hidden_layers, and no published model"):
        tf_hub.open_model(path)
    file = tmp_path / "m" / "saved_model.pb"
    message = saved_model_pb2.SavedModel.FromString(file.read_bytes())
    message.meta_graphs[0].object_graph_def.nodes[0].user_object.metadata = json.dumps(encoder_settings(CONFIG, "relu"))
    file.write_bytes(message.SerializeToString())
    assert tf_hub.open_model(path).config == CONFIG.replace(hidden_act="relu")
    (tmp_path / "m" / "albert_config.json").write_text(CONFIG.replace(hidden_act="tanh").to_json())
    assert tf_hub.open_model(path).config == CONFIG.replace(hidden_act="tanh")


@pytest.mark.parametrize(
    ("activation", "ours"), [("Text>gelu", "gelu"), ("gelu", "gelu_exact"), ({"class_name": "relu"}, "relu")]
)
def test_activations_of_the_model_garden(activation: Any, ours: str, tmp_path: pathlib.Path) -> None:
    tensors = garden_tensors(CONFIG, random_weights(CONFIG, HeadConfig(head="encoder")))
    path = write_keras_model(tmp_path / "m", tensors, None, settings=encoder_settings(CONFIG, activation))
    assert tf_hub.open_model(path).config.hidden_act == ours


def test_settings_that_do_not_do(tmp_path: pathlib.Path) -> None:
    tensors = garden_tensors(CONFIG, random_weights(CONFIG, HeadConfig(head="encoder")))
    path = write_keras_model(tmp_path / "a", tensors, None, settings=encoder_settings(CONFIG, "swish"))
    with pytest.raises(ValueError, match=r"saved_model.pb: activation is 'swish', known are Text>gelu"):
        tf_hub.open_model(path)
    other = encoder_settings(CONFIG.replace(vocab_size=96))
    path = write_keras_model(tmp_path / "b", tensors, None, settings=other)
    with pytest.raises(ValueError, match=r"b: vocab_size is 97 in the weights and 96 in saved_model.pb: put the model"):
        tf_hub.open_model(path)
    (tmp_path / "b" / "keras_metadata.pb").write_bytes(b"\x0a\x7f")
    with pytest.raises(ValueError, match=r"keras_metadata.pb: damaged"):
        tf_hub.open_model(path)


def test_the_vocabulary_of_a_keras_model(reference_data: pathlib.Path, tmp_path: pathlib.Path) -> None:
    config, head = CONFIG.replace(vocab_size=30000), HeadConfig(head="encoder")
    tensors = garden_tensors(config, random_weights(config, head))
    vocabulary = reference_data / "data" / "albert_en_30k.model"
    path = write_keras_model(tmp_path / "m", tensors, vocabulary, settings=encoder_settings(config), lower_case=False)
    model = tf_hub.open_model(path)
    assert isinstance(model.tokenizer, AlbertTokenizer)
    assert model.tokenizer.vocabulary == vocabulary.read_bytes()
    assert not model.tokenizer.config.lower_case
    assert dict(model.ignored)["Variable"] == "says whether letters are lowered"
    assert left_over(model) == []


def test_what_is_no_albert_is_refused(tmp_path: pathlib.Path) -> None:
    path = write_keras_model(tmp_path / "a", {"dense/kernel": np.zeros((2, 3), np.float32)}, None)
    assert not tf_hub.recognises(path)
    with pytest.raises(
        ValueError, match="a: is a SavedModel, but no ALBERT of the Model Garden: has no variable trans"
    ):
        tf_hub.open_model(path)
    path = write_module(tmp_path / "b", CONFIG, {"dense/kernel": np.zeros((2, 3), np.float32)}, {}, with_layers=False)
    assert not tf_hub.recognises(path)
    with pytest.raises(ValueError, match="b: is a SavedModel, but no ALBERT: its first variable is dense/kernel"):
        tf_hub.open_model(path)
    twice = {"a/pooler_transform/kernel": np.zeros(3, np.float32), "b/pooler_transform/kernel": np.zeros(3, np.float32)}
    path = write_keras_model(tmp_path / "c", twice, None)
    with pytest.raises(ValueError, match="has two variables pooler_transform/kernel"):
        tf_hub.open_model(path)
    assert not tf_hub.recognises(str(tmp_path / "nothing"))
    with pytest.raises(FileNotFoundError, match=r"saved_model.pb"):
        tf_hub.open_model(str(tmp_path / "nothing"))


def test_damaged_files_are_called_what_they_are(tmp_path: pathlib.Path) -> None:
    _, tensors = module_tensors(CONFIG, HeadConfig(head="encoder"))
    path = write_module(tmp_path / "m", CONFIG, tensors, {})
    file = tmp_path / "m" / "saved_model.pb"
    content = file.read_bytes()
    file.write_bytes(content[: len(content) // 2])
    with pytest.raises(ValueError, match=r"saved_model.pb: is no SavedModel, or is cut short"):
        tf_hub.open_model(path)
    file.write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 46747112\n")
    with pytest.raises(ValueError, match=r"saved_model.pb: is a Git LFS pointer"):
        tf_hub.open_model(path)
    file.write_bytes(content)
    (tmp_path / "m" / "variables" / "variables.index").unlink()
    assert tf_hub.recognises(path)
    with pytest.raises(FileNotFoundError, match=r"variables.index is missing"):
        tf_hub.open_model(path)


def test_models_that_the_model_garden_has_not() -> None:
    with pytest.raises(ValueError, match="this model has num_hidden_groups 2, inner_group_num 1 and parameter_sharing"):
        garden_names.table(CONFIG.replace(num_hidden_groups=2), MASKED_LM)
    with pytest.raises(ValueError, match="the Model Garden's SavedModels have no sentence_order"):
        garden_names.table(CONFIG, HeadConfig())


def test_the_saved_models_of_this_project_are_not_taken(tmp_path: pathlib.Path) -> None:
    root = tf.Module()
    root.weight = tf.Variable(np.zeros(3, np.float32), name="encoder/pooler/kernel")
    tf.saved_model.save(root, str(tmp_path))
    assert not tf_hub.recognises(str(tmp_path))
