"""The rows that every table has beside its perturber: original, random, and label-only as mean and as random donor.

They are made from a run of any kind, take seconds, and stay on the workstation.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from edgeveil.trainer.perturbers import label_only
from edgeveil.trainer.runs.fitted import FittedPerturber
from edgeveil.trainer.runs.run import Run
from scripts.reproduce.papers import baseline_original, baseline_random

Make = Callable[[Run, np.random.Generator], FittedPerturber]


def _label_only(run: Run, _rng: np.random.Generator) -> FittedPerturber:
    return label_only.from_classifier(run.dataset().for_training(), run.classifiers()["target"])


def _label_only_donor(run: Run, rng: np.random.Generator) -> FittedPerturber:
    return label_only.as_donor(run.dataset().for_training(), run.classifiers()["target"], rng)


ROWS: dict[str, Make] = {
    "original": lambda run, _rng: baseline_original.perturber(run.dataset().for_training()),
    "random": lambda run, _rng: baseline_random.perturber(run.dataset().for_training()),
    "label-only": _label_only,
    "label-only donor": _label_only_donor,
}
