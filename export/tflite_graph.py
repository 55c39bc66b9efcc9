"""The functions that a TFLite file holds: a model with its head. Imports TensorFlow only when one is made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, get_args

from albert_tf import features
from export.artifacts import ENCODER_INPUTS

if TYPE_CHECKING:
    import tensorflow as tf

    from albert_tf.modeling.encoder import Form
    from albert_tf.modeling.head_model import AlbertHeadModel

# Which outputs of a pretraining model a file has.
Head = Literal["encoder", "masked_lm", "sentence_order", "pretraining", "all"]
HEADS: tuple[Head, ...] = get_args(Head)
WITH_MASKS: tuple[Head, ...] = ("masked_lm", "pretraining", "all")
WITH_SENTENCE_ORDER: tuple[Head, ...] = ("sentence_order", "pretraining", "all")


def form_of(model: AlbertHeadModel) -> Form:
    """Form of the encoder in a file: a loop, unless layers have weights of their own: nothing to go round then."""
    return "loop" if model.config.parameter_sharing == "all" else "unrolled"


def input_shapes(model: AlbertHeadModel, head: Head) -> dict[str, str]:
    """Inputs of a file that takes token ids, with their shapes in our letters; `head` as for `ids_function`."""
    shapes = dict(model.INPUTS)
    if model.HEAD == "pretraining" and head not in WITH_MASKS:
        del shapes[features.MASKED_LM_POSITIONS]
    return shapes


def ids_function(model: AlbertHeadModel, head: Head) -> Any:
    """The model as a TensorFlow function of token ids, int32, with named inputs: those of the model.

    Args:
      model: the model.
      head: which outputs a pretraining model gives; others give all of theirs.
    """
    import tensorflow as tf

    shapes = input_shapes(model, head)
    specs = [tf.TensorSpec([None] * (shape.count(",") + 1), tf.int32, name=name) for name, shape in shapes.items()]

    @tf.function(input_signature=specs, autograph=False)
    def function(*values: tf.Tensor) -> dict[str, tf.Tensor]:
        return outputs_of(model, dict(zip(shapes, values, strict=True)), head)

    return function


def outputs_of(model: Any, inputs: dict[str, tf.Tensor], head: Head) -> dict[str, tf.Tensor]:
    """What the model gives for its inputs, in the form that a file holds; arguments as for `ids_function`."""
    form = form_of(model)
    if model.HEAD != "pretraining":
        outputs: dict[str, tf.Tensor] = model.forward(inputs, form=form)
        return outputs
    encoded = model.encoder.encode({name: inputs[name] for name in ENCODER_INPUTS}, form=form)
    outputs = dict(encoded) if head in ("encoder", "all") else {}
    if head in WITH_MASKS:
        positions = inputs[features.MASKED_LM_POSITIONS]
        outputs["masked_lm_logits"] = model.masked_lm_head(encoded["sequence_output"], positions)
    if head in WITH_SENTENCE_ORDER:
        outputs["sentence_order_logits"] = model.sentence_order_head(encoded["pooled_output"])
    return outputs
