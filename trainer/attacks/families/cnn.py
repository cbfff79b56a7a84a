"""Two convolutional adversaries for pictures: a plain one that pools, and one with BatchNorm that strides."""

from __future__ import annotations

from typing import Any

from edgeveil.trainer.attacks.families.networks import Network


def plain_trunk(frame: Any, widen: int) -> Any:
    """Convolutions of 3x3 with max-pooling until about 4x4 is left (three times at most), then 128 features."""
    from keras import layers

    x, width = frame, 12 * widen
    size, halvings = min(frame.shape[1:3]), 0
    while size > 5 and halvings < 3:
        size, halvings = (size + 1) // 2, halvings + 1
    for _ in range(halvings):
        x = layers.Conv2D(width, 3, padding="same", activation="relu")(x)
        x = layers.MaxPooling2D(2, padding="same")(x)
        width = min(48 * widen, width * 2)
    x = layers.Conv2D(width, 3, padding="same", activation="relu")(x)
    return layers.Dense(128 * widen, activation="relu")(layers.Flatten()(x))


def batch_norm_trunk(frame: Any, widen: int) -> Any:
    """A 3x3 convolution, then strided ones until about 4x4 is left, each with BatchNorm, then 128 features."""
    from keras import layers

    x = _block(frame, 16 * widen, strides=1 if min(frame.shape[1:3]) < 16 else 2)
    width = 32 * widen
    while min(x.shape[1:3]) > 4 and width <= 128 * widen:
        x = _block(x, width, strides=2)
        width *= 2
    x = layers.Dropout(0.2)(layers.Flatten()(x))
    x = layers.Dense(128 * widen, use_bias=False)(x)
    return layers.ReLU()(layers.BatchNormalization(momentum=0.9)(x))


def _block(x: Any, width: int, strides: int) -> Any:
    from keras import layers

    x = layers.Conv2D(width, 3, strides=strides, padding="same", use_bias=False)(x)
    return layers.ReLU()(layers.BatchNormalization(momentum=0.9)(x))


class BatchNormCNN(Network):
    """A convolutional network with BatchNorm that strides, for pictures."""

    name = "BatchNorm CNN"
    order = 9
    trunk = staticmethod(batch_norm_trunk)
    rate = 2e-3
    of = "image"


class PlainCNN(Network):
    """A plain convolutional network that pools, for pictures."""

    name = "CNN"
    order = 10
    trunk = staticmethod(plain_trunk)
    rate = 1e-3
    of = "image"
