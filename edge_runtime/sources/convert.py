"""Pictures of OpenCV and camera libraries, converted to what the bundle takes: RGB or gray, its size, its type."""

import os
from typing import Any, Callable, Optional, Sequence, Tuple

import numpy as np

from edgeveil.edge_runtime.errors import BadInput, Disconnected, FrameDropped, Unsupported
from edgeveil.edge_runtime.late_imports import MOST_FITTED, decoded, opencv
from edgeveil.edge_runtime.sandbox import hardening
from edgeveil.edge_runtime.sources.base import Camera, Sensor, has_size


def need_image(spec: Sensor, what: str) -> None:
    """Raise ``BadInput`` where a bundle takes vectors."""
    if spec["kind"] != "image":
        raise BadInput(
            "this bundle perturbs vectors, and {} gives pictures: use csv:FILE, npz:FILE or wifi:".format(what)
        )


def need_depth(spec: Sensor, what: str) -> None:
    """Raise ``Unsupported`` unless a bundle takes depth: uint16 (height, width, 1)."""
    need_image(spec, what)
    if spec["dtype"] != "uint16" or spec["shape"][2] != 1:
        raise Unsupported(
            "{} gives depth, uint16 (height, width, 1); this bundle takes {} {}".format(
                what, spec["dtype"], tuple(spec["shape"])
            )
        )


def need_shape(depth: np.ndarray, spec: Sensor, what: str) -> None:
    """Raise ``Unsupported`` unless a depth picture (height, width, 1) has the size that a bundle takes."""
    if not has_size(depth.shape, spec):
        raise Unsupported(
            "{} gives depth of {}; this bundle takes {}. {}".format(
                what, depth.shape[:2], tuple(spec["shape"][:2]), another_size(depth.shape)
            )
        )


def need_size(size: Tuple[int, int], spec: Sensor, what: str) -> None:
    """Raise ``Unsupported`` unless pictures of ``size`` (height, width) are what a bundle takes."""
    wanted = tuple(spec["shape"][:2])
    if not has_size(size, spec):
        if spec.get("any_size"):
            most = "{} gives pictures of {} x {}; expected at most {:,} pixels. Set it to a smaller size"
            raise Unsupported(most.format(what, size[0], size[1], MOST_FITTED))
        raise Unsupported(
            "{} gives pictures of {} x {} (height x width); this bundle takes {} x {}. {}".format(
                what, *(size + wanted), another_size(size + tuple(spec["shape"][2:]))
            )
        )


def need_stream_size(stream: Any, spec: Sensor, what: str) -> None:
    """The same for a film or stream that OpenCV has opened, before it is read."""
    cv2 = opencv()
    size = int(stream.get(cv2.CAP_PROP_FRAME_HEIGHT)), int(stream.get(cv2.CAP_PROP_FRAME_WIDTH))
    if min(size) > 0:  # else its decoder does not know yet
        need_size(size, spec, what)


def limit_decoder(spec: Sensor) -> Callable[[], None]:
    """Let this process have the memory that FFmpeg needs for such frames, and no more; returns what ends that.

    FFmpeg decodes a frame of a film before it says how large it is; the largest takes more than a GiB.
    """
    frame_bytes = int(np.prod(spec["shape"])) * np.dtype(spec["dtype"]).itemsize
    frame_bytes = max(frame_bytes, 2**23 if spec.get("any_size") else 0)  # 1920 x 1080
    return hardening.limit_growth(2**28 + 64 * frame_bytes + 2**24 * (os.cpu_count() or 1))


def scale_depth(depth: np.ndarray, scale: float) -> np.ndarray:
    """A copy of the depth (height, width), times ``scale``, as uint16 (height, width, 1); at most 65535."""
    if abs(scale - 1.0) > 1e-6:
        depth = np.minimum(np.rint(depth * scale), 65535)
    return np.array(depth, np.uint16)[:, :, None]


def fit(picture: np.ndarray, spec: Sensor) -> np.ndarray:
    """A picture of OpenCV's (gray, or blue, green, red) as (height, width, channels) of ``spec``.

    Raises ``FrameDropped``: ``shape``, ``dtype``.
    """
    cv2, channels = opencv(), spec["shape"][2]
    if picture.dtype != np.dtype(spec["dtype"]):
        raise FrameDropped("dtype")
    if picture.ndim == 3 and picture.shape[2] == 3:
        picture = cv2.cvtColor(picture, cv2.COLOR_BGR2RGB if channels == 3 else cv2.COLOR_BGR2GRAY)
    elif picture.ndim == 2 and channels == 3:
        picture = cv2.cvtColor(picture, cv2.COLOR_GRAY2RGB)
    if picture.ndim == 2:
        picture = picture[:, :, None]
    if not has_size(picture.shape, spec):
        raise FrameDropped("shape")
    return np.ascontiguousarray(picture)


def fits(picture: np.ndarray, spec: Sensor, what: str) -> np.ndarray:
    """``fit`` for the first picture of a source. Raises ``Unsupported``, which names what came and what is wanted."""
    try:
        return fit(picture, spec)
    except FrameDropped:
        same = list(picture.shape[:2]) == list(spec["shape"][:2])
        cure = "Set the camera to that" if same else another_size(picture.shape)
        problem = "{} gives {} {}; this bundle takes {} {}. {}".format(
            what, picture.dtype, picture.shape, spec["dtype"], tuple(spec["shape"]), cure
        )
        raise Unsupported(problem) from None


def another_size(shape: Sequence[int]) -> str:
    """What to do where pictures have another ``shape`` than the bundle's: the section, and what writes it."""
    return (
        "Set the camera to that, or make a bundle whose [capture] resizes what this one gives: train on its pictures, "
        "with edgeveil recipe new --camera frame={}x{}x{} --camera size=WIDTHxHEIGHT, or with --camera "
        "fit=letterbox, which takes any size (docs/get-started/your-own-data.md)"
    ).format(shape[1], shape[0], shape[2] if len(shape) == 3 else 1)


class OpenCVCamera(Camera):
    """A camera whose ``_read`` gives pictures as OpenCV has them."""

    sensor = "camera"
    gives = "pictures of a camera"
    axes = 3
    needs = ("opencv",)
    calls = "sysinfo uname"

    def _fit(self, picture: np.ndarray) -> np.ndarray:
        return fit(picture, self._spec)


class DepthCamera(Camera):
    """A camera on USB that gives depth: uint16 (height, width, 1) in the bundle's ``unit_mm``, 0 where it has none."""

    sensor = "depth"
    gives = "depth pictures"
    axes = 3
    channels = (1,)
    bare = True
    devices: Tuple[str, ...] = ("char-usb_device",)
    groups: Tuple[str, ...] = ("usb_group",)

    def __init__(self, what: str, name: str, spec: Sensor) -> None:
        need_depth(spec, what)
        super(DepthCamera, self).__init__(name, spec)
        self._pipeline: Any = None  # of the vendor's library, with ``stop``
        self._claim: Any = None  # of ``install_hints``

    def _in_unit(self, data: np.ndarray, scale: float) -> np.ndarray:
        """Depth in the bundle's unit, checked: ``data`` (height, width) times ``scale``."""
        depth = scale_depth(data, scale)
        need_shape(depth, self._spec, self.name)
        return depth

    def close(self) -> None:
        """Stop and release the camera."""
        pipeline, self._pipeline = self._pipeline, None
        if pipeline is not None:
            pipeline.stop()
        if self._claim is not None:
            self._claim.release()


# JPEGs of a camera that is not trusted: looked at before they are decoded, and decoded at one size alone.
#
# A decoder takes what it finds: a PNG or TIFF where a JPEG was said, with far more code behind it, or a picture of a
# few megabytes that fills a board's memory. So the first bytes and the size in the header come first (ITU-T T.81,
# annex B).


_START, _SCAN = b"\xff\xd8\xff", 0xDA
_FRAMES = set(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}  # SOF0 to SOF15; the other three are no frames
_ALONE = {0x01} | set(range(0xD0, 0xD9))  # markers without a length


def decode(data: bytes, spec: Sensor, what: str, *, first: bool = False) -> np.ndarray:
    """The picture of a JPEG's bytes as OpenCV has it, of the height and width of ``spec``.

    Raises ``FrameDropped`` (``unreadable``, ``shape``). For the ``first`` picture of a camera, called ``what``, these
    are ``Disconnected`` and ``Unsupported``, which say what came and what was expected.
    """
    size = read_size(data)
    if size is not None and not has_size(size, spec):
        if first:
            need_size(size, spec, what)
        raise FrameDropped("shape")
    picture = None
    if size is not None:
        picture = decoded(data)
    if picture is None or picture.shape[:2] != size:
        if first:
            raise Disconnected("{} gives no JPEG: check its address and its settings".format(what))
        raise FrameDropped("unreadable")
    return picture


def read_size(data: bytes) -> Optional[Tuple[int, int]]:
    """Height and width by the header of a JPEG, None where these bytes are none. Reads no sample."""
    if data[:3] != _START:
        return None
    at = 2
    while at + 4 <= len(data) and data[at] == 0xFF:
        marker = data[at + 1]
        if marker == 0xFF:  # fill bytes may stand before a marker
            at += 1
            continue
        if marker == _SCAN:
            return None  # samples before any frame
        if marker in _ALONE:
            at += 2
            continue
        if marker in _FRAMES:
            if at + 9 > len(data):
                return None
            height, width = (int.from_bytes(data[at + k : at + k + 2], "big") for k in (5, 7))
            return (height, width) if height and width else None  # no height: it would come after the samples
        at += 2 + max(2, int.from_bytes(data[at + 2 : at + 4], "big"))
    return None
