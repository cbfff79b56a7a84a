"""Perturbers, one file each. A kind is a module with a ``fit`` as in ``edgeveil.trainer.perturbers.base.Fit``."""

from __future__ import annotations

import importlib

from edgeveil.trainer.datasets.base import Dataset
from edgeveil.trainer.perturbers.base import Fit
from edgeveil.trainer.recipe.perturber import Perturber

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
    "local": "edgeveil.trainer.perturbers.local",
}


def check(section: Perturber, dataset: Dataset) -> None:
    """Raise ``BadInput`` where the data cannot have this perturber, as far as that is known before any training."""
    of_kind = getattr(importlib.import_module(KINDS[section.kind]), "check", None)
    if of_kind is not None:
        of_kind(section, dataset)


def fit_function(kind: str) -> Fit:
    """The ``fit`` of a kind; imports its module, and TensorFlow with it."""
    fit: Fit = importlib.import_module(KINDS[kind]).fit
    return fit
