"""k-ary randomised response as a channel of exact integers (Kairouz, Bonawitz and Ramage, ICML 2016).

A category stays with probability e^alpha / (e^alpha + k - 1), and each other one comes in its place with probability
1 / (e^alpha + k - 1). In the shipped integers the odds of no two categories differ by more than e^alpha.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from edgeveil.edge_runtime.errors import BadInput

TOTAL = 2**32  # of a row: the most that a channel's table may have
MOST = 4096  # categories; their table has 64 MiB


def channel_of(categories: int, alpha: float) -> np.ndarray:
    """The table uint32 (k, k) of a channel, rows that sum to 2^32.

    What is off the diagonal is rounded up, so that the ratio is never above e^alpha. Raises ``BadInput`` for fewer than
    2 or more than 4096 categories.
    """
    if not 2 <= categories <= MOST:
        raise BadInput(
            f"Randomised response takes 2 to {MOST} categories, and here {categories} can be sent. Report something "
            "else, or merge categories."
        )
    # exp is off by less than one place of 53: a touch more than asked for off the diagonal costs no privacy.
    odds = Fraction(math.nextafter(math.exp(alpha), 0.0))
    off = math.ceil(TOTAL / (odds + categories - 1))
    table = np.full((categories, categories), off, np.uint32)
    np.fill_diagonal(table, TOTAL - (categories - 1) * off)
    return table
