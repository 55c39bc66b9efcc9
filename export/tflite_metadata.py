"""What a TFLite file says of itself: head, labels and task as JSON inside the file, so that a program needs no other.

The file's table `metadata` has an entry "albert_tf"; the buffer that it names holds the JSON, in UTF-8. TFLite's
runtimes in C++, Java and Swift read such entries too.
"""

from __future__ import annotations

import dataclasses
import os
from typing import Any

from albert_tf.head_config import HEADS
from albert_tf.json_object import JsonConfig
from export import flatbuffer
from export.tflite_graph import Head

NAME = "albert_tf"
_PAIRED = ("classifier", "regression", "multiple_choice", "span", "conditional_span")


@dataclasses.dataclass(frozen=True, kw_only=True)
class TFLiteMetadata(JsonConfig):
    """What a program that runs a file wants to know of it.

    Attributes:
      head: head of the model, one of `albert_tf.head_config.HEADS`.
      labels: names of the logits of a classifier, in their order; None where the model has none, or without names.
      task: name of the task that the model was fine-tuned on; None where nothing says it.
      is_multi_label: whether a text may have several labels: each logit then is a yes or no of its own.
      sentence_objective: what a pretraining model's sentence order says, "sop", "nsp" or "none"; None for other heads.
      takes_pairs: whether a text may have a second one: with the tokenizer inside, whether there is an input `text_b`.
      max_seq_length: most tokens that the model was trained on; with the tokenizer inside, texts are cut to it.
      quantization: how weights and activations are stored.
      tokenizer: "inside", text goes in, or "outside", token ids go in.
    """

    head: str
    labels: tuple[str, ...] | None = None
    task: str | None = None
    is_multi_label: bool = False
    sentence_objective: str | None = None
    takes_pairs: bool = False
    max_seq_length: int
    quantization: str
    tokenizer: str

    def __post_init__(self) -> None:
        if self.head not in HEADS:
            raise ValueError(f"head must be one of {', '.join(HEADS)}, got {self.head!r}")
        if self.labels is not None:
            object.__setattr__(self, "labels", tuple(self.labels))  # a list, from JSON


def read_metadata(content: bytes) -> TFLiteMetadata:
    """What the content of a TFLite file says of itself.

    Raises:
      ValueError: if it is no TFLite file, or one that `export.tflite` did not write.
    """
    found = flatbuffer.metadata(content, NAME)
    if found is None:
        raise ValueError(f"the TFLite file has no metadata {NAME!r}: export.tflite did not write it")
    return TFLiteMetadata.from_json(found, source=f"metadata {NAME!r}")


def describe(
    model_directory: str | os.PathLike[str], *, outputs: Head, quantization: str, tokenizer: str
) -> TFLiteMetadata:
    """Metadata of a file made of a model directory.

    Args:
      model_directory: the model directory.
      outputs: which outputs the file of a pretraining model has.
      quantization: as exported.
      tokenizer: "inside" or "outside".

    Raises:
      FileNotFoundError, ValueError: if the directory is incomplete or damaged.
    """
    from albert_tf.inference.loaded_model import read_task_config
    from albert_tf.model_directory import read_head_config, read_max_seq_length, read_sentence_objective

    head, task_config = read_head_config(model_directory), read_task_config(model_directory)
    of_task: dict[str, Any] = {}
    # Where nothing says it, a classifier may read pairs: an empty second text counts as none.
    takes_pairs = head.head in _PAIRED or (head.head == "pretraining" and outputs == "sentence_order")
    if task_config is not None:
        task = task_config.make_task(None)
        of_task = {"task": task.name, "is_multi_label": task.is_multi_label}
        takes_pairs = task.num_texts == 2
    return TFLiteMetadata(
        head=head.head,
        labels=head.labels,
        sentence_objective=read_sentence_objective(model_directory) if head.head == "pretraining" else None,
        takes_pairs=takes_pairs,
        max_seq_length=read_max_seq_length(model_directory),
        quantization=quantization,
        tokenizer=tokenizer,
        **of_task,
    )
