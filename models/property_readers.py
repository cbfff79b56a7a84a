"""Small networks that predict several properties of a sample at once, as a recipient of the data would train.

They train in seconds, many in one audit, and are the same for every kind of data.
"""

from __future__ import annotations

from collections.abc import Mapping

import keras


def reader(shape: tuple[int, ...], outputs: Mapping[str, int], *, width: int = 16) -> keras.Model:
    """A Keras model from samples (batch, *shape) to ``outputs``: units by name, all of them linear.

    Images go through two strided 3 x 3 convolutions of ``width`` and twice as many channels, series through two over
    time with twice as many, vectors through a layer of eight times ``width``; then all outputs share 64 units.
    """
    x = h = keras.Input(shape, name="reading")
    if len(shape) == 3:
        for channels in (width, 2 * width):
            h = keras.layers.Conv2D(channels, 3, strides=2, padding="same", activation="relu")(h)
        h = keras.layers.Flatten()(h)
    elif len(shape) == 2:
        for channels, steps in ((2 * width, 9), (4 * width, 5)):
            h = keras.layers.Conv1D(channels, steps, strides=2, padding="same", activation="relu")(h)
        h = keras.layers.Flatten()(h)
    else:
        h = keras.layers.Dense(8 * width, activation="relu")(h)
    h = keras.layers.Dense(64, activation="relu")(h)
    return keras.Model(x, {name: keras.layers.Dense(units, name=f"to_{name}")(h) for name, units in outputs.items()})
