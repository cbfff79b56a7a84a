"""Probes: attacks other than attribute inference (linkage, membership, copies, codes), one file each.

Every probe is a module with ``run(released, dataset, rows, budget, seed)``, where ``released`` are the rows ``rows``
(``dataset.slices.rows()``) as they left; ``attacks.rows.places`` says which of them are to learn on and to test on. It
returns a list of rows (``probe_row`` of docs/reference/schemas/audit.schema.json), each one of

* ``{"name", "value", "low", "high", "n", "chance", "meaning"}``: a rate or an area with its 95 % interval (None where
  there is none), ``n`` rows, pairs or tracks behind it, and ``chance``, what an attacker reaches who knows y alone;
* ``{"name", "not_run"}``: why it did not run on these data, and what it needs.

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
    """Every probe on the outputs for the rows ``rows``: its rows by its name."""
    return {name: probe.run(released, dataset, rows, budget, seed) for name, probe in PROBES.items()}
