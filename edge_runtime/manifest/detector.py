"""The manifest's ``detector``: a network that finds the people who are counted; absent where a depth camera does.

It sees the sensor's frame, scaled to its own input, and gives boxes and their scores. Nothing of it leaves but counts.
"""

import re
from typing import Any, Dict, Iterable, Mapping, NamedTuple, NoReturn, Optional, Tuple

from edgeveil.edge_runtime.errors import BundleRefused
from edgeveil.edge_runtime.util.validate import ANY, Field, Problem, Table, nothing, one_of, real, record, whole

ORDERS, UNITS, POINTS = ("yxyx", "xyxy"), ("share", "pixel"), ("centre", "feet")
_TENSORS = {"boxes": (3, 4), "scores": (2, None), "classes": (2, None)}  # rank, and size of the last axis
TOLERANCE = 0.5  # the largest that makes sense: scores are from 0 to 1


class DetectorRules(NamedTuple):
    """How its picture is made and its boxes are read.

    ``low`` and ``high`` are what 0 and 255 become. ``order`` and ``unit`` are those of a box, ``person`` the class that
    counts (None: it knows one). ``point`` is where a person stands in a box. ``step_px`` and ``gone_frames`` are as in
    ``Crop``, in pixels of the sensor.
    """

    file: str
    format: str
    entry: Mapping[str, Any]
    golden: Mapping[str, str]  # members: ``input`` and ``scores``
    low: float
    high: float
    order: str
    unit: str
    person: Optional[int]
    least_score: float
    point: str
    step_px: int
    gone_frames: int

    @property
    def size(self) -> Tuple[int, int, int]:
        """Rows, columns and channels of its picture."""
        return tuple(self.entry["inputs"][0]["shape"][1:])


def detector_field(artefact: Field, member: Field) -> Any:
    """The field of ``detector``, whose file is an ``artefact`` and whose golden arrays are a ``member`` each."""
    table: Table = {
        "artefact": artefact._replace(rule=_finder),
        "low": real(),
        "high": real(),
        "order": one_of(ORDERS),
        "unit": one_of(UNITS),
        "point": one_of(POINTS),
        "least_score": real(0, 1),
        "step_px": whole(1, 4096),
        "gone_frames": whole(0, 10000),
        "person": _person,
        "golden": record({"input": member, "scores": member}),
    }

    def field(_manifest: Any, document: Any) -> Field:
        capture = document["capture"]
        if "count" not in document:
            return ANY._replace(wrong=lambda *_: "expected a count of the people that it finds")
        sees = capture is not None and len(capture["frame"]["shape"]) > 1 and capture["frame"]["dtype"] == "uint8"
        if not sees or capture["crop"] is not None:
            why = "expected a capture.frame of a camera, uint8, in which it finds people"
            why = "expected none next to capture.crop, which finds people by their depth" if sees else why
            return record(dict.fromkeys(table, ANY), rule=lambda *_: [("bad-value", "", why)])
        return record(table, rule=_rising)

    return field


def _rising(detector: Any, _manifest: Any, _document: Any) -> Iterable[Problem]:
    if not detector["low"] < detector["high"]:
        yield "bad-value", "low", "expected low below high"


def _person(detector: Any, _document: Any) -> Field:
    knows = any(one["name"] == "classes" for one in detector["artefact"]["outputs"])
    return whole(0, 10**6) if knows else nothing("expected null: it gives no classes")


def _finder(entry: Mapping[str, Any], _detector: Any, document: Any) -> Iterable[Problem]:
    """The network sees the sensor's frame, and gives boxes and scores."""
    frame = document["capture"]["frame"]["shape"]
    inputs, outputs = entry["inputs"], {one["name"]: one["shape"] for one in entry["outputs"]}
    if len(inputs) != 1 or len(inputs[0]["shape"]) != 4 or inputs[0]["shape"][0] != 1:
        yield "bad-value", "inputs", "expected a picture [1, rows, columns, channels]"
    if inputs[0]["shape"][3] != (frame[2] if len(frame) == 3 else 1):
        yield "bad-value", "inputs", "expected as many channels as the sensor's frame has"
    if not {"boxes", "scores"} <= set(outputs) <= set(_TENSORS):
        yield "bad-value", "outputs", "expected boxes, scores and, of several classes, classes"
    many = outputs["scores"][-1:]
    for name, shape in outputs.items():
        rank, last = _TENSORS[name]
        if len(shape) != rank or shape[0] != 1 or [shape[1]] != many or (last is not None and shape[-1] != last):
            wanted = "[1, boxes, 4]" if name == "boxes" else "[1, boxes]"
            yield "bad-value", "outputs." + name, "expected the shape {}".format(wanted)
    if not 0 < entry["tolerance"]["max_abs"] <= TOLERANCE:
        yield "bad-value", "tolerance", "expected a difference of scores up to {}".format(TOLERANCE)


def parse_detector(detector: Optional[Mapping[str, Any]]) -> Optional[DetectorRules]:
    """The record of ``detector``; None where there is none."""
    if detector is None:
        return None
    entry = detector["artefact"]
    rest: Dict[str, Any] = {key: value for key, value in detector.items() if key != "artefact"}
    return DetectorRules(file=entry["file"], format=entry["format"], entry=entry, **rest)


# Names and limits of the members of a bundle.


MAX_BUNDLE_BYTES = 256 * 2**20  # far below the 4 GiB where ZIP64 begins

MAX_MEMBERS = 1024
MAX_NAME = 120
NAME = re.compile(r"[a-z0-9][a-z0-9._-]*(?:/[a-z0-9][a-z0-9._-]*)*")


def checked_name(raw: bytes) -> str:
    """The name of a member as text. Raises ``BundleRefused`` unless it is short, lower-case ASCII without ``..``."""
    shown = ascii(raw[:MAX_NAME].decode("latin-1"))
    if len(raw) > MAX_NAME:
        _refuse("bad-name", "a member's name is longer than {} characters: {}...".format(MAX_NAME, shown))
    if raw.startswith(b"/"):
        _refuse("absolute-path", "the member {} has an absolute path".format(shown))
    if b"\\" in raw:
        _refuse("backslash", "the name of the member {} has a backslash".format(shown))
    if b".." in raw.split(b"/"):
        _refuse("parent-path", "the member {} leads out of its folder".format(shown))
    if raw.endswith(b"/"):
        _refuse("directory", "{} is a folder, and only files may be members".format(shown))
    try:
        name = raw.decode("ascii")
    except UnicodeDecodeError:
        _refuse("bad-name", "the name of the member {} is not plain ASCII".format(shown))
    if not NAME.fullmatch(name):
        _refuse("bad-name", "the name of the member {} is not of lower-case letters, digits and . _ -".format(shown))
    return name


def _refuse(reason: str, what: str) -> NoReturn:
    raise BundleRefused(
        reason, "This is no bundle that EdgeVeil made: {}. Copy it again, or seal it again.".format(what)
    )
