"""How far the codes that leave here are from those of the audit: a distance, its interval, and a word.

The distance is the total variation between two histograms, half the sum of |p - q|. Where nothing has shifted, chance
alone makes it about

    bias = sum over codes of sqrt(p (1 - p) / (2 pi n)),    1 / n = 1 / n_audit + 1 / n_here,

and with probability 1 - ``error`` it is within t = sqrt(ln(1 / error) / (2 n)) of its mean (McDiarmid 1989), so the
shift is at least distance - bias - t and at most distance + t. Frames of a stream are not independent: n counts those
that are worth as much as independent ones (``effective_number``, the design effect of Rao and Scott 1981).
"""

import math
from typing import Any, Dict, Mapping, NamedTuple, Optional, Sequence

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
    found = None if audit is None else audit.get("histogram")
    if found is None or (crops and found["blank"] is None):
        return None
    blank = found["blank"] if crops else None
    counts = [0 if code == blank else count for code, count in enumerate(found["counts"])] + [0]
    return Reference(found["output"], counts, found["effective"], blank) if sum(counts) else None


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
