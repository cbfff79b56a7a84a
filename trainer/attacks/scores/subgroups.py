"""Subgroups in which an attack gains most, with a corrected test.

Half of the units (subjects, sessions, or rows) are searched: values of y, of the label sent and of other attributes,
and conjunctions of two of them. The few best subgroups are tested on the other half, with Holm's correction (1979), so
none is reported only because many were searched.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
from scipy import stats

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.attacks.scores.exposure import Judged
from edgeveil.trainer.measures.intervals import Interval, mean

TESTED = 10
BINS = 4
MOST_VALUES = 8  # an attribute with more different values is cut into quantile bins
FEWEST_ROWS, FEWEST_UNITS = 40, 10  # of a subgroup, in each half
ALIKE = 0.8  # of two subgroups that share so much of their rows the better one is tested
LEVEL = 0.05


class Subgroup(NamedTuple):
    """``gain`` is how much more probability the attack gives to the true z than P(z|y) does, with its 95 % interval.

    In points (0 to 100), on ``rows`` test rows of ``units`` units in the half that was not searched. ``p`` is one-sided
    and corrected for all subgroups tested.
    """

    name: str
    gain: Interval
    p: float
    rows: int
    units: int

    @property
    def exposed(self) -> bool:
        """Whether the attack gains there, at 5 % for all subgroups together."""
        return self.p <= LEVEL


class _Found(NamedTuple):
    name: str
    rows: np.ndarray  # bool, (n,)


def scan(
    test: Judged,
    prior: np.ndarray,
    attributes: Mapping[str, np.ndarray],
    *,
    label: np.ndarray | None = None,
    rng: np.random.Generator,
    tested: int = TESTED,
) -> list[Subgroup]:
    """The subgroups that were tested, those with the smallest p first; empty where none gains in the searched half.

    ``test`` holds calibrated probabilities, ``prior`` (classes of y, classes of z) is P(z|y), ``attributes`` are values
    (n,) by name, NaN where unknown; ``label`` (n,) is y-hat. Raises ``BadInput`` where lengths differ.
    """
    gain = test.p[np.arange(len(test.z)), test.z] - prior[test.y, test.z]
    known: dict[str, np.ndarray] = {"y": test.y, **attributes}
    if label is not None:
        known = {**known, "label": label, "label right": label == test.y}
    for name, values in known.items():
        if len(values) != len(gain):
            raise BadInput(f"The attribute {name!r} has {len(values)} values for {len(gain)} test rows.")
    unit = np.arange(len(gain)) if test.cluster is None else np.unique(test.cluster, return_inverse=True)[1].reshape(-1)
    searched = (rng.permutation(int(unit.max(initial=-1)) + 1) % 2 == 0)[unit]
    conditions = {name: list(_values(name, values)) for name, values in known.items()}
    best = _best(list(_groups(conditions)), gain, unit, searched, tested)
    measured = [_measured(one, gain, unit, ~searched) for one in best]
    corrected = holm([p for _, _, p in measured])
    found = [
        Subgroup(one.name, Interval(*(100 * end for end in interval)), p, int(rows.sum()), len(np.unique(unit[rows])))
        for one, (rows, interval, _), p in zip(best, measured, corrected, strict=True)
    ]
    return sorted(found, key=lambda one: (one.p, -one.gain.estimate))


def holm(p: list[float]) -> list[float]:
    """Holm's corrected p-values, in the order given."""
    order = np.argsort(p, kind="stable")
    raised = np.maximum.accumulate([min(1.0, (len(p) - place) * p[number]) for place, number in enumerate(order)])
    out = np.empty(len(p))
    out[order] = raised
    return [float(one) for one in out]


def _values(name: str, values: np.ndarray) -> Iterator[_Found]:
    """A condition for each value of an attribute, or for each quantile bin."""
    numbers = values.dtype.kind in "fiu"
    there = values[np.isfinite(values)] if values.dtype.kind == "f" else values
    different = np.unique(there)
    if len(different) <= MOST_VALUES or not numbers:
        for value in different:
            yield _Found(f"{name} = {value:g}" if numbers else f"{name} = {value}", values == value)
        return
    ends = np.unique(np.quantile(there, np.linspace(0, 1, BINS + 1)))
    for low, high in zip(ends[:-1], ends[1:], strict=True):
        below = values <= high if high == ends[-1] else values < high
        yield _Found(f"{name} from {low:.3g} to {high:.3g}", (values >= low) & below)


def _groups(conditions: Mapping[str, list[_Found]]) -> Iterator[_Found]:
    """Every condition, and every two of different attributes."""
    names = list(conditions)
    for place, name in enumerate(names):
        yield from conditions[name]
        for other in names[place + 1 :]:
            for one in conditions[name]:
                for two in conditions[other]:
                    yield _Found(f"{one.name} and {two.name}", one.rows & two.rows)


def _best(groups: list[_Found], gain: np.ndarray, unit: np.ndarray, half: np.ndarray, most: int) -> list[_Found]:
    """The groups whose gain is surest in ``half``, by the lower end of its interval; near copies once."""
    ranked = []
    for one in groups:
        rows, others = one.rows & half, one.rows & ~half
        if min(rows.sum(), others.sum()) < FEWEST_ROWS:
            continue
        if min(len(np.unique(unit[rows])), len(np.unique(unit[others]))) < FEWEST_UNITS:
            continue
        interval = mean(gain[rows], unit[rows])
        if interval.estimate > 0:
            ranked.append((interval.low, one))
    kept: list[_Found] = []
    for _, one in sorted(ranked, key=lambda pair: -pair[0]):
        if len(kept) < most and not any(_shared(one.rows, other.rows) > ALIKE for other in kept):
            kept.append(one)
    return kept


def _shared(a: np.ndarray, b: np.ndarray) -> float:
    return float((a & b).sum() / (a | b).sum())


def _measured(one: _Found, gain: np.ndarray, unit: np.ndarray, half: np.ndarray) -> tuple[np.ndarray, Interval, float]:
    """Rows of the group in ``half``, its gain there, and the one-sided p-value of Student's t over units."""
    rows = one.rows & half
    interval = mean(gain[rows], unit[rows])
    degrees = len(np.unique(unit[rows])) - 1
    error = (interval.estimate - interval.low) / float(stats.t.ppf(0.975, degrees))
    if error == 0:
        return rows, interval, 0.0 if interval.estimate > 0 else 1.0
    return rows, interval, float(stats.t.sf(interval.estimate / error, degrees))
