"""Networks around a given model, and plain functions of pictures, of operations that every board runs.

Recipes load this file, so Keras is imported by what builds a network.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

SAMPLE, OUTPUT = "sample", "output"  # the names of their ends


End = float | tuple[float, ...]  # of a range: of all channels, or of each in the model's order


def shown(end: End) -> str:
    """For people, as ``--set`` has it."""
    return f"[{', '.join(f'{one:g}' for one in end)}]" if isinstance(end, tuple) else f"{end:g}"


@dataclass(frozen=True)
class Takes:
    """What a model expects of a sample, and gives back: its range, order of axes and of colours, height and width."""

    low: End = 0.0
    high: End = 1.0
    gives_low: End = 0.0
    gives_high: End = 1.0
    layout: str = "last"
    colours: str = "rgb"
    size: tuple[int, int] | None = None

    @property
    def plain(self) -> bool:
        """Whether it takes and gives the unit cube as it is."""
        return self == Takes()

    def text(self) -> str:
        """For people, as ``--set`` has it."""
        size = "" if self.size is None else f", size={self.size[1]}x{self.size[0]}"
        gives = (self.gives_low, self.gives_high)
        other = "" if gives == (self.low, self.high) else f", gives={shown(gives[0])}:{shown(gives[1])}"
        return (
            f"low={shown(self.low)}, high={shown(self.high)}{other}, layout={self.layout}, colours={self.colours}{size}"
        )


def ends(own: tuple[int, ...], takes: Takes, shape: tuple[int, ...]) -> tuple[Any, Any]:
    """Keras networks from samples of the shape ``own`` in the unit cube to what a model of ``shape`` takes, and back.

    None for both where it takes those.
    Pictures are scaled by a convolution of one pixel, which every board runs, and which orders colours as well.
    """
    import keras

    if takes.plain:
        return None, None
    h = before = keras.Input(own, name=SAMPLE)
    if takes.size is not None:
        h = keras.layers.Resizing(*takes.size)(h)
    low, high, gives_low, gives_high = map(np.asarray, (takes.low, takes.high, takes.gives_low, takes.gives_high))
    h = _scaled(h, high - low, low, takes.colours)
    axes = tuple(range(1, len(own) + 1))
    first = takes.layout == "first"
    h = keras.layers.Permute((axes[-1], *axes[:-1]))(h) if first else h
    g = after = keras.Input(shape, name=SAMPLE)
    g = keras.layers.Permute((*axes[1:], axes[0]))(g) if first else g
    factor = 1 / (gives_high - gives_low)
    offset = -gives_low * factor
    if takes.colours == "bgr":  # in the order of samples, which comes out
        factor, offset = np.flip(factor), np.flip(offset)
    g = _scaled(g, factor, offset, takes.colours)
    if takes.size is not None:
        g = keras.layers.Resizing(*own[:2])(g)
    return keras.Model(before, named(h)), keras.Model(after, named(g))


def named(h: Any) -> Any:
    """The same values under the name ``output``."""
    import keras

    return keras.layers.Activation("linear", name=OUTPUT)(h)


def _scaled(h: Any, factor: np.ndarray, offset: np.ndarray, colours: str) -> Any:
    """h * factor + offset, which are numbers or of the channels that come out."""
    import keras

    if len(h.shape) != 4:
        return keras.layers.Rescaling(factor.tolist(), offset.tolist())(h)
    channels = h.shape[-1]
    order = np.arange(channels)[::-1] if colours == "bgr" else np.arange(channels)
    layer = keras.layers.Conv2D(channels, 1, trainable=False)
    layer.build((None, None, None, channels))
    layer.set_weights([(factor * np.eye(channels)[order])[None, None].astype(np.float32), np.full(channels, offset)])
    return layer(h)


# Plain functions of pictures that people know.


@dataclass(frozen=True)
class Function:
    """``build(u, value)`` makes the network's output of its input; ``usual`` is the value where none is written."""

    key: str
    usual: float | None
    example: str
    build: Callable[[Any, float], Any]


def _blur(h: Any, sigma: float) -> Any:
    """A Gaussian over rows, then columns, as far as three sigma; at the edge the mean of what is there."""
    import keras

    high, wide, channels = h.shape[1:]
    for axis, length in ((0, high), (1, wide)):
        reach = min(max(1, round(3 * sigma)), length - 1)
        bell = np.exp(-0.5 * (np.arange(-reach, reach + 1) / sigma) ** 2)
        bell /= bell.sum()
        size = [1, 1]
        size[axis] = 2 * reach + 1
        layer = keras.layers.DepthwiseConv2D(size, padding="same", use_bias=False)
        layer.build((None, high, wide, channels))
        layer.set_weights([np.broadcast_to(bell.reshape(*size, 1, 1), (*size, channels, 1)).astype(np.float32)])
        weight_inside = np.convolve(np.ones(length), bell)[reach : reach + length]
        edge = np.expand_dims(1 / weight_inside, 1 - axis).astype(np.float32)
        h = keras.layers.Rescaling(np.broadcast_to(edge[..., None], (high, wide, 1)).tolist())(layer(h))
    return h


def _mosaic(h: Any, side: float) -> Any:
    """The mean of each square of ``side`` pixels; at the edge of what is there."""
    import keras

    layers = importlib.import_module("edgeveil.models.layers")
    high, wide, pixels = h.shape[1], h.shape[2], int(side)
    h = keras.layers.AveragePooling2D(pixels, padding="same")(h)
    more = [-length % pixels for length in (high, wide)]
    h = layers.ResizeNearest(high + more[0], wide + more[1])(h)
    return keras.layers.Cropping2D([(one // 2, one - one // 2) for one in more])(h) if any(more) else h


def _silhouette(h: Any, threshold: float) -> Any:
    """1 above the threshold and 0 below it, from a straight line as steep as one step of 8 bits."""
    import keras

    return keras.layers.Rescaling(255.0, 0.5 - 255.0 * threshold)(h)


FUNCTIONS = {
    "blur": Function("sigma", 6.0, "blur:sigma=6", _blur),
    "mosaic": Function("size", 8.0, "mosaic:8", _mosaic),
    "silhouette": Function("threshold", None, "silhouette", _silhouette),
}


def parse(text: str) -> float | None:
    """The value of a function's text. Raises ``ValueError`` with what was expected."""
    name, _, rest = text.partition(":")
    one = FUNCTIONS[name]
    try:
        value = float(rest.removeprefix(f"{one.key}=")) if rest else one.usual
    except ValueError:
        raise ValueError(f"{one.example}, or another number") from None
    fits = {"blur": 0.1, "mosaic": 2.0, "silhouette": 0.0}[name]
    if value is not None and not fits <= value <= (1.0 if name == "silhouette" else 4096.0):
        most = "1" if name == "silhouette" else "4096"
        raise ValueError(f"{name}:{one.key}=N from {fits:g} to {most}")
    if name == "mosaic" and value is not None and value != int(value):
        raise ValueError("mosaic:N with a whole number of pixels")
    return value


def otsu(u: np.ndarray) -> float:
    """The threshold that splits the values of u (n, ...), in the unit cube, into the two classes farthest apart."""
    counts, edges = np.histogram(u, bins=256, range=(0.0, 1.0))
    middles = (edges[:-1] + edges[1:]) / 2
    below, mass = counts.cumsum(), (counts * middles).cumsum()
    above = below[-1] - below
    with np.errstate(divide="ignore", invalid="ignore"):
        apart = below * above * (mass / below - (mass[-1] - mass) / above) ** 2
    return float(edges[1 + int(np.nanargmax(apart))])
