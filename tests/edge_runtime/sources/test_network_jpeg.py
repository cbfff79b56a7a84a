"""A hostile camera's pictures: looked at before they are decoded, through the very pipe that the inside reads."""

import contextlib
import os
import subprocess
import sys

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeveil.edge_runtime.errors import Disconnected, FrameDropped, Unsupported
from edgeveil.edge_runtime.sources.convert import decode, read_size
from edgeveil.edge_runtime.sources.feeding import JPEG, MESSAGE
from edgeveil.edge_runtime.sources.from_pipe import FetchedSource

SENSOR = {"kind": "image", "shape": [24, 32, 3], "dtype": "uint8", "unit_mm": None, "access_points": None}
PICTURE = np.random.default_rng(0).integers(0, 256, (24, 32, 3)).astype(np.uint8)


def encoded(suffix=".jpg", picture=PICTURE, *options):
    return cv2.imencode(suffix, picture, list(options))[1].tobytes()


GOOD = encoded()


def through_a_pipe(*pictures):
    """What the inside makes of a camera's pictures, one after the other; the first must be a good one."""
    read, write = os.pipe()
    os.write(write, b"".join(MESSAGE.pack(JPEG, len(data)) + data for data in pictures))
    os.close(write)
    try:
        source, seen = FetchedSource(read, "http://camera", SENSOR), []
        for _ in pictures:
            try:
                seen.append(source.next()._data.shape)
            except FrameDropped as drop:
                seen.append(drop.reason)
        return seen
    finally:
        os.close(read)


def with_size(data, height, width):
    """The same JPEG, whose header states another size."""
    at = data.index(b"\xff\xc0") + 5
    return data[:at] + height.to_bytes(2, "big") + width.to_bytes(2, "big") + data[at + 4 :]


@pytest.mark.parametrize("suffix", [".png", ".tiff", ".bmp", ".webp", ".ppm"])
def test_nothing_but_a_jpeg_is_decoded(suffix, monkeypatch):
    asked = []
    real = cv2.imdecode
    monkeypatch.setattr(cv2, "imdecode", lambda *given: asked.append(1) or real(*given))
    other = encoded(suffix)
    assert real(np.frombuffer(other, np.uint8), cv2.IMREAD_UNCHANGED) is not None
    assert through_a_pipe(GOOD, other, GOOD) == [(24, 32, 3), "unreadable", (24, 32, 3)]
    assert len(asked) == 2
    with pytest.raises(Disconnected, match="no JPEG"):
        through_a_pipe(other)


def test_another_size_is_not_decoded(monkeypatch):
    large = encoded(".jpg", np.zeros((480, 640, 3), np.uint8))
    asked = []
    real = cv2.imdecode
    monkeypatch.setattr(cv2, "imdecode", lambda *given: asked.append(1) or real(*given))
    assert through_a_pipe(GOOD, large) == [(24, 32, 3), "shape"]
    assert len(asked) == 1
    with pytest.raises(Unsupported, match=r"480 x 640 .* takes 24 x 32. Set the camera"):
        through_a_pipe(large)


@pytest.mark.parametrize("data", [b"", b"\xff\xd8", b"\xff\xd8\xff", GOOD[:100], GOOD[:-200], with_size(GOOD, 0, 32)])
def test_a_damaged_one_is_dropped(data):
    """OpenCV makes a picture of one whose end is missing, and says so on stderr alone; it has the right size."""
    assert through_a_pipe(GOOD, data)[1] in ("unreadable", (24, 32, 3))
    if len(data) < 200 or data == with_size(GOOD, 0, 32):
        assert through_a_pipe(GOOD, data)[1] == "unreadable"


@given(st.binary(max_size=200), st.integers(0, len(GOOD)), st.integers(0, 40))
def test_no_bytes_raise_anything_else(junk, at, gone):
    for data in (junk, b"\xff\xd8\xff" + junk, GOOD[:at] + junk + GOOD[at + gone :]):
        size = read_size(data)
        assert size is None or (len(size) == 2 and min(size) > 0)
        with contextlib.suppress(FrameDropped):
            assert decode(data, SENSOR, "camera").shape[:2] == (24, 32)


@pytest.mark.parametrize(
    "options",
    [(), (cv2.IMWRITE_JPEG_PROGRESSIVE, 1), (cv2.IMWRITE_JPEG_RST_INTERVAL, 4), (cv2.IMWRITE_JPEG_QUALITY, 5)],
)
@pytest.mark.parametrize("channels", [1, 3])
def test_the_size_is_read_as_the_decoder_reads_it(options, channels):
    picture = np.random.default_rng(1).integers(0, 256, (37, 501, channels)).astype(np.uint8)
    assert read_size(encoded(".jpg", picture, *options)) == (37, 501)
    exif = b"\xff\xe1\x00\x0eExif\0\0" + with_size(GOOD, 9999, 9999)[:6]  # a thumbnail's header is no header
    assert read_size(GOOD[:2] + exif + GOOD[2:]) == (24, 32)
    assert read_size(GOOD[:2] + b"\xff\xff" + GOOD[2:]) == (24, 32)


MEASURE = """
import sys
import cv2, numpy
from edgeveil.edge_runtime.machine import peak_rss_bytes
from edgeveil.edge_runtime.errors import FrameDropped
from edgeveil.edge_runtime.sources.convert import decode
data = sys.stdin.buffer.read()
before = peak_rss_bytes()
try:
    decode(data, {"shape": [24, 32, 3]}, "camera")
except FrameDropped as drop:
    print(drop.reason, (peak_rss_bytes() - before) // 2**20)
"""


def test_a_picture_of_a_few_megabytes_does_not_fill_the_memory():
    """Decoded, the 2.4 MB of this one take more than 500 MiB."""
    bomb = encoded(".jpg", np.zeros((14000, 14000, 3), np.uint8), cv2.IMWRITE_JPEG_QUALITY, 1)
    assert len(bomb) < 5 * 2**20
    command = [sys.executable, "-c", MEASURE]
    done = subprocess.run(command, input=bomb, capture_output=True, check=True, env={**os.environ})
    reason, grown_mib = done.stdout.split()
    assert reason == b"shape"
    assert int(grown_mib) < 16
