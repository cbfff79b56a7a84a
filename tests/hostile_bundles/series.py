"""Bad manifests of series: sampling that says nothing, and windows that nobody could make."""

from __future__ import annotations

from typing import Any

from tests.edge_runtime.sources.series_example import capture, example
from tests.hostile_bundles.museum import changed, exhibit
from tests.support import bundles


def _series(change: Any) -> bytes:
    return changed(change, example=example())


@exhibit("bad-value")
def samples_at_no_rate() -> bytes:
    return _series(lambda m: m["input"]["series"].update(rate_hz=0))


@exhibit("missing-key")
def series_that_does_not_say_its_rate() -> bytes:
    return _series(lambda m: m["input"].pop("series"))


@exhibit("bad-count")
def channel_without_a_name() -> bytes:
    return _series(lambda m: m["input"]["series"].update(channels=["accel_x"]))


@exhibit("redefined-value")
def two_channels_of_one_name() -> bytes:
    return _series(lambda m: m["input"]["series"].update(channels=["accel_x", "accel_x"]))


@exhibit("bad-count")
def more_units_than_channels() -> bytes:
    return _series(lambda m: m["input"]["series"].update(units=["g"] * 3))


@exhibit("bad-value")
def one_range_for_all_channels() -> bytes:
    return _series(lambda m: m["input"].update(low=-2.0, high=2.0))


@exhibit("unknown-key")
def sampling_of_a_vector() -> bytes:
    return _series(lambda m: m["input"].update(kind="vector", shape=[16]))


@exhibit("bad-value")
def window_that_never_moves() -> bytes:
    return _series(lambda m: m["capture"]["windows"].update(hop=0))


@exhibit("bad-value")
def hop_beyond_the_window() -> bytes:
    return _series(lambda m: m["capture"]["windows"].update(hop=9))


@exhibit("bad-value")
def no_gap_is_short_enough() -> bytes:
    return _series(lambda m: m["capture"]["windows"].update(longest_gap_s=0))


@exhibit("bad-value")
def gap_of_a_day() -> bytes:
    return _series(lambda m: m["capture"]["windows"].update(longest_gap_s=86400))


@exhibit("bad-value")
def saturated_below_nothing() -> bytes:
    return _series(lambda m: m["capture"]["windows"].update(full_scale=[2.0, -4.0]))


@exhibit("unknown-key")
def window_with_a_key_of_its_own() -> bytes:
    return _series(lambda m: m["capture"]["windows"].update(guess=True))


@exhibit("wrong-type")
def series_without_windows() -> bytes:
    return _series(lambda m: m["capture"].pop("windows"))


@exhibit("bad-value")
def whole_numbers_resampled() -> bytes:
    return _series(lambda m: m["capture"]["frame"].update(dtype="int16"))


@exhibit("bad-value")
def range_of_a_series() -> bytes:
    return _series(lambda m: m["capture"].update(low=0.0, high=1.0))


@exhibit("bad-value")
def several_slots_of_a_series() -> bytes:
    return _series(lambda m: m["capture"].update(slots=2))


@exhibit("bad-value")
def windows_of_a_vector() -> bytes:
    windows = capture()["windows"]
    return changed(lambda m: m["capture"].update(windows=windows), example=bundles.fingerprint_example())
