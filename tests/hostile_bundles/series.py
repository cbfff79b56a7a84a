"""Bad manifests of series: sampling that says nothing, and windows that nobody could make."""

from __future__ import annotations

from typing import Any

from tests.edge_runtime.sources.series_example import capture, example
from tests.hostile_bundles.museum import changed, exhibit, exhibits
from tests.support import bundles


def _series(change: Any) -> bytes:
    return changed(change, example=example())


exhibits(
    _series,
    ("bad-value", "samples_at_no_rate", lambda m: m["input"]["series"].update(rate_hz=0)),
    ("missing-key", "series_that_does_not_say_its_rate", lambda m: m["input"].pop("series")),
    ("bad-count", "channel_without_a_name", lambda m: m["input"]["series"].update(channels=["accel_x"])),
    (
        "redefined-value",
        "two_channels_of_one_name",
        lambda m: m["input"]["series"].update(channels=["accel_x", "accel_x"]),
    ),
    ("bad-count", "more_units_than_channels", lambda m: m["input"]["series"].update(units=["g"] * 3)),
    ("bad-value", "one_range_for_all_channels", lambda m: m["input"].update(low=-2.0, high=2.0)),
    ("unknown-key", "sampling_of_a_vector", lambda m: m["input"].update(kind="vector", shape=[16])),
    ("bad-value", "window_that_never_moves", lambda m: m["capture"]["windows"].update(hop=0)),
    ("bad-value", "hop_beyond_the_window", lambda m: m["capture"]["windows"].update(hop=9)),
    ("bad-value", "no_gap_is_short_enough", lambda m: m["capture"]["windows"].update(longest_gap_s=0)),
    ("bad-value", "gap_of_a_day", lambda m: m["capture"]["windows"].update(longest_gap_s=86400)),
    ("bad-value", "saturated_below_nothing", lambda m: m["capture"]["windows"].update(full_scale=[2.0, -4.0])),
    ("unknown-key", "window_with_a_key_of_its_own", lambda m: m["capture"]["windows"].update(guess=True)),
    ("wrong-type", "series_without_windows", lambda m: m["capture"].pop("windows")),
    ("bad-value", "whole_numbers_resampled", lambda m: m["capture"]["frame"].update(dtype="int16")),
    ("bad-value", "range_of_a_series", lambda m: m["capture"].update(low=0.0, high=1.0)),
    ("bad-value", "several_slots_of_a_series", lambda m: m["capture"].update(slots=2)),
)


@exhibit("bad-value")
def windows_of_a_vector() -> bytes:
    windows = capture()["windows"]
    return changed(lambda m: m["capture"].update(windows=windows), example=bundles.fingerprint_example())
