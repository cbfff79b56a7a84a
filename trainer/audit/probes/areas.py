"""Areas under curves of scored pairs or rows, with intervals by resampled people.

A pair is of two people and a person is in many pairs, so intervals resample people: a pair counts as often as both of
its people were drawn, and a pair of one person as often as that person was.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgeveil.trainer.audit.findings import Finding
from edgeveil.trainer.measures.intervals import Interval

DRAWS = 200
FALSE_POSITIVES = 0.01


@dataclass(frozen=True)
class Scored:
    """``score`` (n,) of pairs or rows, which of them are ``positive``, ``fold`` (each scored by a model of its own, so
    only scores of one fold are compared) and the units ``a`` and ``b`` (n,) they are of; a = b for single rows."""

    score: np.ndarray
    positive: np.ndarray
    fold: np.ndarray
    a: np.ndarray
    b: np.ndarray

    def measured(self, measure: Callable[[Curve], float], rng: np.random.Generator) -> Interval:
        """``measure`` averaged over folds, with the 2.5 % and 97.5 % quantiles of resampled units."""
        pieces = [self.fold == fold for fold in np.unique(self.fold)]
        curves = [(Curve.ranked(self.score[piece], self.positive[piece]), piece) for piece in pieces]
        units, number = np.unique(np.stack([self.a, self.b]), return_inverse=True)
        number = number.reshape(2, -1)
        same = number[0] == number[1]

        def figure(weight: np.ndarray) -> float:
            of_folds = np.array([measure(curve.weighted(weight[piece])) for curve, piece in curves])
            known = of_folds[~np.isnan(of_folds)]  # a draw may leave a fold without pairs of one kind
            return float(known.mean()) if len(known) else float("nan")

        drawn = []
        for _ in range(DRAWS):
            times = rng.multinomial(len(units), np.full(len(units), 1 / len(units))).astype(np.float64)
            weight = np.where(same, times[number[0]], times[number[0]] * times[number[1]])
            drawn.append(figure(weight))
        low, high = np.nanquantile(drawn, [0.025, 0.975])
        point = figure(np.ones(len(self.score)))
        return Interval(point, min(float(low), point), max(float(high), point))

    def finding(self, asked: str, name: str, figure: str, rng: np.random.Generator, **facts: Any) -> Finding:
        """A figure of ``MEASURES`` as a finding of a probe; where it is none, why."""
        measure, null = MEASURES[figure]
        value, more = self.measured(measure, rng), {"kind": "probe"}
        if not np.isfinite(value.estimate):
            few = f"{len(self.score)} rows or pairs are too few or too similar for a figure: give more data"
            return Finding(asked, name, not_run=few, more=more, **facts)
        return Finding.measured(asked, name, figure, value, null=null, rows=len(self.score), more=more, **facts)


@dataclass(frozen=True)
class Curve:
    """Weights of positives and of negatives at each different score, lowest first."""

    rank: np.ndarray
    positive: np.ndarray
    of_positives: np.ndarray
    of_negatives: np.ndarray

    @classmethod
    def ranked(cls, score: np.ndarray, positive: np.ndarray) -> Curve:
        """Ranks of scores (n,), and which are positive; nothing is counted yet."""
        rank = np.unique(score, return_inverse=True)[1].reshape(-1)
        return cls(rank, positive.astype(bool), np.empty(0), np.empty(0))

    def weighted(self, weight: np.ndarray) -> Curve:
        """The same curve with weights (n,)."""
        size = int(self.rank.max()) + 1
        sums = [np.bincount(self.rank, weight * side, minlength=size) for side in (self.positive, ~self.positive)]
        return Curve(self.rank, self.positive, *sums)


def curve(score: np.ndarray, positive: np.ndarray) -> Curve:
    """Scores (n,) as one curve, each counting once."""
    return Curve.ranked(score, positive).weighted(np.ones(len(score)))


def area(curve: Curve) -> float:
    """The chance that a positive scores above a negative, ties counting one half; NaN without one of them."""
    p, n = curve.of_positives, curve.of_negatives
    if not p.sum() or not n.sum():
        return float("nan")
    return float((p * (np.cumsum(n) - n / 2)).sum() / (p.sum() * n.sum()))


def equal_error_rate(curve: Curve) -> float:
    """Where as many positives are missed as negatives are taken for one; 0.5 is chance."""
    p, n = curve.of_positives, curve.of_negatives
    if not p.sum() or not n.sum():
        return float("nan")
    missed = np.concatenate([[0.0], np.cumsum(p) / p.sum()])
    taken = np.concatenate([[1.0], 1 - np.cumsum(n) / n.sum()])
    crossed = int(np.argmax(missed >= taken))
    before = max(0, crossed - 1)
    # Between two thresholds both rates go along a straight line: guessing there at random reaches every point of it.
    gap, next_gap = taken[before] - missed[before], missed[crossed] - taken[crossed]
    share = gap / (gap + next_gap) if gap + next_gap > 0 else 0.0
    return float(missed[before] + share * (missed[crossed] - missed[before]))


def recognised(curve: Curve) -> float:
    """The share of positives above all but 1 % of the negatives."""
    p, n = curve.of_positives, curve.of_negatives
    if not p.sum() or not n.sum():
        return float("nan")
    above = n.sum() - np.cumsum(n)  # negatives above each score
    threshold = int(np.argmax(above <= FALSE_POSITIVES * n.sum() + 1e-9))
    return float(p[threshold + 1 :].sum() / p.sum())


# By the name of a figure its measure, and what y alone reaches.
MEASURES: Mapping[str, tuple[Callable[[Curve], float], float]] = {
    "auc": (area, 0.5),
    "eer": (equal_error_rate, 0.5),
    "recognised": (recognised, FALSE_POSITIVES),
}
