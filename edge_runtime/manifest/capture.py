"""The manifest's ``capture``: how a source's frames become the pipeline's input, null where they are the input."""

import hashlib
import re
from typing import Any, Dict, Iterable, List, Mapping

from edgeveil.edge_runtime.util import strict_json
from edgeveil.edge_runtime.util.validate import (
    Field,
    Problem,
    Table,
    check,
    each,
    nothing,
    one_of,
    positive,
    real,
    record,
    shape,
    show,
    spelled,
    text,
    whole,
)

DTYPES = ("uint8", "int8", "uint16", "int16", "float32")
MEASURES = ("value", "depth", "height", "seen")
MAX_SLOTS = 64
MOST_RATE_HZ = 100000
MOST_GAP_S = 3600
_ADDRESS = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}")


def _each_channel(_sampling: Any, document: Any) -> Field:
    channels = document["input"]["shape"][-1]
    return each(text(), channels, channels)


# ``input.series``: what the steps of a series are.
SERIES: Table = {"rate_hz": positive(MOST_RATE_HZ), "channels": _each_channel, "units": _each_channel}


def series_problems(source: Dict[str, Any]) -> Iterable[Problem]:
    """What is wrong with ``series`` of an ``input`` as its table has it."""
    if len(set(source["series"]["channels"])) != source["shape"][-1]:
        yield "redefined-value", "series.channels", "two channels have the same name"
    if type(source["low"]) is not list:
        yield "bad-value", "low", "expected a range for each channel of a series"


def _is_vector(document: Any) -> bool:
    return document["input"]["kind"] in ("vector", "series")  # a sensor gives the steps of a series one by one


def _ends_together(_measure: str, capture: Any, _document: Any) -> Iterable[Problem]:
    if (capture["low"] is None) != (capture["high"] is None):
        yield "bad-value", "low", "expected two numbers, or null for both"


def _measured(_high: Any, capture: Any, document: Any) -> Iterable[Problem]:
    """The measure, and the channels of the frame, are those that the input needs."""
    source, frame, measure, low = document["input"], capture["frame"], capture["measure"], capture["low"]
    size, wanted = frame["shape"], source["shape"]
    if low is not None and not low < capture["high"]:
        problem = "expected low below high, got {} and {}"
        yield "bad-value", "low", problem.format(show(low), show(capture["high"]))
    if low is None and (measure != "value" or frame["dtype"] != source["dtype"]):
        yield "bad-value", "low", "expected two numbers: only values of the input's own type may go without"
    if low is not None and measure != "seen" and type(source["low"]) not in (float, int):
        yield "bad-value", "low", "expected null for an input whose range is not two numbers"
    if measure in ("depth", "height") and (frame["dtype"] != "uint16" or frame["unit_mm"] is None):
        yield "bad-value", "measure", "depth is measured in uint16 of unit_mm"
    if source["kind"] == "series":
        if frame["dtype"] != "float32" or source["dtype"] != "float32":
            yield "bad-value", "frame.dtype", "expected float32: samples of a series are resampled"
        if measure != "value" or low is not None:
            yield "bad-value", "measure", "expected value without a range for a series"
        if "windows" not in capture:
            yield "wrong-type", "windows", "expected an object, got None"
    if _is_vector(document):
        if size != wanted[-1:]:
            yield "bad-value", "frame.shape", "expected {}, got {}".format(wanted[-1:], size)
        if measure not in ("value", "seen"):
            yield "bad-value", "measure", "a vector has no depth"
        return
    channels = _channels(size)
    gray = channels == 3 and wanted[2] == 1 and frame["dtype"] == "uint8"
    if channels != wanted[2] and not gray:
        yield "bad-value", "frame.shape", "expected {} channels, got {}".format(wanted[2], channels)
    if measure == "seen":
        yield "bad-value", "measure", "only a vector of access points can measure 'seen'"


def _channels(size: List[int]) -> int:
    return size[2] if len(size) == 3 else 1


def _access_points(capture: Any, document: Any) -> Field:
    many = capture["frame"]["shape"][0]
    address = spelled(_ADDRESS, "an address as 00:11:22:aa:bb:cc")
    names = each(address, many, many, null=True, rule=_named_once)
    return names if _is_vector(document) else nothing("expected null for images")


def _named_once(names: List[str], _capture: Any, _document: Any) -> Iterable[Problem]:
    if len(set(names)) != len(names):
        yield "redefined-value", "", "an access point is listed twice"


def _of_image(field: Field) -> Any:
    return lambda _capture, document: nothing("expected null for a vector") if _is_vector(document) else field


def _window(capture: Any, document: Any) -> Field:
    if capture["crop"] is not None and not _is_vector(document):
        return nothing("expected null with crop, which looks for people in the whole frame")
    rows, columns = (capture["frame"]["shape"] * 2)[:2]
    four = each(whole(0, rows + columns), 4, 4, null=True, rule=_within_frame)
    found: Field = _of_image(four)(capture, document)
    return found


def _within_frame(window: Any, capture: Any, _document: Any) -> Iterable[Problem]:
    (top, left, height, width), size = window, capture["frame"]["shape"]
    if not (0 < height <= size[0] - top and 0 < width <= size[1] - left):
        within = "expected [top, left, height, width] within the frame's {}, got {}"
        yield "bad-value", "", within.format(size[:2], [top, left, height, width])


def _windows(_capture: Any, document: Any) -> Field:
    if document["input"]["kind"] == "series":
        return record(_WINDOWS)
    return nothing("expected null: only a series has windows")


def _full_scale(_windows: Any, document: Any) -> Field:
    channels = document["capture"]["frame"]["shape"][0]
    return each(positive(), channels, channels, null=True)


def _area_of_values(resize: str, capture: Any, _document: Any) -> Iterable[Problem]:
    if resize == "area" and capture["measure"] != "value":
        yield "bad-value", "resize", "expected nearest: a mean over pixels without a value is no depth"


def _people(_slots: int, capture: Any, _document: Any) -> Iterable[Problem]:
    """People are cut out where and only where the sensor measures depth."""
    crop, size = capture["crop"], capture["frame"]["shape"]
    if crop is None:
        if capture["measure"] == "height":
            yield "bad-value", "measure", "height is measured in crops"
        if capture["slots"] != 1:
            yield "bad-value", "slots", "expected 1 without crops, got {}".format(capture["slots"])
        return
    if capture["measure"] not in ("depth", "height"):
        yield "bad-value", "measure", "people are found in depth: expected depth or height"
    if _channels(size) != 1:
        yield "bad-value", "frame.shape", "depth has one channel, got {}".format(_channels(size))
    if crop["size"][0] > size[0] or crop["size"][1] > size[1]:
        problem = "expected at most the frame's {}, got {}"
        yield "bad-value", "crop.size", problem.format(size[:2], crop["size"])


_FRAME: Table = {
    "shape": lambda _, document: shape(1, 1) if _is_vector(document) else shape(2, 3),
    "dtype": one_of(DTYPES),
    "unit_mm": positive(1000, null=True),
}
_CROP: Table = {
    "size": shape(2, 2),
    "focal_px": positive(10000),
    "least_height_mm": positive(3000),
    "apart_mm": positive(3000),
    "least_pixels": whole(1),
    "step_px": whole(1, 4096),
    "gone_frames": whole(0, 10000),
    "floor_frames": whole(2, 10**7),
}
_WINDOWS: Table = {
    "hop": lambda _, document: whole(1, document["input"]["shape"][0]),
    "longest_gap_s": positive(MOST_GAP_S),
    "full_scale": _full_scale,
}
CAPTURE: Table = {
    "frame": record(_FRAME),
    "measure": one_of(MEASURES, rule=_ends_together),
    "low": real(null=True),
    "high": real(null=True, rule=_measured),
    "access_points": _access_points,
    "resize": _of_image(one_of(("nearest", "area"), rule=_area_of_values)),
    "crop": _of_image(record(_CROP, null=True)),
    "window?": _window,  # bundles from before them have no window and no windows
    "windows?": _windows,
    "slots": whole(1, MAX_SLOTS, rule=_people),
    "tick_hz": real(0.01, 1000),
    "on_fault": one_of(("previous", "flat")),
    "degraded_after_s": whole(1, 86400),
}


def check_capture(capture: Any, source: Dict[str, Any]) -> None:
    """Raise ``BundleRefused`` unless ``capture`` says how frames become ``source``, the checked input."""
    check(capture, "capture", record(CAPTURE), {"input": source, "capture": capture})


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
