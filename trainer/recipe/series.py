"""The ``[data.series]`` section of a recipe: what the steps of a series are, and how recordings become windows."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, model_validator

from edgeveil.trainer.recipe.section import Section

Named = Annotated[list[Annotated[str, Field(min_length=1, max_length=40)]], Field(min_length=1, max_length=64)]
TICK_HZ = (0.01, 1000.0)  # the slowest and the fastest tick of a capture loop
TICKS = 1.1  # for a window: ticks at a sensor's own rate, on another clock, would now and then meet two


class Series(Section):
    """Windows of a sensor's samples: the same in training and on a device."""

    length: int | None = Field(
        default=None, ge=8, le=65536, description="Steps of a window. Left out for npz, whose x are windows."
    )
    hop: int | None = Field(
        default=None,
        ge=1,
        description="Steps from the start of a window to the start of the next. npz: left out, the bundle takes whole "
        "windows alone, and no live sensor.",
    )
    rate_hz: float | None = Field(
        default=None,
        gt=0,
        le=100_000,
        description="Steps a second; recordings and sensors of another rate are resampled. Left out for built-in data.",
    )
    channels: Named | None = Field(default=None, description="A name for each channel. Left out for built-in data.")
    units: Named | None = Field(default=None, description='Their units ("g", "deg/s"). Left out for built-in data.')
    longest_gap_s: float = Field(
        default=0.1, gt=0, le=3600, description="Seconds between two samples above which the window is dropped."
    )
    full_scale: list[Annotated[float, Field(gt=0)]] | None = Field(
        default=None,
        description="Where the sensor saturates, on either side of 0, for each channel; a window with such a sample is "
        "dropped. Left out: not known.",
    )
    people: list[Annotated[int, Field(ge=1)]] | None = Field(
        default=None,
        min_length=2,
        description="utd-mhad: the numbers of the people whose recordings are taken. Left out: all 8.",
    )

    @model_validator(mode="after")
    def _of_each_channel(self) -> Series:
        if self.channels is not None and len(set(self.channels)) != len(self.channels):
            raise ValueError("channels of different names")
        for key in ("units", "full_scale"):
            values = getattr(self, key)
            if values is not None and self.channels is not None and len(values) != len(self.channels):
                raise ValueError(f"as many `{key}` as `channels`, {len(self.channels)}; got {len(values)}")
        if self.hop is not None and self.length is not None and self.hop > self.length:
            raise ValueError(f"`hop` of at most `length`, {self.length}; got {self.hop}")
        if self.hop is not None and self.rate_hz is not None:
            every_s = self.hop / self.rate_hz
            if not TICK_HZ[0] <= TICKS / every_s <= TICK_HZ[1]:
                raise ValueError(f"a window every 0.0011 to 110 s; got one every {every_s:g} s by `hop`")
        return self

    def capture(self, channels: int, rate_hz: float) -> dict[str, Any] | None:
        """The manifest's ``capture``: samples of that many channels become windows; None without a ``hop``."""
        if self.hop is None:
            return None
        return {
            "frame": {"shape": [channels], "dtype": "float32", "unit_mm": None},
            "access_points": None,
            "measure": "value",
            "low": None,
            "high": None,
            "crop": None,
            "resize": None,
            "slots": 1,
            "tick_hz": round(TICKS * rate_hz / self.hop, 6),
            "on_fault": "previous",
            "degraded_after_s": 60,
            "windows": {"hop": self.hop, "longest_gap_s": self.longest_gap_s, "full_scale": self.full_scale},
        }
