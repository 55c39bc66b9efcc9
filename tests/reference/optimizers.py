"""LAMB, AdamW and the learning rate in plain NumPy, float64."""

from __future__ import annotations

import numpy as np


def learning_rate(number: int, *, peak: float, steps: int, warmup: int) -> float:
    """Rate of step `number`, counted from 1."""
    if number < warmup:
        return peak * number / warmup
    return peak * (1 - min(number, steps) / steps)


def run(
    weights: dict[str, np.ndarray],
    gradients: list[dict[str, np.ndarray]],
    rates: list[float],
    *,
    excluded: set[str],
    adapt: bool,
    decay: float = 0.01,
    clip_norm: float | None = None,
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Weights and both moments after one step per entry of `gradients`."""
    weights = {name: value.astype(np.float64) for name, value in weights.items()}
    m = {name: np.zeros_like(value) for name, value in weights.items()}
    v = {name: np.zeros_like(value) for name, value in weights.items()}
    for step_gradients, rate in zip(gradients, rates, strict=True):
        norm = np.sqrt(sum(np.sum(g.astype(np.float64) ** 2) for g in step_gradients.values()))
        scale = 1.0 if clip_norm is None or norm <= clip_norm else clip_norm / norm
        for name, gradient in step_gradients.items():
            g = gradient.astype(np.float64) * scale
            m[name] = 0.9 * m[name] + 0.1 * g
            v[name] = 0.999 * v[name] + 0.001 * g**2
            update = m[name] / (np.sqrt(v[name]) + 1e-6)
            ratio: np.floating = np.float64(1.0)
            if name not in excluded:
                update = update + decay * weights[name]
                weight_norm, update_norm = np.linalg.norm(weights[name]), np.linalg.norm(update)
                if adapt and weight_norm > 0 and update_norm > 0:
                    ratio = weight_norm / update_norm
            weights[name] = weights[name] - rate * ratio * update
    return weights, m, v
