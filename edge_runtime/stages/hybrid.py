"""The hybrid mechanism: k of d values, each by the piecewise mechanism or by a coin for its sign.

N. Wang and others, "Collecting and Analyzing Multidimensional Data with Local Differential Privacy", ICDE 2019,
algorithms 2 to 4. The piecewise mechanism is on a grid of integers: W places of a window around the value are equally
likely, and so are the R beyond it, whatever the value: its two probabilities are those of one coin over W and over R.
The choice of places and of the mechanism leaves with the report, and does not hang on the values.
"""

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any, Callable, Mapping, Sequence, Tuple

from edgeveil.edge_runtime.late_imports import np
from edgeveil.edge_runtime.stages import mechanism as mech
from edgeveil.edge_runtime.stages.base import Entry
from edgeveil.edge_runtime.stages.draw import COIN
from edgeveil.edge_runtime.util.validate import refuse

POSITIONS = 2**20  # of the piecewise mechanism, window and the rest together
PER_COORDINATE = 2.5  # of alpha: one coordinate is reported for each (section IV)
FEWEST = 0.61  # alpha of a coordinate from which the piecewise mechanism is mixed in
GRID = (0.0, 0.25, 0.5, 1.0)  # of inputs whose exact law is computed, along each axis: the window moves


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


def moment(alpha: float, x2: float) -> float:
    """E t^2 of the report of one coordinate whose square is ``x2`` (Wang et al., equations 4, 6 and 7)."""
    duchi = 1 / math.tanh(alpha / 2) ** 2
    if alpha <= FEWEST:
        return duchi
    half = math.exp(alpha / 2)
    piecewise = x2 * half / (half - 1) + (half + 3) / (3 * (half - 1) ** 2)
    return (1 - 1 / half) * piecewise + duchi / half


class Hybrid(mech.Mechanism):
    """So many of d places, each in the first half a position, centred and doubled, or in the second half -1 or 1."""

    name = "mechanism hybrid"
    mechanism = "hybrid"

    def report(self, stage: Entry, at: str, size: Any, noise: Sequence[Entry]) -> mech.Report:
        """As ``Mechanism``."""
        d = mech.places(size, at)
        k = noise[0]["shape"] if noise else []
        wanted = [("subset", k), ("words", k), ("coin", k)]
        if len(noise) > len(wanted):
            wanted += [("coin", k), ("coin", k), ("integer", k), ("integer", k)]
        mech.expect(noise, at, *wanted)
        if noise[0]["of"] != d:
            refuse("wrong-value", at + ".noise", "expected places of {} values, got {}".format(d, noise[0]["of"]))
        return [2 * d], "int32"

    def function(self, stage: Any, context: Any) -> Callable[..., np.ndarray]:
        """As ``Mechanism``."""
        if len(stage.noise) == 3:
            return report
        window, rest = (context.drawn[name].bound for name in stage.noise[5:])
        return lambda u, chosen, rounding, coin, *further: report(u, chosen, rounding, coin, further, (window, rest))

    def epsilon(self, stage: Entry, noise: Sequence[Entry], table: Any) -> Decimal:
        """As ``Mechanism``: each of k values by the worse of its two mechanisms, one coin, or a place inside a window
        or beyond it."""
        each = mech.log(mech.odds_of(noise[2]))
        if len(noise) > 3:
            inside, within, beyond = noise[4:]
            each = max(each, mech.log(mech.odds_of(inside) * Fraction(beyond["bound"], within["bound"])))
        return mech.times(each, noise[0]["shape"][0])

    def design(self, input_: str, size: int, alpha: float, **asked: Any) -> mech.Design:
        """As ``Mechanism``; ``positions`` of the piecewise mechanism: few make every value of its draws enumerable."""
        d, positions = size, asked.get("positions", POSITIONS)
        k = max(1, min(d, math.floor(alpha / PER_COORDINATE)))
        one, of_one = alpha / k, mech.odds(alpha, k)
        truth = mech.likely(of_one)
        noise = [
            mech.draw("chosen", "subset", [k], of=d),
            mech.draw("rounding", "words", [k]),
            mech.draw("truth", "coin", [k], numerator=truth),
        ]
        inner = 0.0
        if one > FEWEST:
            half = math.exp(one / 2)
            window = max(1, math.ceil(positions / (1 + half)))
            rest = max(1, math.floor(window * half))
            inside = mech.likely(mech.share(of_one * window, Decimal(rest)))
            noise += [
                mech.draw("piecewise", "coin", [k], numerator=int(COIN * (1 - 1 / half))),
                mech.draw("inside", "coin", [k], numerator=inside),
                mech.draw("window", "integer", [k], bound=window),
                mech.draw("beyond", "integer", [k], bound=rest),
            ]
            inner = float(1 / (Fraction(inside, COIN) * (window + rest) - window))
        slope = d / k * np.vstack([inner * np.eye(d), np.eye(d) / mech.excess(truth)])
        return mech.Design("hybrid", mech.stages_of("hybrid", input_, noise), (2 * d,), "int32", slope, np.zeros(d))

    def variance(self, size: int, alpha: float) -> float:
        """As ``Mechanism``."""
        k = max(1, min(size, math.floor(alpha / PER_COORDINATE)))
        return max(size / k * moment(alpha / k, x2) - x2 for x2 in (0.0, 1.0))

    def worth(self, stage: Entry, made: Mapping[str, Entry], table: Any) -> mech.Worth:
        """As ``Mechanism``."""
        noise = [made[name] for name in stage["noise"]]
        chosen = noise[0]["shape"][0]
        most = max(0, sum(one["bound"] for one in noise[5:]) - 1)

        def fits(reports: np.ndarray) -> np.ndarray:
            place, sign = np.split(reports.astype(np.int64), 2, axis=1)
            each = ((np.abs(place) <= most) & ((place - most) % 2 == 0)) | (place == 0)
            each &= (np.abs(sign) <= 1) & ((place == 0) | (sign == 0))
            return each.all(axis=1) & (((place != 0) | (sign != 0)).sum(axis=1) <= chosen)

        of_place, of_sign = np.split(mech.weights(table), 2)
        return mech.Worth(table, fits, 2 * np.maximum(of_place * most, of_sign).sum(axis=0))

    def inputs(self, stage: Entry, noise: Sequence[Entry]) -> Any:
        """As ``Mechanism``."""
        return mech.grid(GRID, int(noise[0]["of"]))
