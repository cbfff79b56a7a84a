"""Hierarchies of numbers: ranges of equal widths, and ranges between cuts."""

from __future__ import annotations

import bisect
import math
from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field, model_validator

from edgeveil.trainer.publish.anonymity.rungs import ANY, Rung, Rungs


class _Numbers(Rungs):
    """Numbers from ``low`` to ``high``, both included; both are public, and none is taken from the data."""

    ordered = True
    low: float
    high: float
    whole: bool = True

    @model_validator(mode="after")
    def _some(self) -> _Numbers:
        if self.low >= self.high:
            raise ValueError(f"`low` below `high`, not {self.low:g} and {self.high:g}")
        return self

    def rungs(self, value: str) -> list[Rung] | None:
        """As ``Rungs``; the value itself is written as a number, so that 7 and 07 are one."""
        number = as_number(value)
        if number is None or not self.low <= number <= self.high or (self.whole and number != round(number)):
            return None
        itself = f"{number:.0f}" if number == round(number) else repr(number)
        return [(itself, 0.0), *(self._range(*ends) for ends in self._ends(number)), (ANY, 1.0)]

    def place(self, value: str) -> float:
        """As ``Rungs``."""
        return (float(value) - self.low) / (self.high - self.low)

    def _ends(self, number: float) -> Iterator[tuple[float, float]]:
        raise NotImplementedError

    def _range(self, low: float, high: float) -> Rung:
        """From ``low`` to below ``high``."""
        if self.whole:
            first, last = math.ceil(low), math.ceil(high) - 1
            size = min(last, self.high) - max(first, self.low)
            return (f"{first}..{last}" if first < last else f"{first}"), size / (self.high - self.low)
        size = min(high, self.high) - max(low, self.low)
        return f"[{low:g},{high:g})", size / (self.high - self.low)


class Ranges(_Numbers):
    """Ranges that begin at ``start`` and at every ``width`` from there; each width is a multiple of the one before."""

    kind: Literal["ranges"]
    widths: list[Annotated[float, Field(gt=0)]]
    start: float = 0.0

    @model_validator(mode="after")
    def _nested(self) -> Ranges:
        for fine, coarse in zip(self.widths, self.widths[1:], strict=False):
            times = coarse / fine
            if times < 2 or abs(times - round(times)) > 1e-9:
                raise ValueError(f"each width a multiple of the one before, and {coarse:g} is none of {fine:g}")
        return self

    def _ends(self, number: float) -> Iterator[tuple[float, float]]:
        if not self.widths:
            return
        finest = self.widths[0]
        step = math.floor((number - self.start) / finest)  # one division, so that no two levels round apart
        for width in self.widths:
            times = round(width / finest)
            low = self.start + (step // times) * times * finest
            yield low, low + width


class Cuts(_Numbers):
    """Ranges between cuts, a list for each level; a cut belongs to the range above it. Each list is part of the one
    before."""

    kind: Literal["cuts"]
    cuts: list[list[float]]

    @model_validator(mode="after")
    def _nested(self) -> Cuts:
        for fine, coarse in zip(self.cuts, self.cuts[1:], strict=False):
            if more := sorted(set(coarse) - set(fine)):
                raise ValueError(f"each list of cuts to be part of the one before, and {more[0]:g} is not in it")
        for level in self.cuts:
            if level != sorted(set(level)) or any(not self.low < cut <= self.high for cut in level):
                raise ValueError("cuts that rise, above `low` and up to `high`")
        return self

    def _ends(self, number: float) -> Iterator[tuple[float, float]]:
        for level in self.cuts:
            ends = [-math.inf, *level, math.inf]
            at = bisect.bisect_right(level, number)
            yield max(ends[at], self.low), self._end if ends[at + 1] == math.inf else ends[at + 1]

    @property
    def _end(self) -> float:
        """Just above ``high``."""
        return self.high + 1 if self.whole else math.nextafter(self.high, math.inf)


def as_number(value: str) -> float | None:
    """A finite number, or None for another text."""
    try:
        number = float(value)
    except ValueError:
        return None
    return number if math.isfinite(number) and "_" not in value else None
