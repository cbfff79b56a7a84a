"""ShuffleNet, a network of grouped convolutions: Zhang, Zhou, Lin and Sun 2017, figure 2 and table 1.

A unit is: grouped 1 x 1 convolution to a quarter of its channels, BN, ReLU; channels shuffled among the groups; 3 x 3
depthwise convolution, BN; grouped 1 x 1 convolution, BN; added to its input. With stride 2 the input goes through a
3 x 3 average pooling instead and is put next to the result, not added.
"""

from __future__ import annotations

from typing import Any

import keras

GROUPS = 3
# Channels at scale 1 behind the first convolution (24 at every scale), and units in each stage: table 1, g = 3.
STAGES = ((240, 4), (480, 8), (960, 4))


def shufflenet(scale: float = 1.5, size: int = 224, classes: int = 1000) -> keras.Model:
    """(n, size, size, 3) to (n, classes) scores. At 1.5 and 224: 292 M multiply-adds and 3.4 M parameters."""
    inputs = keras.Input((size, size, 3), name="image")
    x = keras.layers.Conv2D(24, 3, 2, "same", use_bias=False)(inputs)
    x = keras.layers.ReLU()(keras.layers.BatchNormalization()(x))
    x = keras.layers.MaxPooling2D(3, 2, "same")(x)
    for stage, (channels, units) in enumerate(STAGES):
        for unit in range(units):
            # The first pointwise convolution of all has so few channels that it is not grouped.
            first = 1 if stage == unit == 0 else GROUPS
            x = _unit(x, round(channels * scale), stride=2 if unit == 0 else 1, first_groups=first)
    x = keras.layers.GlobalAveragePooling2D()(x)
    return keras.Model(inputs, keras.layers.Dense(classes)(x), name="shufflenet")


def _unit(x: Any, channels: int, *, stride: int, first_groups: int) -> Any:
    channels_out = channels - x.shape[-1] if stride == 2 else channels
    y = keras.layers.ReLU()(_pointwise(x, channels // 4, first_groups))
    y = keras.layers.DepthwiseConv2D(3, stride, "same", use_bias=False)(_shuffled(y))
    y = _pointwise(keras.layers.BatchNormalization()(y), channels_out, GROUPS)
    if stride == 1:
        return keras.layers.ReLU()(keras.layers.Add()([x, y]))
    beside = keras.layers.AveragePooling2D(3, 2, "same")(x)
    return keras.layers.ReLU()(keras.layers.Concatenate()([beside, y]))


def _pointwise(x: Any, channels: int, groups: int) -> Any:
    """A 1 x 1 convolution in groups, BN behind it. Each is written out: not everything that exports or runs a network
    has a grouped one, and BN folds into a convolution that it follows."""
    width = x.shape[-1] // groups
    parts = [x[..., at * width : (at + 1) * width] for at in range(groups)] if groups > 1 else [x]
    convolved = [keras.layers.Conv2D(channels // groups, 1, use_bias=False)(part) for part in parts]
    convolved = [keras.layers.BatchNormalization()(part) for part in convolved]
    return keras.layers.Concatenate()(convolved) if groups > 1 else convolved[0]


def _shuffled(x: Any) -> Any:
    """Channel ``g * n + i`` goes to ``i * GROUPS + g``: every group of the next convolution sees every group."""
    _, height, width, channels = x.shape
    x = keras.layers.Reshape((height * width, GROUPS, channels // GROUPS))(x)
    x = keras.layers.Permute((1, 3, 2))(x)
    return keras.layers.Reshape((height, width, channels))(x)
