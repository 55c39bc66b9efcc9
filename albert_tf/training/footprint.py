"""What a run holds and moves: parameters, optimizer, gradients, beside the same model without shared layers."""

from __future__ import annotations

import dataclasses

from albert_tf.config import AlbertConfig
from albert_tf.modeling.parameter_counts import count_parameters

COLUMNS = ("", "this model", "layers not shared", "times")
_MOMENTS = 2


def rows(config: AlbertConfig, *, bytes_per_weight: int, num_replicas: int, has_average: bool) -> list[tuple[str, ...]]:
    """Table of the sizes with `COLUMNS`.

    Args:
      config: shape of the model.
      bytes_per_weight: 4, or 8 in float64; whatever a step computes in.
      num_replicas: devices; each all-reduces the gradients of all weights.
      has_average: whether a moving average of the weights is kept.
    """
    unshared = dataclasses.replace(config, parameter_sharing="none")
    counts = [sum(count_parameters(shape).values()) for shape in (config, unshared)]
    times = f"{counts[1] / counts[0]:.1f}"

    def size(title: str, copies: int) -> tuple[str, ...]:
        return title, *(_megabytes(count * copies * bytes_per_weight) for count in counts), times

    reduced = f"summed over {num_replicas} devices in each step"
    if num_replicas == 1:
        reduced = "to be summed over devices in each step, were there several"
    return [
        ("parameters", *(f"{count:,}" for count in counts), times),
        size("weights", 1),
        size("optimizer: two moments of each weight", _MOMENTS),
        *([size("moving average of the weights", 1)] if has_average else []),
        size(reduced, 1),
    ]


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB" if size >= 100_000 else f"{size:,} bytes"
