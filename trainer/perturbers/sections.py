"""The ``[perturber]`` section of a recipe: one model per kind, told apart by ``kind``.

A new kind adds a model here, its name to ``Perturber``, and its module to ``trainer.perturbers.KINDS``.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field


class Section(BaseModel):
    """A part of a recipe: every key known, every type exact, nothing changed after reading."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class Generator(Section):
    """The network that maps u to u', both in the unit cube."""

    architecture: Literal["conv", "mlp"] = Field(
        description='"conv" for images, "mlp" for vectors (models/generators.py).'
    )
    width: int = Field(ge=1, le=4096, description="Channels of the conv generator, hidden units of the mlp.")
    halvings: int = Field(
        default=2, ge=1, le=5, description="conv only: how often the encoder halves height and width (2: to a quarter)."
    )
    blocks: int = Field(
        default=2, ge=1, le=8, description="Residual blocks (conv) or hidden layers (mlp) in the middle."
    )


class PrGan(Section):
    """PR-GAN: a generator against fixed D_y and D_z and a discriminator of its own (paper 001, eqs. 7 to 11)."""

    kind: Literal["prgan"] = Field(description="Which perturber: the paper's PR-GAN.")
    generator: Generator = Field(description="The network that ships.")
    alpha: float = Field(default=1.0, gt=0, description="Weight of L_Adv (eq. 8): keep y, bring D_z to MED.")
    beta: float = Field(default=1.0, ge=0, description="Weight of L_hinge (eq. 10).")
    distance: float = Field(
        gt=0, description="c of eq. 10: the Euclidean distance between u and u' that costs nothing, in the unit cube."
    )
    distance_slack: float = Field(
        default=1.5,
        ge=1.0,
        description="Checkpoints whose mean distance exceeds this times `distance` are taken only if no other will do.",
    )
    learning_rate: float = Field(default=1e-3, gt=0, le=1, description="Adam's rate for the generator.")
    discriminator_learning_rate: float = Field(
        default=2e-4, gt=0, le=1, description="Adam's rate for the discriminator."
    )


class LabelOnly(Section):
    """The floor: the predicted y alone leaves, drawn as that class's mean training reading."""

    kind: Literal["label-only"] = Field(description="Which perturber: send the predicted label and nothing else.")
    network: Literal["target", "small", "table1-wifi"] = Field(
        default="target", description="The classifier that ships: D_y itself, or one of its own from the second slice."
    )
    width: int = Field(default=16, ge=1, le=512, description="Channels of the first layer; `small` only.")


Perturber = Annotated[PrGan | LabelOnly, Field(discriminator="kind")]
