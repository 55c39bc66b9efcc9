"""AlbertEncoder: factorized embedding, one block called L times, and a pooler unless it is made without one.

Source: Lan et al. 2020 (arXiv 1909.11942), section 3.1.

The encoder is a Keras functional model. `encode` runs the same layers on real tensors in one of four forms:

* "unrolled": L calls one after the other, as the functional model itself;
* "loop": the calls of each group as the body of a `tf.while_loop`, for a small and quickly loaded exported graph;
* "packed": unrolled, with the padding left out of every dense layer;
* "packed_loop": both, for a server.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Self, get_args

import keras
import tensorflow as tf

from albert_tf import features
from albert_tf.config import AlbertConfig
from albert_tf.initial_weights import initial_weight
from albert_tf.modeling import layer_stack
from albert_tf.modeling.blocks import make_blocks, shared_sublayers
from albert_tf.modeling.embeddings import AlbertEmbeddings
from albert_tf.modeling.layers import Pooler, TransformerEncoderBlock, weight_initializer
from albert_tf.modeling.packing import PackedLayout

Form = Literal["unrolled", "loop", "packed", "packed_loop"]
ENCODER_INPUTS = (features.INPUT_IDS, features.INPUT_MASK, features.SEGMENT_IDS)


@keras.saving.register_keras_serializable("albert_tf")
class AlbertEncoder(keras.Model):
    """Text encoder as a Keras functional model.

    Inputs, a dict of int32 [B, S]: `input_ids`, `input_mask` (1 at tokens, 0 at padding), `segment_ids`.

    Outputs, a dict: `sequence_output` float [B, S, H] and, if it has a pooler, `pooled_output` float [B, H]; with
    `return_all_encoder_outputs` also `embedding_output` float [B, S, E] and `encoder_outputs`, a list of L times
    float [B, S, H]. Where only words are factorized, `embedding_output` is float [B, S, H].

    Args:
      config: shape of the model.
      pooler: whether there is a pooler.
      return_all_encoder_outputs: whether to return the embeddings and each layer's output too.
      seed: whole number that the initial weights are drawn from; None draws other weights every time.
      dtype: Keras dtype policy or its name; None takes Keras' global one.
    """

    def __init__(
        self,
        config: AlbertConfig,
        *,
        pooler: bool = True,
        return_all_encoder_outputs: bool = False,
        seed: int | None = None,
        dtype: Any = None,
        name: str = "albert_encoder",
    ) -> None:
        policy = keras.dtype_policies.get(dtype or keras.config.dtype_policy())
        embeddings = AlbertEmbeddings(
            vocab_size=config.vocab_size,
            embedding_size=config.embedding_size,
            max_position_embeddings=config.max_position_embeddings,
            type_vocab_size=config.type_vocab_size,
            projected_size=config.hidden_size if config.embedding_factorization == "words" else None,
            dropout_prob=config.hidden_dropout_prob,
            initializer_range=config.initializer_range,
            dtype=policy,
            name="embeddings",
        )
        projection = None
        if config.embedding_projection:
            projection = keras.layers.Dense(
                config.hidden_size,
                kernel_initializer=weight_initializer(config.initializer_range),
                dtype=policy,
                name="embedding_projection",
            )
        blocks = make_blocks(config, policy)
        pool = Pooler(initializer_range=config.initializer_range, dtype=policy, name="pooler") if pooler else None

        inputs = {key: keras.Input((None,), dtype="int32", name=key) for key in ENCODER_INPUTS}
        embedded = embeddings(inputs[features.INPUT_IDS], inputs[features.SEGMENT_IDS])
        hidden = embedded if projection is None else projection(embedded)
        layer_outputs = []
        for layer in blocks:
            for block in layer:
                hidden = block(hidden, inputs[features.INPUT_MASK])
            layer_outputs.append(hidden)
        pooled = None if pool is None else pool(hidden)
        outputs = _outputs(embedded, layer_outputs, pooled, return_all_encoder_outputs)
        super().__init__(inputs=inputs, outputs=outputs, name=name)

        self.config = config
        self.has_pooler = pooler
        self.return_all_encoder_outputs = return_all_encoder_outputs
        self.policy = policy
        # Found again by name: Keras would track a layer held in a plain attribute a second time.
        self._blocks = [[block.name for block in layer] for layer in blocks]
        if seed is not None:
            initialize_weights(self.named_weights(), seed, config.initializer_range)

    @property
    def embeddings(self) -> AlbertEmbeddings:
        """The embedding layer; `embeddings.word_embeddings` is the table [V, E]."""
        return self.get_layer("embeddings")

    @property
    def embedding_projection(self) -> keras.layers.Dense | None:
        """The E x H projection, or None where E = H and the configuration has none."""
        return self.get_layer("embedding_projection") if self.config.embedding_projection else None

    @property
    def pooler(self) -> Pooler | None:
        """The pooler, or None where the encoder was made without one."""
        return self.get_layer("pooler") if self.has_pooler else None

    @property
    def layer_blocks(self) -> list[list[TransformerEncoderBlock]]:
        """Blocks that each of the L layers applies one after the other; shared ones appear again."""
        return [[self.get_layer(name) for name in layer] for layer in self._blocks]

    def encode(
        self,
        inputs: Mapping[str, tf.Tensor],
        *,
        form: Form = "unrolled",
        training: bool = False,
        rematerialize: bool = False,
        all_outputs: bool | None = None,
        pooled_only: bool = False,
    ) -> dict[str, Any]:
        """Outputs of the model on real tensors, as the functional call gives them.

        In packed form `sequence_output` is 0 at padded positions, and `pooled_output` is 0 for a row whose first
        position is padding, such as an empty row.

        Args:
          inputs: the encoder's inputs, int32 [B, S]; further entries are left alone.
          form: "unrolled", "loop", "packed" or "packed_loop".
          training: whether dropout acts.
          rematerialize: in training, whether to keep only each layer's input for the way back and compute the rest
            again; see `layer_stack`.
          all_outputs: whether to return the embeddings and each layer's output too; None as the encoder was made.
          pooled_only: whether `pooled_output` is all that is wanted. The last layer then computes no more than that
            needs: keys and values of all positions, and the rest of the first. Not so rematerialised layers, and the
            form "loop", whose graph holds a layer once.

        Raises:
          ValueError: for inputs longer than the model's positions, for an unknown form, for a loop unless all
            parameters are shared, for a loop in training, for rematerialised layers whose outputs are all to be
            returned, and for `pooled_only` without a pooler or with `all_outputs`.
        """
        all_outputs = self.return_all_encoder_outputs if all_outputs is None else all_outputs
        if form not in get_args(Form):
            raise ValueError(f"form must be one of {', '.join(get_args(Form))}, got {form!r}")
        if pooled_only and (all_outputs or not self.has_pooler):
            raise ValueError("pooled_only needs a pooler, and gives no other outputs")
        first_only = pooled_only and form != "loop" and not (training and rematerialize)
        ids, mask, segments = (tf.cast(inputs[key], tf.int32) for key in ENCODER_INPUTS)
        self.embeddings.check_length(ids)
        layout = None
        if form in ("packed", "packed_loop"):
            layout = PackedLayout(mask, custom_gradients=form == "packed")
        if layout is None:
            # Looked up by number in a loop, as words are: a look-up is what a converter to TFLite stores in 8 bits.
            positions = tf.range(tf.shape(ids)[1]) if form == "loop" else None
            embedded = self.embeddings(ids, segments, positions=positions, training=training)
        else:
            embedded = self.embeddings(
                layout.pack_ids(ids), layout.pack_ids(segments), positions=layout.positions(), training=training
            )
        hidden = embedded if self.embedding_projection is None else self.embedding_projection(embedded)
        if form in ("loop", "packed_loop"):
            layer_outputs = self._run_loop(hidden, mask, layout, form, training, all_outputs, first_only)
        elif training and rematerialize:
            if all_outputs:
                raise ValueError("rematerialize keeps the last layer only: ask for no other outputs")
            layer_outputs = [layer_stack.run_layers_twice(self.layer_blocks, hidden, mask, layout)]
        else:
            layer_outputs = layer_stack.run_layers(
                self.layer_blocks, hidden, mask, layout, training=training, first_only=first_only
            )
            if not all_outputs:
                layer_outputs = layer_outputs[-1:]  # unpacking the others would cost
        if layout is not None and not first_only:
            embedded = layout.unpack(embedded)
            layer_outputs = [layout.unpack(x) for x in layer_outputs]
        pooled = None if self.pooler is None else self.pooler(layer_outputs[-1])
        if layout is not None and pooled is not None:
            pooled *= tf.cast(mask[:, :1] > 0, pooled.dtype)
        if pooled_only:
            return {"pooled_output": pooled}
        return _outputs(embedded, layer_outputs, pooled, all_outputs)

    def _run_loop(
        self,
        hidden: tf.Tensor,
        mask: tf.Tensor,
        layout: PackedLayout | None,
        form: Form,
        training: bool,
        all_outputs: bool,
        first_only: bool,
    ) -> list[tf.Tensor]:
        """Output of the last layer, by one `tf.while_loop` per group; inner blocks are unrolled in its body."""
        if self.config.parameter_sharing != "all":
            raise ValueError(
                f'form "{form}" needs parameter_sharing "all", got {self.config.parameter_sharing!r}: '
                'use "unrolled" or "packed"'
            )
        if training:
            raise ValueError(
                f'form "{form}" is for inference: its body would draw the same dropout mask in every layer'
            )
        if all_outputs:
            raise ValueError(f'form "{form}" keeps the last layer only: make the encoder without all encoder outputs')
        groups = [self.config.group_of_layer(layer) for layer in range(self.config.num_hidden_layers)]
        for group in sorted(set(groups)):
            blocks = self.layer_blocks[groups.index(group)]

            def body(layer: tf.Tensor, state: tf.Tensor, blocks: list = blocks) -> tuple[tf.Tensor, tf.Tensor]:
                return layer + 1, layer_stack.run_blocks(blocks, state, mask, layout)

            count = groups.count(group) - (first_only and group == groups[-1])
            _, hidden = tf.while_loop(lambda layer, _, count=count: layer < count, body, [tf.constant(0), hidden])
        if first_only:
            hidden = layer_stack.run_blocks(self.layer_blocks[-1], hidden, mask, layout, first_only=True)
        return [hidden]

    def named_weights(self, prefix: str = "encoder") -> dict[str, keras.Variable]:
        """Every weight once, by the canonical name that model directories and converters use."""
        named = self.embeddings.named_weights(f"{prefix}/embeddings")
        if self.embedding_projection is not None:
            named |= {f"{prefix}/embedding_projection/{v.name}": v for v in self.embedding_projection.weights}
        shared = shared_sublayers(self.config)
        for layer, blocks in enumerate(self.layer_blocks):
            for inner, block in enumerate(blocks):
                for part in ("attention", "feed_forward"):
                    place = f"group_{self.config.group_of_layer(layer)}" if part in shared else f"layer_{layer}"
                    named |= getattr(block, part).named_weights(f"{prefix}/{place}/inner_{inner}/{part}")
        if self.pooler is not None:
            named |= {f"{prefix}/pooler/{v.name}": v for v in self.pooler.dense.weights}
        return named

    def get_config(self) -> dict[str, Any]:
        return {
            "config": self.config.to_dict(),
            "pooler": self.has_pooler,
            "return_all_encoder_outputs": self.return_all_encoder_outputs,
            "dtype": keras.saving.serialize_keras_object(self.policy),
            "name": self.name,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Self:
        return cls(AlbertConfig.from_dict(config["config"]), **{k: v for k, v in config.items() if k != "config"})


def initialize_weights(named_weights: Mapping[str, keras.Variable], seed: int, initializer_range: float) -> None:
    """Draws every weight from (seed, its name); see `initial_weight`."""
    for name, variable in named_weights.items():
        shape = tuple(variable.shape)
        variable.assign(initial_weight(name, shape, seed=seed, initializer_range=initializer_range))


def _outputs(embedded: Any, layer_outputs: list, pooled: Any, return_all: bool) -> dict[str, Any]:
    outputs = {"sequence_output": layer_outputs[-1]}
    if pooled is not None:
        outputs["pooled_output"] = pooled
    if return_all:
        outputs |= {"embedding_output": embedded, "encoder_outputs": layer_outputs}
    return outputs
