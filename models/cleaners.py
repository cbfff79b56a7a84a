"""A linear cleaner as a network: two products and, between them, operations that every interpreter has.

The running sum of paper 000's Algorithm 1 is a product with a triangle of ones (TFLite's own CUMSUM is little used),
its search for an index a relu and a minimum. Float32 throughout: a square, a quotient and a root lose their small
values in int8.
"""

from __future__ import annotations

import keras
import numpy as np
from keras import ops


def linear_cleaner(encoder: np.ndarray, decoder: np.ndarray, eps: float, mean: np.ndarray | None = None) -> keras.Model:
    """x~ = m + D ((1 - alpha) E^T (x - m)), input ``features`` (n, features), outputs ``output`` like it and ``code``
    (n, r).

    ``encoder`` E and ``decoder`` D are (features, r), ``eps`` the error allowed per vector, ``mean`` m (features,) is
    0 where it is left out; see ``edgeveil.trainer.linear.cleaner``, whose operations these are.
    """
    features, rank = encoder.shape
    mean = np.zeros(features) if mean is None else mean
    x = keras.Input((features,), name="features")
    c = _product(encoder, -mean @ encoder, "encoder")(x)
    delta = ops.multiply(c, c)
    left = ops.relu(_product(-np.triu(np.ones((rank, rank)), 1), np.full(rank, eps), "left")(delta))
    # No denominator so small that the quotient overflows.
    share = ops.minimum(ops.divide(left, ops.maximum(delta, np.float32(1e-30 * max(eps, 1.0)))), np.float32(1))
    kept = ops.subtract(np.float32(1), ops.sqrt(share))
    code = keras.layers.Multiply(name="code")([kept, c])
    output = _product(decoder.T, mean, "output")(code)
    return keras.Model(x, [output, code], name="linear_cleaner")


def arrays(model: keras.Model) -> dict[str, np.ndarray]:
    """What a ``linear_cleaner`` was built from, as the numpy backend names it; float32."""
    weights = {name: [np.asarray(w) for w in model.get_layer(name).get_weights()] for name in ("encoder", "output")}
    return {
        "encoder": weights["encoder"][0],
        "encoder_bias": weights["encoder"][1],
        "decoder": weights["output"][0],
        "decoder_bias": weights["output"][1],
        "eps": np.asarray(model.get_layer("left").get_weights()[1][0], np.float32),
    }


def _product(matrix: np.ndarray, bias: np.ndarray, name: str) -> keras.layers.Layer:
    layer = keras.layers.Dense(matrix.shape[1], trainable=False, name=name)
    layer.build((None, matrix.shape[0]))
    layer.set_weights([np.asarray(matrix, np.float32), np.asarray(bias, np.float32)])
    return layer
