"""Calling the layers, and in training: sums of shared weights' gradients, and layers that are computed twice.

A block that L layers share gets L gradients for each of its weights. Left to itself TensorFlow keeps all of them until
the last one is there, 28 MB a layer at base size. Here each is added to the sum as soon as it is known, last layer
first, as in back-propagation through time.

Rematerialisation (Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost", arXiv 1604.06174) keeps no more of
a layer than its input and computes the rest again on the way back: about a third more work, and per layer one tensor
of memory instead of some thirty. `tf.recompute_grad` would draw other dropout masks the second time, silently; here
the numbers of the masks are set aside before, so that both times draw the same. Both ways of calling add up in the same
order and give the same bits where both run the same kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import keras
import tensorflow as tf

from albert_tf.modeling.dropout import dropout_seed, reserve_seeds
from albert_tf.modeling.layers import TransformerEncoderBlock
from albert_tf.modeling.packing import PackedLayout

Blocks = Sequence[TransformerEncoderBlock]


def run_layers(
    layers: Sequence[Blocks],
    hidden: tf.Tensor,
    mask: tf.Tensor,
    layout: PackedLayout | None = None,
    *,
    training: bool = False,
    first_only: bool = False,
) -> list[tf.Tensor]:
    """Output of each layer, float of the shape of `hidden`.

    Args:
      layers: blocks of each layer, applied one after the other; shared ones appear again.
      hidden: float [B, S, H], or [T, H] in packed form.
      mask: int [B, S].
      layout: of the batch, in packed form.
      training: whether dropout acts and gradients will be taken.
      first_only: whether the last layer's output is wanted of each sequence's first position alone, float [B, 1, H].
    """
    latest: dict[int, tf.Tensor] = {}  # by variable: its value, as many identities away from it as layers have used it
    outputs = []
    for number, blocks in enumerate(layers):
        of_first = first_only and number == len(layers) - 1
        if training:
            variables = _weights(blocks)
            values = [_next_use(variable, latest) for variable in variables]
            hidden = _apply(blocks, variables, values, hidden, mask, layout, first_only=of_first)
        else:
            hidden = run_blocks(blocks, hidden, mask, layout, first_only=of_first)
        outputs.append(hidden)
    return outputs


def _next_use(variable: keras.Variable, latest: dict[int, tf.Tensor]) -> tf.Tensor:
    """Value of `variable` for the next layer that uses it; `latest` is moved on."""
    before = latest.get(id(variable))
    value = tf.convert_to_tensor(variable.value) if before is None else tf.identity(before)
    latest[id(variable)] = value
    return tf.identity(value)  # whatever uses a layer makes of it are summed before they join the chain


def run_blocks(
    blocks: Blocks,
    hidden: tf.Tensor,
    mask: tf.Tensor,
    layout: PackedLayout | None = None,
    *,
    training: bool = False,
    first_only: bool = False,
) -> tf.Tensor:
    """Output of one layer, arguments as for `run_layers`: its blocks one after the other."""
    for number, block in enumerate(blocks):
        is_last = number == len(blocks) - 1
        hidden = block(hidden, mask, layout=layout, training=training, first_only=first_only and is_last)
    return hidden


def run_layers_twice(
    layers: Sequence[Blocks], hidden: tf.Tensor, mask: tf.Tensor, layout: PackedLayout | None = None
) -> tf.Tensor:
    """Output of the last layer, as `run_layers` gives it in training, keeping only each layer's input."""
    for blocks, count in _repetitions(layers):
        hidden = _run_twice(blocks, count, hidden, mask, layout)
    return hidden


def _repetitions(layers: Sequence[Blocks]) -> Iterator[tuple[Blocks, int]]:
    """Neighbouring layers of the same blocks, as (blocks, number of layers)."""
    first = 0
    for end in range(1, len(layers) + 1):
        if end == len(layers) or list(map(id, layers[end])) != list(map(id, layers[first])):
            yield layers[first], end - first
            first = end


def _run_twice(
    blocks: Blocks, count: int, hidden: tf.Tensor, mask: tf.Tensor, layout: PackedLayout | None
) -> tf.Tensor:
    """Output after `count` layers of `blocks`: a loop forward, and with the gradient a loop backward."""
    variables = _weights(blocks)
    draws = sum(block.num_dropouts for block in blocks)
    seeds = reserve_seeds(count * draws)
    once = {"parallel_iterations": 1}  # else a layer could be computed again long before its turn

    def layer(index: tf.Tensor, values: Sequence[tf.Tensor], hidden: tf.Tensor) -> tf.Tensor:
        with dropout_seed(seeds + tf.stack([0, index * draws])):
            return _apply(blocks, variables, values, hidden, mask, layout)

    @tf.custom_gradient
    def layers(hidden: tf.Tensor, *values: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tuple]]:
        kept = _KeptInputs(hidden, count, in_place=layout is not None)

        def forward(index: tf.Tensor, hidden: tf.Tensor, inputs: Any) -> tuple:
            return index + 1, layer(index, values, hidden), kept.write(inputs, index, hidden)

        _, output, inputs = tf.while_loop(
            lambda index, *_: index < count, forward, [tf.constant(0), hidden, kept.empty], **once
        )

        def backward(index: tf.Tensor, gradient: tf.Tensor, *sums: tf.Tensor) -> tuple:
            # 0, but known only with the gradient: no compiler may take this for what it has computed before.
            nothing = tf.minimum(tf.abs(tf.reshape(gradient, [-1])[:1]), 0)
            hidden = kept.read(inputs, index) + nothing
            with tf.GradientTape(watch_accessed_variables=False) as tape:
                tape.watch([hidden, *values])
                output = layer(index, values, hidden)
            into, *own = tape.gradient(output, [hidden, *values], output_gradients=gradient)
            return index - 1, into, *(total + found for total, found in zip(sums, own, strict=True))

        def gradients(gradient: tf.Tensor) -> tuple:
            start = [tf.constant(count - 1), gradient, *map(tf.zeros_like, values)]
            _, into, *sums = tf.while_loop(lambda index, *_: index >= 0, backward, start, **once)
            return into, *sums

        return output, gradients

    return layers(hidden, *(tf.convert_to_tensor(variable.value) for variable in variables))


class _KeptInputs:
    """The inputs of all layers, for a loop to write and another one to read.

    On a CPU they are one block of memory, filled in place: a tensor for each would leave gaps in the heap nearly as
    large as themselves. Compilers and GPUs, which lay memory out themselves and do not all know that operation, get a
    TensorArray.

    Args:
      hidden: the first input, float [...].
      count: number of layers.
      in_place: False where the graph may be compiled.
    """

    def __init__(self, hidden: tf.Tensor, count: int, *, in_place: bool) -> None:
        self._in_place = in_place and not tf.config.list_physical_devices("GPU")
        if self._in_place:  # made of data, since what is written to must not be a constant
            self.empty: Any = tf.tile(hidden[tf.newaxis], [count, *[1] * hidden.shape.rank])
        else:
            self.empty = tf.TensorArray(hidden.dtype, count, element_shape=hidden.shape, clear_after_read=False)

    def write(self, inputs: Any, index: tf.Tensor, hidden: tf.Tensor) -> Any:
        """`inputs` with that of layer `index`, an int scalar."""
        if self._in_place:
            return tf.raw_ops.InplaceUpdate(x=inputs, i=[index], v=hidden[tf.newaxis])
        return inputs.write(index, hidden)

    def read(self, inputs: Any, index: tf.Tensor) -> tf.Tensor:
        """Input of layer `index`."""
        return inputs[index] if self._in_place else inputs.read(index)


def _weights(blocks: Blocks) -> list[keras.Variable]:
    """Each weight of `blocks` once."""
    return list({id(weight): weight for block in blocks for weight in block.weights}.values())


def _apply(
    blocks: Blocks,
    variables: Sequence[keras.Variable],
    values: Sequence[tf.Tensor],
    hidden: Any,
    mask: tf.Tensor,
    layout: PackedLayout | None,
    *,
    first_only: bool = False,
) -> tf.Tensor:
    """`blocks` one after the other, with `values` in the place of their weights."""
    with keras.StatelessScope(state_mapping=list(zip(variables, values, strict=True))):
        return run_blocks(blocks, hidden, mask, layout, training=True, first_only=first_only)
