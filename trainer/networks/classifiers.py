"""The classifiers that a recipe names in ``classifiers.architecture``; the architectures are in ``edgeveil.models``."""

from __future__ import annotations

import importlib
from typing import Any, ClassVar

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.datasets.base import InputSpec
from edgeveil.trainer.networks.base import Network


class Classifier(Network):
    """One by ``MODULE.FUNCTION`` of ``edgeveil.models``; ``sized``: it takes the width of its first layer."""

    role = "classifier"
    architecture: ClassVar[str]
    sized: ClassVar[bool] = False

    @classmethod
    def build(cls, spec: InputSpec, *, settings: int | None, classes: int = 0, noise: int = 0) -> Any:
        """See ``Network``."""
        module, _, function = cls.architecture.partition(".")
        make = getattr(importlib.import_module(f"edgeveil.models.{module}"), function)
        shape = spec.shape[0] if spec.kind == "vector" else spec.shape
        return make(shape, classes, **({"width": settings} if cls.sized and settings is not None else {}))


class Small(Classifier):
    """A small network for any image."""

    names = ("small",)
    architecture = "classifiers.small"
    of = ("image",)
    sized = True
    tried = 2


class NormedCnn(Classifier):
    """A network with batch norm, for images of any scale."""

    names = ("normed-cnn",)
    architecture = "classifiers.normed_cnn"
    of = ("image",)
    sized = True
    tried = 1
    another = "small"


class Table1Mnist(Classifier):
    """The network for MNIST of Table 1 of paper 001."""

    names = ("table1-mnist",)
    architecture = "classifiers.table1_mnist"
    of = ("image",)

    @classmethod
    def build(cls, spec: InputSpec, *, settings: int | None, classes: int = 0, noise: int = 0) -> Any:
        """See ``Network``. Raises ``BadInput`` below 9 x 9 pixels."""
        height, wide, _ = spec.shape
        if min(height, wide) < 9:
            raise BadInput(f'"table1-mnist" needs at least 9 x 9 pixels; got {height} x {wide}. Take "small".')
        return super().build(spec, settings=settings, classes=classes)


class NormedMlp(Classifier):
    """A network with batch norm, for vectors of any scale."""

    names = ("normed-mlp",)
    architecture = "classifiers.normed_mlp"
    of = ("vector",)
    tried = 1
    another = "table1-wifi"


class Table1Wifi(Classifier):
    """The network for WiFi fingerprints of Table 1 of paper 001."""

    names = ("table1-wifi",)
    architecture = "classifiers.table1_wifi"
    of = ("vector",)
    tried = 2
    another = "normed-mlp"


class Windows(Classifier):
    """Strided convolutions over a vector in its order, for windows of a sensor that were laid flat."""

    names = ("windows",)
    architecture = "classifiers.windows"
    of = ("vector",)
    tried = 3
    least = 96
    another = "normed-mlp"

    @classmethod
    def build(cls, spec: InputSpec, *, settings: int | None, classes: int = 0, noise: int = 0) -> Any:
        """See ``Network``. Raises ``BadInput`` below 96 features."""
        if spec.shape[0] < cls.least:
            raise BadInput(f'"windows" needs at least {cls.least} features; got {spec.shape[0]}. Take "normed-mlp".')
        return super().build(spec, settings=settings, classes=classes)


class Series(Classifier):
    """Strided convolutions over time."""

    names = ("series",)
    architecture = "series.classifier"
    of = ("series",)
    sized = True
    tried = 1
