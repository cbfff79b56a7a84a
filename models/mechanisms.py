"""Noise mechanisms as networks: a draw stage draws their noise from the device's own generator."""

from __future__ import annotations

import keras
import numpy as np
from keras import ops

SMALLEST = 2.0**-24  # the tail ends where the uniform draw has no finer step: at 16.6 scales


def laplace(features: int, scale: float) -> keras.Model:
    """x + n, n Laplace of ``scale``: inputs ``features`` and ``noise``, uniform in [0, 1), both (n, features).

    By the inverse distribution function; floating-point noise of this kind is not differentially private.
    """
    x, noise = keras.Input((features,), name="features"), keras.Input((features,), name="noise")
    t = ops.subtract(noise, np.float32(0.5))
    lower, upper = (_log_tail(ops.relu(side)) for side in (ops.negative(t), t))
    n = ops.multiply(ops.subtract(lower, upper), np.float32(scale))
    return keras.Model([x, noise], keras.layers.Add(name="output")([x, n]), name="laplace")


def _log_tail(t: keras.KerasTensor) -> keras.KerasTensor:
    return ops.log(ops.maximum(ops.subtract(np.float32(1), ops.multiply(t, np.float32(2))), np.float32(SMALLEST)))
