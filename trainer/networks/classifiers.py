"""The classifiers that a recipe names in ``classifiers.architecture``; the architectures are in ``edgeveil.models``."""

from __future__ import annotations

from typing import Any

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.datasets.base import InputSpec
from edgeveil.trainer.networks.base import Network


class Small(Network):
    """A small network for any image."""

    names = ("small",)
    role = "classifier"
    of = ("image",)
    tried = 2

    @classmethod
    def build(cls, spec: InputSpec, *, settings: int | None, classes: int = 0, noise: int = 0) -> Any:
        """See ``Network``."""
        from edgeveil.models import classifiers

        return classifiers.small(_image(spec), classes, **_width(settings))


class NormedCnn(Network):
    """A network with batch norm, for images of any scale."""

    names = ("normed-cnn",)
    role = "classifier"
    of = ("image",)
    tried = 1
    another = "small"

    @classmethod
    def build(cls, spec: InputSpec, *, settings: int | None, classes: int = 0, noise: int = 0) -> Any:
        """See ``Network``."""
        from edgeveil.models import classifiers

        return classifiers.normed_cnn(_image(spec), classes, **_width(settings))


class Table1Mnist(Network):
    """The network for MNIST of Table 1 of paper 001."""

    names = ("table1-mnist",)
    role = "classifier"
    of = ("image",)

    @classmethod
    def build(cls, spec: InputSpec, *, settings: int | None, classes: int = 0, noise: int = 0) -> Any:
        """See ``Network``. Raises ``BadInput`` below 9 x 9 pixels."""
        from edgeveil.models import classifiers

        height, wide, _ = spec.shape
        if min(height, wide) < 9:
            raise BadInput(f'"table1-mnist" needs at least 9 x 9 pixels; got {height} x {wide}. Take "small".')
        return classifiers.table1_mnist(_image(spec), classes)


class NormedMlp(Network):
    """A network with batch norm, for vectors of any scale."""

    names = ("normed-mlp",)
    role = "classifier"
    of = ("vector",)
    tried = 1
    another = "table1-wifi"

    @classmethod
    def build(cls, spec: InputSpec, *, settings: int | None, classes: int = 0, noise: int = 0) -> Any:
        """See ``Network``."""
        from edgeveil.models import classifiers

        return classifiers.normed_mlp(spec.shape[0], classes)


class Table1Wifi(Network):
    """The network for WiFi fingerprints of Table 1 of paper 001."""

    names = ("table1-wifi",)
    role = "classifier"
    of = ("vector",)
    tried = 2
    another = "normed-mlp"

    @classmethod
    def build(cls, spec: InputSpec, *, settings: int | None, classes: int = 0, noise: int = 0) -> Any:
        """See ``Network``."""
        from edgeveil.models import classifiers

        return classifiers.table1_wifi(spec.shape[0], classes)


class Series(Network):
    """Strided convolutions over time."""

    names = ("series",)
    role = "classifier"
    of = ("series",)
    tried = 1

    @classmethod
    def build(cls, spec: InputSpec, *, settings: int | None, classes: int = 0, noise: int = 0) -> Any:
        """See ``Network``."""
        from edgeveil.models import series

        steps, channels = spec.shape
        return series.classifier((steps, channels), classes, **_width(settings))


def _image(spec: InputSpec) -> tuple[int, int, int]:
    height, wide, channels = spec.shape
    return height, wide, channels


def _width(settings: int | None) -> dict[str, int]:
    return {} if settings is None else {"width": settings}
