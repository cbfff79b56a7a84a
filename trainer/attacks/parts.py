"""The people and rows about whom an attack knows something although it knows nothing on average.

Each part of the test rows has a permutation test. Their p-values are corrected together, and once more for the test on
all rows, which has half of the level: where nothing leaks, no part is significant at 1 % in more than 0.5 % of audits.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

import numpy as np

from edgeveil.trainer.attacks.exposure import NOTHING, Judged, holm, search, units
from edgeveil.trainer.measures import attack_metrics
from edgeveil.trainer.measures.attack_metrics import counted_prior, sequential_test
from edgeveil.trainer.measures.enough import PART_ROWS, SHOWN_ROWS
from edgeveil.trainer.measures.intervals import Interval, rate, unit_numbers

# Attacks that are sure of some rows only: the surest twentieth, and rows whose label is wrong.
#
# An average over all rows hides a leak about 1 in 20 people, or about the few rows that the classifier gets wrong.
# Which rows are the surest is decided by a threshold on the validation rows, so the rates on test rows are not
# selected.


SHARE = 0.05


class Stratum(NamedTuple):
    """Right guesses of z on ``rows`` test rows with their 95 % interval; NaN where there are fewer than 10.

    ``chance`` is the share that the best guess from y alone gets right there, ``share`` that of the test rows in this
    stratum, ``bits`` the gain beyond P(z|y) per row with its interval.
    """

    rate: Interval
    chance: float
    bits: Interval
    rows: int
    share: float


def surest(choose: Judged, test: Judged, prior: np.ndarray, share: float = SHARE) -> np.ndarray:
    """The numbers (m,) of the test rows, or of those of whole clusters, that the attack is surest of.

    They are the top ``share`` by validation's threshold, or more where many are equally sure. ``prior`` (classes of y,
    classes of z) is P(z|y). Sureness is the information gain that the attack itself expects, sum of p log2(p / prior),
    averaged over the rows of a cluster. It never looks at z.
    """
    _, of_choose = _sureness(choose, prior)
    rows, of_test = _sureness(test, prior)
    threshold = np.quantile(of_choose, 1 - share, method="higher") if len(of_choose) else np.inf
    # Rows of one code tie: all of it, unless that is most rows, of which none is surer than another.
    at_least = of_test >= threshold
    return np.flatnonzero((at_least if at_least.mean() <= 0.5 else of_test > threshold)[rows])


def by_label(test: Judged, right: np.ndarray, prior_right: np.ndarray, prior_wrong: np.ndarray) -> dict[str, Stratum]:
    """Rows whose label sent is ``right`` (bool, (n,)) and those where it is wrong, each against its own P(z|y).

    Both priors (classes of y, classes of z) are counted on training rows with a right and with a wrong label: what a
    wrong label itself tells is chance here, for it is sent anyway.
    """
    return {
        "right label": stratum(test, np.flatnonzero(right), prior_right),
        "wrong label": stratum(test, np.flatnonzero(~right), prior_wrong),
    }


def stratum(test: Judged, rows: np.ndarray, prior: np.ndarray) -> Stratum:
    """The rates of the test rows of these numbers (m,)."""
    share = len(rows) / max(1, len(test.z))
    if len(rows) < SHOWN_ROWS:
        return Stratum(NOTHING, float("nan"), NOTHING, len(rows), share)
    y, z, p = test.y[rows], test.z[rows], test.p[rows]
    cluster = None if test.cluster is None else test.cluster[rows]
    return Stratum(
        rate(p.argmax(axis=1) == z, cluster),
        float((prior[y].argmax(axis=1) == z).mean()),
        attack_metrics.bits_beyond(prior, p, y, z, cluster),
        len(rows),
        share,
    )


def _sureness(part: Judged, prior: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The unit of each row (n,), and of each unit what the attack expects to have gained, bits."""
    p, base = (np.maximum(values, attack_metrics.FLOOR) for values in (part.p, prior[part.y]))
    gain = (p * np.log2(p / base)).sum(axis=1)
    unit = unit_numbers(len(gain), part.cluster)
    return unit, np.bincount(unit, weights=gain) / np.bincount(unit)


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
    gains, unit = attack_metrics.attack_gains(prior, test.p, test.y), units(test)

    def within(rows: np.ndarray) -> float | None:
        """What a part itself tells of z is no gain: z is shuffled among its own rows."""
        cluster = None if test.cluster is None else test.cluster[rows]
        fold = None if test.fold is None else test.fold[rows]
        return sequential_test(gains[rows], test.y[rows], test.z[rows], cluster, _mean, fold=fold, rng=rng).p

    def part(name: str, kind: Kind, rows: np.ndarray, found: Stratum, p: float | None) -> Part:
        count = len(np.unique(unit[rows]))
        return Part(name, kind, len(rows), count, found.rate, found.chance, found.bits, p)

    all_parts = []
    rows = surest(choose, test, prior)
    sure = stratum(test, rows, prior)
    p = None
    if sure.rows >= SHOWN_ROWS:
        test_arguments = gains, test.y, test.z, test.cluster, lambda gain: float(gain[rows].mean())
        p = sequential_test(*test_arguments, fold=test.fold, rng=rng).p
    all_parts.append(part("surest twentieth", "surest", rows, sure, p))
    if test.cluster is not None:
        all_parts.append(_units(gains, test, unit, rng))
    if label is not None:
        right, held = label.test == test.y, label.choose == choose.y
        priors = [_prior_of(choose, of, prior) for of in (held, ~held)]
        for (name, one), of in zip(by_label(test, right, *priors).items(), (right, ~right), strict=True):
            rows = np.flatnonzero(of)
            # Nearly all rows have a right label: the test on all rows is about them.
            tested = name == "wrong label" and one.rows >= SHOWN_ROWS
            all_parts.append(part(name, "label", rows, one, within(rows) if tested else None))
    for group in search(test, prior, attributes, label=None if label is None else label.test, rng=rng):
        rows = np.flatnonzero(group.rows)
        all_parts.append(part(group.name, "subgroup", rows, stratum(test, rows, prior), within(rows)))
    known = [one.p for one in all_parts if one.p is not None]
    corrected = iter(holm(known))
    return tuple(one if one.p is None else one._replace(p=min(1.0, 2 * next(corrected))) for one in all_parts)


def _units(gains: np.ndarray, test: Judged, unit: np.ndarray, rng: np.random.Generator) -> Part:
    """The twentieth of the units with the largest mean gain."""
    size = np.bincount(unit)
    most = max(1, round(SHARE * len(size)))
    name = "twentieth with the largest gain"
    if len(size) < PART_ROWS:
        return Part(name, "units", 0, len(size), NOTHING, float("nan"), NOTHING, None)

    def statistic(gain: np.ndarray) -> float:
        return _mean(np.partition(np.bincount(unit, gain) / size, -most)[-most:])

    tested = sequential_test(gains, test.y, test.z, test.cluster, statistic, fold=test.fold, rng=rng)
    gain = gains[np.arange(len(test.z)), test.z]
    best = np.argpartition(np.bincount(unit, gain) / size, -most)[-most:]
    bits = Interval(statistic(gain) - tested.null, float("nan"), float("nan"))
    return Part(name, "units", int(size[best].sum()), most, NOTHING, float("nan"), bits, tested.p)


def _prior_of(choose: Judged, rows: np.ndarray, prior: np.ndarray) -> np.ndarray:
    """P(z|y) counted on some validation rows, drawn towards ``prior`` where they are few."""
    n = np.bincount(choose.y[rows], minlength=len(prior))[:, None]
    counted = counted_prior(choose.y[rows], choose.z[rows], (prior.shape[0], prior.shape[1]))
    return (n * counted + PRIOR_ROWS * prior) / (n + PRIOR_ROWS)


def _mean(values: np.ndarray) -> float:
    return float(values.mean())
