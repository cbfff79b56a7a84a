"""A Keras network with the steps of an int8 file in it, for training: it shares the layers of the network.

As the converters quantise: weights with one scale for each output of a convolution and one for a Dense layer, of both
signs alike (8 bits, -127 to 127); what comes in, and each result that an interpreter writes, with one scale between its
smallest and largest value over calibration rows. A ReLU is part of the operation before it. Roundings are
straight-through: their gradient is 1 within the range (Jacob et al., arXiv:1712.05877, section 3).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.graphs.prediction import predict

BITS = 8
ROWS = 16  # of the calibration at a time: every result within the network is held
FIXED = {"tanh": (-1.0, 127 / 128), "sigmoid": (0.0, 255 / 256)}  # which TFLite prescribes
MOVES = ("Reshape", "Flatten", "Cropping2D", "ResizeNearest", "MaxPooling2D", "Permute")  # values, as they are
FUSES = ("Conv2D", "Dense", "Add")  # a ReLU that follows and nothing else does
RELUS = ("ReLU", "UnitClip")
WEIGHED = ("Conv2D", "Dense")


def check(network: Any) -> None:
    """Raise ``BadInput`` where the network has weights in other layers than these."""
    for layer in network.layers:
        kind = type(layer).__name__
        if layer.weights and kind not in WEIGHED:
            raise BadInput(
                f"`perturber.int8`: expected a generator whose weights are in {' and '.join(WEIGHED)} layers, which "
                f"training can round as int8 does; got {kind} {layer.name!r}. Leave [perturber.int8] out."
            )


class Rounded:
    """``model`` takes and gives what ``network`` does, rounded; its trainable variables are the network's own."""

    def __init__(self, network: Any) -> None:
        import keras

        check(network)
        users = _users(network)
        self._ends: dict[str, Any] = {}  # of each result that is rounded, by the name of its layer
        layer_of = _rounding_layer()

        def rounded(layer: Any) -> Any:
            if not isinstance(layer, keras.Layer):  # ``a + b``, which has no place for a range
                return layer
            kind = type(layer).__name__
            made = layer_of(layer, rounds=kind not in MOVES and not _rounded_later(layer, users), fixed=_fixed(layer))
            if made.rounds and made.fixed is None:
                self._ends[layer.name] = made
            return made

        inputs = [keras.Input(one.shape[1:], name=one.name) for one in network.inputs]
        entries = [layer_of(None, rounds=True, fixed=None, name=f"{one.name}_int8") for one in network.inputs]
        inside = keras.models.clone_model(network, clone_function=rounded)
        values = [entry(one) for entry, one in zip(entries, inputs, strict=True)]
        given = inputs[0] if len(inputs) == 1 else inputs
        self.model = keras.Model(given, inside(values[0] if len(values) == 1 else values), name=network.name)
        self.model.output_names = list(network.output_names)
        self._entries = dict(zip((one.name for one in network.inputs), entries, strict=True))
        self._names = list(self._ends)
        results = [network.get_layer(name).output for name in self._names]
        self._results = keras.Model(network.input, results) if results else None

    def measure(self, rows: Mapping[str, np.ndarray]) -> None:
        """Set each range to the smallest and largest value of the network, as it is now, for ``rows``: by input's name,
        float32 (n, ...)."""
        for name, entry in self._entries.items():
            entry.set_ends(float(rows[name].min()), float(rows[name].max()))
        if self._results is None:
            return
        low = np.full(len(self._names), np.inf)
        high = np.full(len(self._names), -np.inf)
        values = [rows[name] for name in self._entries]
        for row in range(0, len(values[0]), ROWS):
            found = predict(self._results, [one[row : row + ROWS] for one in values])
            for place, one in enumerate(found if isinstance(found, list) else [found]):
                low[place], high[place] = min(low[place], one.min()), max(high[place], one.max())
        for place, name in enumerate(self._names):
            self._ends[name].set_ends(float(low[place]), float(high[place]))


def _users(network: Any) -> dict[str, list[Any]]:
    """The layers that take what each layer gives, by its name."""
    makers = {id(layer.output): layer.name for layer in network.layers}
    users: dict[str, list[Any]] = {}
    for layer in network.layers:
        given = layer.input
        for tensor in given if isinstance(given, (list, tuple)) else [given]:
            if id(tensor) in makers and makers[id(tensor)] != layer.name:
                users.setdefault(makers[id(tensor)], []).append(layer)
    return users


def _rounded_later(layer: Any, users: Mapping[str, list[Any]]) -> bool:
    """Whether one operation alone takes the result and rounds for both: a ReLU, or what joins values at one scale."""
    after = users.get(layer.name, [])
    if len(after) == 1 and type(after[0]).__name__ in MOVES:
        return _rounded_later(after[0], users)
    if len(after) != 1:
        return False
    return type(after[0]).__name__ == "Concatenate" or (type(layer).__name__ in FUSES and _is_relu(after[0]))


def _activation(layer: Any) -> str:
    return getattr(getattr(layer, "activation", None), "__name__", "linear")


def _is_relu(layer: Any) -> bool:
    return type(layer).__name__ in RELUS or (_activation(layer) in ("relu", "relu6") and not layer.weights)


def _fixed(layer: Any) -> tuple[float, float] | None:
    return FIXED.get(_activation(layer))


def _rounding_layer() -> Any:
    """The class of a rounding layer: Keras and TensorFlow are loaded with the first."""
    import keras
    import tensorflow as tf

    def of_one_scale(values: Any, low: Any, high: Any) -> Any:
        return tf.quantization.fake_quant_with_min_max_vars(values, low, high, num_bits=BITS)

    def weights(kernel: Any, *, each: bool) -> Any:
        flat = tf.reshape(kernel, (-1, kernel.shape[-1] if each else 1))
        most = tf.maximum(tf.stop_gradient(tf.reduce_max(tf.abs(flat), axis=0)), 1e-8)
        rounded = tf.quantization.fake_quant_with_min_max_vars_per_channel(
            flat, -most, most, num_bits=BITS, narrow_range=True
        )
        return tf.reshape(rounded, kernel.shape)

    class Rounding(keras.layers.Layer):
        """A layer of the network with rounded weights and, where it ``rounds``, a rounded result."""

        def __init__(
            self, inner: Any, *, rounds: bool, fixed: tuple[float, float] | None, name: str | None = None
        ) -> None:
            super().__init__(name=name or inner.name)
            self.inner, self.rounds, self.fixed = inner, rounds, fixed
            if rounds and fixed is None:
                self.low = self.add_weight(shape=(), initializer="zeros", trainable=False, name="low")
                self.high = self.add_weight(shape=(), initializer="ones", trainable=False, name="high")

        def call(self, inputs: Any, training: bool | None = None) -> Any:
            kind = type(self.inner).__name__
            if self.inner is None:
                value = inputs
            elif kind == "Conv2D":
                value = self.inner.convolution_op(inputs, weights(self.inner.kernel, each=True))
            elif kind == "Dense":
                value = keras.ops.matmul(inputs, weights(self.inner.kernel, each=False))
            else:
                trains = kind == "UnitClip"  # which has a gradient of its own in training
                value = self.inner(inputs, training=training) if trains else self.inner(inputs)
            if kind in WEIGHED:
                if self.inner.use_bias:
                    value = value + self.inner.bias
                value = self.inner.activation(value)
            if not self.rounds:
                return value
            return of_one_scale(value, *(self.fixed or (self.low, self.high)))

        def set_ends(self, low: float, high: float) -> None:
            """Round between these; 0 is among the steps, as an interpreter has it."""
            self.low.assign(min(low, 0.0))
            self.high.assign(max(high, 1e-6))

    return Rounding
