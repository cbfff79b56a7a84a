"""Probes: attacks other than attribute inference (linkage, membership, copies, codes), one file each.

Every probe is a module with ``run(released, dataset, rows, budget, seed)``, where ``released`` are the rows ``rows``
(row numbers of ``dataset``, in the order classifiers, perturber, test) as they left. It returns a list of rows
(``probe_row`` of docs/reference/schemas/audit.schema.json), each one of

* ``{"name", "value", "low", "high", "n", "chance", "meaning"}``: a rate or an area with its 95 % interval (None where
  there is none), ``n`` rows, pairs or tracks behind it, and ``chance``, what an attacker has who knows y alone;
* ``{"name", "not_run"}``: why it could not be asked of these data, and what would be needed.

``run_all`` gives the document's ``probes``: {"codes": [...], "copies": [...], "linkage": [...], "membership": [...]}.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from edgeveil.trainer.attacks.problem import Budget, Released
from edgeveil.trainer.audit.probes import codes, copies, linkage, membership
from edgeveil.trainer.datasets.base import Dataset

PROBES = {"codes": codes, "copies": copies, "linkage": linkage, "membership": membership}


def run_all(released: Released, dataset: Dataset, rows: np.ndarray, budget: Budget, seed: int) -> dict[str, Any]:
    """Every probe on what left for the rows ``rows``: its rows by its name."""
    return {name: probe.run(released, dataset, rows, budget, seed) for name, probe in PROBES.items()}
