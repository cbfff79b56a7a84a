"""The problem that a linear cleaner solves, from a recipe and a data set: wanted and confidential labels, eps."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.datasets.base import Dataset
from edgeveil.trainer.graphs.read import read_keras
from edgeveil.trainer.linear import operators
from edgeveil.trainer.recipe.perturber import Cleaner, Noise


@dataclass(frozen=True)
class LinearProblem:
    """The inputs of a cleaner. ``a_d`` (features, outputs) has full column rank, ``eps`` is per vector, ``mean``
    (features,) is subtracted before cleaning: the training mean, or 0 in homogeneous coordinates."""

    a_d: np.ndarray
    eps: float
    mean: np.ndarray


def linear_problem(section: Cleaner | Noise, dataset: Dataset) -> LinearProblem:
    """A_d, eps and mean for a recipe's ``[perturber]``, from the training slices of ``dataset`` alone."""
    rows = dataset.slices.classifiers
    x = dataset.x[rows].astype(np.float64)
    training = dataset.slices.training()
    mean = np.zeros(x.shape[1]) if dataset.homogeneous else dataset.x[training].mean(axis=0, dtype=np.float64)
    kind, _, place = section.operator.partition(":")
    if kind == "data":
        outputs = wanted(dataset, rows)
        a_d = operators.least_squares(x - mean, outputs - _centre(outputs, dataset), ridge=section.ridge)
    else:
        a_d = operators.from_npy(Path(place)) if kind == "npy" else operators.from_keras(read_keras(Path(place)))
        if len(a_d) != x.shape[1]:
            raise BadInput(
                f"The operator of {place} is for {len(a_d)} features and the vectors have {x.shape[1]}; give the "
                "operator for these vectors."
            )
    eps = section.eps * (a_d.shape[1] if section.eps_per == "label" else 1)
    return LinearProblem(operators.merged(a_d), eps, mean)


def hidden_operator(section: Cleaner | Noise, dataset: Dataset, mean: np.ndarray) -> np.ndarray:
    """A_c (features, confidential outputs) by least squares on both training slices."""
    rows = dataset.slices.training()
    outputs = confidential(dataset, rows)
    x = dataset.x[rows].astype(np.float64) - mean
    return operators.least_squares(x, outputs - _centre(outputs, dataset), ridge=section.ridge)


def wanted(dataset: Dataset, rows: np.ndarray) -> np.ndarray:
    """Wanted labels (n, labels) of some rows; without numeric labels, y one-hot."""
    return np.eye(len(dataset.y_names))[dataset.y[rows]] if dataset.labels is None else dataset.labels.parts(rows)[0]


def confidential(dataset: Dataset, rows: np.ndarray) -> np.ndarray:
    """Confidential labels (n, labels) of some rows; without numeric labels, z one-hot."""
    return np.eye(len(dataset.z_names))[dataset.z[rows]] if dataset.labels is None else dataset.labels.parts(rows)[1]


def _centre(outputs: np.ndarray, dataset: Dataset) -> np.ndarray | float:
    # The constant feature stands for the mean in homogeneous coordinates.
    return 0.0 if dataset.homogeneous else outputs.mean(axis=0)
