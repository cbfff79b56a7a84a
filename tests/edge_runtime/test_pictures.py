"""Pictures: one reader for workstation and board, with limits before it decodes."""

import struct
import subprocess
import sys
import zlib

import cv2
import numpy as np
import pytest

from edgeveil.edge_runtime.errors import BadInput, FrameDropped
from edgeveil.edge_runtime.late_imports import decoded
from edgeveil.edge_runtime.sources.images import ImagesSource
from edgeveil.trainer.datasets.loaders import image_folder
from tests.support.checkout import PACKAGES

PICTURE = np.random.default_rng(0).integers(0, 256, (48, 64, 3)).astype(np.uint8)
OPTIONS = {
    "plain": [],
    "progressive": [cv2.IMWRITE_JPEG_PROGRESSIVE, 1],
    "restarts": [cv2.IMWRITE_JPEG_RST_INTERVAL, 2],
}


def jpeg(*options):
    return cv2.imencode(".jpg", PICTURE, list(options))[1].tobytes()


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("share", [0.3, 0.6, 0.9, 0.999])
def test_a_jpeg_that_was_cut_short_is_unreadable_for_trainer_and_board_alike(tmp_path, options, share):
    whole = jpeg(*options)
    assert decoded(whole).shape == PICTURE.shape
    assert decoded(whole + b"\0" * 100).shape == PICTURE.shape  # some cameras pad
    cut = whole[: int(share * len(whole))]
    assert decoded(cut) is None
    (tmp_path / "0.jpg").write_bytes(cut)
    with pytest.raises(BadInput):
        image_folder.read_picture(tmp_path / "0.jpg")
    sensor = {"kind": "image", "shape": [48, 64, 3], "dtype": "uint8", "unit_mm": None, "access_points": None}
    with pytest.raises(FrameDropped, match="unreadable"), ImagesSource(str(tmp_path), sensor) as source:
        source.next()


MEASURE = """
import sys, resource
from edgeveil.edge_runtime.late_imports import decoded, opencv
opencv()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(decoded(sys.stdin.buffer.read()) is None, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


@pytest.mark.parametrize("side", [9000, 40_000])
def test_a_picture_of_too_many_pixels_is_not_decoded(side):
    def part(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = zlib.compress(b"\0" * (side // 8 + 1) * min(side, 9000), 9)
    header = struct.pack(">IIBBBBB", side, side, 1, 0, 0, 0, 0)
    bomb = b"\x89PNG\r\n\x1a\n" + part(b"IHDR", header) + part(b"IDAT", rows) + part(b"IEND", b"")
    done = subprocess.run(
        [sys.executable, "-c", MEASURE], input=bomb, capture_output=True, check=True, env={"PYTHONPATH": str(PACKAGES)}
    )
    refused, grown_mib = done.stdout.split()
    assert refused == b"True"
    assert int(grown_mib) < 64
