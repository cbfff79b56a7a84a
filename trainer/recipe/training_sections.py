"""Sections of a recipe on how it is trained, how long, and what the result must meet."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, model_validator

from edgeveil.edge_runtime.errors import BadInput, BundleRefused
from edgeveil.edge_runtime.manifest.capture import check_capture
from edgeveil.edge_runtime.manifest.count import LEAST_PERIOD_S, MICRO, MOST_EACH, MOST_PERIOD_S, CountRules
from edgeveil.trainer.recipe.networks import Architecture, Given, Section, file_of, resolved

# What several sections of a recipe may not go beyond.


MOST_EPSILON = 20.0  # beyond it nothing is promised: e^20 is half a billion
MOST_SECONDS = 10 * 366 * 86_400


class TablePrior(Section):
    """What the public knows, written down. What is left out is spread evenly (eq. 3)."""

    kind: Literal["table"] = Field(description="The prior is written in `table`.")
    table: dict[str, dict[str, float]] = Field(
        description="One table per class of y: class of z = P(z|y). May be partial; a class of y left out says nothing."
    )


class TrainingPrior(Section):
    """P(z|y) from the two training slices."""

    kind: Literal["counted", "uniform"] = Field(
        description='"counted": as counted there. "uniform": even over the z that occur with each y there.'
    )


class Classifiers(Section):
    """D_y and D_z, trained on the first slice and fixed from then on (section 5.3)."""

    architecture: Architecture = Field(
        description="`table1-*` are Table 1 of the paper; `small` and `normed-cnn` suit any image; `normed-mlp` and "
        "`table1-wifi` are for vectors, `windows` for flat windows; `normed-*` have batch norm, for data of any scale. "
        "`series` (strided convolutions over time) is for series; `linear` (least squares) is for cleaners; there D_y "
        "sees the output of the kept operator. Or your own: `mine.py:build`."
    )
    look: float | None = Field(
        default=None,
        ge=0,
        le=1,
        description="Accuracy of y in the look of `recipe new`, on the second slice. Training stops after D_y where it "
        "lies ten points below. Left out: D_y must only beat the commonest class.",
    )
    learning_rate: float = Field(
        default=1e-3, gt=0, le=1, description="Adam's first rate; it falls to 0 along a cosine."
    )
    shift: int = Field(
        default=0, ge=0, le=8, description="Images: training samples are moved by up to this many pixels each way."
    )
    patience: int = Field(default=10, ge=1, description="Epochs without a better validation loss before it stops.")
    target: Given | None = Field(default=None, description="D_y, trained by you. Left out: it is trained.")
    sensitive: Given | None = Field(default=None, description="D_z, trained by you. Left out: it is trained.")

    @model_validator(mode="after")
    def _given(self) -> Classifiers:
        if self.architecture == "linear" and (self.target or self.sensitive):
            raise ValueError('no [classifiers.target] and [classifiers.sensitive] with architecture = "linear"')
        return self

    def resolved(self, folder: Path) -> Classifiers:
        """The same section with its paths, which are relative to the recipe's ``folder``."""
        changed: dict[str, Any] = {"architecture": resolved(self.architecture, folder)}
        for name, given in (("target", self.target), ("sensitive", self.sensitive)):
            if given is not None and given.trained is not None:
                path = (folder / Path(given.trained).expanduser()).resolve()
                changed[name] = given.model_copy(update={"trained": str(path)})
        return self.model_copy(update=changed)

    def files(self) -> list[Path]:
        """The files of a user's own that it names. Raises ``BadInput`` where a trained classifier has none."""
        given = []
        for name, one in (("target", self.target), ("sensitive", self.sensitive)):
            if one is not None:
                if one.trained is None:
                    raise BadInput(
                        f"classifiers.{name}.trained: a file .keras, .pt2 or .onnx was expected; there is none. Name "
                        f"it, or give a model, as in edgeveil.train(recipe, out, {name}=MODEL)."
                    )
                given.append(Path(one.trained))
        own = file_of(self.architecture)
        return given if own is None else [own, *given]


class Quick(Section):
    """Replaces ``[budget]`` under ``--budget quick``: a trial in seconds."""

    rows: int = Field(default=3000, ge=100, description="At most this many rows of data.")
    classifier_epochs: int = Field(default=3, ge=1, description="Epochs of D_y and of D_z.")
    epochs: int = Field(default=3, ge=1, description="Epochs of the perturber.")
    batch: int | None = Field(default=None, ge=2, description="Rows per training step. Left out: as in the full one.")


class Spending(Section):
    """What a unit may spend in all: every release or kept answer costs its epsilon, and the ledger stops at `most`."""

    unit: Literal["release", "track", "subject"] = Field(
        description='Whose releases add up: "release" (all of the device), "track" (those of one track), "subject" '
        "(those of one person, whom the source names)."
    )
    most: float = Field(gt=0, le=1e6, description="Epsilon that one unit may spend in a period.")
    period_s: int | None = Field(
        default=None,
        ge=1,
        le=MOST_SECONDS,
        description="Seconds that the device was on after which a unit may spend `most` again. Left out: never again.",
    )


class Budget(Section):
    """How long to train."""

    rows: int | None = Field(default=None, ge=100, description="At most this many rows of data; left out: all of them.")
    classifier_epochs: int = Field(ge=1, le=10000, description="Epochs of D_y and of D_z, at most.")
    epochs: int = Field(ge=1, le=100000, description="Epochs of the perturber; unused where D_y itself ships.")
    batch: int = Field(default=128, ge=2, le=65536, description="Rows per training step.")
    quick: Quick = Field(default=Quick(), description="The budget under `--budget quick`.")


class Certificate(Section):
    """Asks for a certificate. Only a perturber that sends one of finitely many codes has one."""

    confidence: float = Field(default=0.95, gt=0.5, lt=1, description="Confidence with which the bound holds.")
    tried: int = Field(
        default=1,
        ge=1,
        le=1_000_000,
        description="Configurations compared on this seed's test slice, fixed beforehand. They share the confidence. "
        "What was audited on it before is counted without this.",
    )
    strata: list[str] = Field(
        default=[],
        description="Attributes within which z is balanced by design (each light once per person). The "
        "certificate's null shuffles z within them.",
    )


class Limits(Section):
    """What the result must meet. Otherwise the command ends with exit code 3; the run is kept."""

    target_accuracy: float = Field(
        gt=0,
        le=1,
        description="Accuracy of y on validation that the best reader must reach (a label that is sent, D_y, or one "
        "that learned on what is sent): the utility floor of section 6.2.",
    )
    attack_points: float | None = Field(
        default=None,
        ge=0,
        le=100,
        description="`edgeveil audit`: points above y alone that attacks may reach, upper end. Left out: no limit.",
    )
    bits: float | None = Field(
        default=None,
        ge=0,
        description="`edgeveil audit`: bits per sample beyond y that attacks may learn, upper end. Left out: no limit.",
    )
    unseen_accuracy: float | None = Field(
        default=None,
        gt=0,
        le=1,
        description="codebook: accuracy of y-hat on the worst person, by an encoder trained without that person.",
    )


# The ``[capture]`` section of a recipe: what the sensor gives, and how it becomes the samples that are perturbed.


Size = Annotated[list[Annotated[int, Field(ge=1)]], Field(min_length=2, max_length=2)]
Window = Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=4, max_length=4)]


class Frame(Section):
    """A frame as the sensor gives it."""

    shape: list[int] = Field(
        min_length=1, max_length=3, description="[height, width], [height, width, channels] or [features]."
    )
    dtype: Literal["uint8", "int8", "uint16", "int16", "float32"] = Field(description="Type of its values.")
    unit_mm: float | None = Field(default=None, gt=0, le=1000, description="Depth cameras: mm per unit of a pixel.")


class Crop(Section):
    """A patch around each person under an overhead depth camera (section 6.1)."""

    size: Size = Field(default=[180, 180], description="Rows and columns of a patch, in the sensor's pixels.")
    focal_px: float = Field(
        default=365.0, gt=0, le=10000, description="The sensor's focal length in pixels; 365 is a Kinect v2's."
    )
    least_height_mm: float = Field(
        default=1000.0, gt=0, le=3000, description="Least height of a person above the floor."
    )
    least_pixels: int = Field(default=600, ge=1, description="Least pixels of a person at that height.")
    apart_mm: float = Field(default=500.0, gt=0, le=3000, description="Two people closer than this count as one.")
    step_px: int = Field(default=60, ge=1, le=4096, description="Largest step of a person between two frames.")
    gone_frames: int = Field(default=5, ge=0, le=10000, description="Frames without its person that end a track.")
    floor_frames: int = Field(
        default=9000,
        ge=2,
        le=10**7,
        description="The floor is the largest depth seen in this many frames, up to twice as many.",
    )


class Capture(Section):
    """How a sensor's frames become samples: the same in training and on a device."""

    frame: Frame = Field(description="What the sensor gives.")
    access_points: list[str] | None = Field(
        default=None, description="wifi: the address of each feature, in order, as 00:11:22:aa:bb:cc."
    )
    measure: Literal["value", "depth", "height", "seen"] = Field(
        default="value",
        description='"value" of a pixel or feature; "depth", where 0 means no value; "height" above the floor; "seen" '
        "or not, for access points.",
    )
    low: float | None = Field(
        default=None, description="Value that becomes the lower end of the range; mm for depth and height."
    )
    high: float | None = Field(
        default=None, description="Value that becomes the upper end of the range; mm for depth and height."
    )
    window: Window | None = Field(
        default=None, description="The part of the frame that is used: top, left, height, width. Left out: all of it."
    )
    crop: Crop | None = Field(default=None, description="Patches around people. Left out: the whole frame.")
    size: Size | None = Field(
        default=None, description="Rows and columns of a sample. Left out: those of the patch, the window or the frame."
    )
    channels: Literal[1, 3] | None = Field(default=None, description="1 turns colour into gray. Left out: unchanged.")
    dtype: Literal["uint8", "uint16", "float32"] | None = Field(
        default=None,
        description="Type of a sample, whose whole range is used (float32: 0 to 1). Left out: the frame's.",
    )
    resize: Literal["nearest", "area"] = Field(
        default="nearest", description='How frames are resized. "area" (the mean) is for "value" alone.'
    )
    fit: Literal["stretch", "letterbox", "crop"] | None = Field(
        default=None,
        description='How pictures of any size are brought to `frame`: "stretch" fills it, "letterbox" keeps the ratio '
        'of the sides, with black around, and "crop" takes the middle that has it. Left out: another size is refused.',
    )
    slots: int = Field(default=1, ge=1, le=64, description="Frames sent per tick: the most people at a time.")
    tick_hz: float = Field(
        default=10.0, ge=0.01, le=1000, description="Ticks per second: how often a live source sends."
    )
    on_fault: Literal["previous", "flat"] = Field(
        default="previous", description="What is sent if there is no new frame: the previous frame, or a flat one."
    )
    degraded_after_s: int = Field(default=60, ge=1, le=86400, description="Seconds of a fault before it is reported.")

    @model_validator(mode="after")
    def _runs_on_a_device(self) -> Capture:
        try:
            check_capture(self.manifest(), self.input())
        except BundleRefused as refusal:
            problem = str(refusal).partition(": ")[2].rpartition(". ")[0]
            raise ValueError(f"a section that a device can run ({problem})") from None
        return self

    def document(self) -> dict[str, Any]:
        """The sections of a manifest that make samples of frames, ``capture`` and ``input``."""
        return {"capture": self.manifest(), "input": self.input()}

    def manifest(self) -> dict[str, Any]:
        """The section as the manifest has it (docs/reference/bundle-format.md)."""
        keys = ["access_points", "measure", "low", "high", "slots", "tick_hz", "on_fault", "degraded_after_s"]
        return {
            **{key: getattr(self, key) for key in keys},
            "frame": self.frame.model_dump(),
            "crop": None if self.crop is None else self.crop.model_dump(),
            "resize": None if len(self.frame.shape) == 1 else self.resize,
            **({} if self.window is None else {"window": self.window}),
            **({} if self.fit is None else {"fit": self.fit}),
        }

    def input(self) -> dict[str, Any]:
        """``kind``, ``shape``, ``dtype``, ``low`` and ``high`` of a sample; the last two None if unknown."""
        shape, dtype = list(self.frame.shape), self.dtype or self.frame.dtype
        if len(shape) > 1:
            size = self.size or (self.crop.size if self.crop else self.window[2:] if self.window else shape[:2])
            shape = [*size, self.channels or (shape[2] if len(shape) == 3 else 1)]
        ends: tuple[float | None, float | None] = None, None
        if self.low is not None or dtype == "uint8":
            whole = np.dtype(dtype).kind in "iu"
            ends = (float(np.iinfo(dtype).min), float(np.iinfo(dtype).max)) if whole else (0.0, 1.0)
        return {
            "kind": "vector" if len(shape) == 1 else "image",
            "shape": shape,
            "dtype": dtype,
            "low": ends[0],
            "high": ends[1],
        }


# The ``[count]`` section of a recipe: people before a camera, counted by lines and zones.


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
    """Counts of people that leave once a period, in addition to what the perturber sends."""

    lines: list[CountedLine] = Field(default=[], description="Lines, each counted in and out.")
    zones: list[CountedZone] = Field(default=[], description="Zones, of which the occupancy at a period's end is sent.")
    period_s: int = Field(ge=LEAST_PERIOD_S, le=MOST_PERIOD_S, description="Seconds of one record.")
    dwell_s: list[float] = Field(
        default=[], description="Seconds between two bins of stays that ended in a period, rising. Left out: no stays."
    )
    margin_px: float = Field(
        default=16.0, ge=1, description="A line is crossed by who was this far away from it on both sides."
    )
    noise: CountedNoise | None = Field(default=None, description="Noise on what is sent. Left out: exact counts.")
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
    """What is sent of a period, in words."""
    lines = [f"in and out over the line {line.name}" for line in rules.lines]
    stays = f" and their stays in {len(rules.dwell_s) + 1} bins" if rules.dwell_s else ""
    zones = [f"people in the zone {zone.name}{stays}" for zone in rules.zones]
    exactly = "exactly" if rules.noise is None else "with noise"
    return f"one record every {rules.period_s} s, {exactly}: {'; '.join([*lines, *zones])}"


def revealed(rules: CountRules) -> str:
    """What the counts of a bundle tell about one person, for its card."""
    every = f"Every {rules.period_s} s a record says how many people there are or were"
    unread = f"No attack of an audit reads a record, which carries at most {rules.bits:.1f} bits of whatever is seen."
    if rules.noise is None:
        return (
            f"{every}, exactly: in an empty room a count of 1 says that somebody was there and, to {rules.period_s} s, "
            f"when; at home the counts are those of one household. {unread}"
        )
    epsilon, most = (number / MICRO for number in (rules.noise.micro_epsilon, rules.noise.most_micro_epsilon))
    return (
        f"{every}, with two-sided geometric noise of scale {rules.sensitivity / epsilon:.4g}: if one person's presence "
        f"leaves the tracks of others as they are, a record changes the odds of anything about one track by at most "
        f"e^{epsilon:g} and a day's records by e^{most:g}; a person who comes back is another track, and a household "
        "adds up. Tracks are what the detector finds, which is the maker's where the bundle has one: if it makes k "
        "tracks of one person, exponents are k times as large. Nothing here bounds k; an auditor's own recordings of "
        f"one person at a time would. {unread}"
    )
