"""KerasHub's JSON files: its objects as Keras serialises them, and our configurations as such objects.

Source: keras_hub/src/models/albert/ (`get_config` of each class), keras_hub/src/utils/preset_utils.py, version 0.32.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from albert_tf.config import AlbertConfig
from albert_tf.head_config import HeadConfig

_PACKAGE = "keras_hub.src.models.albert"
_NAMES: Mapping[str, str] = {
    "vocabulary_size": "vocab_size",
    "num_layers": "num_hidden_layers",
    "num_heads": "num_attention_heads",
    "num_groups": "num_hidden_groups",
    "num_inner_repetitions": "inner_group_num",
    "embedding_dim": "embedding_size",
    "hidden_dim": "hidden_size",
    "intermediate_dim": "intermediate_size",
    "max_sequence_length": "max_position_embeddings",
    "num_segments": "type_vocab_size",
}
_DROPOUT = "dropout"
_OF_ANY_LAYER = ("name", "trainable", "dtype")
_DTYPES = ("float16", "bfloat16", "float32", "float64", "mixed_float16", "mixed_bfloat16")
# Activations after which the largest output is that of the largest logit.
_OF_PROBABILITIES = ("softmax", "log_softmax", "sigmoid")
_MASKED_LM, _CLASSIFIER = "AlbertMaskedLM", "AlbertTextClassifier"
_TASKS: Mapping[str, str] = {
    _MASKED_LM: "masked_lm",
    _CLASSIFIER: "classifier",
    "AlbertClassifier": "classifier",  # its name until 2024
}


@dataclasses.dataclass(frozen=True)
class KerasObject:
    """An object that Keras has serialised: its class, such as "AlbertBackbone", and what it was made with."""

    class_name: str
    config: dict[str, Any]

    @classmethod
    def parse(cls, values: Mapping[str, Any], source: str) -> KerasObject:
        """Object of KerasHub's, or of KerasNLP's as it was called before.

        Raises:
          ValueError: if it is another one.
        """
        package, _, class_name = str(values.get("registered_name")).partition(">")
        config = values.get("config")
        if package not in ("keras_hub", "keras_nlp") or not class_name or not isinstance(config, dict):
            raise ValueError(f"{source}: is no object of KerasHub (registered_name {values.get('registered_name')!r})")
        return cls(class_name, config)


def read_config(backbone: KerasObject, source: str) -> tuple[AlbertConfig, tuple[str, ...]]:
    """Configuration that a backbone is, and what a user should know.

    Raises:
      ValueError: if the backbone is none of ALBERT's, has an unknown or no value, is quantised, or gives its layers
        other groups than the original does.
    """
    if backbone.class_name != "AlbertBackbone":
        raise ValueError(f"{source}: is a preset of {backbone.class_name}; expected AlbertBackbone")
    values = dict(backbone.config)
    policy = _policy(values.get("dtype"), source)
    for key in _OF_ANY_LAYER:
        values.pop(key, None)
    missing = [key for key in (*_NAMES, _DROPOUT) if key not in values]
    unknown = [key for key in values if key not in (*_NAMES, _DROPOUT)]
    if missing or unknown:
        what = f"has no {missing[0]}" if missing else f"has an unknown key {unknown[0]!r}"
        raise ValueError(f"{source}: the configuration of AlbertBackbone {what}")
    dropout = values.pop(_DROPOUT)
    try:
        config = AlbertConfig(
            **{_NAMES[key]: value for key, value in values.items()},
            hidden_dropout_prob=dropout,
            attention_probs_dropout_prob=dropout,
            embedding_projection=True,
        )
        _check_groups(config)
    except ValueError as error:
        raise ValueError(f"{source}: {error}") from error
    if policy.startswith("mixed_"):
        return config, (f"the preset computes in {policy}; give that as dtype when the model is loaded",)
    return config, ()


def read_head(task: KerasObject | None, head: str | None, source: str) -> tuple[HeadConfig, tuple[str, ...]]:
    """Head of a preset, and what a user should know of it.

    Args:
      task: the preset's task; None for a backbone alone.
      head: what the user asks for: "encoder" leaves the task's head away, "regression" takes a classifier of one class
        for one; None for what the preset says.
      source: the file, for errors.

    Raises:
      ValueError: for a task or a head that we have not, or one that is not the preset's.
    """
    if task is None or head == "encoder":
        if head not in (None, "encoder"):
            raise ValueError(f"{source}: the preset is a backbone without a head, of which {head!r} cannot be taken")
        return HeadConfig(head="encoder"), ()
    found = _TASKS.get(task.class_name)
    if found is None:
        raise ValueError(
            f"{source}: is a task {task.class_name}; expected {' or '.join(_TASKS)} (--head=encoder takes the encoder)"
        )
    if found == "classifier" and head == "regression" and task.config.get("num_classes") == 1:
        found = head
    if head not in (None, found):
        raise ValueError(f"{source}: the preset's head is {found!r}, not {head!r}")
    if found == "masked_lm":
        return HeadConfig(head="masked_lm"), (
            "KerasHub's masked-LM head normalises with epsilon 1e-5, this one with the original's 1e-12: logits differ "
            "by about 5e-6 of their size, more where the head's transform gives small numbers",
        )
    return _read_classifier(task, found, source)


def _read_classifier(task: KerasObject, found: str, source: str) -> tuple[HeadConfig, tuple[str, ...]]:
    activation = task.config.get("activation") or "linear"
    if activation != "linear" and activation not in _OF_PROBABILITIES:
        raise ValueError(
            f"{source}: activation must be linear, {', '.join(_OF_PROBABILITIES)}, got {activation!r}: our heads give "
            f"logits"
        )
    labels = {"num_labels": task.config.get("num_classes")} if found == "classifier" else {}
    try:
        config = HeadConfig.from_dict({"head": found, "dropout_prob": task.config.get("dropout", 0.1), **labels})
    except ValueError as error:
        raise ValueError(f"{source}: {error}") from error
    if activation == "linear":
        return config, ()
    return config, (f"the preset's head ends with {activation}, which is left out: the model gives logits",)


def check_expressible(config: AlbertConfig, head: HeadConfig) -> None:
    """Refuses what KerasHub's ALBERT cannot express.

    Raises:
      ValueError: names it, and what to do.
    """
    if head.head == "pretraining":
        raise ValueError(
            "KerasHub has no sentence-order head: --head=masked_lm leaves it out, --head=encoder both heads"
        )
    if head.head not in ("encoder", "masked_lm", "classifier", "regression"):
        advice = "--head=encoder writes the encoder alone" if head.pooler else "nor an encoder without a pooler"
        raise ValueError(f"KerasHub's ALBERT has no head {head.head!r}: {advice}")
    if not head.pooler:
        raise ValueError("KerasHub's ALBERT always has a pooler, this model has none")
    fixed = {
        "hidden_act": "gelu",  # gelu_approximate there, which is no choice
        "parameter_sharing": "all",
        "embedding_factorization": "all",
        "embedding_projection": True,
    }
    for name, value in fixed.items():
        if getattr(config, name) != value:
            raise ValueError(f"KerasHub's ALBERT has {name} {value!r} only, this model has {getattr(config, name)!r}")
    if config.hidden_dropout_prob != config.attention_probs_dropout_prob:
        raise ValueError(
            "KerasHub's ALBERT has one dropout: hidden_dropout_prob and attention_probs_dropout_prob must be equal, "
            f"got {config.hidden_dropout_prob} and {config.attention_probs_dropout_prob}"
        )
    _check_groups(config)


def backbone_object(config: AlbertConfig, dtype: str) -> dict[str, Any]:
    """AlbertBackbone for `config.json`."""
    values = {theirs: getattr(config, ours) for theirs, ours in _NAMES.items()}
    last = {key: values.pop(key) for key in ("max_sequence_length", "num_segments")}
    return _object("backbone", "AlbertBackbone", {**values, _DROPOUT: config.hidden_dropout_prob, **last}, dtype)


def tokenizer_object() -> dict[str, Any]:
    """AlbertTokenizer for `tokenizer.json`; the vocabulary lies in a file of its own."""
    values = {
        "config_file": "tokenizer.json",
        "proto": None,
        "sequence_length": None,
        "add_bos": False,
        "add_eos": False,
    }
    return _object("tokenizer", "AlbertTokenizer", values, "int32")


def preprocessor_object(head: HeadConfig, max_seq_length: int) -> dict[str, Any]:
    """Preprocessor of a task for `preprocessor.json`, with KerasHub's defaults but for the length."""
    values = {
        "tokenizer": tokenizer_object(),
        "config_file": "preprocessor.json",
        "sequence_length": max_seq_length,
        "truncate": "round_robin",
    }
    if head.head != "masked_lm":
        return _object("text_classifier_preprocessor", "AlbertTextClassifierPreprocessor", values, "float32")
    values |= {
        "mask_selection_rate": 0.15,
        "mask_selection_length": 96,
        "mask_token_rate": 0.8,
        "random_token_rate": 0.1,
    }
    return _object("masked_lm_preprocessor", "AlbertMaskedLMPreprocessor", values, "float32")


def task_object(head: HeadConfig, backbone: dict[str, Any], preprocessor: dict[str, Any] | None) -> dict[str, Any]:
    """The head's task for `task.json`."""
    values: dict[str, Any] = {"backbone": backbone, "preprocessor": preprocessor}
    if head.head == "masked_lm":
        return _object("masked_lm", _MASKED_LM, {**values, "name": "albert_masked_lm"})
    values |= {
        "name": "albert_text_classifier",
        "num_classes": head.num_labels or 1,
        "activation": "linear",
        "dropout": head.dropout_prob,
    }
    return _object("text_classifier", _CLASSIFIER, values)


def _object(module: str, class_name: str, values: dict[str, Any], dtype: str | None = None) -> dict[str, Any]:
    if dtype is not None:
        policy = {"module": "keras", "class_name": "DTypePolicy", "config": {"name": dtype}, "registered_name": None}
        values = {"name": f"albert_{module}", "trainable": True, "dtype": policy, **values}
    return {
        "module": f"{_PACKAGE}.albert_{module}",
        "class_name": class_name,
        "config": values,
        "registered_name": f"keras_hub>{class_name}",
    }


def _policy(dtype: Any, source: str) -> str:
    """Name of a dtype policy, as Keras serialises it."""
    name = "float32" if dtype is None else dtype
    if isinstance(dtype, dict) and dtype.get("class_name") == "DTypePolicy" and isinstance(dtype.get("config"), dict):
        name = dtype["config"].get("name")
    if name not in _DTYPES:
        raise ValueError(f"{source}: dtype must be one of {', '.join(_DTYPES)}, got {str(name)[:80]}: is it quantised?")
    return str(name)


def _check_groups(config: AlbertConfig) -> None:
    """Refuses depths where KerasHub's groups are others, or none."""
    layers, groups = config.num_hidden_layers, config.num_hidden_groups
    if layers % groups:
        raise ValueError(
            f"KerasHub's groups have equally many layers: num_hidden_layers must be a multiple of num_hidden_groups, "
            f"got {layers} and {groups}"
        )
    for layer in range(layers):
        if layer // (layers // groups) != config.group_of_layer(layer):
            raise ValueError(
                f"of {layers} layers in {groups} groups, layer {layer} is in group {layer // (layers // groups)} in "
                f"KerasHub and in group {config.group_of_layer(layer)} in the original, whose arithmetic rounds: the "
                f"models differ"
            )
