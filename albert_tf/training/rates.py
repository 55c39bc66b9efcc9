"""Learning rates of pretraining that are known to work."""

from __future__ import annotations

import math

# ALBERT's (Lan et al. 2020, section 4.1): LAMB, for models of base size and more.
PAPER_RATE, PAPER_BATCH = 0.00176, 4096
PAPER_HIDDEN_SIZE = 768


def lamb_rate(batch_size: int) -> float:
    """The paper's rate for LAMB at another batch size.

    It goes with the square root of the batch (You et al. 2020, arXiv 1904.00962, section 4.3), so that the noise of a
    step stays the same.
    """
    return PAPER_RATE * math.sqrt(batch_size / PAPER_BATCH)
