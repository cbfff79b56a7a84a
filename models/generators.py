"""Generators G: u to u' in the unit cube, from operations that int8 TFLite, an Edge TPU and ONNX opset 13 all have."""

from __future__ import annotations

import math

import keras
from keras import layers

from edgeveil.models.layers import ResizeNearest, UnitClip

OVER_TIME = 5  # steps that a convolution over a series sees
NOISE_CHANNELS = 4  # that a noise input adds to a conv generator where its resolution is lowest


def conv_generator(
    shape: tuple[int, int, int], *, width: int, halvings: int, blocks: int, noise: int = 0, returns: bool = False
) -> keras.Model:
    """Encoder, residual blocks at low resolution, decoder; its output is added to the input and clipped to [0, 1].

    ``shape`` (height, width, channels). The last convolution starts near zero, so that training starts from the
    identity: Acc(D_y) is high at once, and training only has to find a change that hides z (section 5.1). With
    ``noise`` there is a second input of that name, (noise,), uniform in [0, 1), which joins before the blocks.
    ``returns`` is ``UnitClip``'s.
    """
    image = keras.Input(shape, name="image")
    drawn = keras.Input((noise,), name="noise") if noise else None
    x = _change(image, drawn, width=width, halvings=halvings, blocks=blocks)
    output = UnitClip(returns=returns, name="output")(layers.Add(name="changed")([image, x]))
    return keras.Model(image if drawn is None else [image, drawn], output, name="generator")


def series_generator(
    shape: tuple[int, int], *, width: int, halvings: int, blocks: int, noise: int = 0, returns: bool = False
) -> keras.Model:
    """As ``conv_generator``, for ``shape`` (steps, channels): convolutions over time, as 2-D ones over (steps, 1)."""
    series = keras.Input(shape, name="series")
    drawn = keras.Input((noise,), name="noise") if noise else None
    steps = layers.Reshape((shape[0], 1, shape[1]), name="steps")(series)
    x = _change(steps, drawn, width=width, halvings=halvings, blocks=blocks, across=False)
    clipped = UnitClip(returns=returns, name="clipped")(layers.Add(name="changed")([steps, x]))
    output = layers.Reshape(shape, name="output")(clipped)
    return keras.Model(series if drawn is None else [series, drawn], output, name="generator")


def _change(
    image: keras.KerasTensor,
    drawn: keras.KerasTensor | None,
    *,
    width: int,
    halvings: int,
    blocks: int,
    across: bool = True,
) -> keras.KerasTensor:
    """What is added to ``image`` (n, height, width, channels), in [-1, 1]; ``across``: rows and columns are halved."""
    kernel, strides = (3, 3) if across else (OVER_TIME, 1), (2, 2) if across else (2, 1)
    sizes = [image.shape[1:3]]
    x = image
    for step in range(halvings):
        # Few channels at high resolution, where most multiply-adds are.
        channels = max(4, width >> (halvings - 1 - step))
        x = layers.Conv2D(channels, kernel, strides=strides, padding="same", name=f"down{step}")(x)
        x = layers.ReLU(6.0, name=f"down{step}_relu")(x)
        sizes.append(tuple(-(-size // side) for size, side in zip(sizes[-1], strides, strict=True)))
    if drawn is not None:
        lowest = (*sizes[-1], NOISE_CHANNELS)
        spread = layers.Dense(math.prod(lowest), name="noise_spread")(drawn)
        spread = layers.Reshape(lowest, name="noise_places")(layers.ReLU(6.0, name="noise_relu")(spread))
        x = layers.Conv2D(width, kernel, padding="same", name="noise_mix")(
            layers.Concatenate(name="noisy")([x, spread])
        )
        x = layers.ReLU(6.0, name="noise_mix_relu")(x)
    for number in range(blocks):
        y = layers.Conv2D(width, kernel, padding="same", name=f"block{number}")(x)
        x = layers.ReLU(6.0, name=f"block{number}_relu")(layers.Add(name=f"block{number}_add")([x, y]))
    for step in reversed(range(halvings)):
        channels = max(4, width >> (halvings - step)) if step else 4
        x = layers.Conv2D(channels, kernel, padding="same", name=f"up{step}")(x)
        x = layers.ReLU(6.0, name=f"up{step}_relu")(x)
        x = _widened(x, sizes[step], strides, f"up{step}")
    small = keras.initializers.RandomNormal(stddev=0.01, seed=0)
    x = layers.Conv2D(image.shape[3], kernel, padding="same", kernel_initializer=small, name="change")(x)
    return layers.Activation("tanh", name="change_tanh")(x)  # bounded, so that int8 has a fixed scale for it


def _widened(x: keras.KerasTensor, size: tuple[int, int], by: tuple[int, int], name: str) -> keras.KerasTensor:
    """``x`` with its sides ``by`` times as long, cut to ``size``: an NPU repeats whole pixels, and no others."""
    high, wide = by[0] * x.shape[1], by[1] * x.shape[2]
    x = ResizeNearest(high, wide, name=f"{name}_resize")(x)
    over = (high - size[0], wide - size[1])
    return layers.Cropping2D([(0, side) for side in over], name=f"{name}_cut")(x) if any(over) else x


def mlp_generator(
    features: int, *, width: int, blocks: int, latent: int | None = None, noise: int = 0, returns: bool = False
) -> keras.Model:
    """Dense layers on a vector of ``features``.

    Without ``latent`` their output is added to the input and clipped to [0, 1]. With it nothing of the input bypasses
    the layers: they narrow to ``latent`` numbers, and the output is a sigmoid, which has a gradient everywhere, while a
    clipped bit would never change again. With ``noise`` there is a second input of that name, (noise,), uniform in
    [0, 1), which joins at the narrowest place. ``returns`` is ``UnitClip``'s.
    """
    vector = keras.Input((features,), name="features")
    drawn = keras.Input((noise,), name="noise") if noise else None
    x = vector
    if latent is not None:
        x = layers.Dense(width, name="narrow_dense")(x)
        x = layers.Dense(latent, name="narrow")(layers.ReLU(6.0, name="narrow_relu")(x))
    if drawn is not None:
        x = layers.Concatenate(name="noisy")([x, drawn])
    for number in range(blocks):
        x = layers.Dense(width, name=f"dense{number}")(x)
        x = layers.ReLU(6.0, name=f"dense{number}_relu")(x)
    if latent is not None:
        output = layers.Activation("sigmoid", name="output")(layers.Dense(features, name="made")(x))
    else:
        small = keras.initializers.RandomNormal(stddev=0.01, seed=0)
        x = layers.Dense(features, kernel_initializer=small, name="change")(x)
        x = layers.Activation("tanh", name="change_tanh")(x)
        output = UnitClip(returns=returns, name="output")(layers.Add(name="changed")([vector, x]))
    return keras.Model(vector if drawn is None else [vector, drawn], output, name="generator")
