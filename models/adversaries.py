"""Networks that a generator is trained against, and that never ship: adversaries, and the discriminators of PR-GAN.

Adversaries go from the unit cube to logits of z. They are three for every kind of sample, each of another architecture,
because a generator soon learns to deceive a single one.
"""

from __future__ import annotations

from collections.abc import Callable

import keras
from keras import layers

from edgeveil.models.classifiers import small

MOMENTUM = 0.9  # of BatchNorm: its averages must follow a generator that changes


def adversaries(shape: tuple[int, ...], classes: int) -> list[Callable[[], keras.Model]]:
    """Makers of fresh networks for samples (n, *shape): images (height, width, channels), or vectors (features,)."""
    if len(shape) == 1:
        return [
            lambda: mlp(shape, classes, widths=(256, 128), batch_norm=False),
            lambda: mlp(shape, classes, widths=(384, 192), batch_norm=True),
            lambda: mlp(shape, classes, widths=(512,), batch_norm=False),
        ]
    height, width, channels = shape
    return [
        lambda: small((height, width, channels), classes, width=16),
        lambda: mlp(shape, classes, widths=(256, 128), batch_norm=True),
        lambda: batch_norm_cnn((height, width, channels), classes),
    ]


def mlp(shape: tuple[int, ...], classes: int, *, widths: tuple[int, ...], batch_norm: bool) -> keras.Model:
    """Dense layers of ``widths`` on all values."""
    reading = keras.Input(shape)
    x = layers.Flatten()(reading)
    for width in widths:
        x = layers.Dense(width, use_bias=not batch_norm)(x)
        x = layers.BatchNormalization(momentum=MOMENTUM)(x) if batch_norm else x
        x = layers.ReLU()(x)
    return keras.Model(reading, layers.Dense(classes, name="logits")(x))


def batch_norm_cnn(shape: tuple[int, int, int], classes: int, *, width: int = 16) -> keras.Model:
    """Convolutions of stride 2 with BatchNorm down to about 4 x 4, then logits."""
    reading = keras.Input(shape)
    x, side = reading, min(shape[:2])
    while side > 4:
        x = layers.Conv2D(width, 3, strides=2, padding="same", use_bias=False)(x)
        x = layers.ReLU()(layers.BatchNormalization(momentum=MOMENTUM)(x))
        side, width = -(-side // 2), min(2 * width, 64)
    return keras.Model(reading, layers.Dense(classes, name="logits")(layers.Flatten()(x)))


# Discriminators D of PR-GAN: is this sample raw or perturbed? One logit, high for raw ones.


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
