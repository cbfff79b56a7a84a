"""A setting chosen privately: each is tried on rows of its own, and the one with few mistakes on further rows is drawn.

Chaudhuri, Monteleoni and Sarwate, JMLR 2011, algorithm 3. The parts are disjoint, so one row is in one fit or in the
judgement, and the whole costs no more than one of them. The draw is the exponential mechanism (McSherry and Talwar
2007): replacing a row of the judging part changes each number of mistakes by 1 at most.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from edgeveil.trainer.private.estimators.fitting import Unbounded
from edgeveil.trainer.private.noise import Noise


def candidates(choose: Any) -> list[float]:
    """The settings to try. Raises ``Unbounded`` unless they are two or more different numbers above 0."""
    tried = [float(one) for one in choose] if isinstance(choose, Sequence | np.ndarray) else []
    if len(set(tried)) < 2 or len(set(tried)) < len(tried) or not all(0 < one < math.inf for one in tried):
        raise Unbounded(f"Expected two or more different numbers above 0 to choose from; got {choose!r}.")
    return tried


def parts(rows: int, tried: int, noise: Noise) -> list[np.ndarray]:
    """The numbers of all rows, drawn into one part for each of the ``tried`` settings and one more that judges."""
    if rows <= tried:
        raise Unbounded(f"Expected more rows than the {tried} settings to choose from; got {rows}.")
    return np.array_split(np.argsort(noise.uniform((rows,))), tried + 1)


def drawn(mistakes: Sequence[int], epsilon: float, noise: Noise) -> int:
    """The place of one of the numbers of ``mistakes``, with a chance proportional to exp(-epsilon / 2 mistakes)."""
    exponent = -epsilon / 2 * (np.asarray(mistakes, np.float64) - min(mistakes))
    upto = np.cumsum(np.exp(exponent))
    return int(np.searchsorted(upto, noise.uniform((1,))[0] * upto[-1]))
