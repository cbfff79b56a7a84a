"""The people and rows about whom an attack knows something although it knows nothing on average.

Each part of the test rows has a permutation test. Their p-values are corrected together, and once more for the test on
all rows, which has half of the level: where nothing leaks, no part is significant at 1 % in more than 0.5 % of audits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple

import numpy as np

from edgeveil.trainer.attacks.exposure import NOTHING, Judged, holm, search, units
from edgeveil.trainer.datasets.base import taken
from edgeveil.trainer.measures import attack_metrics
from edgeveil.trainer.measures.attack_metrics import Sequential, counted_prior, sequential_test
from edgeveil.trainer.measures.enough import PART_ROWS, SHOWN_ROWS
from edgeveil.trainer.measures.intervals import Interval, rate

# Attacks that are sure of some rows only: the surest twentieth, and rows whose label is wrong.
#
# An average over all rows hides a leak about 1 in 20 people, or about the few rows that the classifier gets wrong.
# Which rows are the surest is decided by a threshold on the validation rows, so the rates on test rows are not
# selected.

SHARE = 0.05
PRIOR_ROWS = 8  # that P(z|y) of all rows counts for among those with a wrong label

Kind = Literal["surest", "units", "label", "subgroup"]


def surest(choose: Judged, test: Judged, prior: np.ndarray) -> np.ndarray:
    """The numbers (m,) of the test rows, or of those of whole clusters, that the attack is surest of.

    They are the top ``SHARE`` by validation's threshold, or more where many are equally sure. ``prior`` (classes of y,
    classes of z) is P(z|y). Sureness is the information gain that the attack itself expects, sum of p log2(p / prior),
    averaged over the rows of a cluster. It never looks at z.
    """
    _, of_choose = _sureness(choose, prior)
    rows, of_test = _sureness(test, prior)
    threshold = np.quantile(of_choose, 1 - SHARE, method="higher") if len(of_choose) else np.inf
    # Rows of one code tie: all of it, unless that is most rows, of which none is surer than another.
    at_least = of_test >= threshold
    return np.flatnonzero((at_least if at_least.mean() <= 0.5 else of_test > threshold)[rows])


def _sureness(part: Judged, prior: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The unit of each row (n,), and of each unit what the attack expects to have gained, bits."""
    p, base = (np.maximum(values, attack_metrics.FLOOR) for values in (part.p, prior[part.y]))
    unit = units(part)
    return unit, np.bincount(unit, weights=(p * np.log2(p / base)).sum(axis=1)) / np.bincount(unit)


class Labels(NamedTuple):
    """y as it is read from what left (m,) and (n,): of the validation rows and of the test rows."""

    choose: np.ndarray
    test: np.ndarray


class Part(NamedTuple):
    """Some test rows: how often the attack is right there, what the best guess from y alone gets, bits beyond y.

    All NaN where there are fewer than 10. ``p`` is corrected; None where it was not tested. Of ``units``, the twentieth
    of the subjects or sessions that the attack gained most on, bits are those over the same with z shuffled, without an
    interval: they are selected.
    """

    name: str
    kind: Kind
    rows: int
    units: int
    right: Interval = NOTHING
    chance: float = float("nan")
    bits: Interval = NOTHING
    p: float | None = None


def part(name: str, kind: Kind, test: Judged, rows: np.ndarray, prior: np.ndarray) -> Part:
    """The rates of the test rows of these numbers (m,), not tested; ``prior`` is P(z|y) of such rows."""
    alone = Part(name, kind, len(rows), len(np.unique(units(test)[rows])))
    if len(rows) < SHOWN_ROWS:
        return alone
    y, z, p, cluster = test.y[rows], test.z[rows], test.p[rows], taken(test.cluster, rows)
    right, chance = rate(p.argmax(axis=1) == z, cluster), float((prior[y].argmax(axis=1) == z).mean())
    return alone._replace(right=right, chance=chance, bits=attack_metrics.bits_beyond(prior, p, y, z, cluster))


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
    ``attributes`` are values of the test rows (n,) by name. Rows whose label is right and those where it is wrong stand
    each against a P(z|y) of its own, counted on validation rows of that kind: information in a wrong label counts as
    chance here, because the label is sent anyway.
    """
    gains = attack_metrics.attack_gains(prior, test.p, test.y)

    def within(rows: np.ndarray) -> float | None:
        """What a part itself tells of z is no gain: z is shuffled among its own rows."""
        cluster, fold = taken(test.cluster, rows), taken(test.fold, rows)
        return sequential_test(gains[rows], test.y[rows], test.z[rows], cluster, fold=fold, rng=rng).p

    rows = surest(choose, test, prior)
    sure = part("surest twentieth", "surest", test, rows, prior)
    if sure.rows >= SHOWN_ROWS:
        mine = np.isin(np.arange(len(gains)), rows)[:, None]
        sure = sure._replace(p=_of_all(gains * mine, test, np.mean, rng).p)
    all_parts = [sure]
    if test.cluster is not None:
        all_parts.append(_units(gains, test, rng))
    if label is not None:
        for name, known, of in (
            ("right label", label.choose == choose.y, label.test == test.y),
            ("wrong label", label.choose != choose.y, label.test != test.y),
        ):
            rows = np.flatnonzero(of)
            one = part(name, "label", test, rows, _prior_of(choose, known, prior))
            # Nearly all rows have a right label: the test on all rows is about them.
            tested = name == "wrong label" and one.rows >= SHOWN_ROWS
            all_parts.append(one._replace(p=within(rows) if tested else None))
    for group in search(test, prior, attributes, label=None if label is None else label.test, rng=rng):
        rows = np.flatnonzero(group.rows)
        all_parts.append(part(group.name, "subgroup", test, rows, prior)._replace(p=within(rows)))
    corrected = iter(holm([one.p for one in all_parts if one.p is not None]))
    return tuple(one if one.p is None else one._replace(p=min(1.0, 2 * next(corrected))) for one in all_parts)


def _of_all(
    gains: np.ndarray, test: Judged, statistic: Callable[[np.ndarray], float], rng: np.random.Generator
) -> Sequential:
    return sequential_test(gains, test.y, test.z, test.cluster, statistic, fold=test.fold, rng=rng)


def _units(gains: np.ndarray, test: Judged, rng: np.random.Generator) -> Part:
    """The twentieth of the units with the largest mean gain."""
    unit = units(test)
    size = np.bincount(unit)
    most = max(1, round(SHARE * len(size)))
    alone = Part("twentieth with the largest gain", "units", 0, len(size))
    if len(size) < PART_ROWS:
        return alone

    def statistic(gain: np.ndarray) -> float:
        return float(np.partition(np.bincount(unit, gain) / size, -most)[-most:].mean())

    tested = _of_all(gains, test, statistic, rng)
    gain = gains[np.arange(len(test.z)), test.z]
    best = np.argpartition(np.bincount(unit, gain) / size, -most)[-most:]
    bits = NOTHING._replace(estimate=statistic(gain) - tested.null)
    return alone._replace(rows=int(size[best].sum()), units=most, bits=bits, p=tested.p)


def _prior_of(choose: Judged, rows: np.ndarray, prior: np.ndarray) -> np.ndarray:
    """P(z|y) counted on some validation rows, drawn towards ``prior`` where they are few."""
    n = np.bincount(choose.y[rows], minlength=len(prior))[:, None]
    counted = counted_prior(choose.y[rows], choose.z[rows], (prior.shape[0], prior.shape[1]))
    return (n * counted + PRIOR_ROWS * prior) / (n + PRIOR_ROWS)
