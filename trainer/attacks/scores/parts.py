"""The people and rows about whom an attack knows something although it knows nothing on average.

Each part of the test rows has a permutation test. Their p-values are corrected together, and once more for the test on
all rows, which has half of the level: where nothing leaks, no part is significant at 1 % in more than 0.5 % of audits.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

import numpy as np

from edgeveil.trainer.attacks.scores import strata
from edgeveil.trainer.attacks.scores.exposure import NOTHING, Judged
from edgeveil.trainer.attacks.scores.strata import SHARE, Stratum
from edgeveil.trainer.attacks.scores.subgroups import holm, search, units
from edgeveil.trainer.measures import attack_metrics
from edgeveil.trainer.measures.attack_metrics import counted_prior
from edgeveil.trainer.measures.intervals import Interval
from edgeveil.trainer.measures.permutation import sequential_test

FEWEST_PEOPLE = 40  # so that a twentieth of them is two
PRIOR_ROWS = 8  # that P(z|y) of all rows counts for among those with a wrong label

Kind = Literal["surest", "units", "label", "subgroup"]


class Labels(NamedTuple):
    """y as it is read from what left (m,) and (n,): of the validation rows and of the test rows."""

    choose: np.ndarray
    test: np.ndarray


class Part(NamedTuple):
    """Some test rows: how often the attack is right there, what the best guess from y alone gets, bits beyond y.

    ``p`` is corrected; None where it was not tested. Of ``units``, the twentieth of the subjects or sessions that the
    attack gained most on, bits are those over the same with z shuffled, without an interval: they are selected.
    """

    name: str
    kind: Kind
    rows: int
    units: int
    right: Interval
    chance: float
    bits: Interval
    p: float | None


def parts(
    choose: Judged,
    test: Judged,
    prior: np.ndarray,
    attributes: Mapping[str, np.ndarray],
    *,
    label: Labels | None = None,
    rng: np.random.Generator,
) -> tuple[Part, ...]:
    """The surest twentieth, the twentieth of people with the largest gain, rows by their label, and subgroups.

    ``choose`` and ``test`` hold calibrated probabilities, ``prior`` (classes of y, classes of z) is P(z|y),
    ``attributes`` are values of the test rows (n,) by name.
    """
    gains, unit = attack_metrics.gains(prior, test.p, test.y), units(test)

    def within(rows: np.ndarray) -> float | None:
        """What a part itself tells of z is no gain: z is shuffled among its own rows."""
        cluster = None if test.cluster is None else test.cluster[rows]
        fold = None if test.fold is None else test.fold[rows]
        return sequential_test(gains[rows], test.y[rows], test.z[rows], cluster, _mean, fold=fold, rng=rng).p

    def part(name: str, kind: Kind, rows: np.ndarray, found: Stratum, p: float | None) -> Part:
        count = len(np.unique(unit[rows]))
        return Part(name, kind, len(rows), count, found.rate, found.chance, found.bits, p)

    found = []
    rows = strata.surest(choose, test, prior)
    sure = strata.stratum(test, rows, prior)
    p = None
    if sure.rows >= strata.FEWEST_ROWS:
        asked = gains, test.y, test.z, test.cluster, lambda gain: float(gain[rows].mean())
        p = sequential_test(*asked, fold=test.fold, rng=rng).p
    found.append(part("surest twentieth", "surest", rows, sure, p))
    if test.cluster is not None:
        found.append(_units(gains, test, unit, rng))
    if label is not None:
        right, held = label.test == test.y, label.choose == choose.y
        priors = [_prior_of(choose, of, prior) for of in (held, ~held)]
        for (name, one), of in zip(strata.by_label(test, right, *priors).items(), (right, ~right), strict=True):
            rows = np.flatnonzero(of)
            # Nearly all rows have a right label: the test on all rows is about them.
            tested = name == "wrong label" and one.rows >= strata.FEWEST_ROWS
            found.append(part(name, "label", rows, one, within(rows) if tested else None))
    for group in search(test, prior, attributes, label=None if label is None else label.test, rng=rng):
        rows = np.flatnonzero(group.rows)
        found.append(part(group.name, "subgroup", rows, strata.stratum(test, rows, prior), within(rows)))
    known = [one.p for one in found if one.p is not None]
    corrected = iter(holm(known))
    return tuple(one if one.p is None else one._replace(p=min(1.0, 2 * next(corrected))) for one in found)


def _units(gains: np.ndarray, test: Judged, unit: np.ndarray, rng: np.random.Generator) -> Part:
    """The twentieth of the units with the largest mean gain."""
    size = np.bincount(unit)
    most = max(1, round(SHARE * len(size)))
    name = "twentieth with the largest gain"
    if len(size) < FEWEST_PEOPLE:
        return Part(name, "units", 0, len(size), NOTHING, float("nan"), NOTHING, None)

    def statistic(gain: np.ndarray) -> float:
        return _mean(np.partition(np.bincount(unit, gain) / size, -most)[-most:])

    found = sequential_test(gains, test.y, test.z, test.cluster, statistic, fold=test.fold, rng=rng)
    gain = gains[np.arange(len(test.z)), test.z]
    best = np.argpartition(np.bincount(unit, gain) / size, -most)[-most:]
    bits = Interval(statistic(gain) - found.null, float("nan"), float("nan"))
    return Part(name, "units", int(size[best].sum()), most, NOTHING, float("nan"), bits, found.p)


def _prior_of(choose: Judged, rows: np.ndarray, prior: np.ndarray) -> np.ndarray:
    """P(z|y) counted on some validation rows, drawn towards ``prior`` where they are few."""
    n = np.bincount(choose.y[rows], minlength=len(prior))[:, None]
    counted = counted_prior(choose.y[rows], choose.z[rows], (prior.shape[0], prior.shape[1]))
    return (n * counted + PRIOR_ROWS * prior) / (n + PRIOR_ROWS)


def _mean(values: np.ndarray) -> float:
    return float(values.mean())
