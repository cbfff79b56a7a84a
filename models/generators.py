"""Generators G: u to u' in the unit cube, from operations that int8 TFLite, an Edge TPU and ONNX opset 13 all have."""

from __future__ import annotations

import math
from typing import Literal

import keras
from keras import layers

from models.layers import ResizeNearest, UnitClip

NOISE_CHANNELS = 4  # that a noise input adds to a conv generator where its resolution is lowest


def conv_generator(
    shape: tuple[int, int, int], *, width: int, halvings: int, blocks: int, noise: int = 0
) -> keras.Model:
    """Encoder, residual blocks at low resolution, decoder; what it makes is added to the input and clipped to [0, 1].

    ``shape`` (height, width, channels). The last convolution starts near zero, so that training starts from the
    identity: Acc(D_y) is high at once, and what has to be found is a change that hides z (section 5.1). With ``noise``
    there is a second input of that name, (noise,), uniform in [0, 1), which joins before the blocks.
    """
    image = keras.Input(shape, name="image")
    sizes = [shape[:2]]
    x = image
    for step in range(halvings):
        # Few channels at high resolution: that is where the multiply-adds are.
        channels = max(4, width >> (halvings - 1 - step))
        x = layers.Conv2D(channels, 3, strides=2, padding="same", name=f"down{step}")(x)
        x = layers.ReLU(6.0, name=f"down{step}_relu")(x)
        sizes.append((-(-sizes[-1][0] // 2), -(-sizes[-1][1] // 2)))
    drawn = keras.Input((noise,), name="noise") if noise else None
    if drawn is not None:
        lowest = (*sizes[-1], NOISE_CHANNELS)
        spread = layers.Dense(math.prod(lowest), name="noise_spread")(drawn)
        spread = layers.Reshape(lowest, name="noise_places")(layers.ReLU(6.0, name="noise_relu")(spread))
        x = layers.Conv2D(width, 3, padding="same", name="noise_mix")(layers.Concatenate(name="noisy")([x, spread]))
        x = layers.ReLU(6.0, name="noise_mix_relu")(x)
    for number in range(blocks):
        y = layers.Conv2D(width, 3, padding="same", name=f"block{number}")(x)
        x = layers.ReLU(6.0, name=f"block{number}_relu")(layers.Add(name=f"block{number}_add")([x, y]))
    for step in reversed(range(halvings)):
        channels = max(4, width >> (halvings - step)) if step else 4
        x = layers.Conv2D(channels, 3, padding="same", name=f"up{step}")(x)
        x = layers.ReLU(6.0, name=f"up{step}_relu")(x)
        x = ResizeNearest(*sizes[step], name=f"up{step}_resize")(x)
    small = keras.initializers.RandomNormal(stddev=0.01, seed=0)
    x = layers.Conv2D(shape[2], 3, padding="same", kernel_initializer=small, name="change")(x)
    x = layers.Activation("tanh", name="change_tanh")(x)  # bounded, so that int8 has a fixed scale for it
    output = UnitClip(name="output")(layers.Add(name="changed")([image, x]))
    return keras.Model(image if drawn is None else [image, drawn], output, name="generator")


SURE = 2.0  # the logit that stands for a 1 of the input, and its negative for a 0


def mlp_generator(
    features: int, *, width: int, blocks: int, noise: int = 0, output: Literal["clip", "sigmoid"] = "clip"
) -> keras.Model:
    """Dense layers; what they make is added to the input. ``features`` is the vector's length.

    ``output`` "clip" adds and clips to [0, 1]; "sigmoid", for readings of 0 and 1, adds logits: beyond its ends a clip
    has no slope, and a bit that has come to lie there would never turn again. With ``noise`` there is a second input of
    that name, (noise,), uniform in [0, 1).
    """
    vector = keras.Input((features,), name="features")
    drawn = keras.Input((noise,), name="noise") if noise else None
    x = vector if drawn is None else layers.Concatenate(name="noisy")([vector, drawn])
    for number in range(blocks):
        x = layers.Dense(width, name=f"dense{number}")(x)
        x = layers.ReLU(6.0, name=f"dense{number}_relu")(x)
    small = keras.initializers.RandomNormal(stddev=0.01, seed=0)
    x = layers.Dense(features, kernel_initializer=small, name="change")(x)
    if output == "sigmoid":
        logit = layers.Rescaling(2 * SURE, -SURE, name="logit")(vector)
        made = layers.Activation("sigmoid", name="output")(layers.Add(name="changed")([logit, x]))
    else:
        x = layers.Activation("tanh", name="change_tanh")(x)
        made = UnitClip(name="output")(layers.Add(name="changed")([vector, x]))
    return keras.Model(vector if drawn is None else [vector, drawn], made, name="generator")
