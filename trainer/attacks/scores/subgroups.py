"""Subgroups in which an attack seems to gain most; ``parts`` tests them on rows that were not searched.

Half of the units (subjects, sessions, or rows) are searched: values of y, of the label sent and of other attributes,
and conjunctions of two of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.attacks.scores.exposure import Judged
from edgeveil.trainer.measures import attack_metrics
from edgeveil.trainer.measures.intervals import mean

TESTED = 5
BINS = 4
MOST_VALUES = 8  # an attribute with more different numbers is cut into quantile bins
FEWEST_ROWS, FEWEST_UNITS = 40, 10  # of a subgroup, in each half
ALIKE = 0.8  # of two subgroups that share so much of their rows the better one is tested


class Subgroup(NamedTuple):
    """A name, and whether each test row is in it, bool (n,)."""

    name: str
    rows: np.ndarray


def search(
    test: Judged,
    prior: np.ndarray,
    attributes: Mapping[str, np.ndarray],
    *,
    label: np.ndarray | None = None,
    rng: np.random.Generator,
    tested: int = TESTED,
) -> list[Subgroup]:
    """The subgroups that seem most exposed in one half of the test rows; their ``rows`` are those of the other half.

    ``test`` holds calibrated probabilities, ``prior`` (classes of y, classes of z) is P(z|y), ``attributes`` are values
    (n,) by name, NaN where unknown; ``label`` (n,) is y-hat. Empty where an attack gains in none. Raises ``BadInput``
    where lengths differ.
    """
    known: dict[str, np.ndarray] = {"y": test.y, **attributes}
    if label is not None:
        known = {**known, "label": label, "label right": label == test.y}
    for name, values in known.items():
        if len(values) != len(test.y):
            raise BadInput(f"The attribute {name!r} has {len(values)} values for {len(test.y)} test rows.")
    unit = units(test)
    searched = (rng.permutation(int(unit.max(initial=-1)) + 1) % 2 == 0)[unit]
    conditions = {name: list(_values(name, values)) for name, values in known.items()}
    gains, ranked = attack_metrics.gains(prior, test.p, test.y), []
    for one in _groups(conditions):
        rows, others = (np.flatnonzero(one.rows & half) for half in (searched, ~searched))
        if min(len(rows), len(others)) < FEWEST_ROWS:
            continue
        if min(len(np.unique(unit[rows])), len(np.unique(unit[others]))) < FEWEST_UNITS:
            continue
        interval = mean(_beyond_shuffled(gains[rows], test.y[rows], test.z[rows]), unit[rows])
        if interval.estimate > 1e-9:
            ranked.append((interval.low, one))
    kept: list[Subgroup] = []
    for _, one in sorted(ranked, key=lambda pair: -pair[0]):
        if len(kept) < tested and not any(_shared(one.rows, other.rows) > ALIKE for other in kept):
            kept.append(one)
    return [Subgroup(one.name, one.rows & ~searched) for one in kept]


def units(test: Judged) -> np.ndarray:
    """The number of each row's unit (n,): its subject or session, or the row itself."""
    if test.cluster is None:
        return np.arange(len(test.y))
    return np.unique(test.cluster, return_inverse=True)[1].reshape(-1)


def holm(p: list[float]) -> list[float]:
    """Holm's corrected p-values (1979), in the order given."""
    order = np.argsort(p, kind="stable")
    raised = np.maximum.accumulate([min(1.0, (len(p) - place) * p[number]) for place, number in enumerate(order)])
    out = np.empty(len(p))
    out[order] = raised
    return [float(one) for one in out]


def _beyond_shuffled(gains: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    """Each row's gain less that with the z of any row of equal y: what the subgroup itself tells is no gain."""
    counts = np.zeros((int(y.max()) + 1, gains.shape[1]))
    np.add.at(counts, (y, z), 1.0)
    share = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    return gains[np.arange(len(z)), z] - (gains * share[y]).sum(axis=1)


def _values(name: str, values: np.ndarray) -> Iterator[Subgroup]:
    """A condition for each value of an attribute, or for each quantile bin."""
    numbers = values.dtype.kind in "fiu"
    there = values[np.isfinite(values)] if values.dtype.kind == "f" else values
    different = np.unique(there)
    if len(different) <= MOST_VALUES or not numbers:
        for value in different:
            yield Subgroup(f"{name} = {value:g}" if numbers else f"{name} = {value}", values == value)
        return
    ends = np.unique(np.quantile(there, np.linspace(0, 1, BINS + 1)))
    for low, high in zip(ends[:-1], ends[1:], strict=True):
        below = values <= high if high == ends[-1] else values < high
        yield Subgroup(f"{name} from {low:.3g} to {high:.3g}", (values >= low) & below)


def _groups(conditions: Mapping[str, list[Subgroup]]) -> Iterator[Subgroup]:
    """Every condition, and every two of different attributes."""
    names = list(conditions)
    for place, name in enumerate(names):
        yield from conditions[name]
        for other in names[place + 1 :]:
            for one in conditions[name]:
                for two in conditions[other]:
                    yield Subgroup(f"{one.name} and {two.name}", one.rows & two.rows)


def _shared(a: np.ndarray, b: np.ndarray) -> float:
    return float((a & b).sum() / (a | b).sum())
