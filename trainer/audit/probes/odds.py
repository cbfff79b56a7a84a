"""What one release spends at the least, by running the artefact itself on neighbours: a bound from below.

The promise is about any two readings. So the ends of the range, half of it, its middle and readings of several classes
are run many times each, and the pair that tells most is judged on runs that did not choose it. A bound above the claim
would prove the claim wrong; one below proves nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from edgeveil.trainer.datasets.base import Dataset
from edgeveil.trainer.measures.neighbours import most_proved

RUNS = 9_000  # of each reading; a third to learn a score from, a third to choose by, a third to judge
CONFIDENCE = 0.999  # one audit in a thousand may find too much by chance
MOST_CLASSES = 4  # readings of the data set

Perturb = Callable[[np.ndarray], Mapping[str, np.ndarray]]


def at_least(perturb: Perturb, dataset: Dataset, *, runs: int = RUNS, confidence: float = CONFIDENCE) -> dict[str, Any]:
    """The audit's ``measured``: epsilon, and the neighbours that prove it."""
    outputs = {name: _flat(perturb(np.repeat(x[None], runs, axis=0))) for name, x in _readings(dataset)}
    found = most_proved(outputs, confidence=confidence)
    if found is None:
        return {"not_run": "there are no two readings to run"}
    spent = found.spent
    return {"epsilon": spent.epsilon, "confidence": confidence, "runs": spent.runs, "neighbours": found.neighbours}


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
    """All outputs of each run next to each other, float64 (n, values)."""
    return np.hstack([value.reshape(len(value), -1).astype(np.float64) for value in outputs.values()])
