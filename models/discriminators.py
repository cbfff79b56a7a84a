"""Discriminators D of PR-GAN: is this sample raw or perturbed? One logit, high for raw ones. They never ship."""

from __future__ import annotations

import keras
from keras import layers


def conv_discriminator(shape: tuple[int, int, int], *, width: int = 32) -> keras.Model:
    """Two convolutions of stride 2, then one logit; ``shape`` (height, width, channels)."""
    image = keras.Input(shape, name="image")
    x = layers.Conv2D(width, 3, strides=2, padding="same")(image)
    x = layers.LeakyReLU(0.2)(x)
    x = layers.Conv2D(2 * width, 3, strides=2, padding="same")(x)
    x = layers.LeakyReLU(0.2)(x)
    x = layers.Flatten()(x)
    return keras.Model(image, layers.Dense(1, name="logits")(x))


def series_discriminator(shape: tuple[int, int], *, width: int = 32) -> keras.Model:
    """As ``conv_discriminator``, over time: ``shape`` (steps, channels)."""
    series = keras.Input(shape, name="series")
    x = layers.LeakyReLU(0.2)(layers.Conv1D(width, 5, strides=2, padding="same")(series))
    x = layers.LeakyReLU(0.2)(layers.Conv1D(2 * width, 5, strides=2, padding="same")(x))
    return keras.Model(series, layers.Dense(1, name="logits")(layers.Flatten()(x)))


def mlp_discriminator(features: int, *, width: int = 128) -> keras.Model:
    """Two dense layers, then one logit; ``features`` is the vector's length."""
    vector = keras.Input((features,), name="features")
    x = layers.Dense(width)(vector)
    x = layers.LeakyReLU(0.2)(x)
    x = layers.Dense(width)(x)
    x = layers.LeakyReLU(0.2)(x)
    return keras.Model(vector, layers.Dense(1, name="logits")(x))
