"""SavedModels as files: what is written for a model, with its description and warm-up requests."""

from __future__ import annotations

import dataclasses
import json
import os
import time
from collections.abc import Mapping
from typing import Any

import tensorflow as tf
from absl import logging

from albert_tf import door
from albert_tf.inference.loaded_model import LoadedModel
from albert_tf.inference.spans import STRIDE
from albert_tf.inference.text_answers import task_of
from export import parity, warm_up
from export.artifacts import IDS_FOLDER, SIGNATURES_FILE, TEXT_FOLDER, quiet
from export.signatures.making import make_signatures
from export.signatures.signature_maker import Padding, Served, Signature, WeightsModule
from export.text_graph import make_text_graph

_OF_TASKS = ("classifier", "regression", "token_classifier")
_OF_PIECES = ("pretraining", "masked_lm")
_SPANS = ("span", "conditional_span")


@dataclasses.dataclass(frozen=True, kw_only=True)
class ServedSettings:
    """How a model is served. What `served_from` makes of it fits the model.

    Attributes:
      max_seq_length: most tokens of a row; None takes what the model was trained on.
      stride: tokens from the start of a window to that of the next one, for texts that do not fit; None takes the
        task's, and for answers out of a text 128.
      top_k: candidates for each mask, and answers out of a text.
      padding: "skipped" or "computed".
    """

    max_seq_length: int | None = None
    stride: int | None = None
    top_k: int = 10
    padding: Padding = "skipped"

    def __post_init__(self) -> None:
        if self.top_k < 1:
            raise ValueError(f"top_k must be at least 1, got {self.top_k}")


def served_from(loaded: LoadedModel, settings: ServedSettings) -> Served:
    """What signatures are made of, for a model and its task.

    Raises:
      ValueError: for a setting out of range, or a task that does not fit the model.
    """
    config, head = loaded.task_config, loaded.model.HEAD
    length = settings.max_seq_length or (config.max_seq_length if config else loaded.max_seq_length)
    longest = loaded.model.config.max_position_embeddings
    if not 5 <= length <= longest:
        raise ValueError(
            f"max_seq_length must be in [5, {longest}] (the model's max_position_embeddings), got {length}"
        )
    stride = settings.stride or (config.stride if config else None)
    if head in _SPANS:
        stride = stride or STRIDE
    elif head not in _OF_TASKS and settings.stride is not None:
        raise ValueError(f"stride is not for models with the head {head!r}, which read no windows")
    elif stride is not None and not 1 <= stride <= length - 2:
        raise ValueError(f"stride must be in [1, {length - 2}] for max_seq_length {length}, got {stride}")
    served = Served(
        model=loaded.model,
        padding=settings.padding,
        tokenizer=loaded.tokenizer,
        text=make_text_graph(loaded.tokenizer, length),
        stride=stride,
        top_k=settings.top_k,
        sentence_objective=loaded.sentence_objective,
    )
    if head not in _OF_TASKS:
        return served
    task = task_of(loaded)
    return dataclasses.replace(
        served,
        labels=task.labels or (),
        num_texts=task.num_texts if config else None,
        is_multi_label=task.is_multi_label,
    )


def write_saved_models(folders: Mapping[str, str], loaded: LoadedModel, served: Served) -> None:
    """Writes `text` and `ids` into `folders`, by name, unchecked."""
    batch = parity.standard_batches(loaded.tokenizer, max_seq_length(served))[0]
    inputs = parity.head_inputs(loaded.model.head_config, batch)
    description = describe(served, loaded)
    maker = make_signatures(served)
    save(WeightsModule(loaded.model, *maker.parts), maker.text_signatures(), folders[TEXT_FOLDER], inputs, description)
    maker = make_signatures(dataclasses.replace(served, text=None, tokenizer=None))
    save(WeightsModule(loaded.model), maker.ids_signatures(), folders[IDS_FOLDER], inputs, description)


def max_seq_length(served: Served) -> int:
    """Most tokens of a row; of token ids alone as many as the model has positions."""
    return served.text.max_seq_length if served.text else served.model.config.max_position_embeddings


def describe(served: Served, loaded: LoadedModel) -> dict[str, Any]:
    """What is said of a model beside its signatures, ready for JSON."""
    head = served.model.HEAD
    described: dict[str, Any] = {"head": head, "padding": served.padding, "max_seq_length": max_seq_length(served)}
    if loaded.task_config is not None:
        described["task"] = loaded.task_config.task
    if served.labels:
        described["labels"] = list(served.labels)
    if head == "classifier":
        described["multi_label"] = served.is_multi_label
    if served.num_texts is not None:
        described["num_texts"] = served.num_texts
    if served.stride is not None:
        described["stride"] = served.stride
    if head in _OF_PIECES or head in _SPANS:
        described["top_k"] = served.top_k
    if head == "pretraining":
        described["sentence_objective"] = served.sentence_objective
    return described


def save(
    module: tf.Module,
    signatures: Mapping[str, Signature],
    folder: str,
    inputs: warm_up.Inputs,
    description: Mapping[str, Any] | None = None,
) -> None:
    """Writes one SavedModel with its description.

    Args:
      module: holds the weights.
      signatures: by name.
      folder: where it goes.
      inputs: the model's own inputs, an example for the warm-up requests.
      description: what else is said of the model.
    """
    begun = time.monotonic()
    functions = {name: signature.function.get_concrete_function() for name, signature in signatures.items()}
    traced = time.monotonic()
    # The gradients of packing are for training; a SavedModel cannot hold them.
    options = tf.saved_model.SaveOptions(experimental_custom_gradients=False)
    with quiet():
        tf.saved_model.save(module, folder, signatures=functions, options=options)
    specs = {name: function.structured_input_signature[0] for name, function in functions.items()}
    described = {
        name: {
            "description": " ".join(signature.document.split()),
            "inputs": _shown({spec.name: spec for spec in specs[name]}),
            "outputs": _shown(functions[name].structured_outputs),
        }
        for name, signature in signatures.items()
    }
    content = json.dumps({**(description or {}), "signatures": described}, indent=2, ensure_ascii=False) + "\n"
    door.write_whole(os.path.join(folder, SIGNATURES_FILE), content)
    requests = {name: warm_up.example_inputs(name, [spec.name for spec in specs[name]], inputs) for name in signatures}
    warm_up.write_requests(folder, requests)
    end = time.monotonic()
    logging.info("%s: traced in %.1f s, saved in %.1f s", ", ".join(signatures), traced - begun, end - traced)


def variables_bytes(saved_model: str) -> int:
    """Bytes of the data files in a SavedModel's `variables` folder."""
    files = tf.io.gfile.glob(os.path.join(saved_model, "variables", "variables.data-*"))
    return sum(int(tf.io.gfile.stat(file).length) for file in files)


def _shown(specs: Mapping[str, Any]) -> dict[str, str]:
    """Dtype and shape of each input or output, such as "int32 [None, None]"."""
    return {name: f"{spec.dtype.name} {list(spec.shape)}" for name, spec in sorted(specs.items())}
