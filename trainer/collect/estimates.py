"""What unbiased values say: a mean, a histogram, quantiles, each with 95 % intervals and how far a liar can move it.

Intervals are normal over units, from the empirical variance: the devices' noise is in it, and so is how the units
differ. Those of shares and means are unbiased, also where they leave what is possible; only the projected histogram
and what is made of it are not.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.collect import simplex
from edgeveil.trainer.collect.decoders import Decoder
from edgeveil.trainer.collect.sums import ByReport, ByUnit, Z

ESTIMATES = ("mean", "histogram", "median", "quantiles")
_LEVELS = {"median": (0.5,), "quantiles": (0.05, 0.25, 0.5, 0.75, 0.95)}
_VALUES = 1 << 22  # held at a time


class Estimate:
    """Takes reports that the mechanism can make. ``kind``: one of ``ESTIMATES``; ``dependent``: count by unit.

    Raises ``BadInput`` where such reports say nothing of that kind.
    """

    def __init__(
        self, kind: str, decoder: Decoder, *, categories: bool, dependent: bool, names: tuple[str, ...] = ()
    ) -> None:
        if categories == (kind == "mean"):
            said = (
                "of a category: ask for histogram, median or quantiles" if categories else "of a vector: ask for mean"
            )
            raise BadInput(
                f"An estimate that fits the reports was expected, and {kind} was asked for; they are {said}."
            )
        self._kind, self._decoder, self._names = kind, decoder, names
        self._cumulated = kind in _LEVELS  # a quantile's interval is that of the shares up to a category
        self._sums = (ByUnit if dependent else ByReport)(decoder.width)

    def add(self, reports: np.ndarray, units: np.ndarray) -> None:
        """Count n reports of ``units``, bytes (n,)."""
        rows = max(1, _VALUES // self._decoder.width)
        for first in range(0, len(reports), rows):
            values = self._decoder.values(reports[first : first + rows])
            self._sums.add(values.cumsum(axis=1) if self._cumulated else values, units[first : first + rows])

    def document(self, largest_sender: int) -> dict[str, Any]:
        """The result. ``largest_sender``: the most reports of one sender that were counted."""
        sums, error = self._sums, self._sums.standard_error()
        document: dict[str, Any] = {"units": sums.units}
        if error is None:
            document["no_interval"] = f"a normal interval needs 100 units, and there are {sums.units}"
        if self._cumulated:
            document[self._kind] = list(self._quantiles(sums.mean, error))
        else:
            name = "mean" if self._kind == "mean" else "shares"
            document[name] = sums.mean.tolist()
            document["interval_95"] = None if error is None else _ends(sums.mean, error).tolist()
        if self._kind == "histogram":
            projected = simplex.project(sums.mean)
            document["projected"] = {"method": simplex.METHOD, "shares": projected.tolist()}
            document["categories"] = list(self._names) or None
        spread = self._decoder.spread_up_to if self._cumulated else self._decoder.spread
        one = float(spread.max()) / sums.rows
        moved = {"mean": "a value of the mean", "histogram": "a share"}.get(self._kind, "the share up to a category")
        document["influence"] = {"moves": moved, "one_report": one, "one_sender": one * largest_sender}
        return document

    def _quantiles(self, cumulated: np.ndarray, error: np.ndarray | None) -> Iterator[dict[str, Any]]:
        law = simplex.project(np.diff(cumulated, prepend=0.0)).cumsum()
        for level in _LEVELS[self._kind]:
            one: dict[str, Any] = {"level": level, **self._category(_reached(law, level)), "interval_95": None}
            if error is not None:
                # Monotone, as the shares up to a category are whatever their estimates do.
                high = np.maximum.accumulate(cumulated + Z * error)
                low = np.minimum.accumulate((cumulated - Z * error)[::-1])[::-1]
                one["interval_95"] = [_reached(high, level), _reached(low, level)]
            yield one

    def _category(self, place: int) -> dict[str, Any]:
        return {"category": place, "name": self._names[place] if self._names else None}


def _ends(mean: np.ndarray, error: np.ndarray) -> np.ndarray:
    return np.stack([mean - Z * error, mean + Z * error], axis=1)


def _reached(law: np.ndarray, level: float) -> int:
    """The first category up to which the shares reach ``level``; the last where none does."""
    return min(int(np.searchsorted(law, level - 1e-12)), len(law) - 1)
