"""What one release spends at the least, by running the artefact itself on neighbours: a bound from below.

The promise is about any two readings. So the ends of the range, half of it, its middle and readings of several classes
are run many times each, and the pair that tells most is judged on runs that did not choose it. A bound above the claim
would prove the claim wrong; one below proves nothing.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from edgeveil.trainer.datasets.base import Dataset
from edgeveil.trainer.measures.black_box import Spent, lower_bound

RUNS = 9_000  # of each reading; a third to learn a score from, a third to choose by, a third to judge
CONFIDENCE = 0.999  # one audit in a thousand may find too much by chance
MOST_VALUES = 4096  # different outputs; with more a score is a sum over their values
BINS = 16  # of one value
MOST_CLASSES = 4  # readings of the data set

Perturb = Callable[[np.ndarray], Mapping[str, np.ndarray]]


def at_least(perturb: Perturb, dataset: Dataset, *, runs: int = RUNS, confidence: float = CONFIDENCE) -> dict[str, Any]:
    """The audit's ``measured``: epsilon, and the neighbours that prove it."""
    outputs = {name: _flat(perturb(np.repeat(x[None], runs, axis=0))) for name, x in _readings(dataset)}
    third = runs // 3
    best: tuple[float, str, np.ndarray, np.ndarray] | None = None
    for (one, a), (other, b) in itertools.combinations(outputs.items(), 2):
        for score in _scores(a[:third], b[:third]):
            scores = score(a[third:]), score(b[third:])
            chosen = lower_bound(*(part[:third] for part in scores), confidence=confidence).epsilon
            if best is None or chosen > best[0]:
                best = chosen, f"{one}; {other}", *scores
    if best is None:
        return {"not_run": "there are no two readings to run"}
    _, neighbours, *both = best
    found: Spent = lower_bound(*both, confidence=confidence)
    return {"epsilon": found.epsilon, "confidence": confidence, "runs": found.runs, "neighbours": neighbours}


def _readings(dataset: Dataset) -> Iterator[tuple[str, np.ndarray]]:
    """Samples by what they are called."""
    spec = dataset.input
    if spec.low is not None:
        low, high = (np.broadcast_to(np.asarray(end, np.float64), spec.shape) for end in (spec.low, spec.high))
        half = np.arange(low.size).reshape(spec.shape) < low.size // 2
        for name, x in (
            ("every value at its low end", low),
            ("every value at its high end", high),
            ("every value in its middle", (low + high) / 2),
            ("half of the values at their high ends", np.where(half, high, low)),
        ):
            yield name, x.astype(spec.dtype)
    test = dataset.part("test")
    for y in np.unique(test.y)[:MOST_CLASSES]:
        yield f"a reading of {dataset.y_names[y]}", test.x[test.y == y][0]


def _flat(outputs: Mapping[str, np.ndarray]) -> np.ndarray:
    """All outputs of each run beside each other, float64 (n, values)."""
    return np.hstack([value.reshape(len(value), -1).astype(np.float64) for value in outputs.values()])


def _scores(one: np.ndarray, other: np.ndarray) -> Iterator[Callable[[np.ndarray], np.ndarray]]:
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
