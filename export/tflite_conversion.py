"""Conversion of a model to the content of a TFLite file, and how near the file's numbers must be to the source's."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, get_args

from export.artifacts import quiet
from export.tflite_graph import Head, ids_function
from export.tflite_runtime import SIGNATURE, TEXT_OPERATIONS

if TYPE_CHECKING:
    import numpy as np

    from albert_tf.modeling.head_model import AlbertHeadModel
    from export.parity import Batch, Bound
    from export.tflite_metadata import TFLiteMetadata
    from export.tflite_tokenizer import TFLiteTextGraph

Quantization = Literal["float32", "float16", "int8", "full_int8"]
QUANTIZATIONS: tuple[Quantization, ...] = get_args(Quantization)
MIN_COSINE = 0.999
FULL_MIN_COSINE = 0.98  # lowest measured, over heads and sizes: 0.990
MAX_DIFFERENCE = 1e-5
# What stays float32 with "full_int8": sums, LayerNorm and the softmax of attention. On one small random model, lowest
# cosine of sequence_output: all in 8 bits 0.960, since padding's score of -10000 takes the levels of the real scores;
# with -20 in its place 0.997; with these operations in float32 0.9998.
_FLOAT_OPERATIONS = (
    *("ADD", "SUB", "MUL", "MEAN", "SQUARED_DIFFERENCE", "RSQRT", "SOFTMAX"),
    *("TANH", "LOG_SOFTMAX", "TOPK_V2"),  # pooler, and the head of SQuAD 2.0 with -1e30 at forbidden places
)


def bound_of(
    quantization: Quantization, min_cosine: float | None = None, max_difference: float = MAX_DIFFERENCE
) -> Bound:
    """What the outputs of a file must keep to.

    Args:
      quantization: how weights and activations are stored.
      min_cosine: lowest cosine, where there are 8 bits; None for 0.999, and 0.98 with "full_int8".
      max_difference: for float32.
    """
    from export.parity import Bound

    least = FULL_MIN_COSINE if quantization == "full_int8" else MIN_COSINE
    of_8_bits = Bound(cosine=least if min_cosine is None else min_cosine, probability=0.05)
    return {
        "float32": Bound(relative=max_difference),  # sums in another order; measured at base size: 2e-6
        "float16": Bound(relative=1e-2, cosine=0.9999),  # weights rounded to 11 bits; measured: 1e-3
        "int8": of_8_bits,
        "full_int8": of_8_bits,
    }[quantization]


def convert(
    model: AlbertHeadModel,
    *,
    quantization: Quantization,
    head: Head = "pretraining",
    text: TFLiteTextGraph | None = None,
    pairs: bool = False,
    representative: Sequence[Batch] = (),
    metadata: TFLiteMetadata | None = None,
) -> bytes:
    """Content of a TFLite file of `model`. Nothing is checked but that the file needs no foreign operations.

    Args:
      model: the model.
      quantization: how weights and activations are stored.
      head: which outputs the file of a pretraining model has; others give all of theirs.
      text: the tokenizer, for a file that takes text; None for one that takes token ids.
      pairs: whether such a file takes two texts.
      representative: for "full_int8", inputs of the file, all of one shape: the range of each activation is theirs.
      metadata: what the file says of itself; None leaves it out.

    Raises:
      ValueError: if it does, or weights are beyond float16.
    """
    import tensorflow as tf

    from export import flatbuffer, tflite_metadata
    from export.signatures.signature_maker import WeightsModule

    if quantization == "float16":
        _check_range_of_float16(model)
    module = WeightsModule(model, *(() if text is None else (text,)))
    if text is None:
        function = ids_function(model, head)
    else:
        from export.tflite_tokenizer import text_function

        function = text_function(model, head, text, pairs=pairs)
    with quiet():
        converter = tf.lite.TFLiteConverter.from_concrete_functions([function.get_concrete_function()], module)
        converter.allow_custom_ops = text is not None
        if quantization != "float32":
            converter.optimizations = [tf.lite.Optimize.DEFAULT]
        if quantization == "float16":
            converter.target_spec.supported_types = [tf.float16]
        converted = _calibrated(converter, representative) if quantization == "full_int8" else converter.convert()
        content = bytes(converted)
        if quantization == "full_int8":
            tables = [value for name, value in _weights(model) if name.startswith("encoder/embeddings/")]
            content = flatbuffer.restore_tables(content, [table for table in tables if table.ndim == 2])
        content = flatbuffer.share_tied_tables(content)
    flatbuffer.check_operators(content, known_prefix=None if text is None else TEXT_OPERATIONS)
    if metadata is not None:
        content = flatbuffer.add_metadata(content, tflite_metadata.NAME, metadata.to_json().encode())
    return content


def _calibrated(converter: Any, representative: Sequence[Batch]) -> bytes:
    """The model with weights, and activations but for `_FLOAT_OPERATIONS`, in 8 bits."""
    import tensorflow as tf

    from albert_tf import startup

    converter.representative_dataset = lambda: ((SIGNATURE, inputs) for inputs in representative)
    options = tf.lite.experimental.QuantizationDebugOptions(denylisted_ops=list(_FLOAT_OPERATIONS))
    with startup.held_back(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it runs TensorFlow's own, deprecated interpreter
        # Of TensorFlow's public doors the one that takes operations to leave out.
        quantizer = tf.lite.experimental.QuantizationDebugger(converter=converter, debug_options=options)
        content: bytes = quantizer.get_nondebug_quantized_model()
    return content


def _weights(model: AlbertHeadModel) -> Iterator[tuple[str, np.ndarray]]:
    return ((name, variable.numpy()) for name, variable in model.named_weights().items())


def _check_range_of_float16(model: AlbertHeadModel) -> None:
    import numpy as np

    for name, value in _weights(model):
        largest = float(np.abs(value).max())
        if largest > np.finfo(np.float16).max:
            raise ValueError(f"{name} holds {largest:.3g}, which float16 cannot: export float32 or int8")
