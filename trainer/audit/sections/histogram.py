"""How often each code, or each class, left on the test rows: what a stream elsewhere is compared with.

A running service compares what it sends with it (``edgeveil.edge_runtime.ext.shift.distance``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from edgeveil.edge_runtime.ext.shift.distance import effective_number
from edgeveil.trainer.attacks.rows import places
from edgeveil.trainer.audit.sections import About, Section
from edgeveil.trainer.audit.subject import running
from edgeveil.trainer.datasets.base import Dataset
from edgeveil.trainer.measures.intervals import count, unit_numbers

TRIES = 16  # of a blank sample: a drawn code gives itself away
_MOST_CODES = 2**16

Perturb = Callable[[np.ndarray], Mapping[str, np.ndarray]]


def section(
    manifest: Mapping[str, Any], outputs: Mapping[str, np.ndarray], dataset: Dataset, perturb: Perturb
) -> dict[str, Any] | None:
    """The histogram of the code that leaves, else of the class; None where neither does.

    ``outputs`` are those of all perturbed rows; ``perturb`` draws anew. Where people are cut out of frames, an empty
    place sends the code of a blank sample: if that is drawn at random, the class is counted instead.
    """
    spec = dataset.input
    low = np.broadcast_to(np.asarray(0 if spec.low is None else spec.low), spec.shape)
    blank = perturb(np.repeat(low.astype(spec.dtype)[None], TRIES, axis=0))
    kinds = {"code": 0, "label": 1}
    countable = sorted((one for one in manifest["outputs"] if one["kind"] in kinds), key=lambda one: kinds[one["kind"]])
    countable = [one for one in countable if outputs[one["name"]].ndim == 1 and outputs[one["name"]].dtype.kind in "iu"]
    steady = [one for one in countable if (blank[one["name"]] == blank[one["name"]][0]).all()]
    if not countable:
        return None
    crops = (manifest.get("capture") or {}).get("crop") is not None
    name = (steady if crops and steady else countable)[0]["name"]
    values = outputs[name]
    codes = int(max(values.max(), blank[name].max())) + 1
    if values.min() < 0 or codes > _MOST_CODES:
        return None
    test = places(dataset).test
    cluster = dataset.part("test").cluster
    values, effective = values[test], float(len(values[test]))
    if cluster is not None:
        unit = unit_numbers(len(values), cluster)
        counts = count(unit, values, shape=(int(unit.max()) + 1, codes))
        effective = min(effective, max(1.0, effective_number(counts)))
    return {
        "output": name,
        "counts": np.bincount(values, minlength=codes).tolist(),
        "effective": round(effective, 3),
        "blank": int(blank[name][0]) if name in [one["name"] for one in steady] else None,
    }


class Histogram(Section):
    """How often each code or class left here, for the shift watch of a running service."""

    name = "histogram"
    order = 6

    def applies(self, about: About) -> bool:
        """Not of a board's outputs: what a board is compared with was made here."""
        return about.there is None

    def keys(self, about: About) -> dict[str, Any]:
        """``histogram``, as ``section``."""
        with running(about.subject, about.run) as perturb:
            outputs = about.perturbed.outputs
            return {self.name: section(about.subject.manifest, outputs, about.dataset, perturb)}
