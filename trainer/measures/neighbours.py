"""A mechanism judged on several neighbours: the pair of them that proves most, by a score that is learned from runs.

Of the runs on each neighbour a third learns what tells two laws apart, a third chooses pair and score, and a third
judges; see ``black_box``.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import numpy as np

from edgeveil.trainer.measures.black_box import Spent, lower_bound

MOST_VALUES = 4096  # different outputs; with more a score is a sum over their values
BINS = 16  # of one value

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
    edges = [np.unique(np.quantile(column, np.linspace(0, 1, BINS + 1)[1:-1])) for column in pooled.T]
    each = [
        _log_odds(
            *(np.bincount(np.searchsorted(at, part[:, j], "right"), minlength=len(at) + 1) for part in (one, other))
        )
        for j, at in enumerate(edges)
    ]
    yield lambda outputs: sum(
        (log[np.searchsorted(at, outputs[:, j], "right")] for j, (at, log) in enumerate(zip(edges, each, strict=True))),
        np.zeros(len(outputs)),
    )


def _log_odds(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    return np.log((one + 0.5) / (other + 0.5))


def total_variation(q: np.ndarray) -> float:
    """The largest total-variation distance between two rows of ``q``: 0 where c' says nothing of c, at most 1."""
    q = q / q.sum(axis=1, keepdims=True)
    return float(max(0.5 * np.abs(q - row).sum(axis=1).max() for row in q))
