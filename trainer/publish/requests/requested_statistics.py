"""The statistics that a plan asks for. What a result can be is written in the plan, for bins and bounds that were taken
from the table would tell of it."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Literal

from pydantic import Field, model_validator

from edgeveil.trainer.publish.actions import PlanTable


class _Statistic(PlanTable):
    """``rows_each``: of each person so many rows count, the first ones; ``where``: rows with these values alone."""

    epsilon: float = Field(gt=0)
    rows_each: int = Field(default=1, ge=1)
    where: dict[str, str] = Field(default_factory=dict)


class Count(_Statistic):
    """How many rows; with ``rows_each`` = 1, how many people."""

    kind: Literal["count"]


class Histogram(_Statistic):
    """How many rows with each of ``values``, or between ``edges``; all others are counted together."""

    kind: Literal["histogram"]
    column: str
    values: list[str] | None = None
    edges: list[float] | None = None

    @model_validator(mode="after")
    def _bins(self) -> Histogram:
        if (self.values is None) == (self.edges is None):
            raise ValueError("`values` or `edges`, which the bins are made of")
        if self.values is not None and (not self.values or len(set(self.values)) < len(self.values)):
            raise ValueError("`values` to be different names, one at least")
        edges = self.edges
        if edges is not None and (len(edges) < 2 or any(a >= b for a, b in itertools.pairwise(edges))):
            raise ValueError("`edges` to be rising numbers, two at least")
        return self


class Mean(_Statistic):
    """The mean of numbers, each clipped to ``low`` and ``high``; half of ``epsilon`` is for how many they are."""

    kind: Literal["mean"]
    column: str
    low: float
    high: float

    @model_validator(mode="after")
    def _range(self) -> Mean:
        if self.low >= self.high:
            raise ValueError("`low` below `high`, to which numbers are clipped")
        return self


Statistic = Count | Histogram | Mean
KINDS: Mapping[str, type[Statistic]] = {"count": Count, "histogram": Histogram, "mean": Mean}
