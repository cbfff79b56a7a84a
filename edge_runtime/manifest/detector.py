"""The manifest's ``detector``: a network that finds the people who are counted; absent where a depth camera does.

It sees the sensor's frame, scaled to its own input, and gives boxes and their scores. Nothing of it leaves but counts.
"""

import re
from typing import Any, Callable, Dict, Mapping, NamedTuple, NoReturn, Optional, Tuple

from edgeveil.edge_runtime.errors import BundleRefused
from edgeveil.edge_runtime.util.validate import fields, one_of, real, record, refuse, whole

ORDERS, UNITS, POINTS = ("yxyx", "xyxy"), ("share", "pixel"), ("centre", "feet")
_KEYS = (
    "artefact", "golden", "low", "high", "order", "unit", "person", "least_score", "point", "step_px", "gone_frames",
)  # fmt: skip
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


def check_detector(detector: Any, capture: Any, check_artefact: Callable[[Any, str], None]) -> None:
    """Raise ``BundleRefused`` unless ``detector`` finds people in the frames of the checked ``capture``.

    ``check_artefact`` checks one file of a model at a place of the manifest.
    """
    record(detector, "detector", _KEYS)
    if capture is None or len(capture["frame"]["shape"]) < 2 or capture["frame"]["dtype"] != "uint8":
        refuse("bad-value", "detector", "expected a capture.frame of a camera, uint8, in which it finds people")
    if capture["crop"] is not None:
        refuse("bad-value", "detector", "expected none beside capture.crop, which finds people by their depth")
    entry = detector["artefact"]
    check_artefact(entry, "detector.artefact")
    _check_ends(entry, capture["frame"]["shape"])
    if not 0 < entry["tolerance"]["max_abs"] <= TOLERANCE:
        refuse("bad-value", "detector.artefact.tolerance", "expected a difference of scores up to {}".format(TOLERANCE))
    if not real(detector["low"], "detector.low") < real(detector["high"], "detector.high"):
        refuse("bad-value", "detector.low", "expected low below high")
    one_of(detector["order"], "detector.order", ORDERS)
    one_of(detector["unit"], "detector.unit", UNITS)
    one_of(detector["point"], "detector.point", POINTS)
    real(detector["least_score"], "detector.least_score", 0, 1)
    whole(detector["step_px"], "detector.step_px", 1, 4096)
    whole(detector["gone_frames"], "detector.gone_frames", 0, 10000)
    knows = any(one["name"] == "classes" for one in entry["outputs"])
    if knows:
        whole(detector["person"], "detector.person", 0, 10**6)
    elif detector["person"] is not None:
        refuse("bad-value", "detector.person", "expected null: it gives no classes")


def _check_ends(entry: Mapping[str, Any], frame: Any) -> None:
    inputs, outputs = entry["inputs"], {one["name"]: one["shape"] for one in entry["outputs"]}
    if len(inputs) != 1 or len(inputs[0]["shape"]) != 4 or inputs[0]["shape"][0] != 1:
        refuse("bad-value", "detector.artefact.inputs", "expected a picture [1, rows, columns, channels]")
    channels = inputs[0]["shape"][3]
    if channels != (frame[2] if len(frame) == 3 else 1):
        refuse("bad-value", "detector.artefact.inputs", "expected as many channels as the sensor's frame has")
    if not {"boxes", "scores"} <= set(outputs) <= set(_TENSORS):
        refuse("bad-value", "detector.artefact.outputs", "expected boxes, scores and, of several classes, classes")
    many = outputs["scores"][-1:]
    for name, shape in outputs.items():
        rank, last = _TENSORS[name]
        if len(shape) != rank or shape[0] != 1 or [shape[1]] != many or (last is not None and shape[-1] != last):
            wanted = "[1, boxes, 4]" if name == "boxes" else "[1, boxes]"
            refuse("bad-value", "detector.artefact.outputs." + name, "expected the shape {}".format(wanted))


def check_golden(golden: Any, check_file: Callable[[Any, str], Any]) -> None:
    """Raise ``BundleRefused`` unless ``golden`` names its members."""
    fields(golden, "detector.golden", input=check_file, scores=check_file)


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
