"""`albert_tf.load_model`: a model from a model directory, or straight from another project's files."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from albert_tf import conversion, model_directory
from albert_tf.dialects import reading

if TYPE_CHECKING:
    import keras

    from albert_tf.modeling.head_model import AlbertHeadModel
    from albert_tf.tokenizer_base import Tokenizer


def load_model(
    path: str | os.PathLike[str],
    *,
    dtype: keras.DTypePolicy | str | None = None,
    format: str | None = None,
    head: str | None = None,
    head_settings: Mapping[str, Any] | None = None,
    allow_missing: Sequence[str] = (),
) -> AlbertHeadModel:
    """Model at `path`, a `keras.Model` that can be part of a larger one; its class follows the head.

    `model.input` and `model.output` show names and shapes of what it takes and gives.

    Args:
      path: a model directory, or what another project has written: a checkpoint prefix, a file or a folder.
      dtype: Keras dtype policy or its name; None takes Keras' global one.
      format: the other project's format: "original", "transformers", "kerashub", "model_garden", "tf_hub" or
        "albert_zh"; None finds it out.
      head: the head, where the files cannot tell it, or another one than theirs: "pretraining", "masked_lm", "encoder",
        "classifier", "regression", "multiple_choice", "token_classifier", "span" or "conditional_span".
      head_settings: other fields of `HeadConfig` that the files cannot tell, such as {"start_n_top": 3}, or of a new
        head, {"num_labels": 3}.
      allow_missing: glob patterns of names that may be unmatched. A weight that the files lack then starts as in a new
        model; a tensor without a place is left out.

    Raises:
      FileNotFoundError: if `path` or a file in it is missing.
      ValueError: if a file is damaged, of no known format, or the weights are not those of the configuration.
    """
    from albert_tf.modeling.models import make_model
    from albert_tf.stored_weights import assign_weights

    opened = conversion.open_weights(
        path, format=format, head=head, head_settings=head_settings, allow_missing=allow_missing
    )
    with opened as (_, found, weights):
        model = make_model(found.config, found.head, dtype=dtype)
        assign_weights(model.named_weights(), weights, source=found.weights.path)
    return model


def load_tokenizer(
    path: str | os.PathLike[str], *, format: str | None = None, head: str | None = None
) -> Tokenizer | None:
    """Tokenizer that lies beside the weights at `path`, in any format; None if there is none.

    Raises:
      FileNotFoundError, ValueError: as `load_model`.
    """
    if format in (None, conversion.OWN) and conversion.is_model_directory(path):
        return model_directory.load_tokenizer(path) if model_directory.has_tokenizer(path) else None
    _, found = reading.open_model(path, format=format, head=head)
    with found.weights:
        return found.tokenizer
