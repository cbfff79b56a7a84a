"""Is one class surely recognised more than r times as often as others are taken for it, where others are few?

The threshold is read from the others' scores: the highest that leaves ``allowed`` of them above it. How many of *all*
others lie above it is then not known, and with a hundred of them it may well be three times the share that was meant.
So both sides are counted. Of n others the share F above the threshold has the law Beta(allowed + 1, n - allowed),
whatever the scores (an order statistic; where scores tie, F is smaller). If no threshold told the class apart by more
than the factor r, at most Binomial(m, min(1, r F)) of its m rows lie above. So the chance of that many hits is exact,
and a sum over the strata (each y has its own threshold) stays exact.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy import special, stats

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.datasets.base import taken
from edgeveil.trainer.measures import attack_metrics
from edgeveil.trainer.measures.attack_metrics import FLOOR, Calibration, sequential_test
from edgeveil.trainer.measures.enough import LEARN_UNITS, PART_ROWS, PERCENT_ROWS, SHOWN_ROWS
from edgeveil.trainer.measures.intervals import CONFIDENCE, Interval, clipped, count, mean, rate, student, unit_numbers

NODES = 96  # of the quadrature over F
_NEGLIGIBLE = 1e-10


class Stratum(NamedTuple):
    """Rows of the class, others, and how many others the threshold leaves above it."""

    positives: int
    negatives: int
    allowed: int


def p_value(hits: int, strata: tuple[Stratum, ...], ratio: float) -> float:
    """The largest chance of at least ``hits`` rows above their thresholds, were none ``ratio`` times as likely there.

    1 where there is no row of the class.
    """
    tail = _tail(strata, ratio)
    return float(tail[min(hits, len(tail) - 1)])


@lru_cache(maxsize=4096)
def _tail(strata: tuple[Stratum, ...], ratio: float) -> np.ndarray:
    """P(at least h hits) for h = 0, 1, ... up to where it is negligible."""
    law = np.ones(1)
    for one in strata:
        law = np.convolve(law, _hits(one, ratio))
    return np.minimum(1.0, np.append(1.0, 1.0 - np.cumsum(law)[:-1]).clip(_NEGLIGIBLE))


@lru_cache(maxsize=4096)
def _hits(one: Stratum, ratio: float) -> np.ndarray:
    """The law of the hits in one stratum; what is left out at its upper end adds up to less than ``_NEGLIGIBLE``."""
    share = stats.beta(one.allowed + 1, one.negatives - one.allowed)
    ends = share.ppf([_NEGLIGIBLE, 1 - _NEGLIGIBLE])
    place, weight = np.polynomial.legendre.leggauss(NODES)
    at = ends[0] + (place + 1) / 2 * (ends[1] - ends[0])
    weight = weight * share.pdf(at)
    rate = np.minimum(1.0, ratio * at)
    count = np.arange(int(stats.binom.ppf(1 - _NEGLIGIBLE, one.positives, rate.max())) + 1)
    ways = -special.betaln(count + 1, one.positives - count + 1) - np.log(one.positives + 1)
    rest = one.positives - count
    return (weight / weight.sum()) @ np.exp(
        ways + special.xlogy(count, rate[:, None]) + special.xlog1py(rest, -rate[:, None])
    )


# The exposure of the rows and classes at most risk, which an average hides.
#
# An attack that is at chance on average may still be sure about a few people (true positives at 1 % false ones, the
# membership literature's measure: Carlini et al. 2022), or about one class of z. That class is chosen on the validation
# rows and measured on the test rows, so no figure is the largest of many noisy ones.

FALSE_POSITIVES = 0.01
TIMES = 3.0  # a leak: recognised more than this many times as often as others are taken for it
DRAWS = 8  # of one row of each unit


class Judged(NamedTuple):
    """An attack's probabilities for some rows (n, classes of z), and their y, z (n,), cluster (n,) or None.

    ``fold`` (n,) is that of ``Problem``.
    """

    p: np.ndarray
    y: np.ndarray
    z: np.ndarray
    cluster: np.ndarray | None = None
    fold: np.ndarray | None = None


class Rate(NamedTuple):
    """A rate with its interval, and the number of its test rows; NaN and 0 where there are too few.

    ``chance`` is the same rate for an attacker who knows y alone, ``p`` the p-value of its being at most ``TIMES`` as
    much (NaN where that was not tested).
    """

    rate: Interval
    rows: int
    chance: float
    p: float = float("nan")


NOTHING = Interval(float("nan"), float("nan"), float("nan"))
_Z2 = float(stats.norm.ppf(0.5 + CONFIDENCE / 2)) ** 2


def at_low_fpr(choose: Judged, test: Judged) -> Rate:
    """The share of rows of one z that are recognised while 1 % of the other rows of equal y are taken for it.

    Thresholds are each y's own; rows whose y has fewer than 100 rows of another z are left out. Knowing y alone
    gives 1 %. The interval takes the thresholds as they are. ``p`` does not: it counts that they are read from few
    rows, is of independent units, and is corrected for the classes that were looked at.
    """
    classes = range(test.p.shape[1])
    enough = [k for k in classes if len(_recognised(test, k).hits) >= SHOWN_ROWS]
    if not enough:
        return Rate(NOTHING, 0, FALSE_POSITIVES)
    # With few validation rows the threshold is above every false positive, which still ranks the classes.
    ranked = {k: _recognised(choose, k, fewest=2).hits for k in enough}
    worst = max(enough, key=lambda k: ranked[k].mean() if len(ranked[k]) else -1.0)
    hits, rows, _ = _recognised(test, worst)
    recognition_rate = rate(hits, taken(test.cluster, rows))
    return Rate(recognition_rate, len(hits), FALSE_POSITIVES, min(1.0, len(enough) * _surely(test, worst)))


def worst_class(choose: Judged, test: Judged, prior: np.ndarray) -> Rate:
    """Recall of the class of z that the attack's best guess gains most on, over the best guess from y alone.

    ``prior`` (classes of y, classes of z) is the counted P(z|y) that the guess from y alone is made from.
    """
    enough = [k for k in range(test.p.shape[1]) if (test.z == k).sum() >= SHOWN_ROWS]
    if not enough:
        return Rate(NOTHING, 0, float("nan"))

    def recalls(part: Judged, k: int) -> tuple[np.ndarray, np.ndarray]:
        of = part.z == k
        return part.p[of].argmax(axis=1) == k, prior[part.y[of]].argmax(axis=1) == k

    def gain(k: int) -> float:
        hits, guessed = recalls(choose, k)
        return float(hits.mean() - guessed.mean()) if len(hits) else -1.0

    worst = max(enough, key=gain)
    hits, guessed = recalls(test, worst)
    return Rate(rate(hits, taken(test.cluster, test.z == worst)), len(hits), float(guessed.mean()))


def balanced(test: Judged, prior: np.ndarray) -> Rate:
    """Balanced accuracy within y, and its chance level: every z counts alike, however rare it is with that y.

    The guess is the z that gained most over ``prior`` (classes of y, classes of z). Per y the mean recall over its z,
    over y weighted by rows. NaN where no y has two values of z.

    The interval is Student's t over rows, or over clusters, by linearisation of the recalls. A recall of 0 or 1 shows
    no variance, so the variance is at least that of independent rows with recalls drawn to one half (Agresti and Coull
    1998).
    """
    guess = (np.log(test.p) - np.log(prior[test.y])).argmax(axis=1)
    share, hit, recall_of = np.zeros((3, len(test.y)))
    chance, least = 0.0, 0.0
    groups = list(attack_metrics.several(test.y, test.z))
    counted = sum(len(rows) for rows, _ in groups)
    if not counted:
        return Rate(NOTHING, 0, float("nan"))
    for rows, present in groups:
        weight = len(rows) / counted / len(present)
        chance += weight
        for k in present:
            own = rows[test.z[rows] == k]
            hit[own] = guess[own] == k
            share[own], recall_of[own] = weight / len(own), hit[own].mean()
            drawn = (hit[own].sum() + _Z2 / 2) / (len(own) + _Z2)
            least += weight**2 * drawn * (1 - drawn) / len(own)
    estimate = float((share * hit).sum())
    totals = np.bincount(units(test), weights=share * (hit - recall_of))
    if len(totals) < 2:
        return Rate(Interval(estimate, 0.0, 1.0), 0, float(chance))
    variance = max(least, len(totals) / (len(totals) - 1) * float((totals**2).sum()))
    return Rate(clipped(estimate, student(len(totals)) * float(np.sqrt(variance))), 0, float(chance))


def _surely(test: Judged, k: int) -> float:
    """The p-value of class k being recognised at most ``TIMES`` as often as others are taken for it.

    Rows of one subject or session depend on each other: one of each is drawn, ``DRAWS`` times, and twice the mean
    p-value is one again (Vovk and Wang 2020).
    """
    if test.cluster is None:
        return _p_value(test, k, PERCENT_ROWS)
    unit, size = np.unique(test.cluster, return_inverse=True, return_counts=True)[1:]
    order, first = np.argsort(unit.reshape(-1), kind="stable"), np.cumsum(size) - size
    rng = np.random.default_rng(0)  # the same draws for every attack
    p_values = []
    for _ in range(DRAWS):
        drawn = order[first + rng.integers(0, size)]
        p_values.append(_p_value(Judged(test.p[drawn], test.y[drawn], test.z[drawn]), k, fewest=1))
    return min(1.0, 2 * float(np.mean(p_values)))


def _p_value(rows: Judged, k: int, fewest: int) -> float:
    """The same for independent rows, of those y that have at least ``fewest`` rows of another class.

    At 1 % false positives, and where no other row lies above the threshold: a few who are recognised for sure stand out
    there most. The smaller p-value counts, twice.
    """
    every = (_recognised(rows, k, fewest, share) for share in (FALSE_POSITIVES, 0.0))
    hit_counts = {(int(one.hits.sum()), one.strata) for one in every}  # one, where 1 % is less than a row
    return min(1.0, len(hit_counts) * min(p_value(hits, strata, TIMES) for hits, strata in hit_counts))


class _Recognised(NamedTuple):
    """Whether each row of a class lies above its y's threshold, the numbers of those rows, and the counts of each y."""

    hits: np.ndarray
    rows: np.ndarray
    strata: tuple[Stratum, ...]


def _recognised(part: Judged, k: int, fewest: int = PERCENT_ROWS, share: float = FALSE_POSITIVES) -> _Recognised:
    """The rows of class k whose y has at least ``fewest`` rows of another class, of which ``share`` lie above it."""
    hits, numbers, strata = [np.empty(0, bool)], [np.empty(0, np.int64)], []
    for y in np.unique(part.y[part.z == k]):
        own = np.flatnonzero((part.y == y) & (part.z == k))
        others = part.p[(part.y == y) & (part.z != k), k]
        if len(others) < fewest:
            continue
        allowed = int(share * len(others))
        threshold = np.sort(others)[len(others) - 1 - allowed]
        hits.append(part.p[own, k] > threshold)
        numbers.append(own)
        strata.append(Stratum(len(own), len(others), allowed))
    return _Recognised(np.concatenate(hits), np.concatenate(numbers), tuple(strata))


# Subgroups in which an attack seems to gain most; ``parts`` tests them on rows that were not searched.
#
# Half of the units (subjects, sessions, or rows) are searched: values of y, of the label sent and of other attributes,
# and conjunctions of two of them.

TESTED = 5
BINS = 4
MOST_VALUES = 8  # an attribute with more different numbers is cut into quantile bins
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
) -> list[Subgroup]:
    """The subgroups that seem most exposed in one half of the test rows; their ``rows`` are those of the other half.

    ``test`` holds calibrated probabilities, ``prior`` (classes of y, classes of z) is P(z|y), ``attributes`` are values
    (n,) by name, NaN where unknown; ``label`` (n,) is y-hat. Empty where an attack gains in none. Raises ``BadInput``
    where lengths differ.
    """
    known: dict[str, np.ndarray] = {"y": test.y, **attributes}
    if label is not None:
        known = {**known, "class sent": label, "class sent is y": label == test.y}
    for name, values in known.items():
        if len(values) != len(test.y):
            raise BadInput(f"The attribute {name!r} has {len(values)} values for {len(test.y)} test rows.")
    unit = units(test)
    searched = (rng.permutation(int(unit.max(initial=-1)) + 1) % 2 == 0)[unit]
    conditions = {name: list(_values(name, values)) for name, values in known.items()}
    gains, ranked = attack_metrics.attack_gains(prior, test.p, test.y), []
    for one in _groups(conditions):
        rows, others = (np.flatnonzero(one.rows & half) for half in (searched, ~searched))
        if (
            min(len(rows), len(others)) < PART_ROWS
            or min(len(np.unique(unit[of])) for of in (rows, others)) < LEARN_UNITS
        ):
            continue
        interval = mean(_beyond_shuffled(gains[rows], test.y[rows], test.z[rows]), unit[rows])
        if interval.estimate > 1e-9:
            ranked.append((interval.low, one))
    selected: list[Subgroup] = []
    for _, one in sorted(ranked, key=lambda pair: -pair[0]):
        shared = [(one.rows & other.rows).sum() / (one.rows | other.rows).sum() for other in selected]
        if len(selected) < TESTED and max(shared, default=0.0) <= ALIKE:
            selected.append(one)
    return [Subgroup(one.name, one.rows & ~searched) for one in selected]


def units(test: Judged) -> np.ndarray:
    """The number of each row's unit (n,): its subject or session, or the row itself."""
    return unit_numbers(len(test.y), test.cluster)


def holm(p: list[float]) -> list[float]:
    """Holm's corrected p-values (1979), in the order given."""
    order = np.argsort(p, kind="stable")
    raised = np.maximum.accumulate([min(1.0, (len(p) - place) * p[number]) for place, number in enumerate(order)])
    out = np.empty(len(p))
    out[order] = raised
    return [float(one) for one in out]


def _beyond_shuffled(gains: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    """Each row's gain less that with the z of any row of equal y: what the subgroup itself tells is no gain."""
    counts = count(y, z, shape=(int(y.max()) + 1, gains.shape[1]))
    share = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    return gains[np.arange(len(z)), z] - (gains * share[y]).sum(axis=1)


def _values(name: str, values: np.ndarray) -> Iterator[Subgroup]:
    """A condition for each value of an attribute, or for each quantile bin."""
    numbers = values.dtype.kind in "fiu"
    finite = values[np.isfinite(values)] if values.dtype.kind == "f" else values
    different = np.unique(finite)
    if len(different) <= MOST_VALUES or not numbers:
        for value in different:
            yield Subgroup(f"{name} = {value:g}" if numbers else f"{name} = {value}", values == value)
        return
    ends = np.unique(np.quantile(finite, np.linspace(0, 1, BINS + 1)))
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


# Questions about a label that one attack on it answers: which side of a threshold or of a grouping is a row on?
#
# Who hides "under 18" may publish "under 17". The posterior of a side is the sum of those of its classes, so one attack
# answers thousands of questions. The worst is chosen on the validation rows and measured on the test rows, so it is not
# the largest of many noisy ones.

MOST_CLASSES = 12  # all groupings of so many are asked: 2,047
MOST_CUTS = 64
AT_ONCE = 64
TRUST = (1.0, 0.5, 0.25)


class Answer(NamedTuple):
    """A question of which ``side`` (classes of the label,) bool a row is on, answered on the test rows.

    ``auc`` within y and ``bits`` beyond y with their intervals; ``p`` of the permutation test, not corrected, None
    where rows of one cluster have several answers. ``chosen_by`` are the bits on validation.
    """

    side: np.ndarray
    auc: Interval
    bits: Interval
    p: float | None
    chosen_by: float


def thresholds(classes: int) -> np.ndarray:
    """Sides "below class k" of an ordered label, (cuts, classes) bool; ``MOST_CUTS`` of them at most."""
    cuts = np.unique(np.linspace(1, classes - 1, min(classes - 1, MOST_CUTS)).round().astype(int))
    return np.arange(classes)[None] < cuts[:, None]


def groupings(classes: int) -> np.ndarray:
    """One side of every way to put the classes into two groups, (2^(classes - 1) - 1, classes) bool."""
    numbers = np.arange(1, 2 ** (classes - 1))
    return (numbers[:, None] >> np.arange(classes)[None] & 1).astype(bool)


def worst(
    sides: np.ndarray, choose: Judged, test: Judged, prior: np.ndarray, *, rng: np.random.Generator
) -> Answer | None:
    """The answer of which an attack on the label has most bits on validation rows.

    ``sides`` (questions, classes); ``choose`` and ``test`` hold the attack's own probabilities of the label, ``prior``
    (classes of y, classes of the label) is P(label|y). None where y alone answers them all.

    An attack may be wrong about most classes of a label and right about one question, so trust in it is not one number
    for the label: the best of ``TRUST`` ranks the questions, and the worst of them is calibrated by itself.
    """
    # Rows of one code, y and label have one answer to each question.
    each, times = np.unique(np.column_stack([choose.p, choose.y, choose.z]), axis=0, return_counts=True)
    once = Judged(each[:, :-2], *each[:, -2:].T.astype(np.int64))
    of_trust = (once._replace(p=Calibration(one, 1 - one).apply(once.p, prior[once.y])) for one in TRUST)
    blocks = [sides[i : i + AT_ONCE] for i in range(0, len(sides), AT_ONCE)]
    bits = np.max([np.concatenate([_bits(block, part, prior, times) for block in blocks]) for part in of_trust], axis=0)
    # Some y has both answers among the test rows.
    there = count(test.y, test.z, shape=prior.shape) > 0
    open_ = ((there @ sides.T) & (there @ ~sides.T)).any(axis=0)
    if not open_.any():
        return None
    # Within y many groupings are the same question: the first of them, whatever rounding says.
    best = int(np.where(open_, bits.round(4), -np.inf).argmax())
    side = sides[best]
    of_choose, of_test = _two(choose, side), _two(test, side)
    base = np.stack([1 - prior @ side, prior @ side], axis=1)
    calibration = attack_metrics.calibrate(of_choose.p, base[choose.y], of_choose.z)
    sure = calibration.apply(of_test.p, base[test.y])
    rows = test.y, of_test.z, test.cluster
    gains = attack_metrics.attack_gains(base, sure, test.y)
    p = sequential_test(gains, *rows, fold=test.fold, rng=rng).p
    area = attack_metrics.area_within_y(of_test.p[:, 1], test.y, of_test.z == 1, test.cluster)
    return Answer(side, area, attack_metrics.bits_beyond(base, sure, *rows), p, float(bits[best]))


def _two(part: Judged, side: np.ndarray) -> Judged:
    """The same answers as those to the question of the side."""
    yes = np.clip(part.p @ side, FLOOR, 1 - FLOOR)
    return part._replace(p=np.stack([1 - yes, yes], axis=1), z=side[part.z].astype(np.int64))


def _bits(sides: np.ndarray, part: Judged, prior: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Mean bits beyond y of each question, (questions,), of rows that there are so many ``times`` (n,)."""
    answer = sides[:, part.z]
    yes, base = (np.clip(table @ sides.T.astype(np.float64), FLOOR, 1 - FLOOR).T for table in (part.p, prior))
    base = base[:, part.y]
    return np.average(np.log2(np.where(answer, yes / base, (1 - yes) / (1 - base))), axis=1, weights=times)
