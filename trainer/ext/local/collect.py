"""Many devices' reports, each counted once, and what they say together. Nothing here sees a reading.

A report counts if its mechanism can make it, if no record of its id was counted before, and if it is the first of its
unit in its round. All others are refused and counted by reason.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import Any

import numpy as np

from edgeveil.edge_runtime.bundle.reader import Bundle
from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.ext.local.blocks import Block, Feed
from edgeveil.trainer.ext.local.reporting import Decoder, Reporting, Sketch

# Which reports were counted before: each record counts once by its id, and each unit once a round.


def keys(*columns: np.ndarray) -> np.ndarray:
    """Columns of n integers or fixed bytes as one column of bytes, which are equal where all columns are."""
    joined = np.hstack([np.ascontiguousarray(column)[:, None].view(np.uint8) for column in columns])
    # Values of one width that differ stay different without the zero bytes at their ends, which NumPy does not compare.
    return joined.view(f"S{joined.shape[1]}").ravel()


class Seen:
    """A set of keys of one width in a sorted column: 16 bytes a record where a Python set takes 120."""

    def __init__(self) -> None:
        self._sorted: np.ndarray | None = None

    def first_seen(self, new: np.ndarray) -> np.ndarray:
        """Mask (n,) of those that came neither before nor earlier in ``new``; all of them are known from now on."""
        unique, first = np.unique(new, return_index=True)
        known = self._sorted if self._sorted is not None else unique[:0]
        if len(known):
            fresh = known[np.minimum(np.searchsorted(known, unique), len(known) - 1)] != unique
            unique, first = unique[fresh], first[fresh]
        # Two sorted runs: a stable sort merges them.
        self._sorted = np.sort(np.concatenate([known, unique]), kind="stable")
        mask = np.zeros(len(new), bool)
        mask[first] = True
        return mask


# Means of many values and their standard errors, from blocks that are forgotten at once.


FEWEST_UNITS = 100  # below, a normal interval over units says more than is known
Z = NormalDist().inv_cdf(0.975)


class ByReport:
    """Every row of the values is a unit of its own. Blocks are merged by Chan, Golub and LeVeque (1979)."""

    def __init__(self, width: int) -> None:
        self.rows = 0
        self.mean = np.zeros(width)
        self._squares = np.zeros(width)  # sum of squared distances from the mean

    @property
    def units(self) -> int:
        return self.rows

    def add(self, values: np.ndarray, _units: np.ndarray) -> None:
        """Count values float64 (n, width)."""
        if not len(values):
            return
        mean = values.mean(axis=0)
        away = mean - self.mean
        before, self.rows = self.rows, self.rows + len(values)
        self._squares += ((values - mean) ** 2).sum(axis=0) + away**2 * (before * len(values) / self.rows)
        self.mean = self.mean + away * (len(values) / self.rows)

    def standard_error(self) -> np.ndarray | None:
        """Of the mean (width,); None with fewer than ``FEWEST_UNITS`` units."""
        if self.units < FEWEST_UNITS:
            return None
        return np.sqrt(self._squares / (self.rows - 1) / self.rows)


class ByUnit:
    """Rows of one unit may depend on each other: the error is that of a ratio of sums over units (Cochran 1977)."""

    def __init__(self, width: int) -> None:
        self._place: dict[bytes, int] = {}
        self._sums = np.zeros((FEWEST_UNITS, width))
        self._counts = np.zeros(FEWEST_UNITS, np.int64)

    @property
    def units(self) -> int:
        return len(self._place)

    @property
    def rows(self) -> int:
        return int(self._counts.sum())

    @property
    def mean(self) -> np.ndarray:
        return self._sums.sum(axis=0) / max(1, self.rows)

    def add(self, values: np.ndarray, units: np.ndarray) -> None:
        """Count values float64 (n, width) of ``units``, bytes (n,)."""
        names, at = np.unique(units, return_inverse=True)
        places = np.array([self._place.setdefault(name, len(self._place)) for name in names.tolist()], np.int64)
        while len(self._counts) < self.units:
            self._sums = np.concatenate([self._sums, np.zeros_like(self._sums)])
            self._counts = np.concatenate([self._counts, np.zeros_like(self._counts)])
        np.add.at(self._sums, places[at], values)
        np.add.at(self._counts, places[at], 1)

    def standard_error(self) -> np.ndarray | None:
        """As that of ``ByReport``."""
        if self.units < FEWEST_UNITS:
            return None
        sums, counts = self._sums[: self.units], self._counts[: self.units, None]
        squares = ((sums - counts * self.mean) ** 2).sum(axis=0)
        return np.sqrt(squares * self.units / (self.units - 1)) / self.rows


class BySketch:
    """Shares and their standard errors of a sketch, from sums for each hash function and place: no report is kept.

    A report's value for a category is one of two, so the mean is all that the error of independent reports needs. Of
    ``dependent`` ones it is an upper end: by Cauchy and Schwarz no unit of c reports adds more to the sum of squares
    than c times what its reports would alone. What collisions add is in the error, at its largest: an estimate is
    unbiased over hash functions, which one bundle has drawn once.
    """

    def __init__(self, sketch: Sketch, *, dependent: bool) -> None:
        self._sketch, self._dependent = sketch, dependent
        self._sums = np.zeros((sketch.hashes.rows, sketch.hashes.width), np.int64)
        self._reports_of: Counter[bytes] = Counter()
        self.rows = 0
        self._signs: np.ndarray | None = None

    @property
    def units(self) -> int:
        return len(self._reports_of) if self._dependent else self.rows

    def add(self, reports: np.ndarray, units: np.ndarray) -> None:
        """Count reports (n, ...) of ``units``, bytes (n,)."""
        if not len(reports):
            return
        self._sketch.sums(*self._sketch.signs(reports), self._sums)
        self.rows, self._signs = self.rows + len(reports), None
        if self._dependent:
            self._reports_of.update(units.tolist())

    def _mean_signs(self) -> np.ndarray:
        if self._signs is None:
            self._signs = self._sketch.totals(self._sums) / max(1, self.rows)
        return self._signs

    @property
    def mean(self) -> np.ndarray:
        return self._sketch.slope * self._mean_signs() + self._sketch.start

    def standard_error(self) -> np.ndarray | None:
        """As that of ``ByReport``."""
        if self.units < FEWEST_UNITS:
            return None
        mean = self._mean_signs()
        if self._dependent:
            counts = np.array(list(self._reports_of.values()), np.float64)
            squares = (counts**2).sum() * (1 + np.abs(mean)) ** 2 * self.units / (self.units - 1)
        else:
            squares = self.rows * (1 - mean**2) * self.rows / (self.rows - 1)
        return np.sqrt(squares * (self._sketch.slope / self.rows) ** 2 + self._sketch.collisions)


# The nearest distribution to an unbiased histogram, which noise may leave below 0 or with another sum than 1.


METHOD = "euclidean-simplex"


def project(shares: np.ndarray) -> np.ndarray:
    """The point of the simplex nearest to ``shares`` (k,) in l2 (Duchi, Shalev-Shwartz, Singer, Chandra 2008)."""
    falling = np.sort(shares)[::-1]
    excess = np.cumsum(falling) - 1.0
    pivot = np.flatnonzero(falling * np.arange(1, len(shares) + 1) > excess)[-1]
    return np.maximum(shares - excess[pivot] / (pivot + 1), 0.0)


# What unbiased values say: a mean, a histogram, quantiles, each with 95 % intervals and how far a liar can move it.
#
# Intervals are normal over units, from the empirical variance: the devices' noise is in it, and so is how the units
# differ. Those of shares and means are unbiased, also where they leave what is possible; only the projected histogram
# and what is made of it are not.


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
            advice = (
                "of a category: ask for histogram, median or quantiles" if categories else "of a vector: ask for mean"
            )
            raise BadInput(
                f"An estimate that fits the reports was expected, and {kind} was asked for; they are {advice}."
            )
        self._kind, self._decoder, self._names = kind, decoder, names
        self._cumulated = kind in _LEVELS  # a quantile's interval is that of the shares up to a category
        if isinstance(decoder, Sketch):
            if self._cumulated:
                raise BadInput(
                    f"A histogram was expected of a sketch, and {kind} was asked for: the errors of {decoder.width:,} "
                    "shares add up. Ask for histogram."
                )
            self._sums: BySketch | ByUnit | ByReport = BySketch(decoder, dependent=dependent)
        else:
            self._sums = (ByUnit if dependent else ByReport)(decoder.width)

    def add(self, reports: np.ndarray, units: np.ndarray) -> None:
        """Count n reports of ``units``, bytes (n,)."""
        if isinstance(self._decoder, Sketch):
            self._sums.add(reports, units)
            return
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
            projected = project(sums.mean)
            document["projected"] = {"method": METHOD, "shares": projected.tolist()}
            document["categories"] = list(self._names) or None
        spread = self._decoder.spread_up_to if self._cumulated else self._decoder.spread
        one = float(spread.max()) / sums.rows
        moved = {"mean": "a value of the mean", "histogram": "a share"}.get(self._kind, "the share up to a category")
        document["influence"] = {"moves": moved, "one_report": one, "one_sender": one * largest_sender}
        return document

    def _quantiles(self, cumulated: np.ndarray, error: np.ndarray | None) -> Iterator[dict[str, Any]]:
        law = project(np.diff(cumulated, prepend=0.0)).cumsum()
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


@dataclass
class Gate:
    """Lets each report through once. ``refused`` counts the others, ``senders`` those that were counted, by sender."""

    reporting: Reporting
    slots: int
    refused: Counter[str] = field(default_factory=Counter)
    senders: Counter[bytes] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._ids, self._rounds = Seen(), Seen()

    def passed(self, block: Block) -> Block:
        """The part of a block that counts."""
        block = self._keep(block, block.slot < self.slots, "unknown slot")
        block = self._keep(block, self.reporting.decoder.made(block.reports), "outside the alphabet")
        block = self._keep(block, self._ids.first_seen(keys(block.sender, block.number)), "seen before")
        block = self._keep(block, self._rounds.first_seen(keys(self.units(block), block.round)), "second of its round")
        for sender, count in zip(*np.unique(block.sender, return_counts=True), strict=True):
            self.senders[sender] += int(count)
        return block

    def units(self, block: Block) -> np.ndarray:
        """Whose each report is, as bytes (n,), as far as a receiver knows: a subject's is its sender's."""
        if self.reporting.spending.unit == "subject":
            return keys(block.sender)
        return keys(block.sender, block.slot)

    def _keep(self, block: Block, mask: np.ndarray, reason: str) -> Block:
        if mask.all():
            return block
        self.refused[reason] += int((~mask).sum())
        return Block(*(column[mask] for column in block))


def collect(
    bundle: Bundle, reporting: Reporting, feeds: Iterable[Feed], kind: str, *, most: int | None = None
) -> dict[str, Any]:
    """The estimate of ``kind`` of all reports of the feeds, or of the first ``most`` and the rest of their block.

    Raises ``BadInput`` where no report came, or none of this bundle, and what the feeds raise.
    """
    spending, capture = reporting.spending, bundle.manifest.capture
    estimate = Estimate(
        kind,
        reporting.decoder,
        categories=reporting.categories,
        dependent=reporting.held or spending.unit != "release",
        names=reporting.names,
    )
    gate = Gate(reporting, capture.slots if capture else 1)
    counted = foreign = 0
    for feed in feeds:
        with contextlib.closing(feed.blocks()) as blocks:
            for block in blocks:
                passed = gate.passed(block)
                # What a device sends of a kept answer hangs together, whichever of its slots and tracks it is of.
                estimate.add(passed.reports, keys(passed.sender) if reporting.held else gate.units(passed))
                counted += len(passed.reports)
                if most is not None and counted >= most:
                    break
        foreign += feed.refused
    if foreign:
        gate.refused["of another format"] = foreign
    if not counted:
        reasons = ", ".join(f"{count} {reason}" for reason, count in gate.refused.items()) or "nothing came"
        raise BadInput(f"Reports of {bundle.manifest.name} were expected, and none can be counted: {reasons}.")
    if counted == 1:
        raise BadInput(
            f"Reports of at least 2 devices were expected of {bundle.manifest.name}; 1 can be counted, and one is no "
            "average. Collect more."
        )
    return {
        "schema": 1,
        "kind": "edgeveil-collection",
        "bundle": {"name": bundle.manifest.name, "manifest_sha256": bundle.manifest_sha256},
        "output": reporting.output.name,
        "mechanism": reporting.op,
        "epsilon": spending.micro_epsilon / 1e6,
        "unit": spending.unit,
        "estimate": kind,
        "reports": {"counted": counted, "senders": len(gate.senders), "refused": dict(sorted(gate.refused.items()))},
        **estimate.document(max(gate.senders.values())),
    }
