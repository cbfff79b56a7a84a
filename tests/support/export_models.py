"""Small Keras models for the export tests: what an artefact of EdgeVeil may be, and what it may not."""

import numpy as np


def trained_like(model):
    """Weights as training leaves them: converters drop biases of 0 and normalisation that changes nothing."""
    rng = np.random.default_rng(0)
    for variable in model.variables:
        positive = variable.path.endswith(("gamma", "moving_variance"))
        value = rng.uniform(0.5, 1.5, variable.shape) if positive else rng.normal(0, 0.3, variable.shape)
        if "float" in str(variable.dtype):
            variable.assign(value.astype(np.float32))
    return model


def image_net(*extra, name="output"):
    """A generator of the kind that ships, 8x8x1: strided convolution, folding, nearest resize, clip; dropout inside.

    ``extra`` are functions put, one after the other, before the last layer.
    """
    import keras

    from edgeveil.models.layers import ResizeNearest

    image = h = keras.Input((8, 8, 1), name="image")
    h = keras.layers.Conv2D(8, 3, strides=2, padding="same", use_bias=False)(h)
    h = keras.layers.BatchNormalization()(h)
    h = keras.layers.ReLU(6.0)(h)
    h = keras.layers.Dropout(0.5)(h)
    for function in extra:
        h = function(h)
    h = ResizeNearest(8, 8)(h)
    h = keras.layers.Conv2D(1, 3, padding="same", activation="sigmoid", name=name)(h)
    return trained_like(keras.Model(image, h))


def two_input_net():
    """An image (8, 8, 1) and a noise vector (4,) in; an image and a code (3,) out."""
    import keras

    image, noise = keras.Input((8, 8, 1), name="image"), keras.Input((4,), name="noise")
    h = keras.layers.Conv2D(4, 3, padding="same", activation="relu")(image)
    n = keras.layers.Reshape((8, 8, 4))(keras.layers.Dense(8 * 8 * 4)(noise))
    h = keras.layers.Add()([h, n])
    output = keras.layers.Conv2D(1, 3, padding="same", activation="sigmoid", name="output")(h)
    code = keras.layers.Dense(3, name="code")(keras.layers.Flatten()(h))
    return trained_like(keras.Model([image, noise], [output, code]))


def classifier():
    """A label-only perturber's network, ending in logits: convolution, max pooling, dropout, Dense."""
    import keras

    image = keras.Input((8, 8, 1), name="image")
    h = keras.layers.Conv2D(8, 3, padding="same", activation="relu")(image)
    h = keras.layers.MaxPooling2D()(h)
    h = keras.layers.Dropout(0.5)(h)
    h = keras.layers.Dense(16, activation="relu")(keras.layers.Flatten()(h))
    return trained_like(keras.Model(image, keras.layers.Dense(2, name="logits")(h)))


def calibration(model, rows=48):
    """Seeded rows for every input of a model, the first all 0 and the second all 1."""
    rng = np.random.default_rng(0)
    values = {t.name: rng.random((rows, *t.shape[1:]), np.float32) for t in model.inputs}
    for value in values.values():
        value[0], value[1] = 0, 1
    return values
