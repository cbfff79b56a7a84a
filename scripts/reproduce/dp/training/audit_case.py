"""One mechanism as the black-box audit takes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

Outputs = Mapping[str, np.ndarray]  # neighbour -> what each run gave, (runs, values)


class Case(NamedTuple):
    """One mechanism, and what it claims."""

    name: str
    claimed: float
    run: Callable[[int], Outputs]
    delta: float = 0.0
    gaussian: bool = False
    boosted: bool = False
    times: float = 1  # the runs: what is slow takes less, what is hard to see more
