"""Settings of an export to TFLite: which there are, and which go together with each other and with a model."""

from __future__ import annotations

import os
from typing import Literal, get_args

from albert_tf.head_config import HeadConfig
from export.tflite_conversion import QUANTIZATIONS
from export.tflite_graph import HEADS, WITH_MASKS, WITH_SENTENCE_ORDER, Head

TokenizerPlace = Literal["inside", "outside"]
TOKENIZER_PLACES: tuple[TokenizerPlace, ...] = get_args(TokenizerPlace)
_NO_MASKS = "masked_lm outputs are for positions of masks, which texts have not: export with tokenizer outside"


def check_settings(
    quantization: str, head: str | None, tokenizer: str, representative_data: str | os.PathLike[str] | None
) -> None:
    """Refuses settings that there are not, or that do not go together.

    Raises:
      ValueError: saying which.
    """
    for name, value, choices in (
        ("quantization", quantization, QUANTIZATIONS),
        ("head", head, (None, *HEADS)),
        ("tokenizer", tokenizer, TOKENIZER_PLACES),
    ):
        if value not in choices:
            raise ValueError(f"{name} must be one of {', '.join(filter(None, choices))}, got {value!r}")
    if quantization == "full_int8" and tokenizer == "inside":
        raise ValueError("quantization full_int8 goes with the tokenizer outside: its ranges are measured on token ids")
    if (quantization == "full_int8") != (representative_data is not None):
        raise ValueError(
            "quantization full_int8 and representative_data go together: give texts as the model will get, as a data "
            "directory or a text file with one text a line"
        )


def checked_head(
    model_directory: str | os.PathLike[str], head_config: HeadConfig, head: Head | None, tokenizer: TokenizerPlace
) -> Head:
    """Which outputs the file has; of a model with another head than pretraining's it says nothing.

    Raises:
      ValueError: if the model has not these outputs, never learned them, or they are not for texts.
    """
    from albert_tf.model_directory import read_sentence_objective

    where, is_inside = os.fspath(model_directory), tokenizer == "inside"
    if head_config.head != "pretraining":
        if head is not None:
            raise ValueError(
                f"{where}: has the head {head_config.head!r}, whose outputs all go into the file; leave out head, "
                "which chooses between those of a pretraining model"
            )
        if is_inside and head_config.head == "masked_lm":
            raise ValueError(f"{where}: {_NO_MASKS}")
        return "all"
    head = head or ("encoder" if is_inside else "pretraining")
    if is_inside and head in WITH_MASKS:
        raise ValueError(f"{where}: {_NO_MASKS}; or head encoder or sentence_order")
    if read_sentence_objective(model_directory) == "none" and head in WITH_SENTENCE_ORDER:
        raise ValueError(
            f"{where}: trained with sentence_objective none, so its sentence-order head knows nothing; head must be "
            f"masked_lm or encoder, got {head}"
        )
    return head
