"""Encoders of a codebook: from the unit cube to two rows of logits, the class y and, class by class, one of K codes.

No normalisation across rows: an encoder may later be trained with differential privacy. No softmax, no draw: argmax and
channel are tables of the runtime, so that what ships is what is certified.
"""

from __future__ import annotations

import keras
import numpy as np
from keras import layers

from edgeveil.models.layers import fixed_dense


def image_trunk(shape: tuple[int, int, int], *, width: int = 16, features: int = 128) -> keras.Model:
    """Convolutions of stride 2 down to about 4 x 4 or 7 x 7, then FC(features); ``shape`` (height, width, channels)."""
    image = keras.Input(shape, name="image")
    x, side, channels = image, min(shape[:2]), width
    while side > 7:
        x = layers.Conv2D(channels, 3, strides=2, padding="same", activation="relu")(x)
        side, channels = -(-side // 2), min(2 * channels, 4 * width)
    x = layers.Flatten()(x)
    return keras.Model(image, layers.Dense(features, activation="relu")(x), name="trunk")


def vector_trunk(length: int, *, width: int = 256, features: int = 128) -> keras.Model:
    """FC(width), FC(features), with dropout of a third after the first."""
    vector = keras.Input((length,), name="features")
    x = layers.Dense(width, activation="relu")(vector)
    x = layers.Dropout(0.3)(x)
    return keras.Model(vector, layers.Dense(features, activation="relu")(x), name="trunk")


def label_head(features: int, groups: int) -> keras.Model:
    """One layer from trunk features (features,) to the logits of y."""
    h = keras.Input((features,), name="h")
    return keras.Model(h, layers.Dense(groups, name="label_logits")(h), name="label_head")


def code_head(features: int, groups: int, codes: int, *, width: int = 128, dropout: float = 0.0) -> keras.Model:
    """FC(width), FC(groups * codes) on trunk features: logits of the codes of group 0, then of group 1, and so on."""
    h = keras.Input((features,), name="h")
    x = layers.Dropout(dropout)(h) if dropout else h
    x = layers.Dense(width, activation="relu", name="code_hidden")(x)
    x = layers.Dropout(dropout)(x) if dropout else x
    return keras.Model(h, layers.Dense(groups * codes, name="code_logits")(x), name="code_head")


def encoder(trunk: keras.Model, *heads: keras.Model) -> keras.Model:
    """Trunk and heads as one flat network under the trunk's input; an output per head, named like its last layer."""
    outputs = []
    for head in heads:
        x = trunk.output
        for layer in head.layers[1:]:
            if not isinstance(layer, layers.Dropout):
                x = layer(x)
        outputs.append(x)
    return keras.Model(trunk.inputs[0], outputs, name="encoder")


def with_labels(encoder: keras.Model, labels: keras.Model) -> keras.Model:
    """``encoder`` with the logits of the classifier ``labels``, from the unit cube too, in place of its own."""
    own = keras.Model(labels.inputs[0], labels.outputs[0], name="label_logits")
    return keras.Model(encoder.inputs[0], [own(encoder.inputs[0]), *encoder.outputs[1:]], name="encoder")


def residual_encoder(
    trunk: keras.Model,
    label_head: keras.Model,
    cells: layers.Dense,
    kept: layers.Dense,
    *,
    slope: np.ndarray,
    offset: np.ndarray,
) -> keras.Model:
    """Codes scored by sum_cells P(cell) (slope . T^ + offset) on a trunk with trained layers for cells and T^ (d).

    ``slope`` (cells, d, codes) and ``offset`` (cells, codes). The product of P(cell) and T^ is elementwise on
    (d * codes) columns and summed by a fixed product, so that every operation has an int8 kernel on every board.
    """
    n, d, codes = slope.shape
    posterior, predicted = layers.Softmax(name="posterior")(cells(trunk.output)), kept(trunk.output)
    slopes = fixed_dense(slope.reshape(n, d * codes), "slopes")(posterior)
    spread = fixed_dense(np.repeat(np.eye(d), codes, axis=1), "spread")(predicted)
    product = fixed_dense(np.tile(np.eye(codes), (d, 1)), "gather")(layers.Multiply(name="product")([slopes, spread]))
    scores = layers.Add(name="code_logits")([product, fixed_dense(offset, "offsets")(posterior)])
    label = label_head.layers[1](trunk.output)
    return keras.Model(trunk.inputs[0], [label, scores], name="encoder")
