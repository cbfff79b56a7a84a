"""How much codes tell about z on each slice: least on the rows that they were learned on."""

from __future__ import annotations

from typing import Any

import numpy as np

from edgeveil.trainer.datasets.base import PARTS, Dataset
from edgeveil.trainer.measures.certificate import count, information, shuffled_labels

SHUFFLES = 500


def by_slice(dataset: Dataset, code: np.ndarray, *, seed: int = 0) -> dict[str, dict[str, Any]]:
    """I(c'; z | y) of each slice, in bits, over its mean where z is shuffled within y; whole clusters where possible.

    ``code`` (n,) left for the rows of all slices, in their order. ``deviations`` is how many standard deviations of the
    shuffles the bits lie above their mean, ``p`` the share of shuffles that reach them.
    """
    by_part: dict[str, dict[str, Any]] = {}
    code = code.astype(np.int64)
    shape = (len(dataset.y_names), int(code.max()) + 1, len(dataset.z_names))
    for name in PARTS:
        part, of_part = dataset.part(name), code[dataset.slices.places(name)]
        if not len(part):
            continue
        rng = np.random.default_rng([seed, 11])
        bits = information(count(part.y, of_part, part.z, shape=shape))
        shuffled = np.array(
            [
                information(count(part.y, of_part, z, shape=shape))
                for z in shuffled_labels(part.z, part.y, shuffles=SHUFFLES, rng=rng, cluster=part.cluster)
            ]
        )
        by_part[name] = {
            "rows": len(part),
            "bits": round(bits, 6),
            "shuffled": round(float(shuffled.mean()), 6),
            "bits_over_shuffled": round(bits - float(shuffled.mean()), 6),
            "deviations": round((bits - float(shuffled.mean())) / max(float(shuffled.std()), 1e-12), 2),
            "p": round((1 + int((shuffled >= bits).sum())) / (1 + SHUFFLES), 4),
        }
    return by_part
