"""AlbertHeadModel: what all models have in common, whatever head stands on the encoder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import keras
import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.head_config import Head, HeadConfig
from albert_tf.modeling.encoder import ENCODER_INPUTS, AlbertEncoder, Form, initialize_weights

Layers = Mapping[str, keras.layers.Layer]
Tensors = Mapping[str, Any]


class AlbertHeadModel(keras.Model):
    """Encoder and head as a Keras functional model; base of the models of `albert_tf.modeling.models`.

    Inputs, a dict: the encoder's, int32 [B, S], and what the head needs besides. Outputs, a dict of at least float32.

    A subclass names its head and says how it is made and applied; the same code then builds the functional model and
    runs on real tensors in any of the encoder's forms.

    Args:
      config: shape of the model.
      head_config: its head.
      seed: whole number that the initial weights are drawn from; None draws other weights every time.
      dtype: Keras dtype policy or its name; None takes Keras' global one.

    Raises:
      ValueError: if `head_config` names another head.
    """

    HEAD: ClassVar[Head]
    # Layers with weights, by the name that stands before the names of their weights.
    HEAD_LAYERS: ClassVar[tuple[str, ...]]
    # Name -> shape in our letters.
    INPUTS: ClassVar[Mapping[str, str]] = dict.fromkeys(ENCODER_INPUTS, "[B, S]")
    # Whether the head reads nothing of the encoder but `pooled_output`.
    POOLED_ONLY: ClassVar[bool] = False
    # Inputs that `forward` takes in training only.
    LABEL_INPUTS: ClassVar[tuple[str, ...]] = ()

    def __init__(
        self,
        config: AlbertConfig,
        head_config: HeadConfig,
        *,
        seed: int | None = None,
        dtype: Any = None,
        name: str | None = None,
    ) -> None:
        if head_config.head != self.HEAD:
            raise ValueError(f"{type(self).__name__} has the head {self.HEAD!r}, head_config has {head_config.head!r}")
        encoder = AlbertEncoder(config, pooler=head_config.pooler, dtype=dtype)
        settings = {"initializer_range": config.initializer_range, "dtype": encoder.policy}
        layers = self.make_layers(encoder, head_config, settings)

        inputs = {
            key: keras.Input((None,) * shape.count(","), dtype="int32", name=key) for key, shape in self.INPUTS.items()
        }
        outputs = self.apply_layers(layers, encoder(self.encoder_inputs(layers, inputs)), inputs)
        super().__init__(inputs=inputs, outputs=outputs, name=name or f"albert_{self.HEAD}_model")
        self.config = config
        self.head_config = head_config
        self._layer_names = tuple(layers)
        if seed is not None:
            initialize_weights(self.named_weights(), seed, config.initializer_range)

    @classmethod
    def make_layers(cls, encoder: AlbertEncoder, head_config: HeadConfig, settings: Mapping[str, Any]) -> Layers:
        """Layers of the head by name; `settings` are the arguments that all of them take."""
        raise NotImplementedError

    @classmethod
    def encoder_inputs(cls, layers: Layers, inputs: Tensors) -> dict[str, Any]:
        """What the encoder gets, int32 [B, S] each, symbolic or real as `inputs` are."""
        return {key: inputs[key] for key in ENCODER_INPUTS}

    @classmethod
    def apply_layers(
        cls, layers: Layers, encoded: Tensors, inputs: Tensors, *, training: bool | None = None
    ) -> dict[str, Any]:
        """The outputs, of the encoder's outputs and the model's inputs, symbolic or real."""
        raise NotImplementedError

    @property
    def encoder(self) -> AlbertEncoder:
        """The encoder, a model of its own."""
        return next(layer for layer in self.layers if isinstance(layer, AlbertEncoder))

    @property
    def _head(self) -> dict[str, keras.layers.Layer]:
        # Found again by name: Keras would track a layer held in a plain attribute a second time.
        return {name: self.get_layer(name) for name in self._layer_names}

    def forward(
        self,
        inputs: Mapping[str, tf.Tensor],
        *,
        form: Form = "unrolled",
        training: bool = False,
        rematerialize: bool = False,
    ) -> dict[str, tf.Tensor]:
        """Outputs on real tensors; arguments as for `AlbertEncoder.encode`.

        Raises:
          ValueError: for an input that is missing or has another rank, and as `AlbertEncoder.encode`.
        """
        tensors, head = self._checked(inputs), self._head
        encoded = self.encoder.encode(
            self.encoder_inputs(head, tensors),
            form=form,
            training=training,
            rematerialize=rematerialize,
            all_outputs=False,
            pooled_only=self.POOLED_ONLY,
        )
        return self.apply_layers(head, encoded, tensors, training=training)

    def forward_with_layers(
        self, inputs: Mapping[str, tf.Tensor], *, form: Form = "unrolled", training: bool = False
    ) -> dict[str, tf.Tensor]:
        """Outputs as `forward` gives them, after the embeddings', each layer's [B, S, H] and the pooler's, if any."""
        tensors, head = self._checked(inputs), self._head
        encoded = self.encoder.encode(
            self.encoder_inputs(head, tensors), form=form, training=training, all_outputs=True
        )
        return {
            "encoder/embeddings": encoded["embedding_output"],
            **{f"encoder/layer_{i}": layer for i, layer in enumerate(encoded["encoder_outputs"])},
            **({"encoder/pooler": encoded["pooled_output"]} if "pooled_output" in encoded else {}),
            **self.apply_layers(head, encoded, tensors, training=training),
        }

    def _checked(self, inputs: Mapping[str, Any]) -> dict[str, tf.Tensor]:
        """The model's inputs as int32 tensors, further entries left out."""
        missing = [key for key in self.INPUTS if key not in inputs]
        if missing:
            raise ValueError(f"{self.name}: input {missing[0]!r} is missing; it takes {', '.join(self.INPUTS)}")
        taken = [*self.INPUTS, *(key for key in self.LABEL_INPUTS if key in inputs)]
        tensors = {key: tf.cast(inputs[key], tf.int32) for key in taken}
        for key, shape in self.INPUTS.items():
            rank, wanted = tensors[key].shape.rank, shape.count(",") + 1
            if rank not in (None, wanted):
                raise ValueError(
                    f"{self.name}: {key} must have rank {wanted}, {shape}, got shape {tensors[key].shape.as_list()}"
                )
        return tensors

    def named_weights(self) -> dict[str, keras.Variable]:
        """Every weight once, by the canonical name that model directories and converters use."""
        named: dict[str, keras.Variable] = self.encoder.named_weights("encoder")
        for name in self.HEAD_LAYERS:
            named |= self.get_layer(name).named_weights(name)
        return named

    def get_config(self) -> dict[str, Any]:
        return {
            "config": self.config.to_dict(),
            "head_config": self.head_config.to_dict(),
            "dtype": keras.saving.serialize_keras_object(self.encoder.policy),
            "name": self.name,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Self:
        settings = {key: value for key, value in config.items() if key not in ("config", "head_config")}
        head_config = HeadConfig.from_dict(config.get("head_config", {"head": cls.HEAD}))
        return cls(AlbertConfig.from_dict(config["config"]), head_config, **settings)
