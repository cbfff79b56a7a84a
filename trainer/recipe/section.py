"""What every section of a recipe is, and what several of them may not go beyond."""

from __future__ import annotations

from typing import ClassVar

from pydantic import BaseModel, ConfigDict

MOST_EPSILON = 20.0  # beyond it nothing is promised: e^20 is half a billion


class Section(BaseModel):
    """A part of a recipe: every key known, every type exact, nothing changed once it is read."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)
    unbounded: ClassVar[bool] = False  # whether a perturber takes vectors as they are, without a range
