"""The attack that a plan asks for."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from edgeveil.trainer.publish.actions import PlanTable


class Attack(PlanTable):
    """``sensitive``, a column that is dropped, is z; ``target``, one that is published, is y, which attackers know.

    ``points`` over chance and ``bits`` are what attacks may learn, by the upper ends of their intervals.
    """

    sensitive: str
    target: str | None = None
    points: float = Field(gt=0, le=100)
    bits: float = Field(gt=0)
    budget: Literal["quick", "thorough"] = "quick"
