"""Pictures and films of absurd size: refused by what their headers say, with no memory for their samples."""

import os
import struct
import subprocess
import sys

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeveil.edge_runtime.errors import FrameDropped
from edgeveil.edge_runtime.sources.images import ImagesSource
from edgeveil.edge_runtime.sources.picture_size import read_size
from tests.support.checkout import PACKAGES
from tests.support.once import nightly_but

SENSOR = {"kind": "image", "shape": [24, 32, 3], "dtype": "uint8", "unit_mm": None, "access_points": None}
HUGE = 60000
SUFFIXES = (".png", ".jpg", ".bmp", ".tiff", ".pgm", ".ppm")


def picture(height=24, width=32, suffix=".png", dtype=np.uint8):
    shape = (height, width) if suffix == ".pgm" else (height, width, 3)
    return np.random.default_rng(0).integers(0, 256, shape).astype(dtype)


def encoded(suffix, options=(), **facts):
    return cv2.imencode(suffix, picture(suffix=suffix, **facts), list(options))[1].tobytes()


def claiming(suffix, height=HUGE, width=HUGE):
    """A good picture of 24 x 32 whose header says another size."""
    data = encoded(suffix)
    if suffix == ".png":
        return data[:16] + struct.pack(">II", width, height) + data[24:]
    if suffix == ".bmp":
        return data[:18] + struct.pack("<ii", width, -height) + data[26:]
    if suffix == ".jpg":
        at = data.index(b"\xff\xc0") + 5
        return data[:at] + struct.pack(">HH", height, width) + data[at + 4 :]
    if suffix == ".tiff":
        return with_tag(with_tag(data, 256, width), 257, height)
    return data.replace(b"32 24", b"%d %d" % (width, height), 1)


def with_tag(data, tag, value, kind=4):
    """The same TIFF, with this value of a tag that it has."""
    at = struct.unpack_from("<I", data, 4)[0]
    for number in range(struct.unpack_from("<H", data, at)[0]):
        place = at + 2 + 12 * number
        if struct.unpack_from("<H", data, place)[0] == tag:
            return data[:place] + struct.pack("<HHII", tag, kind, 1, value) + data[place + 12 :]
    raise AssertionError(f"no tag {tag}")


@pytest.mark.parametrize(
    ("suffix", "options"),
    [
        (".png", ()),
        (".png", (cv2.IMWRITE_PNG_COMPRESSION, 9)),
        (".jpg", (cv2.IMWRITE_JPEG_PROGRESSIVE, 1)),
        (".bmp", ()),
        (".tiff", ()),
        (".tiff", (cv2.IMWRITE_TIFF_COMPRESSION, 1)),
        (".tiff", (cv2.IMWRITE_TIFF_ROWSPERSTRIP, 5)),
        (".pgm", ()),
        (".ppm", (cv2.IMWRITE_PXM_BINARY, 0)),
    ],
)
def test_the_size_is_read_as_the_decoder_reads_it(suffix, options):
    assert read_size(encoded(suffix, options, height=37, width=501)) == (37, 501)
    if suffix in (".png", ".tiff"):
        assert read_size(encoded(suffix, options, height=37, width=501, dtype=np.uint16)) == (37, 501)


def test_other_spellings():
    assert read_size(b"P2 # a\n#b\n 5\t4\r255 ") == (4, 5)
    assert read_size(b"BM" + bytes(12) + struct.pack("<IHH", 12, 5, 4)) == (4, 5)
    large_first = b"MM\0*" + struct.pack(">IHHHIHHHHIHH", 8, 2, 256, 3, 1, 5, 0, 257, 3, 1, 4, 0)
    assert read_size(large_first) == (4, 5)
    for other in (".webp", ".hdr", ".pfm", ".pam"):
        assert read_size(encoded(other, dtype=np.float32 if other in (".hdr", ".pfm") else np.uint8)) is None, other


@pytest.mark.parametrize("any_size", [False, True])
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_another_size_is_not_decoded(suffix, any_size, tmp_path, monkeypatch):
    asked, real = [], cv2.imdecode
    monkeypatch.setattr(cv2, "imdecode", lambda *words: asked.append(1) or real(*words))
    (tmp_path / f"0{suffix}").write_bytes(claiming(suffix))
    (tmp_path / f"1{suffix}").write_bytes(encoded(suffix))
    source = ImagesSource(str(tmp_path), {**SENSOR, "any_size": any_size})
    with pytest.raises(FrameDropped, match="shape"):
        source.next()
    assert not asked
    assert source.next()._data.shape[:2] == (24, 32)
    assert asked == [1]


@pytest.mark.parametrize(("tag", "value"), [(278, 2**30), (277, 60000), (256, 0)])
def test_a_tiff_that_asks_for_more_than_its_picture_is_none(tag, value):
    assert read_size(with_tag(encoded(".tiff"), tag, value)) is None


def test_tiles_far_beyond_the_picture_are_none():
    tags = [(256, 32), (257, 24), (322, 32), (323, 60000)]

    def made(tags):
        return struct.pack("<4sIH", b"II*\0", 8, len(tags)) + b"".join(
            struct.pack("<HHII", tag, 4, 1, value) for tag, value in tags
        )

    assert read_size(made(tags)) is None
    assert read_size(made([*tags[:3], (323, 32)])) == (24, 32)
    assert read_size(made([*tags[:2], (257, 60000)])) is None  # which of the two would a decoder take?


def test_a_file_beyond_all_sizes_is_not_read(tmp_path):
    good = encoded(".png")
    (tmp_path / "0.png").write_bytes(good + bytes(17 * 2**20))
    with pytest.raises(FrameDropped, match="unreadable"):
        ImagesSource(str(tmp_path), SENSOR).next()


@given(st.sampled_from(SUFFIXES), st.integers(0, 200), st.integers(0, 60), st.binary(max_size=40))
def test_no_bytes_raise(suffix, at, gone, junk):
    good = encoded(suffix)
    size = read_size(good[:at] + junk + good[at + gone :])
    assert size is None or min(size) > 0


MEASURE = """
import cv2
from edgeveil.edge_runtime.machine import peak_rss_bytes
from edgeveil.edge_runtime.errors import EdgeVeilError, FrameDropped
from edgeveil.edge_runtime.sources import {module} as module
before = peak_rss_bytes()
{first}
try:
    source = module.{name}({place!r}, {sensor!r})
    for _ in range(32):
        source.next()
    said = "taken"
except (EdgeVeilError, FrameDropped) as error:
    said = str(error)
print((peak_rss_bytes() - before) // 1024, said)
"""


def measured(module, name, place, first=""):
    """What became of it, and the memory that it took at most, in MiB."""
    code = MEASURE.format(module=module, name=name, place=str(place), sensor=SENSOR, first=first)
    environment = {**os.environ, "PYTHONPATH": str(PACKAGES), "OPENCV_LOG_LEVEL": "SILENT"}
    environment["OPENCV_IO_MAX_IMAGE_PIXELS"] = str(2**40)
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    kib, _, said = done.stdout.strip().splitlines()[-1].partition(" ")
    return said, int(kib) // 1024


@pytest.mark.parametrize("suffix", nightly_but((".png", ".jpg", ".tiff"), ".png"))
def test_a_picture_of_some_kilobytes_does_not_fill_the_memory(suffix, tmp_path):
    """Decoded, this one takes 288 MiB."""
    whole = np.zeros((12000, 8000, 3), np.uint8)
    options = {".tiff": [cv2.IMWRITE_TIFF_COMPRESSION, 8], ".jpg": [cv2.IMWRITE_JPEG_QUALITY, 1]}
    data = cv2.imencode(suffix, whole, options.get(suffix, []))[1].tobytes()
    assert len(data) < 2 * 2**20
    (tmp_path / ("0" + suffix)).write_bytes(data)
    said, grown_mib = measured("images", "ImagesSource", tmp_path)
    assert "(shape)" in said
    assert grown_mib < 16
    taken, unguarded_mib = measured(
        "images", "ImagesSource", tmp_path, "module.read_size = lambda data: tuple({!r}[:2])".format(SENSOR["shape"])
    )
    assert unguarded_mib > 200, taken


@pytest.fixture(scope="module")
def film(tmp_path_factory):
    """One black frame of 12,000 x 12,000 in a film of some MB; a decoder makes 200 MB of it, and OpenCV 400 more."""
    path = tmp_path_factory.mktemp("film") / "large.avi"
    code = (
        "import cv2, numpy\n"
        f"film = cv2.VideoWriter({str(path)!r}, cv2.VideoWriter_fourcc(*'MJPG'), 10, (12000, 12000), isColor=True)\n"
        "assert film.isOpened()\nfilm.write(numpy.zeros((12000, 12000, 3), numpy.uint8))\nfilm.release()"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
    return path


def test_a_film_of_absurd_size_is_not_decoded(film):
    said, grown_mib = measured("video", "VideoSource", film)
    assert "gives pictures of 12000 x 12000 (height x width); this bundle takes 24 x 32" in said
    assert grown_mib < 16


def test_a_film_that_grows_on_the_way_does_not_fill_the_memory(tmp_path):
    options = [cv2.IMWRITE_JPEG_QUALITY, 1, cv2.IMWRITE_JPEG_SAMPLING_FACTOR, cv2.IMWRITE_JPEG_SAMPLING_FACTOR_444]
    large = cv2.imencode(".jpg", np.zeros((12000, 12000, 3), np.uint8), options)[1].tobytes()
    growing = tmp_path / "growing.mjpeg"
    growing.write_bytes(encoded(".jpg") * 30 + large * 2)
    one_core = "import os\nos.cpu_count = lambda: 1"  # the limit counts them
    said, grown_mib = measured("video", "VideoSource", growing, one_core)
    assert grown_mib < 300, said
    said, unguarded_mib = measured("video", "VideoSource", growing, "module.limit_decoder = lambda spec: print")
    assert unguarded_mib > 350, said
