"""Height and width by the header of a picture's file, before anything decodes it.

A file of some kilobytes may say that it is 60,000 x 60,000, and a decoder asks for that much memory first. PNG, JPEG,
BMP, TIFF and PNM are known here; any other file is no picture.
"""

import re
import struct
from typing import Dict, Optional, Tuple

from edgeveil.edge_runtime.sources.convert import read_size as jpeg_size

Size = Tuple[int, int]
_PNG = b"\x89PNG\r\n\x1a\n\x00\x00\x00\x0dIHDR"
_SPACE = rb"(?:[ \t\r\n]|#[^\n]*\n)+"
_PNM = re.compile(rb"P[1-6]" + _SPACE + rb"([0-9]{1,9})" + _SPACE + rb"([0-9]{1,9})[ \t\r\n]")
_WIDTH, _HEIGHT, _ROWS_PER_STRIP, _TILE_WIDTH, _TILE_HEIGHT, _SAMPLES = 256, 257, 278, 322, 323, 277
_TIFF_TYPES = {3: "H", 4: "I"}
_ALL_ROWS = 2**32 - 1  # one strip, however many rows there are
_MOST_TILE, _MOST_SAMPLES = 1024, 8  # a decoder makes room for a tile of so many samples, whatever the picture's size


def read_size(data: bytes) -> Optional[Size]:
    """Height and width (pixels) of the picture in these bytes, None where they are none. Reads no sample."""
    if data[:16] == _PNG:
        size = _unpacked(">II", data, 16, swap=True)
    elif data[:2] == b"BM":
        size = _bmp(data)
    elif data[:4] in (b"II*\0", b"MM\0*"):
        size = _tiff(data, "<" if data[:1] == b"I" else ">")
    elif data[:1] == b"P":
        found = _PNM.match(data[:1000])
        size = None if found is None else (int(found.group(2)), int(found.group(1)))
    else:
        size = jpeg_size(data)
    return size if size is not None and min(size) > 0 else None


def _unpacked(layout: str, data: bytes, at: int, *, swap: bool = False) -> Optional[Size]:
    if at + struct.calcsize(layout) > len(data):
        return None
    first, second = struct.unpack_from(layout, data, at)
    return (second, first) if swap else (first, second)


def _bmp(data: bytes) -> Optional[Size]:
    header = _unpacked("<II", data, 14, swap=True)
    if header is None:
        return None
    size = _unpacked("<HH" if header[1] == 12 else "<ii", data, 18, swap=True)
    return None if size is None else (abs(size[0]), size[1])  # a negative height: from the top


def _tiff(data: bytes, order: str) -> Optional[Size]:
    """By the first directory; None where a tag is there twice, or a strip or a tile is far beyond the picture."""
    tags: Dict[int, int] = {}
    at = struct.unpack_from(order + "I", data, 4)[0] if len(data) >= 8 else len(data)
    if at + 2 > len(data):
        return None
    for number in range(struct.unpack_from(order + "H", data, at)[0]):
        place = at + 2 + 12 * number
        if place + 12 > len(data):
            return None
        tag, kind, count = struct.unpack_from(order + "HHI", data, place)
        if tag not in (_WIDTH, _HEIGHT, _ROWS_PER_STRIP, _TILE_WIDTH, _TILE_HEIGHT, _SAMPLES):
            continue
        if tag in tags or kind not in _TIFF_TYPES or count != 1:
            return None
        tags[tag] = struct.unpack_from(order + _TIFF_TYPES[kind], data, place + 8)[0]
    if _WIDTH not in tags or _HEIGHT not in tags or tags.get(_SAMPLES, 1) > _MOST_SAMPLES:
        return None
    height, width = tags[_HEIGHT], tags[_WIDTH]
    rows = tags.get(_ROWS_PER_STRIP, _ALL_ROWS)
    if rows > height and rows != _ALL_ROWS:
        return None
    if max(tags.get(_TILE_WIDTH, 1), tags.get(_TILE_HEIGHT, 1)) > _MOST_TILE:
        return None
    return height, width
