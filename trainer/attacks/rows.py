"""The rows that adversaries learn on, and those they are tested on. Attacks, probes and sections all take them here.

An audit perturbs the rows ``dataset.slices.rows()``: those of every slice, one slice after the other.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from edgeveil.trainer.datasets.base import Dataset, SliceName
from edgeveil.trainer.measures import attack_metrics


class Places(NamedTuple):
    """Where rows lie among those that an audit perturbs.

    ``old`` are the first two slices, on which the perturber was trained, ``second`` the later of them, ``fresh`` the
    slice ``attack`` (empty where the data are too few for it), and ``learn`` all three.
    """

    learn: slice
    old: slice
    second: slice
    fresh: slice
    test: slice


def places(dataset: Dataset) -> Places:
    """Where the rows of each kind are."""
    slices = dataset.slices
    second, fresh, test = slices.places("perturber"), slices.places("attack"), slices.places("test")
    return Places(slice(0, fresh.stop), slice(0, second.stop), second, fresh, test)


def freshest(dataset: Dataset) -> SliceName:
    """The slice to learn on of what leaks most on rows that the perturber never saw: ``attack``, where there is one."""
    return "attack" if len(dataset.slices.attack) else "perturber"


def unseen(dataset: Dataset) -> np.ndarray:
    """The numbers (n,) of the rows that no training saw, in the order of an audit's: ``attack``, then ``test``."""
    return np.concatenate([dataset.slices.attack, dataset.slices.test])


def to_learn(dataset: Dataset) -> np.ndarray:
    """The numbers (n,), in the data set, of the rows that adversaries learn on."""
    return dataset.slices.rows()[places(dataset).learn]


def prior(dataset: Dataset) -> np.ndarray:
    """P(z|y), (classes of y, classes of z), counted on the rows that adversaries learn on."""
    rows = to_learn(dataset)
    return attack_metrics.counted_prior(dataset.y[rows], dataset.z[rows], dataset.theta.shape)
