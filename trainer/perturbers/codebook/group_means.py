"""Sums and means of rows by group."""

from __future__ import annotations

import numpy as np


def group_sums(values: np.ndarray, group: np.ndarray, groups: int) -> np.ndarray:
    """The sum (groups, d) of the rows of ``values`` (n, d) in each group; ``group`` (n,) numbers them."""
    sums = np.zeros((groups, values.shape[1]))
    np.add.at(sums, group, values)
    return sums


def group_means(values: np.ndarray, group: np.ndarray, groups: int) -> np.ndarray:
    """The mean (groups, d) of the rows of ``values`` (n, d) in each group; 0 for a group without rows."""
    return group_sums(values, group, groups) / np.maximum(np.bincount(group, minlength=groups), 1)[:, None]
