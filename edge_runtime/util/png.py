"""A picture as PNG with zlib alone: 8 bits, gray or RGB (ISO/IEC 15948)."""

import struct
import zlib

import numpy as np

STRIP = 32  # rows of a strip


def encode(picture: np.ndarray, *, compressed: bool = True) -> bytes:
    """The file of a picture uint8 (height, width), (height, width, 1) or (height, width, 3).

    One that is not ``compressed`` has a length that depends on the shape alone.
    """
    height, width = picture.shape[:2]
    channels = picture.shape[2] if picture.ndim == 3 else 1
    rows = np.ascontiguousarray(picture).reshape(height, width * channels)
    # Each row begins with its filter: 0, none.
    filtered = np.concatenate([np.zeros((height, 1), np.uint8), rows], axis=1)
    header = struct.pack(">IIBBBBB", width, height, 8, 2 if channels == 3 else 0, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(filtered.tobytes(), int(compressed))), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, data) for kind, data in chunks)


def viewable(value: np.ndarray, low: float, high: float) -> np.ndarray:
    """Any output as a picture uint8: ``low`` to ``high`` become black to white, a vector becomes a row of bars
    that grow from the bottom (64, features)."""
    value = np.atleast_1d(value)
    if value.dtype != np.uint8 or (low, high) != (0.0, 255.0):
        span = (high - low) or 1.0
        scaled = np.nan_to_num((value.astype(np.float64) - low) / span)
        value = np.rint(np.clip(scaled, 0.0, 1.0) * 255.0).astype(np.uint8)
    if value.ndim == 1:
        steps = np.arange(63, -1, -1)[:, None] * 4
        return np.where(steps <= value[None, :].astype(np.int64), 220, 30).astype(np.uint8)
    if value.ndim == 3 and value.shape[2] not in (1, 3):
        value = value[:, :, :1]
    return value


def strip_chart(window: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """A window (steps, channels) as a picture uint8 (channels * STRIP, steps): one strip below the other.

    A channel's line goes from its ``low`` (channels,) at the bottom of its strip to its ``high`` at the top.
    """
    span = np.where(high > low, high - low, 1.0)
    share = np.clip(np.nan_to_num((window.astype(np.float64) - low) / span), 0.0, 1.0)
    place = np.rint((1.0 - share) * (STRIP - 1)).astype(np.int64)  # rows from the top
    before = np.concatenate([place[:1], place[:-1]])
    rows = np.arange(STRIP)[:, None, None]
    line = (rows >= np.minimum(place, before)) & (rows <= np.maximum(place, before))
    strips = np.where(line, 220, np.where(rows == STRIP - 1, 90, 30)).astype(np.uint8)
    return np.ascontiguousarray(strips.transpose(2, 0, 1).reshape(-1, len(window)))


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(data, zlib.crc32(kind)))
