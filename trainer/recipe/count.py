"""The ``[count]`` section of a recipe: people before a camera, counted by lines and zones."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from edgeveil.edge_runtime.manifest.count import (
    LEAST_PERIOD_S,
    MICRO,
    MOST_EACH,
    MOST_PERIOD_S,
    CountRules,
)
from edgeveil.trainer.recipe.section import MOST_EPSILON, Section

Place = Annotated[list[float], Field(min_length=2, max_length=2)]


class CountedLine(Section):
    """A line that people cross. "in" is from its left to its right, seen from `start` to `end` in the picture."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,79}$", description="Its name in records.")
    start: Place = Field(description="[row, column] of one end, in the sensor's pixels.")
    end: Place = Field(description="[row, column] of the other end.")


class CountedZone(Section):
    """A part of the picture."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,79}$", description="Its name in records.")
    corners: list[Place] = Field(min_length=3, description="[row, column] of each corner, in order.")


class CountedNoise(Section):
    """Two-sided geometric noise on every number, drawn by the operating system in whole numbers."""

    epsilon: float = Field(gt=0, le=MOST_EPSILON, description="What one record tells at most about one track.")
    most_each: int = Field(
        default=1, ge=1, le=MOST_EACH, description="Crossings of a line each way, and stays, of one track in a record."
    )
    most_a_day: float = Field(gt=0, le=1e6, description="Epsilon of all records of a day; then none leaves.")


class CountedBy(Section):
    """A network of yours that finds people in a camera's frame, as one file. None is shipped."""

    file: str = Field(description="NAME.tflite or NAME.onnx, of one picture.")
    boxes: str = Field(default="boxes", description="Its output (1, n, 4).")
    scores: str = Field(default="scores", description="Its output (1, n), from 0 to 1.")
    classes: str | None = Field(default=None, description="Its output (1, n). Left out: it knows people alone.")
    person: int | None = Field(default=None, ge=0, description="With `classes`: the number of people.")
    low: float = Field(description="What it takes for black.")
    high: float = Field(description="What it takes for white.")
    order: Literal["yxyx", "xyxy"] = Field(default="yxyx", description="Of the edges of a box.")
    unit: Literal["share", "pixel"] = Field(default="share", description="Of the edges: of its picture's, or pixels.")
    least_score: float = Field(default=0.5, ge=0, le=1, description="Least score of a person.")
    point: Literal["centre", "feet"] = Field(
        default="feet", description="Where in a box a person is: its centre (from above), or the middle of its foot."
    )
    step_px: int = Field(default=60, ge=1, le=4096, description="Largest step of a person between two frames.")
    gone_frames: int = Field(default=5, ge=0, le=10000, description="Frames without its person that end a track.")

    @model_validator(mode="after")
    def _fits(self) -> CountedBy:
        if not self.file.endswith((".tflite", ".onnx")):
            raise ValueError("`file` to be NAME.tflite or NAME.onnx")
        if (self.classes is None) != (self.person is None):
            raise ValueError("both `classes` and `person`, or neither")
        return self


class Count(Section):
    """Counts of people that leave once a period, beside what the perturber sends."""

    lines: list[CountedLine] = Field(default=[], description="Lines, each counted in and out.")
    zones: list[CountedZone] = Field(default=[], description="Zones, of which the occupancy at a period's end is sent.")
    period_s: int = Field(ge=LEAST_PERIOD_S, le=MOST_PERIOD_S, description="Seconds of one record.")
    dwell_s: list[float] = Field(
        default=[], description="Seconds between two bins of stays that ended in a period, rising. Left out: no stays."
    )
    margin_px: float = Field(
        default=16.0, ge=1, description="A line is crossed by who was this far away from it on both sides."
    )
    noise: CountedNoise | None = Field(default=None, description="Noise on what leaves. Left out: exact counts.")
    detector: CountedBy | None = Field(
        default=None, description="A network that finds the people. Left out: `[capture.crop]` does, in depth."
    )

    def manifest(self) -> dict[str, Any]:
        """The section as the manifest has it (docs/reference/bundle-format.md)."""
        noise = self.noise
        return {
            **self.model_dump(exclude={"detector", "noise"}),
            "noise": None
            if noise is None
            else {
                "micro_epsilon": math.floor(noise.epsilon * MICRO),
                "most_each": noise.most_each,
                "most_micro_epsilon": math.floor(noise.most_a_day * MICRO),
            },
        }


def leaving(rules: CountRules) -> str:
    """What leaves of a period, in words."""
    lines = [f"in and out over the line {line.name}" for line in rules.lines]
    stays = f" and their stays in {len(rules.dwell_s) + 1} bins" if rules.dwell_s else ""
    zones = [f"people in the zone {zone.name}{stays}" for zone in rules.zones]
    exactly = "exactly" if rules.noise is None else "with noise"
    return f"one record every {rules.period_s} s, {exactly}: {'; '.join([*lines, *zones])}"


def revealed(rules: CountRules) -> str:
    """What the counts of a bundle tell about one person, for its card."""
    every = f"Every {rules.period_s} s a record says how many people there are or were"
    if rules.noise is None:
        return (
            f"{every}, exactly: in an empty room a count of 1 says that somebody was there and, to {rules.period_s} s, "
            "when; at home the counts are those of one household."
        )
    epsilon, most = (number / MICRO for number in (rules.noise.micro_epsilon, rules.noise.most_micro_epsilon))
    return (
        f"{every}, with two-sided geometric noise of scale {rules.sensitivity / epsilon:.4g}: if one person's presence "
        f"leaves the tracks of others as they are, a record changes the odds of anything about one track by at most "
        f"e^{epsilon:g} and a day's records by e^{most:g}; a person who comes back is another track, and a household "
        "adds up."
    )
