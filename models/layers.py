"""Layers that Keras lacks and every board's converter knows."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf


@keras.saving.register_keras_serializable(package="edgeveil")
class ResizeNearest(keras.layers.Layer):
    """(n, h, w, c) to (n, height, width, c) by nearest neighbour.

    Keras' own nearest ``UpSampling2D`` becomes RESHAPE and TILE in TFLite, which no Edge TPU runs; this becomes
    RESIZE_NEAREST_NEIGHBOR version 2. ``half_pixel_centers=False`` is what old runtimes read.
    """

    def __init__(self, height: int, width: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.height, self.width = height, width

    def call(self, inputs: Any) -> Any:
        """Resize; linear in its input and without weights."""
        return tf.raw_ops.ResizeNearestNeighbor(images=inputs, size=[self.height, self.width], half_pixel_centers=False)

    def compute_output_shape(self, input_shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
        """(n, height, width, c)."""
        return (input_shape[0], self.height, self.width, input_shape[3])

    def get_config(self) -> dict[str, Any]:
        """What ``from_config`` needs."""
        return {**super().get_config(), "height": self.height, "width": self.width}


@keras.saving.register_keras_serializable(package="edgeveil")
class UnitClip(keras.layers.Layer):
    """min(relu(x), 1): into the unit cube with two operations that every int8 runtime has."""

    def call(self, inputs: Any) -> Any:
        """Clip each value on its own."""
        return tf.minimum(tf.nn.relu(inputs), 1.0)

    def compute_output_shape(self, input_shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
        """The input's."""
        return input_shape
