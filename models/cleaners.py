"""A linear cleaner as a network: two products and, between them, operations that every interpreter supports.

The running sum of paper 000's Algorithm 1 is a product with a triangle of ones (TFLite's own CUMSUM is little used),
its search for an index a relu and a minimum. Float32 throughout: a square, a quotient and a root lose their small
values in int8.
"""

from __future__ import annotations

import keras
import numpy as np
from keras import ops

from edgeveil.models.layers import fixed_dense


def linear_cleaner(encoder: np.ndarray, decoder: np.ndarray, eps: float, mean: np.ndarray | None = None) -> keras.Model:
    """x~ = m + D ((1 - alpha) E^T (x - m)), input ``features`` (n, features), outputs ``output`` like it and ``code``
    (n, r).

    ``encoder`` E and ``decoder`` D are (features, r), ``eps`` the error allowed per vector, ``mean`` m (features,) is
    0 where it is left out; see ``edgeveil.trainer.linear``, whose operations these are.
    """
    features, rank = encoder.shape
    mean = np.zeros(features) if mean is None else mean
    x = keras.Input((features,), name="features")
    c = fixed_dense(encoder, "encoder", bias=-mean @ encoder)(x)
    delta = ops.multiply(c, c)
    left = ops.relu(fixed_dense(-np.triu(np.ones((rank, rank)), 1), "left", bias=np.full(rank, eps))(delta))
    # Keep the denominator large enough that the quotient cannot overflow.
    share = ops.minimum(ops.divide(left, ops.maximum(delta, np.float32(1e-30 * max(eps, 1.0)))), np.float32(1))
    factor = ops.subtract(np.float32(1), ops.sqrt(share))
    code = keras.layers.Multiply(name="code")([factor, c])
    output = fixed_dense(decoder.T, "output", bias=mean)(code)
    return keras.Model(x, [output, code], name="linear_cleaner")


def arrays(model: keras.Model) -> dict[str, np.ndarray]:
    """What a ``linear_cleaner`` was built from, under the numpy backend's names; float32."""
    weights = {name: [np.asarray(w) for w in model.get_layer(name).get_weights()] for name in ("encoder", "output")}
    return {
        "encoder": weights["encoder"][0],
        "encoder_bias": weights["encoder"][1],
        "decoder": weights["output"][0],
        "decoder_bias": weights["output"][1],
        "eps": np.asarray(model.get_layer("left").get_weights()[1][0], np.float32),
    }
