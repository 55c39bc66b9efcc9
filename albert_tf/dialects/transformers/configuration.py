"""`config.json` of transformers, in and out.

Source: huggingface/transformers, configuration_albert.py and configuration_utils.py (names and defaults),
modeling_albert.py (what they do), activations.py.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any, get_args

from albert_tf.config import AlbertConfig
from albert_tf.dialects.transformers.names import check_groups
from albert_tf.head_config import LABELLED, Head, HeadConfig
from albert_tf.tokenizer_base import Tokenizer

# Defaults of their AlbertConfig, those of xxlarge.
_DEFAULTS: Mapping[str, Any] = {
    "vocab_size": 30000,
    "embedding_size": 128,
    "hidden_size": 4096,
    "num_hidden_layers": 12,
    "num_hidden_groups": 1,
    "num_attention_heads": 64,
    "intermediate_size": 16384,
    "inner_group_num": 1,
    "hidden_act": "gelu_new",
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
    "max_position_embeddings": 512,
    "type_vocab_size": 2,
    "initializer_range": 0.02,
}
_CLASSIFIER_DROPOUT = 0.1
_SIZES = (
    "vocab_size",
    "embedding_size",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
)

# Their activations -> ours. Those of one value here differ in rounding at most.
_ACTIVATIONS: Mapping[str, str] = {
    "gelu": "gelu_exact",
    "gelu_python": "gelu_exact",
    "gelu_new": "gelu",
    "gelu_pytorch_tanh": "gelu",
    "gelu_python_tanh": "gelu",
    "gelu_fast": "gelu",
    "gelu_accurate": "gelu",
    "relu": "relu",
    "tanh": "tanh",
    "linear": "linear",
}
_THEIR_ACTIVATIONS: Mapping[str, str] = {
    "gelu": "gelu_new",
    "gelu_exact": "gelu",
    "relu": "relu",
    "tanh": "tanh",
    "linear": "linear",
}

# Keys that change what the model computes, with the values at which it is this one.
_ONLY: Mapping[str, tuple[Any, ...]] = {
    "layer_norm_eps": (1e-12,),
    "position_embedding_type": ("absolute", None),
    "pruned_heads": ({}, [], None),
    "is_decoder": (False, None),
    "is_encoder_decoder": (False, None),
    "add_cross_attention": (False, None),
    "quantization_config": ({}, None),
    "per_layer_config": ({}, None),
}

_CLASSES: Mapping[str, Head] = {
    "AlbertModel": "encoder",
    "AlbertForPreTraining": "pretraining",
    "AlbertForMaskedLM": "masked_lm",
    "AlbertForSequenceClassification": "classifier",
    "AlbertForMultipleChoice": "multiple_choice",
    "AlbertForTokenClassification": "token_classifier",
    "AlbertForQuestionAnswering": "span",
}
_REGRESSION, _MULTI_LABEL = "regression", "multi_label_classification"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Configuration:
    """What `config.json` says in our terms.

    Attributes:
      config: shape of the model.
      values: all that the file holds.
      path: of the file, for messages.
      notes: what a user should know.
    """

    config: AlbertConfig
    values: Mapping[str, Any]
    path: str
    notes: tuple[str, ...]

    @property
    def named_head(self) -> Head | None:
        """Head of the first class under "architectures" that is known; None if there is none."""
        classes = self.values.get("architectures")
        for name in classes if isinstance(classes, list) else ():
            if isinstance(name, str) and name.removeprefix("TF").removeprefix("Flax") in _CLASSES:
                head = _CLASSES[name.removeprefix("TF").removeprefix("Flax")]
                return "regression" if head == "classifier" and self._is_regression() else head
        return None

    @property
    def labels(self) -> dict[int, str] | None:
        """Label of each number, where the file has them."""
        labels = self.values.get("id2label")
        if labels is None:
            return None
        try:
            found = {int(number): str(label) for number, label in labels.items()}
        except (AttributeError, ValueError):
            found = {}
        if not found or sorted(found) != list(range(len(found))):
            raise ValueError(f"{self.path}: id2label must give each number from 0 on a label, got {labels!r}")
        return dict(sorted(found.items()))

    @property
    def num_labels(self) -> int:
        """Outputs of a classifier; 2 where the file does not say."""
        labels = self.labels
        if labels is not None:
            return len(labels)
        number = self.values.get("num_labels", self.values.get("_num_labels"))
        return 2 if number is None else number

    def _is_regression(self) -> bool:
        return self.num_labels == 1 and self.values.get("problem_type") in (None, _REGRESSION)

    def head_config(self, head: Head, *, pooler: bool) -> tuple[HeadConfig, tuple[str, ...]]:
        """Configuration of the head `head`, and what a user should know of it.

        Raises:
          ValueError: if the file says something impossible of it; names the file.
        """
        notes: list[str] = []
        settings: dict[str, Any] = {"head": head, "pooler": pooler, "dropout_prob": self._dropout(head)}
        if head in LABELLED:
            settings["num_labels"] = self.num_labels
            labels = self.labels
            if labels is not None and any(label != f"LABEL_{number}" for number, label in labels.items()):
                if len(set(labels.values())) == len(labels):
                    settings["labels"] = tuple(labels.values())
                else:
                    notes.append("id2label gives one label to several numbers; the labels are left out.")
        if head == "classifier" and self.values.get("problem_type") in (_REGRESSION, _MULTI_LABEL):
            notes.append(f"problem_type is {self.values['problem_type']!r}: the logits are the same, to be read so.")
        try:
            return HeadConfig(**settings), tuple(notes)
        except ValueError as error:
            raise ValueError(f"{self.path}: {error}") from error

    def _dropout(self, head: Head) -> Any:
        if head == "span":
            return 0.0  # their question answering head has none
        found = self.values.get("classifier_dropout_prob", _CLASSIFIER_DROPOUT)
        return self.config.hidden_dropout_prob if found is None else found


def read_configuration(values: Mapping[str, Any], *, source: str) -> Configuration:
    """Configuration out of the object that `config.json` holds; `source` is its path.

    Raises:
      ValueError: for another model than ALBERT, or a setting that this model has not; names the file and the key.
    """
    kind = values.get("model_type", "albert")
    if kind != "albert":
        raise ValueError(f"{source}: model_type must be 'albert', got {kind!r}: it is another model's configuration")
    for key, allowed in _ONLY.items():
        if key in values and values[key] not in allowed:
            raise ValueError(f"{source}: {key} is supported at {allowed[0]!r} only, got {values[key]!r}")
    ours = {key: values.get(key, default) for key, default in _DEFAULTS.items()}
    act = ours["hidden_act"]
    if not isinstance(act, str) or act not in _ACTIVATIONS:
        raise ValueError(f"{source}: hidden_act must be one of {', '.join(_ACTIVATIONS)}, got {act!r}")
    ours["hidden_act"] = _ACTIVATIONS[act]
    try:
        # Theirs has the projection even where the sizes are equal.
        config = AlbertConfig(**ours, embedding_projection=True)
        check_groups(config)
    except ValueError as error:
        raise ValueError(f"{source}: {error}") from error
    absent = [f"{key} {_DEFAULTS[key]}" for key in _SIZES if key not in values]
    notes = [f"config.json leaves out what transformers takes as {', '.join(absent)}."] if absent else []
    return Configuration(config=config, values=values, path=source, notes=tuple(notes))


def write_configuration(config: AlbertConfig, head: HeadConfig, *, dtype: str, tokenizer: Tokenizer | None) -> str:
    """Text of `config.json` for the current release.

    Args:
      config: the model.
      head: its head.
      dtype: of the weights, which `from_pretrained` then loads them in.
      tokenizer: says the ids of the special tokens; None leaves them out.
    """
    values: dict[str, Any] = {key: getattr(config, key) for key in _DEFAULTS}
    values |= {
        "model_type": "albert",
        "architectures": [architecture(head)],
        "hidden_act": _THEIR_ACTIVATIONS[config.hidden_act],
        "layer_norm_eps": 1e-12,
        "dtype": dtype,
        "tie_word_embeddings": True,
    }
    if head.head != "span":  # which has no dropout there
        values["classifier_dropout_prob"] = head.dropout_prob
    if head.head in LABELLED or head.head == "regression":
        labels = head.labels or tuple(f"LABEL_{number}" for number in range(head.num_labels or 1))
        values["id2label"] = {str(number): label for number, label in enumerate(labels)}
        values["label2id"] = {label: number for number, label in enumerate(labels)}
    if head.head == "regression":
        values["problem_type"] = _REGRESSION
    elif head.head == "classifier" and head.num_labels == 1:
        values["problem_type"] = _MULTI_LABEL  # their only kind with one output that is no regression
    if tokenizer is not None:
        values |= {
            "pad_token_id": tokenizer.pad_id,
            "bos_token_id": tokenizer.cls_id,
            "eos_token_id": tokenizer.sep_id,
        }
    return json.dumps(values, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def architecture(head: HeadConfig) -> str:
    """Their class for a head."""
    wanted = "classifier" if head.head == "regression" else head.head
    return next(name for name, kind in _CLASSES.items() if kind == wanted)


HEADS_HERE: tuple[Head, ...] = tuple(head for head in get_args(Head) if head != "conditional_span")
