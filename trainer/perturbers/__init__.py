"""Perturbers, one file each. A kind is a module with ``fit(dataset, rng, budget, run) -> FittedPerturber``."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

KINDS = {
    "prgan": "edgeveil.trainer.perturbers.prgan",
    "ngp": "edgeveil.trainer.perturbers.prgan",
    "ap": "edgeveil.trainer.perturbers.prgan",
    "minimax": "edgeveil.trainer.perturbers.minimax",
    "label-only": "edgeveil.trainer.perturbers.label_only",
    "codebook": "edgeveil.trainer.perturbers.codebook.fit",
    "cleaner": "edgeveil.trainer.perturbers.linear_cleaner",
    "noise": "edgeveil.trainer.perturbers.linear_noise",
    "laplace": "edgeveil.trainer.perturbers.laplace",
}


def fit_function(kind: str) -> Callable[..., Any]:
    """The ``fit`` of a kind; its module, and with it TensorFlow, is imported now."""
    return importlib.import_module(KINDS[kind]).fit
