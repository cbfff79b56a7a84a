"""The generators that a recipe names in ``perturber.generator``; the architectures are in ``edgeveil.models``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.datasets.base import InputSpec
from edgeveil.trainer.networks.base import Network


class Conv(Network):
    """Convolutions that halve a picture or a window, and double it again."""

    names = ("conv",)
    role = "generator"
    of = ("series", "image")

    @classmethod
    def build(cls, spec: InputSpec, *, settings: Any, classes: int = 0, noise: int = 0) -> Any:
        """See ``Network``. Raises ``BadInput`` for more halvings than the samples have."""
        from edgeveil.models.generators import conv_generator, series_generator

        sides = spec.shape[:-1]
        if min(sides) < 2**settings.halvings:
            what = f"{sides[0]} steps" if spec.kind == "series" else f"{sides[0]} x {sides[1]} pixels"
            raise BadInput(
                f"`perturber.generator.halvings` is {settings.halvings}, too many for samples of {what}: take at most "
                f"{min(sides).bit_length() - 1}."
            )
        make: Callable[..., Any] = series_generator if spec.kind == "series" else conv_generator
        return make(
            spec.shape, width=settings.width, halvings=settings.halvings, blocks=settings.blocks, noise=noise,
            returns=settings.clip == "returns",
        )  # fmt: skip


class Mlp(Network):
    """Dense layers, for vectors."""

    names = ("mlp",)
    role = "generator"
    of = ("vector",)

    @classmethod
    def build(cls, spec: InputSpec, *, settings: Any, classes: int = 0, noise: int = 0) -> Any:
        """See ``Network``."""
        from edgeveil.models.generators import mlp_generator

        return mlp_generator(
            spec.shape[0], width=settings.width, blocks=settings.blocks, latent=settings.latent, noise=noise,
            returns=settings.clip == "returns",
        )  # fmt: skip
