"""Copies: does a real sample leave unchanged?

An average over frames hides a perturber that lets every hundredth one through.

Counted, not attacked: a frame that is bit for bit a sample of the data set names whoever that sample is of. A donor
codebook does this by design (its bundle says "substituted"), and the first row says how often it was the very sample
put in.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from edgeveil.trainer.attacks.problem import Budget, Released
from edgeveil.trainer.audit.probes.answer import not_run, row
from edgeveil.trainer.datasets.base import Dataset
from edgeveil.trainer.measures.intervals import rate

UNCHANGED, ANY = "test frames that leave unchanged", "test frames that are some training reading"


def run(released: Released, dataset: Dataset, rows: np.ndarray, budget: Budget, seed: int) -> list[dict[str, Any]]:
    """Shares of the test rows' frames that are bit-equal to their own sample, and to any sample trained on."""
    del budget, seed
    frames, readings = released.x.reshape(len(rows), -1), dataset.x[rows].reshape(len(rows), -1)
    if frames.shape != readings.shape or frames.dtype != readings.dtype:
        reason = "what leaves is of another kind than the readings, so no frame can be one"
        return [not_run(UNCHANGED, reason), not_run(ANY, reason)]
    first = len(rows) - len(dataset.slices.test)
    test, cluster = slice(first, None), None if released.cluster is None else released.cluster[first:]
    own = (frames[test] == readings[test]).all(axis=1)
    known = {reading.tobytes() for reading in np.ascontiguousarray(readings[:first])}
    some = np.array([frame.tobytes() in known for frame in np.ascontiguousarray(frames[test])], bool)
    meaning = "counted, bit for bit: such a frame names whoever that reading is of"
    return [
        row(UNCHANGED, rate(own, cluster), n=len(own), chance=0.0, meaning=meaning),
        row(ANY, rate(some, cluster), n=len(some), chance=0.0, meaning=meaning),
    ]
