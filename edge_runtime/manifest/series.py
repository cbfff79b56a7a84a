"""What a manifest says of a series: its sampling in ``input.series``, its windows in ``capture.windows``."""

from typing import Any, Dict, List

from edgeveil.edge_runtime.formats.validate import each, fields, positive, refuse, text, whole

MOST_RATE_HZ = 100000
MOST_GAP_S = 3600


def check_sampling(source: Dict[str, Any]) -> None:
    """Raise ``BundleRefused`` unless ``series`` of the checked input ``source`` says what its steps are."""
    channels = source["shape"][-1]

    def one_each(values: Any, at: str) -> None:
        each(values, at, text, channels, channels)

    fields(
        source["series"],
        "input.series",
        rate_hz=lambda rate, at: positive(rate, at, MOST_RATE_HZ),
        channels=one_each,
        units=one_each,
    )
    if len(set(source["series"]["channels"])) != channels:
        refuse("redefined-value", "input.series.channels", "two channels have the same name")
    if type(source["low"]) is not list:
        refuse("bad-value", "input.low", "expected a range for each channel of a series")


def check_windows(capture: Dict[str, Any], size: List[int], source: Dict[str, Any]) -> None:
    """Raise ``BundleRefused`` unless ``capture.windows`` says how samples become windows of the checked input."""
    if capture["frame"]["dtype"] != "float32" or source["dtype"] != "float32":
        refuse("bad-value", "capture.frame.dtype", "expected float32: samples of a series are resampled")
    if capture["measure"] != "value" or capture["low"] is not None:
        refuse("bad-value", "capture.measure", "expected value without a range for a series")

    def full_scale(ends: Any, at: str) -> None:
        if ends is not None:
            each(ends, at, positive, size[0], size[0])

    fields(
        capture.get("windows"),
        "capture.windows",
        hop=lambda hop, at: whole(hop, at, 1, source["shape"][0]),
        longest_gap_s=lambda gap, at: positive(gap, at, MOST_GAP_S),
        full_scale=full_scale,
    )
