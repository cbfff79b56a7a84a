"""The hybrid mechanism: k of d values, each by the piecewise mechanism or by a coin for its sign.

N. Wang and others, "Collecting and Analyzing Multidimensional Data with Local Differential Privacy", ICDE 2019,
algorithms 2 to 4. The piecewise mechanism is on a grid of integers: W places of a window around the value are equally
likely, and so are the R beyond it, whatever the value: its two probabilities are those of one coin over W and over R.
The choice of places and of the mechanism leaves with the report, and does not hang on the values.
"""

from typing import Tuple

import numpy as np


def report(
    u: np.ndarray,
    chosen: np.ndarray,
    rounding: np.ndarray,
    coin: np.ndarray,
    piecewise: Tuple[np.ndarray, ...] = (),
    sizes: Tuple[int, int] = (0, 0),
) -> np.ndarray:
    """u float32 (n, d) of [0, 1] in, int32 (n, 2d) out: piecewise places, twice as far from the middle, then signs.

    ``chosen`` int64 (n, k), ``rounding`` uint32 (n, k), ``coin`` bool (n, k). ``piecewise`` has which of them are
    (bool), which are inside (bool), their places inside and beyond (int64), all (n, k); ``sizes`` W and R.
    """
    n, d = u.shape
    rows = np.arange(n)[:, None]
    value = u[rows, chosen].astype(np.float64)
    out = np.zeros((n, 2 * d), np.int32)
    signs = np.where((rounding < np.rint(value * 2.0**32)) == coin, 1, -1)
    if piecewise:
        which, inside, within, beyond = piecewise
        window, rest = sizes
        # The window starts at 0 .. rest, rounded by the word; u has 24 bits, so that this product is exact.
        place = value * rest
        start = np.floor(place)
        start = (start + (rounding < np.rint((place - start) * 2.0**32))).astype(np.int64)
        place = np.where(inside, start + within, np.where(beyond < start, beyond, beyond + window))
        out[rows, chosen] = np.where(which, 2 * place - (window + rest - 1), 0)
        signs = np.where(which, 0, signs)
    out[rows, chosen + d] = signs
    return out
