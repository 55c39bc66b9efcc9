"""AlbertPretrainingModel: the encoder with the masked-LM and sentence-order heads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import keras
import tensorflow as tf

from albert_tf import features
from albert_tf.config import AlbertConfig
from albert_tf.modeling.encoder import ENCODER_INPUTS, AlbertEncoder, Form, initialize_weights
from albert_tf.modeling.heads import MaskedLMHead, SentenceOrderHead


@keras.saving.register_keras_serializable("albert_tf")
class AlbertPretrainingModel(keras.Model):
    """Encoder and both pretraining heads as a Keras functional model.

    Inputs, a dict: the encoder's, int32 [B, S], and `masked_lm_positions` int32 [B, P].

    Outputs, a dict of at least float32: `masked_lm_logits` [B, P, V] and `sentence_order_logits` [B, 2].

    Args:
      config: shape of the model.
      seed: whole number that the initial weights are drawn from; None draws other weights every time.
      dtype: Keras dtype policy or its name; None takes Keras' global one.
    """

    def __init__(
        self,
        config: AlbertConfig,
        *,
        seed: int | None = None,
        dtype: Any = None,
        name: str = "albert_pretraining_model",
    ) -> None:
        encoder = AlbertEncoder(config, dtype=dtype)
        settings = {"initializer_range": config.initializer_range, "dtype": encoder.policy}
        masked_lm = MaskedLMHead(encoder.embeddings, hidden_act=config.hidden_act, name="masked_lm", **settings)
        sentence_order = SentenceOrderHead(name="sentence_order", **settings)

        inputs = {key: keras.Input((None,), dtype="int32", name=key) for key in ENCODER_INPUTS}
        encoded = encoder(dict(inputs))
        inputs[features.MASKED_LM_POSITIONS] = keras.Input((None,), dtype="int32", name=features.MASKED_LM_POSITIONS)
        outputs = {
            "masked_lm_logits": masked_lm(encoded["sequence_output"], inputs[features.MASKED_LM_POSITIONS]),
            "sentence_order_logits": sentence_order(encoded["pooled_output"]),
        }
        super().__init__(inputs=inputs, outputs=outputs, name=name)
        self.config = config
        if seed is not None:
            initialize_weights(self.named_weights(), seed, config.initializer_range)

    @property
    def encoder(self) -> AlbertEncoder:
        """The encoder, a model of its own."""
        return next(layer for layer in self.layers if isinstance(layer, AlbertEncoder))

    @property
    def masked_lm_head(self) -> MaskedLMHead:
        """The masked-LM head, tied to the encoder's embedding table."""
        return self.get_layer("masked_lm")

    @property
    def sentence_order_head(self) -> SentenceOrderHead:
        """The sentence-order head."""
        return self.get_layer("sentence_order")

    def forward(
        self,
        inputs: Mapping[str, tf.Tensor],
        *,
        form: Form = "unrolled",
        training: bool = False,
        rematerialize: bool = False,
    ) -> dict[str, tf.Tensor]:
        """Outputs on real tensors; arguments as for `AlbertEncoder.encode`."""
        encoded = self.encoder.encode(inputs, form=form, training=training, rematerialize=rematerialize)
        return self._heads(encoded, inputs)

    def forward_with_layers(
        self, inputs: Mapping[str, tf.Tensor], *, form: Form = "unrolled", training: bool = False
    ) -> dict[str, tf.Tensor]:
        """Outputs as `forward` gives them, after the embeddings' [B, S, E], each layer's [B, S, H] and the pooler's."""
        encoded = self.encoder.encode(inputs, form=form, training=training, all_outputs=True)
        return {
            "encoder/embeddings": encoded["embedding_output"],
            **{f"encoder/layer_{i}": layer for i, layer in enumerate(encoded["encoder_outputs"])},
            "encoder/pooler": encoded["pooled_output"],
            **self._heads(encoded, inputs),
        }

    def _heads(self, encoded: Mapping[str, tf.Tensor], inputs: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        positions = tf.cast(inputs[features.MASKED_LM_POSITIONS], tf.int32)
        return {
            "masked_lm_logits": self.masked_lm_head(encoded["sequence_output"], positions),
            "sentence_order_logits": self.sentence_order_head(encoded["pooled_output"]),
        }

    def named_weights(self) -> dict[str, keras.Variable]:
        """Every weight once, by the canonical name that model directories and converters use."""
        return {
            **self.encoder.named_weights("encoder"),
            **self.masked_lm_head.named_weights("masked_lm"),
            **self.sentence_order_head.named_weights("sentence_order"),
        }

    def get_config(self) -> dict[str, Any]:
        policy = keras.saving.serialize_keras_object(self.encoder.policy)
        return {"config": self.config.to_dict(), "dtype": policy, "name": self.name}

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Self:
        return cls(AlbertConfig.from_dict(config["config"]), **{k: v for k, v in config.items() if k != "config"})
