"""Perturbers, one file each. A kind is a module with ``fit(dataset, rng, budget, run) -> FittedPerturber``."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

KINDS = {
    "prgan": "trainer.perturbers.prgan",
    "ngp": "trainer.perturbers.prgan",
    "ap": "trainer.perturbers.prgan",
    "minimax": "trainer.perturbers.minimax",
    "label-only": "trainer.perturbers.label_only",
    "release": "trainer.perturbers.release",
    "cleaner": "trainer.perturbers.cleaning",
    "noise": "trainer.perturbers.noising",
    "laplace": "trainer.perturbers.laplace",
}


def fit_function(kind: str) -> Callable[..., Any]:
    """The ``fit`` of a kind; its module, and with it TensorFlow, is imported now."""
    return importlib.import_module(KINDS[kind]).fit
