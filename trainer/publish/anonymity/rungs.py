"""What every hierarchy is: from a value to its labels, each with what it loses."""

from __future__ import annotations

from typing import ClassVar

from pydantic import BaseModel, ConfigDict

ANY = "*"
Rung = tuple[str, float]  # a label and its loss


class Rungs(BaseModel):
    """The base of hierarchies, which are read from a plan."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    def rungs(self, value: str) -> list[Rung] | None:
        """The labels of ``value`` from itself up to ``*``, each with its loss in [0, 1]; None: it is not covered."""
        raise NotImplementedError

    ordered: ClassVar[bool] = False  # whether values stand on a line, at a place from 0 to 1

    def place(self, value: str) -> float | str:
        """What sorts covered values: their place on a line, or among the names of the plan."""
        return value
