"""Height, width and orientation by the header of a picture's file, before anything decodes it.

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
_EXIF = re.compile(rb"\xff\xe1..Exif\0\0|eXIf(?=II|MM)", re.DOTALL)  # in a JPEG, in a PNG
TIFF = (b"II*\0", b"MM\0*")
_WIDTH, _HEIGHT, _ROWS_PER_STRIP, _TILE_WIDTH, _TILE_HEIGHT, _SAMPLES = 256, 257, 278, 322, 323, 277
_ORIENTATION = 274
_WANTED = (_WIDTH, _HEIGHT, _ROWS_PER_STRIP, _TILE_WIDTH, _TILE_HEIGHT, _SAMPLES, _ORIENTATION)
_TIFF_TYPES = {3: "H", 4: "I"}
_ALL_ROWS = 2**32 - 1  # one strip, however many rows there are
_MOST_TILE, _MOST_SAMPLES = 1024, 8  # a decoder makes room for a tile of so many samples, whatever the picture's size


def read_size(data: bytes) -> Optional[Size]:
    """Height and width (pixels) of the picture in these bytes as it is shown, turned by its ``orientation``; None where
    they are none. Reads no sample."""
    if data[:16] == _PNG:
        size = _unpacked(">II", data, 16, swap=True)
    elif data[:2] == b"BM":
        size = _bmp(data)
    elif data[:4] in TIFF:
        size = _tiff(data)
    elif data[:1] == b"P":
        header = _PNM.match(data[:1000])
        size = None if header is None else (int(header.group(2)), int(header.group(1)))
    else:
        size = jpeg_size(data)
    if size is None or min(size) <= 0:
        return None
    return size[::-1] if orientation(data) > 4 else size


def orientation(data: bytes) -> int:
    """1 to 8, as in EXIF: how the samples of a PNG, JPEG or TIFF are turned; 5 to 8 are on their side."""
    exif = _EXIF.search(data[: 2**20])
    tags = _tags(data if data[:4] in TIFF else data[exif.end() :] if exif else b"") or {}
    return min(max(tags.get(_ORIENTATION, 1), 1), 8)


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


def _tags(data: bytes) -> Optional[Dict[int, int]]:
    """The numbers of the first directory of a TIFF; None where it is none, or a tag is there twice."""
    tags: Dict[int, int] = {}
    order = "<" if data[:1] == b"I" else ">"
    at = struct.unpack_from(order + "I", data, 4)[0] if len(data) >= 8 else len(data)
    if at + 2 > len(data):
        return None
    for number in range(struct.unpack_from(order + "H", data, at)[0]):
        place = at + 2 + 12 * number
        if place + 12 > len(data):
            return None
        tag, kind, count = struct.unpack_from(order + "HHI", data, place)
        if tag not in _WANTED:
            continue
        if tag in tags or kind not in _TIFF_TYPES or count != 1:
            return None
        tags[tag] = struct.unpack_from(order + _TIFF_TYPES[kind], data, place + 8)[0]
    return tags


def _tiff(data: bytes) -> Optional[Size]:
    """By the first directory; None where a strip or a tile is far beyond the picture."""
    tags = _tags(data) or {}
    if _WIDTH not in tags or _HEIGHT not in tags or tags.get(_SAMPLES, 1) > _MOST_SAMPLES:
        return None
    height, width = tags[_HEIGHT], tags[_WIDTH]
    rows = tags.get(_ROWS_PER_STRIP, _ALL_ROWS)
    if rows > height and rows != _ALL_ROWS:
        return None
    if max(tags.get(_TILE_WIDTH, 1), tags.get(_TILE_HEIGHT, 1)) > _MOST_TILE:
        return None
    return height, width
