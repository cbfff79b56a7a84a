"""A Keras network with the steps of an int8 file in it, for training: it shares the layers of the network.

As the converters quantise: weights with one scale for each output of a convolution and one for a Dense layer, of both
signs alike (8 bits, -127 to 127); what comes in, and each result that an interpreter writes, with one scale between its
smallest and largest value over calibration rows. A ReLU is part of the operation before it. Roundings are
straight-through: their gradient is 1 within the range (Jacob et al., arXiv:1712.05877, section 3).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.graphs.prediction import predict

BITS = 8
ROWS = 16  # of the calibration at a time: every result within the network is held
FIXED = {"tanh": (-1.0, 127 / 128), "sigmoid": (0.0, 255 / 256)}  # which TFLite prescribes
# Which move values as they are.
MOVES = ("Reshape", "Flatten", "Cropping2D", "ResizeNearest", "MaxPooling2D", "Permute", "Dropout", "Identity")
FUSES = ("Conv2D", "Dense", "Add")  # a ReLU that follows and nothing else does
RELUS = ("ReLU", "UnitClip")
WEIGHED = ("Conv2D", "Dense")


def check(network: Any) -> None:
    """Raise ``BadInput`` where the network has weights in other layers than these."""
    for layer in _layers(network):
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
        self._measured: list[Any] = []  # the layers whose ranges are those of calibration
        layer_of = _rounding_layer()

        def rounded(layer: Any) -> Any:
            if not isinstance(layer, keras.Layer):  # ``a + b``, which has no place for a range
                return layer
            rounds = not _moves(layer) and not _rounded_later(layer, users)
            made = layer_of(layer, rounds=rounds, fixed=FIXED.get(_activation(layer)))
            self._measured += [made] if rounds and made.fixed is None else []
            return made

        inputs = [keras.Input(one.shape[1:], name=one.name) for one in network.inputs]
        entries = [layer_of(None, rounds=True, fixed=None, name=f"{one.name}_int8") for one in network.inputs]
        inside = keras.models.clone_model(network, clone_function=rounded, recursive=True)
        values = [entry(one) for entry, one in zip(entries, inputs, strict=True)]
        given = inputs[0] if len(inputs) == 1 else inputs
        self.model = keras.Model(given, inside(values[0] if len(values) == 1 else values), name=network.name)
        self.model.output_names = list(network.output_names)
        self._measured += entries

    def measure(self, rows: Mapping[str, np.ndarray]) -> None:
        """Set each range to the smallest and largest value of the network, as it is now, for ``rows``: by input's name,
        float32 (n, ...)."""
        every = [layer for layer in _layers(self.model) if hasattr(layer, "inner")]
        for layer in every:
            layer.exact, layer.seen = True, None
        values = [rows[one.name] for one in self.model.inputs]
        for row in range(0, len(values[0]), ROWS):
            predict(self.model, [one[row : row + ROWS] for one in values])
        for layer in every:
            layer.exact = False
        for layer in self._measured:
            layer.set_ends(*layer.seen)


def _layers(network: Any) -> Iterator[Any]:
    """The layers of a network and of those within it."""
    for layer in network.layers:
        yield from _layers(layer) if hasattr(layer, "layers") else (layer,)


def _users(network: Any) -> dict[int, list[Any]]:
    """The layers that take what each layer gives in the same network, by its ``id``."""
    makers = {id(layer.output): layer for layer in network.layers}
    users: dict[int, list[Any]] = {}
    for layer in network.layers:
        if hasattr(layer, "layers"):
            users |= _users(layer)
        for tensor in layer.input if isinstance(layer.input, (list, tuple)) else [layer.input]:
            maker = makers.get(id(tensor))
            if maker is not None and maker is not layer:
                users.setdefault(id(maker), []).append(layer)
    return users


def _moves(layer: Any) -> bool:
    kind = type(layer).__name__
    return kind in MOVES or (kind == "Activation" and _activation(layer) == "linear")


def _rounded_later(layer: Any, users: Mapping[int, list[Any]]) -> bool:
    """Whether one operation alone takes the result and rounds for both: a ReLU, or what joins values at one scale."""
    after = users.get(id(layer), [])
    if len(after) == 1 and _moves(after[0]):
        return _rounded_later(after[0], users)
    if len(after) != 1:
        return False
    return type(after[0]).__name__ == "Concatenate" or (type(layer).__name__ in FUSES and _is_relu(after[0]))


def _activation(layer: Any) -> str:
    return getattr(getattr(layer, "activation", None), "__name__", "linear")


def _is_relu(layer: Any) -> bool:
    return type(layer).__name__ in RELUS or (_activation(layer) in ("relu", "relu6") and not layer.weights)


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
            self.exact = False  # while ranges are measured: nothing is rounded
            self.seen: tuple[float, float] | None = None
            if rounds and fixed is None:
                self.low = self.add_weight(shape=(), initializer="zeros", trainable=False, name="low")
                self.high = self.add_weight(shape=(), initializer="ones", trainable=False, name="high")

        def call(self, inputs: Any, training: bool | None = None) -> Any:
            kind = type(self.inner).__name__
            if self.inner is None:
                value = inputs
            elif kind == "Conv2D":
                value = self.inner.convolution_op(inputs, self.kernel(each=True))
            elif kind == "Dense":
                value = keras.ops.matmul(inputs, self.kernel(each=False))
            else:
                trains = kind == "UnitClip"  # which has a gradient of its own in training
                value = self.inner(inputs, training=training) if trains else self.inner(inputs)
            if kind in WEIGHED:
                if self.inner.use_bias:
                    value = value + self.inner.bias
                value = self.inner.activation(value)
            if self.exact and self.rounds:
                low, high = self.seen or (np.inf, -np.inf)
                self.seen = min(low, float(tf.reduce_min(value))), max(high, float(tf.reduce_max(value)))
            if self.exact or not self.rounds:
                return value
            return of_one_scale(value, *(self.fixed or (self.low, self.high)))

        def kernel(self, *, each: bool) -> Any:
            return self.inner.kernel if self.exact else weights(self.inner.kernel, each=each)

        def set_ends(self, low: float, high: float) -> None:
            """Round between these; 0 is among the steps, as an interpreter has it."""
            self.low.assign(min(low, 0.0))
            self.high.assign(max(high, 1e-6))

    return Rounding
