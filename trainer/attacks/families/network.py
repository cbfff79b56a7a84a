"""Two adversaries over time: strided convolutions with BatchNorm, and units that remember, read forth and back."""

from __future__ import annotations

from typing import Any

from edgeveil.trainer.attacks.families.networks import Network

SHORTEST = 8  # steps, where convolutions stop halving
MOST_TURNS = 32  # steps that are remembered one after the other


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


def recurrent_trunk(frame: Any, widen: int) -> Any:
    """Convolutions of stride 2, then gated recurrent units in both directions over what is left; 128 features."""
    from keras import layers

    x, units = frame, 48 * widen
    while True:
        x = layers.Conv1D(units, 5, strides=2, padding="same", use_bias=False)(x)
        x = layers.ReLU()(layers.BatchNormalization(momentum=0.9)(x))
        if x.shape[1] <= MOST_TURNS:
            break
    x = layers.Concatenate()([layers.GRU(units)(x), layers.GRU(units, go_backwards=True)(x)])
    return layers.Dense(128 * widen, activation="relu")(layers.Dropout(0.3)(x))


class SeriesCNN(Network):
    """Strided convolutions over time: shapes in a series."""

    name = "series CNN"
    order = 11
    trunk = staticmethod(series_trunk)
    rate = 2e-3
    of = "series"


class SeriesGRU(Network):
    """Recurrent units in both directions of time: what follows what in a series."""

    name = "series GRU"
    order = 12
    trunk = staticmethod(recurrent_trunk)
    rate = 4e-3
    of = "series"
