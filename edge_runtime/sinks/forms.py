"""A record as PNG, JPEG or JSON, for receivers that read no records: each form of one bundle has one size.

So an observer of encrypted traffic learns as little from a form as from a record. A PNG is not compressed; a JPEG is
filled up before its end, by bytes that decoders skip (ITU-T T.81, B.1.1.2); a JSON document is followed by spaces.
"""

import json
import math
from typing import Any, Callable, Dict, List, Optional

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.late_imports import opencv
from edgeveil.edge_runtime.manifest.manifest import Manifest, Output, PerturberFacts
from edgeveil.edge_runtime.sinks.wire import Record
from edgeveil.edge_runtime.util import png

_QUALITIES = (90, 75, 50, 25, 10, 1)  # of JPEG: the first with which a picture fits
_BLOCK_BYTES = 32  # of 64 samples: more than quality 1 leaves of any, two or three bits for each
_HEAD_BYTES = 1024  # tables and markers
_END = b"\xff\xd9"


def picture_of(output: Output, manifest: Optional[Manifest]) -> Callable[[np.ndarray], np.ndarray]:
    """What makes a picture of an output, uint8 (height, width) or (height, width, 1 or 3), by the input's range.

    Of windows of a series it is a strip for each channel.
    """
    if manifest is None or manifest.input.low is None:
        return lambda value: png.viewable(value, 0.0, 255.0)
    low, high = np.array(manifest.input.low, np.float64), np.array(manifest.input.high, np.float64)
    if manifest.input.kind == "series" and len(output.shape) == 2:
        return lambda value: png.strip_chart(value, low, high)
    # Where each feature has its own range, the widest.
    return lambda value: png.viewable(value, float(low.min()), float(high.max()))


def checked_slot(slot: int, manifest: Optional[Manifest]) -> int:
    """A slot of the bundle; raises ``BadInput`` for one that it has not."""
    slots = manifest.capture.slots if manifest and manifest.capture else 1
    if slot >= slots:
        raise BadInput("expected a slot below {}, as this bundle has; got slot={}".format(slots, slot))
    return slot


class PngForm(object):
    """The main output as a PNG, gray or RGB of 8 bits."""

    media_type = "image/png"

    def __init__(self, outputs: List[Output], manifest: Optional[Manifest]) -> None:
        self._main, self._picture = outputs[0].name, picture_of(outputs[0], manifest)

    def encode(self, record: Record) -> bytes:
        """The file."""
        return png.encode(self._picture(record.outputs[self._main]), compressed=False)


class JpegForm(object):
    """The main output as a JPEG, gray or, with ``rgb`` or where it has colours, RGB with halved chroma.

    Its height and width are rounded up to a multiple of ``whole``. The quality is 90, and less where a picture would
    not fit. ``size`` is that of each file. Raises ``Missing`` without OpenCV.
    """

    media_type = "image/jpeg"

    def __init__(
        self, outputs: List[Output], manifest: Optional[Manifest], *, rgb: bool = False, whole: int = 1
    ) -> None:
        self._cv2 = opencv()
        self._main, self._picture = outputs[0].name, picture_of(outputs[0], manifest)
        height, width, *channels = _blank(self._picture, outputs[0]).shape
        self.height, self.width = (-(-size // whole) * whole for size in (height, width))
        self._more = ((0, self.height - height), (0, self.width - width))
        self._rgb = rgb or channels == [3]
        self.size = _jpeg_bytes(self.height, self.width, rgb=self._rgb)

    def encode(self, record: Record) -> bytes:
        """The file."""
        picture = self._picture(record.outputs[self._main])
        picture = np.pad(picture, (*self._more, (0, 0))[: picture.ndim], "edge")
        if picture.ndim == 2 or picture.shape[2] == 1:
            picture = picture.reshape(self.height, self.width)
            if self._rgb:
                picture = np.repeat(picture[:, :, None], 3, axis=2)
        else:
            picture = picture[:, :, ::-1]
        picture, flags = np.ascontiguousarray(picture), self._cv2.IMWRITE_JPEG_QUALITY
        for quality in _QUALITIES:
            data = self._cv2.imencode(".jpg", picture, [flags, quality])[1].tobytes()
            if len(data) <= self.size:
                break
        return data[:-2].ljust(self.size - 2, b"\xff") + _END


def _blank(picture: Callable[[np.ndarray], np.ndarray], output: Output) -> np.ndarray:
    """The picture of an output that is 0 everywhere."""
    return picture(np.zeros(output.shape, np.dtype(output.dtype)))


def _jpeg_bytes(height: int, width: int, *, rgb: bool) -> int:
    """The bytes of each JPEG of so many pixels."""
    blocks = math.ceil(height / 8) * math.ceil(width / 8)
    if rgb:  # six for 16 x 16 pixels
        blocks = 6 * math.ceil(height / 16) * math.ceil(width / 16)
    return _HEAD_BYTES + _BLOCK_BYTES * blocks


class JsonForm(object):
    """All outputs as one JSON object, padded with spaces to ``size``. A number that JSON has not is null."""

    media_type = "application/json"

    def __init__(self, outputs: List[Output], manifest: Optional[Manifest]) -> None:
        self._bundle = manifest.name if manifest else None
        self._facts = manifest.perturber if manifest else PerturberFacts()
        self._labels = [one.name for one in outputs if one.kind == "label"]
        kinds = [np.dtype(one.dtype) for one in outputs]
        zeros = {one.name: np.zeros(one.shape, kind) for one, kind in zip(outputs, kinds)}
        widest = Record("0" * 16 + "-" + "9" * 20, 2**64, -(2**63), 2**16, zeros)
        numbers = sum(value.size * _width(kind) for value, kind in zip(zeros.values(), kinds))
        names = max([len(json.dumps(name)) for name in self._facts.target_classes] + [4]) * len(self._labels)
        self.size = len(self._bytes(widest)) + numbers + names

    def encode(self, record: Record) -> bytes:
        """The document."""
        return self._bytes(record).ljust(self.size, b" ")

    def _bytes(self, record: Record) -> bytes:
        document: Dict[str, Any] = {
            "kind": "edgeveil-frame",
            "schema": 1,
            "bundle": self._bundle,
            "id": record.id,
            "tick": record.index,
            "tick_ns": record.tick_ns,
            "slot": record.slot,
            "outputs": {name: _plain(np.asarray(value)) for name, value in record.outputs.items()},
            "names": {name: self._facts.class_of(int(record.outputs[name])) for name in self._labels},
        }
        return json.dumps(document, separators=(",", ":"), sort_keys=True, allow_nan=False).encode("utf-8")


def _width(kind: np.dtype) -> int:
    """The most characters of one number."""
    if kind.kind in "iu":
        return max(len(str(np.iinfo(kind).min)), len(str(np.iinfo(kind).max)))
    return 5 if kind.kind == "b" else len("-1.7976931348623157e+308")


def _plain(value: np.ndarray) -> Any:
    if value.dtype.kind == "f" and not np.isfinite(value).all():
        numbers = value.astype(object)
        numbers[~np.isfinite(value)] = None
        return numbers.tolist()
    return value.tolist()


FORMS: Dict[str, Any] = {"json": JsonForm, "png": PngForm, "jpeg": JpegForm}


def form_name(text: str) -> str:
    """The name of a form; raises ``BadInput``."""
    if text not in FORMS:
        raise BadInput("expected as={}; got {!r}".format(" or as=".join(FORMS), text))
    return text


def form_bytes(name: str, outputs: List[Output], manifest: Optional[Manifest], *, rgb: bool = False) -> int:
    """The bytes of each file of a form, of a JPEG also with ``rgb``; needs no OpenCV. Raises ``BadInput`` for a name
    that is none."""
    if form_name(name) == "json":
        return JsonForm(outputs, manifest).size
    blank = _blank(picture_of(outputs[0], manifest), outputs[0])
    if name == "jpeg":
        return _jpeg_bytes(*blank.shape[:2], rgb=rgb or blank.shape[2:] == (3,))
    return len(png.encode(blank, compressed=False))
