"""The ``[capture]`` section of a recipe: what the sensor gives, and how it becomes the samples that are perturbed."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, model_validator

from edgeveil.edge_runtime.errors import BundleRefused
from edgeveil.edge_runtime.manifest.capture import check_capture
from edgeveil.trainer.recipe.section import Section

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
    slots: int = Field(default=1, ge=1, le=64, description="Frames sent per tick: the most people at a time.")
    tick_hz: float = Field(
        default=10.0, ge=0.01, le=1000, description="Ticks per second: how often a live source sends."
    )
    on_fault: Literal["previous", "flat"] = Field(
        default="previous", description="What is sent if there is no new frame: the previous frame, or a flat one."
    )
    degraded_after_s: int = Field(
        default=60, ge=1, le=86400, description="Seconds of a fault after which receivers are told."
    )

    @model_validator(mode="after")
    def _runs_on_a_device(self) -> Capture:
        try:
            check_capture(self.manifest(), self.input())
        except BundleRefused as refusal:
            problem = str(refusal).partition(": ")[2].rpartition(". ")[0]
            raise ValueError(f"a section that a device can run ({problem})") from None
        return self

    def manifest(self) -> dict[str, Any]:
        """The section as the manifest has it (docs/reference/bundle-format.md)."""
        keys = ["access_points", "measure", "low", "high", "slots", "tick_hz", "on_fault", "degraded_after_s"]
        return {
            **{key: getattr(self, key) for key in keys},
            "frame": self.frame.model_dump(),
            "crop": None if self.crop is None else self.crop.model_dump(),
            "resize": None if len(self.frame.shape) == 1 else self.resize,
            **({} if self.window is None else {"window": self.window}),
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
