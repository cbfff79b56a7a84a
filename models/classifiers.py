"""Classifiers D_y and D_z: from the unit cube to logits. Table 1 of paper 001, and small ones."""

from __future__ import annotations

import keras
import numpy as np
from keras import layers

from edgeveil.models.layers import fixed_dense


def table1_mnist(shape: tuple[int, int, int], classes: int) -> keras.Model:
    """Table 1's MNIST column: Conv(64,5,5), Conv(64,5,5), FC(128), FC(classes); no padding, as the table names none.

    ``shape`` (height, width, channels) with at least 9 x 9 pixels.
    """
    image = keras.Input(shape, name="image")
    x = layers.Conv2D(64, 5, activation="relu")(image)
    x = layers.Conv2D(64, 5, activation="relu")(x)
    x = layers.Dropout(0.25)(x)
    x = layers.Flatten()(x)
    x = layers.Dense(128, activation="relu")(x)
    x = layers.Dropout(0.5)(x)
    return keras.Model(image, layers.Dense(classes, name="logits")(x))


def table1_wifi(features: int, classes: int) -> keras.Model:
    """Table 1's WiFi column: FC(256), FC(128), FC(64), FC(classes), dropout of a half after the first two."""
    vector = keras.Input((features,), name="features")
    x = layers.Dense(256, activation="relu")(vector)
    x = layers.Dropout(0.5)(x)
    x = layers.Dense(128, activation="relu")(x)
    x = layers.Dropout(0.5)(x)
    x = layers.Dense(64, activation="relu")(x)
    return keras.Model(vector, layers.Dense(classes, name="logits")(x))


def small(shape: tuple[int, int, int], classes: int, *, width: int = 32) -> keras.Model:
    """A small network for any image: convolutions of stride 2 down to about 4 x 4, then FC(128), FC(classes).

    Used in place of Table 1's VGG16, and for pictures too small for its MNIST column. ``shape`` (height, width,
    channels); ``width`` is the number of channels of the first layer, doubled once.
    """
    image = keras.Input(shape, name="image")
    side = min(shape[:2])
    stride = 2 if side > 12 else 1
    x = layers.Conv2D(width, 3, strides=stride, padding="same", activation="relu")(image)
    side = -(-side // stride)
    while side > 4:
        x = layers.Conv2D(2 * width, 3, strides=2, padding="same", activation="relu")(x)
        side = -(-side // 2)
    x = layers.Dropout(0.25)(x)
    x = layers.Flatten()(x)
    x = layers.Dense(128, activation="relu")(x)
    x = layers.Dropout(0.5)(x)
    return keras.Model(image, layers.Dense(classes, name="logits")(x))


def normed_mlp(features: int, classes: int) -> keras.Model:
    """For vectors: FC(128), FC(64), FC(classes), batch norm after the first two; it folds into them at export.

    Batch norm makes up for features of unlike spread, on which Table 1's column may learn nothing.
    """
    vector = keras.Input((features,), name="features")
    x = vector
    for width in (128, 64):
        x = layers.Dropout(0.2)(_normed(layers.Dense(width, use_bias=False), x))
    return keras.Model(vector, layers.Dense(classes, name="logits")(x))


def windows(features: int, classes: int) -> keras.Model:
    """For vectors that are windows of a sensor, one step after the other or one channel after the other.

    A kernel of 48 and a stride of 12 keep in step with 1, 2, 3, 4, 6 or 12 channels of a step.
    """
    vector = keras.Input((features,), name="features")
    x = _normed(
        layers.Conv2D(48, (48, 1), strides=(12, 1), padding="same", use_bias=False),
        layers.Reshape((features, 1, 1))(vector),
    )
    while x.shape[1] > 8:
        x = layers.Dropout(0.15)(_normed(layers.Conv2D(64, (5, 1), strides=(2, 1), padding="same", use_bias=False), x))
    x = layers.Dropout(0.4)(layers.Flatten()(x))
    return keras.Model(vector, layers.Dense(classes, name="logits")(x))


def normed_cnn(shape: tuple[int, int, int], classes: int, *, width: int = 24) -> keras.Model:
    """``small`` with batch norm after every layer but the last, for pictures of weak contrast or of measurements.

    ``shape`` (height, width, channels); ``width`` is the number of channels of the first layer, doubled twice at most.
    """
    image = keras.Input(shape, name="image")
    side, channels = min(shape[:2]), width
    stride = 2 if side > 12 else 1
    x = _normed(layers.Conv2D(width, 3, strides=stride, padding="same", use_bias=False), image)
    side = -(-side // stride)
    while side > 4:
        channels = min(2 * channels, 4 * width)
        x = _normed(layers.Conv2D(channels, 3, strides=2, padding="same", use_bias=False), x)
        side = -(-side // 2)
    x = layers.Dropout(0.25)(layers.Flatten()(x))
    x = _normed(layers.Dense(64, use_bias=False), x)
    return keras.Model(image, layers.Dense(classes, name="logits")(layers.Dropout(0.2)(x)))


def _normed(layer: layers.Layer, x: keras.KerasTensor) -> keras.KerasTensor:
    """``layer``, batch norm and ReLU. The moving statistics follow within some ten steps: data may be few."""
    return layers.ReLU()(layers.BatchNormalization(momentum=0.9)(layer(x)))


def linear(weights: np.ndarray, bias: np.ndarray, operator: np.ndarray | None = None) -> keras.Model:
    """Vectors (features,) to logits (classes,), in closed form: ``weights`` (k, classes), ``bias`` (classes,).

    ``operator`` (features, k), where there is one, comes first: the predictor sees operator^T x alone.
    """
    first = weights if operator is None else operator
    value = x = keras.Input((first.shape[0],), name="features")
    if operator is not None:
        value = fixed_dense(operator, "operator")(value)
    return keras.Model(x, fixed_dense(weights, "logits", bias=bias)(value))


def track_network(length: int, width: int, classes: int, *, channels: int = 24) -> keras.Model:
    """Codes of a track in order, one-hot (length, width), to logits: convolutions over time, their mean and peak."""
    track = keras.Input((length, width), name="track")
    x = layers.Conv1D(channels, 3, padding="same", activation="relu")(track)
    x = layers.Dropout(0.3)(x)
    x = layers.Conv1D(channels, 3, padding="same", activation="relu")(x)
    x = layers.Concatenate()([layers.GlobalAveragePooling1D()(x), layers.GlobalMaxPooling1D()(x)])
    return keras.Model(track, layers.Dense(classes, name="logits")(layers.Dropout(0.3)(x)), name="track_network")


def linear_head(shape: tuple[int, ...], weights: np.ndarray, bias: np.ndarray) -> keras.Model:
    """A classifier with given weights, which every board's interpreter runs: ``weights`` (classes, values) and ``bias``
    (classes,); input ``sample`` (n, *shape), output ``scores`` (n, classes)."""
    sample = keras.Input(shape, name="sample")
    flat = keras.layers.Flatten()(sample) if len(shape) > 1 else sample
    return keras.Model(sample, fixed_dense(weights.T, "scores", bias=bias)(flat), name="linear_head")
