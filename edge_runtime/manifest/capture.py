"""The manifest's ``capture``: how a source's frames become the pipeline's input, null where they are the input."""

import hashlib
import re
from typing import Any, Dict, List, Mapping

from edgeveil.edge_runtime.util import strict_json
from edgeveil.edge_runtime.util.validate import (
    each,
    fields,
    one_of,
    positive,
    real,
    record,
    refuse,
    shape,
    show,
    text,
    whole,
)

# What a manifest says of a series: its sampling in ``input.series``, its windows in ``capture.windows``.


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


# The main part, described by the docstring.


DTYPES = ("uint8", "int8", "uint16", "int16", "float32")
MEASURES = ("value", "depth", "height", "seen")
MAX_SLOTS = 64
_KEYS = (
    "frame", "access_points", "measure", "low", "high", "crop", "resize", "slots", "tick_hz", "on_fault",
    "degraded_after_s",
)  # fmt: skip
_CROP_KEYS = (
    "size", "focal_px", "least_height_mm", "least_pixels", "apart_mm", "step_px", "gone_frames", "floor_frames",
)  # fmt: skip
_ADDRESS = r"[0-9a-f]{2}(:[0-9a-f]{2}){5}"


def check_capture(capture: Any, source: Dict[str, Any]) -> None:
    """Raise ``BundleRefused`` unless ``capture`` says how frames become ``source``, the checked input."""
    # Bundles from before them have no window and no windows.
    whole_of = dict({"window": None, "windows": None}, **capture) if type(capture) is dict else capture
    record(whole_of, "capture", _KEYS + ("window", "windows"))
    vector = source["kind"] in ("vector", "series")  # a sensor gives the steps of a series one by one
    frame = record(capture["frame"], "capture.frame", ("shape", "dtype", "unit_mm"))
    size = shape(frame["shape"], "capture.frame.shape", 1 if vector else 2, 1 if vector else 3)
    one_of(frame["dtype"], "capture.frame.dtype", DTYPES)
    if frame["unit_mm"] is not None:
        positive(frame["unit_mm"], "capture.frame.unit_mm", 1000)
    _check_measure(capture, frame, source)
    if source["kind"] == "series":
        check_windows(capture, size, source)
    elif whole_of["windows"] is not None:
        refuse("bad-value", "capture.windows", "expected null: only a series has windows")
    if vector:
        _check_vector(capture, size, source)
    else:
        _check_image(capture, size, source)
    whole(capture["slots"], "capture.slots", 1, MAX_SLOTS)
    if capture["crop"] is None and capture["slots"] != 1:
        refuse("bad-value", "capture.slots", "expected 1 without crops, got {}".format(capture["slots"]))
    real(capture["tick_hz"], "capture.tick_hz", 0.01, 1000)
    one_of(capture["on_fault"], "capture.on_fault", ("previous", "flat"))
    whole(capture["degraded_after_s"], "capture.degraded_after_s", 1, 86400)


def _check_measure(capture: Dict[str, Any], frame: Dict[str, Any], source: Dict[str, Any]) -> None:
    measure = one_of(capture["measure"], "capture.measure", MEASURES)
    low, high = capture["low"], capture["high"]
    if (low is None) != (high is None):
        refuse("bad-value", "capture.low", "expected two numbers, or null for both")
    if low is not None and not real(low, "capture.low") < real(high, "capture.high"):
        refuse("bad-value", "capture.low", "expected low below high, got {} and {}".format(show(low), show(high)))
    if low is None and (measure != "value" or frame["dtype"] != source["dtype"]):
        refuse(
            "bad-value",
            "capture.low",
            "expected two numbers: only values of the input's own type may go without",
        )
    if low is not None and measure != "seen" and type(source["low"]) not in (float, int):
        refuse("bad-value", "capture.low", "expected null for an input whose range is not two numbers")
    if measure in ("depth", "height") and (frame["dtype"] != "uint16" or frame["unit_mm"] is None):
        refuse("bad-value", "capture.measure", "depth is measured in uint16 of unit_mm")


def _check_vector(capture: Dict[str, Any], size: Any, source: Dict[str, Any]) -> None:
    if size != source["shape"][-1:]:
        refuse("bad-value", "capture.frame.shape", "expected {}, got {}".format(source["shape"][-1:], size))
    for key in ("crop", "resize", "window"):
        if capture.get(key) is not None:
            refuse("bad-value", "capture." + key, "expected null for a vector")
    if capture["measure"] not in ("value", "seen"):
        refuse("bad-value", "capture.measure", "a vector has no depth")
    if capture["access_points"] is None:
        return
    names = each(capture["access_points"], "capture.access_points", _check_address, size[0], size[0])
    if len(set(names)) != len(names):
        refuse("redefined-value", "capture.access_points", "an access point is listed twice")


def _check_address(name: Any, at: str) -> str:
    if not re.fullmatch(_ADDRESS, text(name, at)):
        refuse("bad-value", at, "expected an address as 00:11:22:aa:bb:cc, got {}".format(show(name)))
    return str(name)


def _check_window(window: Any, size: Any, crop: Any) -> None:
    if window is None:
        return
    if crop is not None:
        refuse("bad-value", "capture.window", "expected null with crop, which looks for people in the whole frame")
    top, left, height, width = each(window, "capture.window", lambda n, at: whole(n, at, 0, size[0] + size[1]), 4, 4)
    if not (0 < height <= size[0] - top and 0 < width <= size[1] - left):
        within = "expected [top, left, height, width] within the frame's {}, got {}"
        refuse("bad-value", "capture.window", within.format(size[:2], [top, left, height, width]))


def _check_image(capture: Dict[str, Any], size: Any, source: Dict[str, Any]) -> None:
    if capture["access_points"] is not None:
        refuse("bad-value", "capture.access_points", "expected null for images")
    channels = size[2] if len(size) == 3 else 1
    wanted = source["shape"][2]
    gray = channels == 3 and wanted == 1 and capture["frame"]["dtype"] == "uint8"
    if channels != wanted and not gray:
        refuse("bad-value", "capture.frame.shape", "expected {} channels, got {}".format(wanted, channels))
    if capture["measure"] == "seen":
        refuse("bad-value", "capture.measure", "only a vector of access points can measure 'seen'")
    resize = one_of(capture["resize"], "capture.resize", ("nearest", "area"))
    if resize == "area" and capture["measure"] != "value":
        refuse("bad-value", "capture.resize", "expected nearest: a mean over pixels without a value is no depth")
    crop = capture["crop"]
    _check_window(capture.get("window"), size, crop)
    if crop is None:
        if capture["measure"] == "height":
            refuse("bad-value", "capture.measure", "height is measured in crops")
        return
    record(crop, "capture.crop", _CROP_KEYS)
    if capture["measure"] not in ("depth", "height"):
        refuse("bad-value", "capture.measure", "people are found in depth: expected depth or height")
    if channels != 1:
        refuse("bad-value", "capture.frame.shape", "depth has one channel, got {}".format(channels))
    window = shape(crop["size"], "capture.crop.size", 2, 2)
    if window[0] > size[0] or window[1] > size[1]:
        refuse("bad-value", "capture.crop.size", "expected at most the frame's {}, got {}".format(size[:2], window))
    for key, most in (("focal_px", 10000), ("least_height_mm", 3000), ("apart_mm", 3000)):
        positive(crop[key], "capture.crop." + key, most)
    whole(crop["least_pixels"], "capture.crop.least_pixels", 1)
    whole(crop["step_px"], "capture.crop.step_px", 1, 4096)
    whole(crop["gone_frames"], "capture.crop.gone_frames", 0, 10000)
    whole(crop["floor_frames"], "capture.crop.floor_frames", 2, 10**7)


# One hash of all that determines a pipeline's output, so that an audit of another pipeline does not match.
#
# The hash of a model alone is not enough: the same encoder with another table of donors, another channel or one more
# stage gives other outputs. So the hash covers all that x' depends on: the input, every stage and output, the rules for
# streams and capture, the promise, the counts and their detector where there are any, every table, and in one variant
# every model's file and its tensors.


PARTS = ("input", "stages", "outputs", "stream", "capture")
FURTHER = ("spending", "count", "detector")


def pipeline_sha256(manifest: Dict[str, Any], variant: str, tables: Mapping[str, str]) -> str:
    """The SHA-256 of the pipeline of a manifest in one of its variants, 64 hexadecimal digits.

    ``tables`` is the SHA-256 of each table's file, by the name of the table. Without models any variant is the same.
    docs/reference/bundle-format.md spells out what is hashed.
    """
    models = {}
    for name, model in manifest["models"].items():
        artefact = model["artefacts"][variant]
        models[name] = {key: artefact[key] for key in ("sha256", "inputs", "outputs")}
    described = {part: manifest.get(part) for part in PARTS}
    for part in FURTHER:
        if part in manifest:  # else as ever: a bundle without a promise or counts keeps its hash
            described[part] = manifest[part]
    described["models"] = models
    described["tables"] = {
        name: {"sha256": tables[name], "shape": table["shape"], "dtype": table["dtype"]}
        for name, table in manifest["tables"].items()
    }
    return hashlib.sha256(strict_json.dumps(described)).hexdigest()
