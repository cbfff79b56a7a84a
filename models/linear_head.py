"""A linear classifier with given weights, as a network that every board's interpreter runs."""

from __future__ import annotations

import keras
import numpy as np

from edgeveil.models.layers import fixed_dense


def linear_head(shape: tuple[int, ...], weights: np.ndarray, bias: np.ndarray) -> keras.Model:
    """Scores of ``weights`` (classes, values) and ``bias`` (classes,): input ``sample`` (n, *shape), output ``scores``
    (n, classes)."""
    sample = keras.Input(shape, name="sample")
    flat = keras.layers.Flatten()(sample) if len(shape) > 1 else sample
    return keras.Model(sample, fixed_dense(weights.T, "scores", bias=bias)(flat), name="linear_head")
