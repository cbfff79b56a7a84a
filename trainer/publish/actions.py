"""What may become of a column: the actions of a plan, and the keys that each has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from edgeveil.trainer.pseudonyms.normalise import Step
from edgeveil.trainer.publish.anonymity.criteria import Distance
from edgeveil.trainer.publish.anonymity.hierarchies import Hierarchy


class PlanTable(BaseModel):
    """A table of a plan: no key but its own, and no value of another type."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class _Column(PlanTable):
    """``type`` and ``values`` are what the draft saw; they ask for nothing."""

    type: str = ""
    values: int = 0


class Drop(_Column):
    """Not published. ``normalise`` is for the column that says whose a row is."""

    action: Literal["drop"]
    normalise: list[Step] = []


class Keep(_Column):
    """Published as it is, for a reason that the publication states."""

    action: Literal["keep"]
    reason: str = Field(min_length=1)


class Pseudonym(_Column):
    """``vault`` for people, whom it can forget; ``stateless`` for devices and rooms. ``field`` names what it
    identifies, the same in every table; left out, the column's name."""

    action: Literal["pseudonym"]
    mode: Literal["vault", "stateless"]
    normalise: list[Step]
    epoch: int = Field(ge=1)
    field: str | None = Field(default=None, min_length=1)


class Quasi(_Column):
    """What others may know of a person: generalised along its hierarchy; ``weight`` is its share in the loss."""

    action: Literal["quasi"]
    hierarchy: Hierarchy
    weight: float = Field(default=1.0, gt=0)


class Sensitive(_Column):
    """Published as it is; ``distinct_l``, ``entropy_l`` and ``t`` say how little a class may tell of it."""

    action: Literal["sensitive"]
    distinct_l: int | None = Field(default=None, ge=2)
    entropy_l: float | None = Field(default=None, gt=1)
    t: float | None = Field(default=None, ge=0, lt=1)
    distance: Distance = "equal"
    hierarchy: Hierarchy | None = None

    @model_validator(mode="after")
    def _asked(self) -> Sensitive:
        if self.distinct_l is None and self.entropy_l is None and self.t is None:
            raise ValueError("`distinct_l`, `entropy_l` or `t`: what a class may tell of it")
        if self.distance != "equal" and (self.t is None or self.hierarchy is None):
            raise ValueError("`t` and `hierarchy`, which order the values, beside `distance`")
        return self


class Target(_Column):
    """What the data are for, published as it is."""

    action: Literal["target"]


Column = Drop | Keep | Pseudonym | Quasi | Sensitive | Target
ACTIONS: Mapping[str, type[Column]] = {
    "drop": Drop,
    "keep": Keep,
    "pseudonym": Pseudonym,
    "quasi": Quasi,
    "sensitive": Sensitive,
    "target": Target,
}
