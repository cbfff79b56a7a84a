"""The rows that every table has beside its perturber: original, random, PASS, and label-only as mean and as donor.

They are made from a run of any kind and stay on the workstation; all but PASS take seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from edgeveil.trainer.perturbers import label_only
from edgeveil.trainer.runs.run import Run
from scripts.reproduce.papers import baseline_original, baseline_pass, baseline_random


class Mechanism(Protocol):
    """What a table attacks: a perturber, or what only looks like one."""

    @property
    def outputs(self) -> Sequence[Mapping[str, Any]]:
        """As a manifest has them."""

    def perturb(self, x: np.ndarray) -> Mapping[str, np.ndarray]:
        """Every output by name for samples x (n, ...)."""


Make = Callable[[Run, np.random.Generator], Mechanism]


def _label_only(run: Run, _rng: np.random.Generator) -> Mechanism:
    return label_only.from_classifier(run.dataset().for_training(), run.classifiers()["target"])


def _label_only_donor(run: Run, rng: np.random.Generator) -> Mechanism:
    return label_only.as_donor(run.dataset().for_training(), run.classifiers()["target"], rng)


ROWS: dict[str, Make] = {
    "original": lambda run, _rng: baseline_original.perturber(run.dataset().for_training()),
    "random": lambda run, _rng: baseline_random.perturber(run.dataset().for_training()),
    "pass": baseline_pass.perturber,
    "label-only": _label_only,
    "label-only donor": _label_only_donor,
}
