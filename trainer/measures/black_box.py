"""How much a mechanism spends at the least, by running it: a lower bound for epsilon, with confidence.

A mechanism is run many times on each of two neighbours. On one half of the runs an event is chosen, on the other it is
judged: if epsilon holds, P(E | one) <= e^epsilon P(E | other) for every event, so the ends of the
Clopper-Pearson intervals of both rates bound epsilon from below. The event is a set of likelihood ratios: 64 bins of a
score, those first that one neighbour fills more than the other. Half-lines of a score miss what both tails give away.

For Gaussian mechanisms the two rates bound mu, and so epsilon at any delta (Nasr et al., "Tight Auditing of
Differentially Private Machine Learning", 2023).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import stats

BINS = 64


@dataclass(frozen=True)
class Spent:
    """What was spent is at least ``epsilon``, with ``confidence``, judged on ``runs`` of each neighbour.

    ``one`` and ``other`` are the event's rates, the larger first. So many runs prove no more than log(runs),
    about, however much is spent: events that cannot happen are not told apart from rare ones.
    """

    epsilon: float
    confidence: float
    runs: int
    one: float
    other: float


def lower_bound(one: np.ndarray, other: np.ndarray, *, confidence: float = 0.95) -> Spent:
    """What the scores (n,) of runs on two neighbours prove. Runs must be independent and in no order.

    Both directions are tried on the first half; the second half judges the event that was chosen.
    """
    chosen = _Event.chosen(one[: len(one) // 2], other[: len(other) // 2], confidence)
    one, other = one[len(one) // 2 :], other[len(other) // 2 :]
    if chosen.swapped:
        one, other = other, one
    hits, misses = chosen.holds(one), chosen.holds(other)
    epsilon = _epsilon(hits.sum(), len(hits), misses.sum(), len(misses), confidence)
    return Spent(epsilon, confidence, len(hits), float(hits.mean()), float(misses.mean()))


class Apart(NamedTuple):
    """Two laws lie at least ``mu`` deviations apart, as the event's rates say, judged on ``runs`` of each neighbour."""

    mu: float
    runs: int
    one: float
    other: float


def mu_lower_bound(one: np.ndarray, other: np.ndarray, *, confidence: float = 0.95) -> Apart:
    """How far apart the laws of the scores (n,) are, where a Gaussian mechanism made them or what they come of."""
    half = len(one) // 2
    cut, sign = _best_cut(one[:half], other[:half])
    hits, misses = sign * one[half:] > sign * cut, sign * other[half:] > sign * cut
    seen = clopper_pearson(int(hits.sum()), len(hits), confidence)[0]
    false = clopper_pearson(int(misses.sum()), len(misses), confidence)[1]
    mu = max(0.0, float(stats.norm.ppf(seen) - stats.norm.ppf(false)))
    return Apart(mu, len(hits), float(hits.mean()), float(misses.mean()))


def clopper_pearson(hits: int, runs: int, confidence: float) -> tuple[float, float]:
    """The ends of the exact interval of a rate. Of two rates that are used on one side each, both ends hold at once."""
    error = (1 - confidence) / 2
    low = float(stats.beta.ppf(error, hits, runs - hits + 1)) if hits else 0.0
    high = float(stats.beta.ppf(1 - error, hits + 1, runs - hits)) if hits < runs else 1.0
    return low, high


def _epsilon(hits: int, runs: int, misses: int, others: int, confidence: float) -> float:
    low, high = clopper_pearson(int(hits), runs, confidence)[0], clopper_pearson(int(misses), others, confidence)[1]
    return max(0.0, math.log(low / high)) if low > 0 else 0.0


def _best_cut(one: np.ndarray, other: np.ndarray) -> tuple[float, float]:
    """The half-line that tells most: (where, on which side)."""
    cuts = np.quantile(np.concatenate([one, other]), np.linspace(0.02, 0.98, 49))
    gains = np.array([(one > cut).mean() - (other > cut).mean() for cut in cuts])
    at = int(np.abs(gains).argmax())
    return float(cuts[at]), 1.0 if gains[at] >= 0 else -1.0


@dataclass(frozen=True)
class _Event:
    """Some of the bins between ``edges``; ``swapped``: seen more with the other neighbour than with the one."""

    edges: np.ndarray
    bins: np.ndarray
    swapped: bool

    @classmethod
    def chosen(cls, one: np.ndarray, other: np.ndarray, confidence: float) -> _Event:
        """That which bounds epsilon best on these runs."""
        pooled = np.concatenate([one, other])
        edges = np.unique(pooled)[1:]
        if len(edges) >= BINS:
            edges = np.unique(np.quantile(pooled, np.linspace(0, 1, BINS + 1)[1:-1], method="lower"))
        counts = [_binned(edges, x) for x in (one, other)]
        best: tuple[float, _Event] | None = None
        for swapped in (False, True):
            mine, theirs = counts[::-1] if swapped else counts
            order = np.argsort(-(mine + 0.5) / (theirs + 0.5), kind="stable")
            for take in range(1, len(order)):
                bins = order[:take]
                bound = _epsilon(mine[bins].sum(), mine.sum(), theirs[bins].sum(), theirs.sum(), confidence)
                if best is None or bound > best[0]:
                    best = bound, cls(edges, bins, swapped)
        return best[1] if best else cls(edges, np.array([0]), False)

    def holds(self, scores: np.ndarray) -> np.ndarray:
        """Whether it happened, (n,) bool."""
        return np.isin(np.searchsorted(self.edges, scores, "right"), self.bins)


# A mechanism judged on several neighbours: the pair of them that proves most, by a score that is learned from runs.
#
# Of the runs on each neighbour a third learns what tells two laws apart, a third chooses pair and score, and a third
# judges; see ``black_box``.

MOST_VALUES = 4096  # different outputs; with more a score is a sum over their values
VALUE_BINS = 16  # of one value

Score = Callable[[np.ndarray], np.ndarray]


class Proved(NamedTuple):
    """What the two ``neighbours`` prove."""

    spent: Spent
    neighbours: str


def most_proved(outputs: Mapping[str, np.ndarray], *, confidence: float = 0.95) -> Proved | None:
    """Of ``outputs``, by neighbour the output of each run (n, values); None where there are no two neighbours."""
    best: tuple[float, str, np.ndarray, np.ndarray] | None = None
    for (one, a), (other, b) in itertools.combinations(outputs.items(), 2):
        third = min(len(a), len(b)) // 3
        for score in _scores(a[:third], b[:third]):
            scores = score(a[third:]), score(b[third:])
            chosen = lower_bound(*(part[:third] for part in scores), confidence=confidence).epsilon
            # The bound chooses its event on the first half of these, and judges it on the second.
            if best is None or chosen > best[0]:
                best = chosen, f"{one}; {other}", *scores
    if best is None:
        return None
    _, neighbours, *judged = best
    return Proved(lower_bound(*judged, confidence=confidence), neighbours)


def without_noise(outputs: Mapping[str, np.ndarray]) -> bool:
    """Whether every neighbour gave one output only, and not all the same: then no epsilon is enough."""
    alone = all((runs == runs[0]).all() for runs in outputs.values())
    return alone and len({runs[0].tobytes() for runs in outputs.values()}) > 1


def _scores(one: np.ndarray, other: np.ndarray) -> Iterator[Score]:
    """What tells two laws apart, learned from runs of both (n, values): functions of (m, values) to (m,)."""
    values, place = np.unique(np.vstack([one, other]), axis=0, return_inverse=True)
    if len(values) <= min(MOST_VALUES, len(one) // 2):
        counts = [np.bincount(part, minlength=len(values)) for part in np.split(place.reshape(-1), 2)]
        odds = {value.tobytes(): log for value, log in zip(values, _log_odds(*counts), strict=True)}
        yield lambda outputs: np.array([odds.get(row.tobytes(), 0.0) for row in np.ascontiguousarray(outputs)])
        return
    spread = one.var(axis=0) + other.var(axis=0)
    weights = np.where(spread > 0, (one.mean(axis=0) - other.mean(axis=0)) / np.where(spread > 0, spread, 1), 0.0)
    yield lambda outputs: outputs @ weights
    # Where the values are independent, the log-odds of all are the sum of those of each.
    pooled = np.vstack([one, other])
    edges = [np.unique(np.quantile(column, np.linspace(0, 1, VALUE_BINS + 1)[1:-1])) for column in pooled.T]
    counts_of = [[_binned(at, part[:, j]) for part in (one, other)] for j, at in enumerate(edges)]
    each = [(at, _log_odds(*both)) for at, both in zip(edges, counts_of, strict=True)]
    yield lambda outputs: sum(
        (log[np.searchsorted(at, outputs[:, j], "right")] for j, (at, log) in enumerate(each)), np.zeros(len(outputs))
    )


def _binned(edges: np.ndarray, values: np.ndarray) -> np.ndarray:
    """How many of the values (n,) are in each bin between the edges."""
    return np.bincount(np.searchsorted(edges, values, "right"), minlength=len(edges) + 1)


def _log_odds(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    return np.log((one + 0.5) / (other + 0.5))


def total_variation(q: np.ndarray) -> float:
    """The largest total-variation distance between two rows of ``q``: 0 where c' says nothing of c, at most 1."""
    q = q / q.sum(axis=1, keepdims=True)
    return float(max(0.5 * np.abs(q - row).sum(axis=1).max() for row in q))


# A mechanism that ran once, on many people of whom chance decided who is in.
#
# Steinke, Nasr and Jagielski, "Privacy Auditing with One (1) Training Run", 2023: however many of so many independent
# coins are guessed from what the run gave, right guesses are at most those of coins that fall right with probability
# e^epsilon / (1 + e^epsilon); delta adds to the chance of more. Here a coin says which of a pair is in.

MOST_EPSILON = 50.0


def one_training(gaps: np.ndarray, delta: float, swaps: int, confidence: float) -> Spent:
    """What the scores of those who were in, less those of the others in their places, ``gaps`` (pairs,), prove.

    The clearest of a tenth, of a third or of all pairs are guessed. ``swaps``: neighbours of the promise, one after the
    other, from one of a pair to the other (2 where a unit is added or removed).
    """
    order = np.argsort(-np.abs(gaps), kind="stable")
    sizes = sorted({max(1, len(gaps) // share) for share in (10, 3, 1)})
    error, proved = (1 - confidence) / len(sizes), []
    for guessed in sizes:
        right = int((gaps[order[:guessed]] > 0).sum())

        def refused(epsilon: float, guessed: int = guessed, right: int = right) -> bool:
            each = sum(math.exp(epsilon * step) for step in range(swaps)) * delta  # of all swaps together
            return _more_right(right, guessed, len(gaps), epsilon * swaps, each) < error

        low, high = 0.0, MOST_EPSILON if refused(0.0) else 0.0
        while high - low > 1e-3:
            middle = (low + high) / 2
            low, high = (middle, high) if refused(middle) else (low, middle)
        proved.append(Spent(low, confidence, guessed, right / guessed, 1 - right / guessed))
    return max(proved, key=lambda one: one.epsilon)


def _more_right(right: int, guessed: int, pairs: int, epsilon: float, delta: float) -> float:
    """The most that the chance of so many right guesses, or more, can be."""
    chance = 1 / (1 + math.exp(-epsilon))
    fewer = np.cumsum(stats.binom.pmf(right - np.arange(1, right + 1), guessed, chance))
    most = float((fewer / np.arange(1, right + 1)).max(initial=0.0))
    return min(1.0, float(stats.binom.sf(right - 1, guessed, chance)) + 2 * pairs * delta * most)
