"""JPEGs of a camera that nobody vouches for: looked at before they are decoded, and decoded at one size alone.

A decoder takes what it finds: a PNG or TIFF where a JPEG was said, with far more code behind it, or a picture of a few
megabytes that fills a board's memory. So the first bytes and the size in the header come first (ITU-T T.81, annex B).
"""

from typing import Optional, Tuple

import numpy as np

from edgeveil.edge_runtime.errors import Disconnected, FrameDropped
from edgeveil.edge_runtime.opencv import decoded
from edgeveil.edge_runtime.sources.base import Sensor
from edgeveil.edge_runtime.sources.convert import need_size

_START, _SCAN = b"\xff\xd8\xff", 0xDA
_FRAMES = set(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}  # SOF0 to SOF15; the other three are no frames
_ALONE = {0x01} | set(range(0xD0, 0xD9))  # markers without a length


def decode(data: bytes, spec: Sensor, what: str, *, first: bool = False) -> np.ndarray:
    """The picture of a JPEG's bytes as OpenCV has it, of the height and width of ``spec``.

    Raises ``FrameDropped`` (``unreadable``, ``shape``). For the ``first`` picture of a camera, called ``what``, these
    are ``Disconnected`` and ``Unsupported``, which say what came and what was expected.
    """
    size, wanted = read_size(data), tuple(spec["shape"][:2])
    if size is not None and size != wanted:
        if first:
            need_size(size, spec, what)
        raise FrameDropped("shape")
    picture = None
    if size is not None:
        picture = decoded(data)
    if picture is None or picture.shape[:2] != wanted:
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
