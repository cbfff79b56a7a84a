"""A convolutional adversary over time, with BatchNorm: strided convolutions, then the mean and the peak of each."""

from __future__ import annotations

from typing import Any

from edgeveil.trainer.attacks.families.networks import Network

SHORTEST = 8  # steps, where convolutions stop halving


def series_trunk(frame: Any, widen: int) -> Any:
    """Convolutions of stride 2 over (steps, channels) until ``SHORTEST`` steps are left, then 128 features."""
    from keras import layers

    x, kernel, width = frame, 9, 32 * widen
    while True:
        x = layers.Conv1D(width, kernel, strides=2, padding="same", use_bias=False)(x)
        x = layers.ReLU()(layers.BatchNormalization(momentum=0.9)(x))
        if x.shape[1] <= SHORTEST:
            break
        kernel, width = 5, 64 * widen
    x = layers.Concatenate()([layers.Flatten()(x), layers.GlobalMaxPooling1D()(x)])
    return layers.Dense(128 * widen, activation="relu")(layers.Dropout(0.3)(x))


SERIES_CNN = Network("series CNN", series_trunk, rate=2e-3, of="series")
