"""``[perturber]`` of a generator: PR-GAN, its baselines, and minimax."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, ValidationInfo, field_validator

from edgeveil.trainer.recipe.section import Section


class Generator(Section):
    """The network that maps u to u', both in the unit cube."""

    architecture: Literal["conv", "mlp"] = Field(description='"conv" for images, "mlp" for vectors.')
    width: int = Field(ge=1, le=4096, description="Channels of the conv generator, hidden units of the mlp.")
    halvings: int = Field(default=2, ge=1, le=5, description="conv only: times that height and width are halved.")
    blocks: int = Field(default=2, ge=1, le=8, description="Residual blocks (conv) or hidden layers (mlp).")
    latent: int | None = Field(
        default=None,
        ge=1,
        le=4096,
        description="mlp only: size of a bottleneck for all of u. Left out: the network's output is added to u.",
    )
    clip: Literal["returns"] | None = Field(
        default=None,
        description='"returns": in training a clipped value keeps its gradient where a step leads back into the range, '
        "so that a generator that has made everything black can recover. Left out: it has none. Not with `latent`, "
        "where nothing is clipped.",
    )

    @field_validator("clip")
    @classmethod
    def _clips(cls, clip: str | None, info: ValidationInfo) -> str | None:
        if clip is not None and info.data.get("latent") is not None:
            raise ValueError("no such key with `latent`, where nothing is clipped")
        return clip


class _Generated(Section):
    """What PR-GAN, its baselines and minimax share: a generator and the weights of its losses."""

    generator: Generator = Field(description="The network that ships.")
    alpha: float = Field(default=1.0, gt=0, description="Weight of L_Adv (eq. 8): keep y, bring D_z to MED.")
    beta: float = Field(default=1.0, ge=0, description="Weight of L_hinge (eq. 10).")
    distance: float = Field(
        gt=0, description="c of eq. 10: Euclidean distance between u and u', in the unit cube, that costs nothing."
    )
    distance_slack: float = Field(
        default=1.5,
        ge=1.0,
        description="A checkpoint whose mean distance is over `distance` times this is taken only if no other will do.",
    )
    learning_rate: float = Field(default=1e-3, gt=0, le=1, description="Adam's rate for the generator.")
    discriminator_learning_rate: float = Field(
        default=2e-4, gt=0, le=1, description="Adam's rate for the discriminator."
    )
    straight_through: bool = Field(
        default=False,
        description="Integers of few levels (WiFi): the losses see x' rounded, as it is sent; the gradient passes.",
    )


class PrGan(_Generated):
    """A generator against fixed D_y and D_z and a discriminator of its own (paper 001, eqs. 7 to 11), and baselines."""

    kind: Literal["prgan", "ngp", "ap"] = Field(
        description="PR-GAN; NGP has no discriminator, AP no target classifier (section 6.2)."
    )


class Minimax(_Generated):
    """PR-GAN against adversaries that keep learning on what it makes; beyond the paper."""

    kind: Literal["minimax"] = Field(description="A generator trained against adversaries that keep learning.")
    noise: int = Field(default=16, ge=1, le=1024, description="Random inputs of the generator per sample.")
    gan: float = Field(default=0.3, ge=0, description="Weight of L_GAN (eq. 9).")
    adversary_learning_rate: float = Field(default=1e-3, gt=0, le=1, description="Adam's rate for the adversaries.")
    adversary_steps: int = Field(default=2, ge=1, le=20, description="Steps of each adversary per generator step.")
    renew: int = Field(default=4, ge=1, description="Epochs between resets of one adversary, in turn.")
    judge_every: int = Field(
        default=5,
        ge=1,
        description="Epochs between checkpoints that freshly trained adversaries score; the last one is scored too.",
    )
