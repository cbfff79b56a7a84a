"""The manifest's ``capture``: how a source's frames become the pipeline's input, null where they are the input."""

import hashlib
import re
from typing import Any, Dict, Iterable, List, Mapping

from edgeveil.edge_runtime.util import strict_json
from edgeveil.edge_runtime.util import validate as field
from edgeveil.edge_runtime.util.validate import Field, Problem, Table

DTYPES = ("uint8", "int8", "uint16", "int16", "float32")
MEASURES = ("value", "depth", "height", "seen")
FITS = ("stretch", "letterbox", "crop")  # without one of them, another size is refused
MAX_SLOTS = 64
MOST_RATE_HZ = 100000
MOST_GAP_S = 3600
_ADDRESS = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}")


def _each_channel(_sampling: Any, document: Any) -> Field:
    channels = document["input"]["shape"][-1]
    return field.each(field.text(), channels, channels)


# ``input.series``: what the steps of a series are.
SERIES: Table = {"rate_hz": field.positive(MOST_RATE_HZ), "channels": _each_channel, "units": _each_channel}


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
        yield "bad-value", "low", problem.format(field.show(low), field.show(capture["high"]))
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
    names = field.each(field.spelled(_ADDRESS, "an address as 00:11:22:aa:bb:cc"), many, many, null=True)
    return names if _is_vector(document) else field.nothing("expected null for images")


def _of_image(of: Field) -> Any:
    return lambda _capture, document: field.nothing("expected null for a vector") if _is_vector(document) else of


def _window(capture: Any, document: Any) -> Field:
    if capture["crop"] is not None and not _is_vector(document):
        return field.nothing("expected null with crop, which looks for people in the whole frame")
    rule: Field = _of_image(field.each(field.whole(0, sum(capture["frame"]["shape"][:2])), 4, 4, null=True))(
        capture, document
    )
    return rule


def _fit(capture: Any, document: Any) -> Field:
    if capture["crop"] is not None and not _is_vector(document):
        return field.nothing("expected null with crop, whose focal length is in pixels of the sensor")
    rule: Field = _of_image(field.one_of(FITS))(capture, document)
    return rule


def _windows(_capture: Any, document: Any) -> Field:
    if document["input"]["kind"] == "series":
        return field.record(_WINDOWS)
    return field.nothing("expected null: only a series has windows")


def _full_scale(_windows: Any, document: Any) -> Field:
    channels = document["capture"]["frame"]["shape"][0]
    return field.each(field.positive(), channels, channels, null=True)


def _agree(capture: Any, _manifest: Any, _document: Any) -> Iterable[Problem]:
    """Parts are within the frame, and people are cut out where and only where the sensor measures depth."""
    crop, size, measure = capture["crop"], capture["frame"]["shape"], capture["measure"]
    if len(set(capture["access_points"] or ())) != len(capture["access_points"] or ()):
        yield "redefined-value", "access_points", "an access point is listed twice"
    if capture["resize"] == "area" and measure != "value":
        yield "bad-value", "resize", "expected nearest: a mean over pixels without a value is no depth"
    if capture.get("window") is not None:
        top, left, height, width = capture["window"]
        if not (0 < height <= size[0] - top and 0 < width <= size[1] - left):
            within = "expected [top, left, height, width] within the frame's {}, got {}"
            yield "bad-value", "window", within.format(size[:2], capture["window"])
    if crop is None:
        if measure == "height":
            yield "bad-value", "measure", "height is measured in crops"
        if capture["slots"] != 1:
            yield "bad-value", "slots", "expected 1 without crops, got {}".format(capture["slots"])
        return
    if measure not in ("depth", "height"):
        yield "bad-value", "measure", "people are found in depth: expected depth or height"
    if _channels(size) != 1:
        yield "bad-value", "frame.shape", "depth has one channel, got {}".format(_channels(size))
    if crop["size"][0] > size[0] or crop["size"][1] > size[1]:
        problem = "expected at most the frame's {}, got {}"
        yield "bad-value", "crop.size", problem.format(size[:2], crop["size"])


_FRAME: Table = {
    "shape": lambda _, document: field.shape(1, 1) if _is_vector(document) else field.shape(2, 3),
    "dtype": field.one_of(DTYPES),
    "unit_mm": field.positive(1000, null=True),
}
_CROP: Table = {
    "size": field.shape(2, 2),
    "focal_px": field.positive(10000),
    "least_height_mm": field.positive(3000),
    "apart_mm": field.positive(3000),
    "least_pixels": field.whole(1),
    "step_px": field.whole(1, 4096),
    "gone_frames": field.whole(0, 10000),
    "floor_frames": field.whole(2, 10**7),
}
_WINDOWS: Table = {
    "hop": lambda _, document: field.whole(1, document["input"]["shape"][0]),
    "longest_gap_s": field.positive(MOST_GAP_S),
    "full_scale": _full_scale,
}
_CAPTURE: Table = {
    "frame": field.record(_FRAME),
    "measure": field.one_of(MEASURES, rule=_ends_together),
    "low": field.real(null=True),
    "high": field.real(null=True, rule=_measured),
    "access_points": _access_points,
    "resize": _of_image(field.one_of(("nearest", "area"))),
    "crop": _of_image(field.record(_CROP, null=True)),
    "window?": _window,  # bundles from before them have none of these three
    "fit?": _fit,
    "windows?": _windows,
    "slots": field.whole(1, MAX_SLOTS),
    "tick_hz": field.real(0.01, 1000),
    "on_fault": field.one_of(("previous", "flat")),
    "degraded_after_s": field.whole(1, 86400),
}
CAPTURE = field.record(_CAPTURE, null=True, rule=_agree)


def check_capture(capture: Any, source: Dict[str, Any]) -> None:
    """Raise ``BundleRefused`` unless ``capture`` says how frames become ``source``, the checked input."""
    field.check(capture, "capture", CAPTURE, {"input": source, "capture": capture})


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
