"""Decoders of a codebook: from a code's description, and noise, to a picture of it.

They stay on the workstation: the table of the pictures that they drew ships.
"""

from __future__ import annotations

import math

import keras
from keras import layers


def decoder(condition: int, latent: int, shape: tuple[int, ...], *, width: int = 256) -> keras.Model:
    """Inputs ``condition`` (condition,) and ``noise`` (latent,), normal; output: logits of a sample (*shape)."""
    known, noise = keras.Input((condition,), name="condition"), keras.Input((latent,), name="noise")
    x = layers.Concatenate()([known, noise])
    for _ in range(2):
        x = layers.Dense(width, activation="relu")(x)
    x = layers.Dense(math.prod(shape))(x)
    return keras.Model([known, noise], layers.Reshape(shape)(x), name="decoder")


def recogniser(condition: int, latent: int, shape: tuple[int, ...], *, width: int = 256) -> keras.Model:
    """A sample (*shape) and ``condition`` to the mean and log-variance (2 latent,) of the noise that it came from.

    For training a decoder alone (Kingma and Welling, "Auto-Encoding Variational Bayes", 2014).
    """
    reading, known = keras.Input(shape, name="reading"), keras.Input((condition,), name="condition")
    x = layers.Concatenate()([layers.Flatten()(reading), known])
    x = layers.Dense(width, activation="relu")(x)
    return keras.Model([reading, known], layers.Dense(2 * latent)(x), name="recogniser")
