"""Networks of the calibration table that Keras has no builder for, built after their papers, to be counted."""

from __future__ import annotations

import math
from typing import Any

import keras
from keras import layers


def fcn_resnet18(shape: tuple[int, int, int]) -> Any:
    """ResNet-18 (He et al. 2015, table 1) with torchvision's FCN head at 1/32: what jetson-inference runs.

    Its issue 704 confirms the grid: 64 x 32 from 2048 x 1024. 21 classes (PASCAL VOC) stand for any of its data sets.
    """

    def conv(h: Any, width: int, size: int, strides: int = 1) -> Any:
        return layers.BatchNormalization()(layers.Conv2D(width, size, strides, "same", use_bias=False)(h))

    image = keras.Input(shape)
    h = layers.MaxPooling2D(3, 2, "same")(layers.ReLU()(conv(image, 64, 7, 2)))
    for width in (64, 128, 256, 512):
        for block in range(2):
            strides = 2 if block == 0 and width > 64 else 1
            left = conv(layers.ReLU()(conv(h, width, 3, strides)), width, 3)
            h = layers.ReLU()(layers.Add()([left, conv(h, width, 1, 2) if strides == 2 else h]))
    return keras.Model(image, layers.Conv2D(21, 1)(layers.ReLU()(conv(h, 128, 3))))


def squeezenet(shape: tuple[int, int, int]) -> Any:
    """SqueezeNet 1.1 (Iandola et al. 2016, as revised by its authors): 352 M multiply-adds at 227, 1.24 M parameters.

    ncnn's benchmark/squeezenet.param is this version, at 227 whatever its table's heading says.
    """

    def fire(h: Any, squeeze: int, expand: int) -> Any:
        h = layers.ReLU()(layers.Conv2D(squeeze, 1)(h))
        sides = [layers.ReLU()(layers.Conv2D(expand, size, padding="same")(h)) for size in (1, 3)]
        return layers.Concatenate()(sides)

    image = keras.Input(shape)
    h = layers.MaxPooling2D(3, 2)(layers.ReLU()(layers.Conv2D(64, 3, 2)(image)))
    for widths in (((16, 64), (16, 64)), ((32, 128), (32, 128))):
        for squeeze, expand in widths:
            h = fire(h, squeeze, expand)
        h = layers.MaxPooling2D(3, 2)(h)
    for squeeze, expand in ((48, 192), (48, 192), (64, 256), (64, 256)):
        h = fire(h, squeeze, expand)
    return keras.Model(image, layers.GlobalAveragePooling2D()(layers.ReLU()(layers.Conv2D(1000, 1)(h))))


def fast_scnn(shape: tuple[int, int, int]) -> Any:
    """Fast-SCNN (Poudel et al. 2019, table 1) with Cityscapes' 19 classes: 1.1 M parameters, as published."""

    def conv(h: Any, width: int, size: int = 1, strides: int = 1) -> Any:
        return layers.BatchNormalization()(layers.Conv2D(width, size, strides, "same", use_bias=False)(h))

    def depthwise(h: Any, strides: int = 1) -> Any:
        h = layers.DepthwiseConv2D(3, strides, "same", use_bias=False)(h)
        return layers.ReLU()(layers.BatchNormalization()(h))

    def separable(h: Any, width: int, strides: int = 1) -> Any:
        return layers.ReLU()(conv(depthwise(h, strides), width))

    def bottleneck(h: Any, width: int, strides: int) -> Any:
        y = conv(depthwise(layers.ReLU()(conv(h, 6 * h.shape[-1])), strides), width)
        return layers.Add()([h, y]) if strides == 1 and h.shape[-1] == width else y

    image = keras.Input(shape)
    fine = separable(separable(layers.ReLU()(conv(image, 32, 3, 2)), 48, 2), 64, 2)
    h = fine
    for width, count, strides in ((64, 3, 2), (96, 3, 2), (128, 3, 1)):
        for number in range(count):
            h = bottleneck(h, width, strides if number == 0 else 1)
    height, width = h.shape[1:3]
    parts = [h]
    for bins in (1, 2, 3, 6):
        window = (max(1, height // bins), max(1, width // bins))
        pooled = layers.ReLU()(conv(layers.AveragePooling2D(window, window)(h), 32))
        parts.append(layers.Resizing(height, width)(pooled))
    h = layers.ReLU()(conv(layers.Concatenate()(parts), 128))
    coarse = conv(depthwise(layers.Resizing(*fine.shape[1:3])(h)), 128)
    h = layers.ReLU()(layers.Add()([coarse, conv(fine, 128)]))
    return keras.Model(image, layers.Conv2D(19, 1)(separable(separable(h, 128), 128)))


def efficientnet_edgetpu(shape: tuple[int, int, int], depth: float) -> Any:
    """EfficientNet-EdgeTPU-S (``depth`` 1) and -M (1.1) (Gupta and Akin 2020): 1.8 and 3.0 G, 5.4 and 6.9 M parameters.

    Its early blocks expand by a dense 3 x 3 convolution, the late ones are MobileNetV2's.
    """

    def conv(h: Any, width: int, size: int = 1, strides: int = 1) -> Any:
        return layers.BatchNormalization()(layers.Conv2D(width, size, strides, "same", use_bias=False)(h))

    image = keras.Input(shape)
    h = layers.ReLU()(conv(image, 32, 3, 2))
    # blocks, size, strides, expansion, width, dense
    for count, size, strides, times, width, dense in (
        (1, 3, 1, 4, 24, True),
        (2, 3, 2, 8, 32, True),
        (4, 3, 2, 8, 48, True),
        (5, 5, 2, 8, 96, False),
        (4, 5, 1, 8, 144, False),
        (2, 5, 2, 8, 192, False),
    ):
        for number in range(math.ceil(count * depth)):
            step = strides if number == 0 else 1
            wide = times * (24 if times == 4 else h.shape[-1])  # the first is wide as if 24 came in, not 32
            if dense:
                y = layers.ReLU()(conv(h, wide, size, step))
            else:
                y = layers.DepthwiseConv2D(size, step, "same", use_bias=False)(layers.ReLU()(conv(h, wide)))
                y = layers.ReLU()(layers.BatchNormalization()(y))
            y = conv(y, width)
            h = layers.Add()([h, y]) if step == 1 and h.shape[-1] == width else y
    h = layers.GlobalAveragePooling2D()(layers.ReLU()(conv(h, 1280)))
    return keras.Model(image, layers.Dense(1000)(h))
