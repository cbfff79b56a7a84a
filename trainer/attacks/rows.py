"""The rows that adversaries learn on, and those they are tested on. Attacks, probes and sections all take them here.

An audit perturbs the rows ``dataset.slices.rows()``: those of every slice, one slice after the other.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from edgeveil.trainer.datasets.base import Dataset
from edgeveil.trainer.measures import attack_metrics


class Places(NamedTuple):
    """Where rows lie among those that an audit perturbs: ``learn`` is the first two slices together."""

    learn: slice
    second: slice
    test: slice


def places(dataset: Dataset) -> Places:
    """Where the rows of each kind are."""
    slices = dataset.slices
    second = len(slices.classifiers)
    test = second + len(slices.perturber)
    return Places(slice(0, test), slice(second, test), slice(test, test + len(slices.test)))


def to_learn(dataset: Dataset) -> np.ndarray:
    """The numbers (n,), in the data set, of the rows that adversaries learn on."""
    return dataset.slices.rows()[places(dataset).learn]


def prior(dataset: Dataset) -> np.ndarray:
    """P(z|y), (classes of y, classes of z), counted on the rows that adversaries learn on."""
    rows = to_learn(dataset)
    return attack_metrics.counted_prior(dataset.y[rows], dataset.z[rows], dataset.theta.shape)
