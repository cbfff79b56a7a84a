"""How far the codes that leave here are from those of the audit: a distance, its interval, and a word.

The distance is the total variation between two histograms, half the sum of |p - q|. Where nothing has shifted, chance
alone makes it about

    bias = sum over codes of sqrt(p (1 - p) / (2 pi n)),    1 / n = 1 / n_audit + 1 / n_here,

and with probability 1 - ``error`` it is within t = sqrt(ln(1 / error) / (2 n)) of its mean (McDiarmid 1989), so the
shift is at least distance - bias - t and at most distance + t. Frames of a stream are not independent: n counts those
that are worth as much as independent ones (``effective_number``, the design effect of Rao and Scott 1981).
"""

import collections
import math
from typing import Any, Callable, Counter, Deque, Dict, List, Mapping, NamedTuple, Optional, Sequence

import numpy as np

LEAST_EFFECTIVE = 30.0  # below, nothing is said
MOST_SHIFT = 0.25  # where no policy says another
UNKNOWN, SAME, SHIFTED = STATES = ("unknown", "as audited", "shifted")


class Reference(NamedTuple):
    """What the audit counted on its test rows: how often each code left in ``output``, and what these are worth.

    The last of ``counts``, 0, is of all codes that never left there. ``blank`` is the code of an empty place, which is
    left out on both sides; None where every frame counts.
    """

    output: str
    counts: Sequence[int]
    effective: float
    blank: Optional[int]


class Shift(NamedTuple):
    """``distance`` with the ends of its interval, the effective number of releases here, and one of ``STATES``."""

    distance: float
    low: float
    high: float
    effective: float
    state: str
    most: float

    def document(self) -> Dict[str, Any]:
        """For JSON, rounded."""
        return {name: round(value, 4) if isinstance(value, float) else value for name, value in self._asdict().items()}


def reference_of(audit: Optional[Mapping[str, Any]], crops: bool) -> Optional[Reference]:
    """The ``histogram`` of a checked audit; None where there is none. ``crops``: places may be empty here."""
    histogram = None if audit is None else audit.get("histogram")
    if histogram is None or (crops and histogram["blank"] is None):
        return None
    blank = histogram["blank"] if crops else None
    counts = [0 if code == blank else count for code, count in enumerate(histogram["counts"])] + [0]
    return Reference(histogram["output"], counts, histogram["effective"], blank) if sum(counts) else None


def shift_of(reference: Reference, counts: Sequence[int], effective: float, *, most: float, error: float) -> Shift:
    """The shift of ``counts`` (one for each code), worth ``effective`` independent releases, from the audit's."""
    if effective < LEAST_EFFECTIVE or not sum(counts):
        return Shift(0.0, 0.0, 1.0, effective, UNKNOWN, most)
    known = np.asarray(reference.counts, np.float64)
    seen = np.asarray(counts, np.float64)
    p, q = known / known.sum(), seen / seen.sum()
    distance = float(np.abs(p - q).sum() / 2)
    one_over_n = 1 / reference.effective + 1 / effective
    bias = float(np.sqrt(p * (1 - p) * one_over_n / (2 * math.pi)).sum())
    away = math.sqrt(math.log(1 / error) * one_over_n / 2)
    low, high = max(0.0, distance - bias - away), min(1.0, distance + away)
    return Shift(distance, low, high, effective, SHIFTED if low > most else SAME, most)


def effective_number(clusters: np.ndarray) -> float:
    """What the counts (clusters, codes) are worth in independent ones: all, over their mean design effect.

    Where every cluster has the same single code there is no spread to see, and each counts once.
    """
    clusters = np.asarray(clusters, np.float64)
    each = clusters.sum(axis=1, keepdims=True)
    clusters, each = clusters[each[:, 0] > 0], each[each[:, 0] > 0]
    units, total = len(clusters), float(each.sum())
    if units < 2:
        return float(units)
    share = clusters.sum(axis=0) / total
    spread = float((share * (1 - share)).sum())
    variance = units / (units - 1) * float(((clusters - each * share) ** 2).sum()) / total**2
    if spread <= 0:
        return float(units)
    return total if variance <= 0 else min(total, spread / variance)


# How often each code left a stream, by minutes, and what these releases are worth.
#
# A person who stands still, or whose code is held, sends the same code again and again. So releases are worth no more
# than the design effect of minutes says, and no more than runs of one code in one slot (Kish 1965): a single long run
# is worth one release.


BLOCK_S = 60.0


class _Block(object):
    """One minute: how often each code left, and the lengths and squared lengths of the runs that ended in it."""

    __slots__ = ("counts", "lengths", "number", "squares")

    def __init__(self, number: int) -> None:
        self.number = number
        self.counts: Counter[int] = collections.Counter()
        self.lengths = self.squares = 0


class Histogram(object):
    """Counts the codes of sets of frames. ``most_blocks`` minutes are kept, those without a release aside.

    ``clock`` gives seconds, which never run back.
    """

    def __init__(self, reference: Reference, *, clock: Callable[[], float], most_blocks: int) -> None:
        self._reference, self._clock = reference, clock
        self._blocks: Deque[_Block] = collections.deque(maxlen=most_blocks)
        self._runs: Dict[int, List[int]] = {}  # slot -> code, length

    def add(self, frames: Sequence[Any]) -> None:
        """Count a set that left: one frame a slot. Codes that the audit never saw count as one."""
        known = len(self._reference.counts)
        for frame in frames:
            code = int(frame.outputs[self._reference.output])
            if code == self._reference.blank:
                continue
            self._add(frame.slot, code if 0 <= code < known else known - 1)

    def _add(self, slot: int, code: int) -> None:
        number = int(self._clock() // BLOCK_S)
        if not self._blocks or self._blocks[-1].number != number:
            self._blocks.append(_Block(number))
        block = self._blocks[-1]
        block.counts[code] += 1
        run = self._runs.setdefault(slot, [code, 0])
        if run[0] == code:
            run[1] += 1
            return
        block.lengths += run[1]
        block.squares += run[1] ** 2
        run[:] = [code, 1]

    def counts(self) -> List[int]:
        """How often each code left."""
        total = sum((block.counts for block in self._blocks), collections.Counter())
        return [total[code] for code in range(len(self._reference.counts))]

    def effective(self) -> float:
        """The number of independent releases that these are worth."""
        if not self._blocks:
            return 0.0
        codes = sorted(set().union(*(block.counts for block in self._blocks)))
        clusters = np.array([[block.counts[code] for code in codes] for block in self._blocks])
        lengths = sum(block.lengths for block in self._blocks) + sum(run[1] for run in self._runs.values())
        squares = sum(block.squares for block in self._blocks) + sum(run[1] ** 2 for run in self._runs.values())
        return min(effective_number(clusters), lengths**2 / float(squares))
