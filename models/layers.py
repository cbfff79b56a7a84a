"""Layers that Keras lacks and every board's converter supports, and layers with given weights."""

from __future__ import annotations

import importlib
from typing import Any

import keras
import numpy as np


def fixed_dense(matrix: np.ndarray, name: str, *, bias: np.ndarray | None = None) -> keras.layers.Dense:
    """A Dense layer that is not trained: x (n, inputs) to x ``matrix`` (inputs, outputs) + ``bias`` (outputs,)."""
    layer = keras.layers.Dense(matrix.shape[1], use_bias=bias is not None, trainable=False, name=name)
    layer.build((None, matrix.shape[0]))
    layer.set_weights([np.asarray(part, np.float32) for part in (matrix, bias) if part is not None])
    return layer


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
        if keras.backend.backend() == "torch":  # of an export through PyTorch
            interpolate = importlib.import_module("torch").nn.functional.interpolate
            rows = interpolate(inputs.permute(0, 3, 1, 2), size=(self.height, self.width), mode="nearest")
            return rows.permute(0, 2, 3, 1)
        tf = importlib.import_module("tensorflow")
        return tf.raw_ops.ResizeNearestNeighbor(images=inputs, size=[self.height, self.width], half_pixel_centers=False)

    def compute_output_shape(self, input_shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
        """(n, height, width, c)."""
        return (input_shape[0], self.height, self.width, input_shape[3])

    def get_config(self) -> dict[str, Any]:
        """What ``from_config`` needs."""
        return {**super().get_config(), "height": self.height, "width": self.width}


@keras.saving.register_keras_serializable(package="edgeveil")
class UnitClip(keras.layers.Layer):
    """min(relu(x), 1): into the unit cube with two operations that every int8 runtime has.

    A clipped value has no gradient, so a generator that has made everything black cannot recover. With ``returns`` a
    step that leads back into the cube has the gradient it would have inside. That is in training alone: the exported
    network is the same.
    """

    def __init__(self, *, returns: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.returns = returns

    def call(self, inputs: Any, training: bool | None = None) -> Any:
        """Clip each value on its own."""
        return _clip_that_returns(inputs) if self.returns and training else _clip(inputs)

    def compute_output_shape(self, input_shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
        """The input's."""
        return input_shape

    def get_config(self) -> dict[str, Any]:
        """What ``from_config`` needs."""
        return {**super().get_config(), "returns": self.returns}


def _clip(x: Any) -> Any:
    if keras.backend.backend() == "torch":
        return keras.ops.minimum(keras.ops.relu(x), 1.0)
    tf = importlib.import_module("tensorflow")
    return tf.minimum(tf.nn.relu(x), 1.0)


def _clip_that_returns(x: Any) -> Any:
    tf = importlib.import_module("tensorflow")

    @tf.custom_gradient
    def clip(x: Any) -> Any:
        def slope(upstream: Any) -> Any:
            # Descent goes against the slope: below 0 a negative one leads back, above 1 a positive one.
            further_out = ((x < 0.0) & (upstream > 0.0)) | ((x > 1.0) & (upstream < 0.0))
            return tf.where(further_out, 0.0, upstream)

        return _clip(x), slope

    return clip(x)


@keras.saving.register_keras_serializable(package="edgeveil")
class Weight(keras.layers.Layer):
    """Values of their own, ``shape``, whatever the input: a parameter that no other layer holds."""

    def __init__(self, shape: tuple[int, ...], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.shape = tuple(shape)
        self.values = self.add_weight(shape=self.shape, initializer="zeros", name="values")

    def call(self, inputs: Any) -> Any:  # noqa: ARG002 (the place in a graph that a layer must have)
        """The values, without a batch."""
        return keras.ops.convert_to_tensor(self.values)

    def compute_output_shape(self, input_shape: tuple[int | None, ...]) -> tuple[int, ...]:  # noqa: ARG002
        """That of the values."""
        return self.shape

    def get_config(self) -> dict[str, Any]:
        """What ``from_config`` needs."""
        return {**super().get_config(), "shape": self.shape}
