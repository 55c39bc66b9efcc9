"""The blocks of an encoder, made once for each distinct set of weights."""

from __future__ import annotations

from typing import Any

from albert_tf.config import AlbertConfig
from albert_tf.modeling.layers import TransformerEncoderBlock


def shared_sublayers(config: AlbertConfig) -> tuple[str, ...]:
    """Sublayers whose weights the layers of one group share."""
    both = ("attention", "feed_forward")
    return {"all": both, "attention": both[:1], "ffn": both[1:], "none": ()}[config.parameter_sharing]


def make_blocks(config: AlbertConfig, policy: Any) -> list[list[TransformerEncoderBlock]]:
    """Blocks of each layer, made once for each distinct set of sublayers."""
    shared = shared_sublayers(config)
    first_of_group: dict[tuple[int, int], TransformerEncoderBlock] = {}
    layers = []
    for layer in range(config.num_hidden_layers):
        group = config.group_of_layer(layer)
        blocks = []
        for inner in range(config.inner_group_num):
            first = first_of_group.get((group, inner))
            if first is None or len(shared) < 2:
                place = f"group_{group}" if len(shared) == 2 else f"layer_{layer}"
                block = TransformerEncoderBlock(
                    num_attention_heads=config.num_attention_heads,
                    intermediate_size=config.intermediate_size,
                    hidden_act=config.hidden_act,
                    hidden_dropout_prob=config.hidden_dropout_prob,
                    attention_probs_dropout_prob=config.attention_probs_dropout_prob,
                    initializer_range=config.initializer_range,
                    attention=first.attention if first is not None and "attention" in shared else None,
                    feed_forward=first.feed_forward if first is not None and "feed_forward" in shared else None,
                    dtype=policy,
                    name=f"{place}_inner_{inner}",
                )
                first_of_group.setdefault((group, inner), block)
            else:
                block = first
            blocks.append(block)
        layers.append(blocks)
    return layers
