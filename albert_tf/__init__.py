"""ALBERT in TensorFlow: pretraining, fine-tuning, and export."""

from __future__ import annotations

__version__ = "0.1.0"
