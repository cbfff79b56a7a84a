"""The ``[capture]`` section of a recipe: what the sensor gives, and how it becomes the readings that are perturbed."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, model_validator

from edgeveil.edge_runtime.errors import BundleRefused
from edgeveil.edge_runtime.manifest.capture import check_capture
from edgeveil.trainer.recipe.perturber import Section

Size = Annotated[list[Annotated[int, Field(ge=1)]], Field(min_length=2, max_length=2)]


class Frame(Section):
    """One frame of the sensor."""

    shape: list[int] = Field(
        min_length=1, max_length=3, description="[height, width], [height, width, channels] or [features]."
    )
    dtype: Literal["uint8", "int8", "uint16", "int16", "float32"] = Field(description="Its type.")
    unit_mm: float | None = Field(
        default=None, gt=0, le=1000, description="Depth cameras: how many mm a step of a reading is."
    )


class Crop(Section):
    """A patch around each person under an overhead depth camera (section 6.1)."""

    size: Size = Field(default=[180, 180], description="Rows and columns of a patch, in the sensor's pixels.")
    focal_px: float = Field(
        default=365.0, gt=0, le=10000, description="The sensor's focal length in pixels; 365 is a Kinect v2's."
    )
    least_height_mm: float = Field(
        default=1000.0, gt=0, le=3000, description="Who rises less above the floor is nobody."
    )
    least_pixels: int = Field(
        default=600, ge=1, description="Who covers fewer pixels so far above the floor is nobody."
    )
    apart_mm: float = Field(default=500.0, gt=0, le=3000, description="Nearer than this two are taken for one.")
    step_px: int = Field(default=60, ge=1, le=4096, description="How far a person comes between two frames, at most.")
    gone_frames: int = Field(
        default=5, ge=0, le=10000, description="After so many frames without a person a track ends."
    )
    floor_frames: int = Field(
        default=9000, ge=2, le=10**7, description="The floor is the farthest of so many frames to twice as many."
    )


class Capture(Section):
    """From a sensor's frames to readings, the same in training and on a device."""

    frame: Frame = Field(description="What the sensor gives.")
    access_points: list[str] | None = Field(
        default=None, description="wifi: the address of each feature, in order, as 00:11:22:aa:bb:cc."
    )
    measure: Literal["value", "depth", "height", "seen"] = Field(
        default="value",
        description='"value" of a pixel or feature; "depth", where 0 is no reading; "height" above the floor; "seen" '
        "or not, for access points.",
    )
    low: float | None = Field(default=None, description="What becomes the lower end; mm for depth and height.")
    high: float | None = Field(default=None, description="What becomes the upper end; mm for depth and height.")
    crop: Crop | None = Field(default=None, description="Patches around people; left out: the whole picture.")
    size: Size | None = Field(
        default=None, description="Rows and columns of a reading; left out: those of the patch or the picture."
    )
    channels: Literal[1, 3] | None = Field(default=None, description="1 makes gray of colour; left out: as they are.")
    dtype: Literal["uint8", "uint16", "float32"] | None = Field(
        default=None,
        description="Type of a reading, which takes its whole range (float32: 0 to 1). Left out: the frame's.",
    )
    resize: Literal["nearest", "area"] = Field(
        default="nearest", description='How pictures become another size; "area", the mean, for "value" alone.'
    )
    slots: int = Field(default=1, ge=1, le=64, description="Places of a tick: at most so many people at a time.")
    tick_hz: float = Field(default=10.0, ge=0.01, le=1000, description="How often something leaves a live source.")
    on_fault: Literal["previous", "flat"] = Field(
        default="previous",
        description="What leaves where there is nothing new: the last frame sent, or a flat one.",
    )
    degraded_after_s: int = Field(
        default=60, ge=1, le=86400, description="Seconds that a fault lasts before consumers are told."
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
        """What the manifest says of it (docs/reference/bundle-format.md)."""
        keys = ["access_points", "measure", "low", "high", "slots", "tick_hz", "on_fault", "degraded_after_s"]
        return {
            **{key: getattr(self, key) for key in keys},
            "frame": self.frame.model_dump(),
            "crop": None if self.crop is None else self.crop.model_dump(),
            "resize": None if len(self.frame.shape) == 1 else self.resize,
        }

    def input(self) -> dict[str, Any]:
        """``kind``, ``shape``, ``dtype``, ``low`` and ``high`` of a reading; both last None where unknown."""
        shape, dtype = list(self.frame.shape), self.dtype or self.frame.dtype
        if len(shape) > 1:
            size = self.size or (self.crop.size if self.crop else shape[:2])
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
