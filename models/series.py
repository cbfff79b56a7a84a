"""Networks for time series (steps, channels): convolutions over time, written as 2-D ones over (steps, 1).

So they export to int8 TFLite, an Edge TPU and ONNX as pictures do. Each begins with a per-channel standardisation
without weights, whose averages follow the training data and ship in the artefact: channels of other units count alike.
"""

from __future__ import annotations

from typing import Any

import keras
from keras import layers

SHORTEST = 8  # steps: convolutions of stride 2 until no more are left
FIRST, NEXT = 9, 5  # steps that a convolution sees: of the samples, and of what the first ones made
MOMENTUM = 0.9
LEAST_VARIANCE = 1e-6  # of a channel in the unit cube: a quarter of an int8 step, squared
JITTER = 0.3  # deviation of the noise on standardised samples, in training alone: little data is learned by heart


def classifier(shape: tuple[int, int], classes: int, *, width: int = 48) -> keras.Model:
    """From the unit cube to logits, for D_y and D_z; ``shape`` (steps, channels), ``width`` channels at first."""
    series = keras.Input(shape, name="series")
    x = layers.Dropout(0.5)(layers.Flatten()(_narrowed(series, width)))
    return keras.Model(series, layers.Dense(classes, name="logits")(x))


def trunk(shape: tuple[int, int], *, width: int = 48, features: int = 128) -> keras.Model:
    """The trunk of a codebook's encoder: from the unit cube to ``features`` numbers."""
    series = keras.Input(shape, name="series")
    x = layers.Dropout(0.3)(layers.Flatten()(_narrowed(series, width)))
    return keras.Model(series, layers.Dense(features, activation="relu")(x), name="trunk")


def _standard(series: Any) -> Any:
    """(n, steps, channels) to (n, steps, 1, channels), each channel of mean 0 and variance 1 over training data."""
    x = layers.Reshape((series.shape[1], 1, series.shape[2]), name="steps")(series)
    standard = layers.BatchNormalization(
        center=False, scale=False, momentum=MOMENTUM, epsilon=LEAST_VARIANCE, name="standard"
    )
    return standard(x)


def _narrowed(series: Any, width: int) -> Any:
    """Convolutions of stride 2 with BatchNorm, twice as wide from the second, until ``SHORTEST`` steps; then means."""
    x, kernel, channels = layers.GaussianNoise(JITTER)(_standard(series)), FIRST, width
    while x.shape[1] > SHORTEST:
        x = layers.Conv2D(channels, (kernel, 1), strides=(2, 1), padding="same", use_bias=False)(x)
        x = layers.Dropout(0.15)(layers.ReLU()(layers.BatchNormalization(momentum=MOMENTUM)(x)))
        kernel, channels = NEXT, 2 * width
    return layers.AveragePooling2D((2, 1), padding="same")(x)
