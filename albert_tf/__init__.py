"""ALBERT in TensorFlow and Keras 3: pretraining and export.

    import albert_tf
    model = albert_tf.load_model("path/of/a/model_directory")

Importing the package loads neither TensorFlow nor Keras; each name is loaded when it is first used. But it does decide
what Keras will run on: TensorFlow, whatever `KERAS_BACKEND` or `~/.keras/keras.json` say. Where Keras runs on
something else already, the import is refused.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from albert_tf.config import AlbertConfig
    from albert_tf.head_config import HeadConfig
    from albert_tf.loading import load_model
    from albert_tf.model_directory import load_tokenizer, save_model_directory
    from albert_tf.modeling.encoder import AlbertEncoder
    from albert_tf.modeling.head_model import AlbertHeadModel
    from albert_tf.modeling.models import (
        AlbertClassifierModel,
        AlbertConditionalSpanModel,
        AlbertEncoderModel,
        AlbertMaskedLMModel,
        AlbertMultipleChoiceModel,
        AlbertPretrainingModel,
        AlbertRegressionModel,
        AlbertSpanModel,
        AlbertTokenClassifierModel,
        make_model,
    )
    from albert_tf.tokenizer import AlbertTokenizer, TokenizerConfig
    from albert_tf.tokenizer_base import Tokenizer
    from albert_tf.wordpiece import WordPieceConfig, WordPieceTokenizer

__version__ = "0.1.0"

__all__ = [
    "AlbertClassifierModel",
    "AlbertConditionalSpanModel",
    "AlbertConfig",
    "AlbertEncoder",
    "AlbertEncoderModel",
    "AlbertHeadModel",
    "AlbertMaskedLMModel",
    "AlbertMultipleChoiceModel",
    "AlbertPretrainingModel",
    "AlbertRegressionModel",
    "AlbertSpanModel",
    "AlbertTokenClassifierModel",
    "AlbertTokenizer",
    "HeadConfig",
    "Tokenizer",
    "TokenizerConfig",
    "WordPieceConfig",
    "WordPieceTokenizer",
    "load_model",
    "load_tokenizer",
    "make_model",
    "save_model_directory",
]

_HOMES = {
    "AlbertClassifierModel": "albert_tf.modeling.models",
    "AlbertConditionalSpanModel": "albert_tf.modeling.models",
    "AlbertConfig": "albert_tf.config",
    "AlbertEncoder": "albert_tf.modeling.encoder",
    "AlbertEncoderModel": "albert_tf.modeling.models",
    "AlbertHeadModel": "albert_tf.modeling.head_model",
    "AlbertMaskedLMModel": "albert_tf.modeling.models",
    "AlbertMultipleChoiceModel": "albert_tf.modeling.models",
    "AlbertPretrainingModel": "albert_tf.modeling.models",
    "AlbertRegressionModel": "albert_tf.modeling.models",
    "AlbertSpanModel": "albert_tf.modeling.models",
    "AlbertTokenClassifierModel": "albert_tf.modeling.models",
    "AlbertTokenizer": "albert_tf.tokenizer",
    "HeadConfig": "albert_tf.head_config",
    "Tokenizer": "albert_tf.tokenizer_base",
    "TokenizerConfig": "albert_tf.tokenizer",
    "WordPieceConfig": "albert_tf.wordpiece",
    "WordPieceTokenizer": "albert_tf.wordpiece",
    "load_model": "albert_tf.loading",
    "load_tokenizer": "albert_tf.model_directory",
    "make_model": "albert_tf.modeling.models",
    "save_model_directory": "albert_tf.model_directory",
}


def __getattr__(name: str) -> Any:
    """Loads a public name on first use."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def _choose_keras_backend() -> None:
    """Makes Keras run on TensorFlow.

    Raises:
      ImportError: if Keras is imported already and runs on another backend, or is older than Keras 3.
    """
    # With this variable set, `import tensorflow_text` fails where the package tf_keras is missing. Where it is there,
    # the variable changes what `tf.keras` is, which this package does not use.
    if os.environ.get("TF_USE_LEGACY_KERAS") and importlib.util.find_spec("tf_keras") is None:
        del os.environ["TF_USE_LEGACY_KERAS"]

    version = getattr(sys.modules.get("keras"), "__version__", "3")
    if version.startswith(("0.", "1.", "2.")):
        raise ImportError(f"albert_tf needs Keras 3, but Keras {version} is imported already")
    # Keras reads its backend once, in this module; the environment variable wins over keras.json. It may be loaded
    # without `keras`: `import tensorflow` tries to import Keras, and passes over a failure such as a missing jax.
    settings = sys.modules.get("keras.src.backend.config")
    if settings is not None and settings.backend() != "tensorflow":
        raise ImportError(
            f"albert_tf runs on Keras' TensorFlow backend, but Keras has been imported and runs on "
            f"{settings.backend()!r}: import albert_tf before tensorflow and keras, or set KERAS_BACKEND=tensorflow"
        )
    os.environ["KERAS_BACKEND"] = "tensorflow"


_choose_keras_backend()
