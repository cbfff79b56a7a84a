"""edge_runtime.sources: frames in order with their numbers, one sentence for a place that holds none."""

import sys
import time

import cv2
import numpy as np
import pytest

from edge_runtime.errors import BadInput, DeviceFailed, FrameDropped
from edge_runtime.sources import open_source

IMAGE = {"name": "x", "kind": "image", "shape": [4, 5, 1], "dtype": "uint8", "low": 0, "high": 255}
VECTOR = {"name": "x", "kind": "vector", "shape": [3], "dtype": "float32", "low": 0, "high": 1}


def drain(source):
    frames = []
    with source:
        while True:
            frame = source.next()
            if frame is None:
                return frames
            frames.append(frame)


def pictures(n=3, shape=(4, 5), dtype=np.uint8):
    return np.random.default_rng(0).integers(0, np.iinfo(dtype).max + 1, (n, *shape)).astype(dtype)


@pytest.mark.parametrize(
    ("x", "spec"),
    [
        (pictures(shape=(4, 5, 1)), IMAGE),
        (pictures(), IMAGE),
        (np.random.default_rng(0).random((3, 3), np.float32), VECTOR),
        (np.zeros((0, 3), np.float32), VECTOR),
    ],
)
def test_npz_gives_rows_in_order(tmp_path, x, spec):
    np.savez(tmp_path / "x.npz", x=x, y=np.zeros(3))
    before = int(time.monotonic() * 1e9)
    source = open_source(f"npz:{tmp_path}/x.npz", spec)
    assert source.size == len(x)
    frames = drain(source)
    assert [frame.index for frame in frames] == list(range(len(x)))
    for frame, row in zip(frames, x, strict=True):
        assert np.array_equal(frame._data, row.reshape(spec["shape"]))
        assert frame.captured_ns >= before


def test_npz_may_be_compressed(tmp_path):
    np.savez_compressed(tmp_path / "x.npz", x=pictures())
    assert len(drain(open_source(f"npz:{tmp_path}/x.npz", IMAGE))) == 3


@pytest.mark.parametrize(
    ("x", "match"),
    [
        (pictures(shape=(5, 4)), r"expected x of uint8 \('N', 4, 5, 1\) .* got uint8 \(3, 5, 4\)"),
        (pictures().astype(np.float32), "got float32"),
        (np.uint8(3), r"got uint8 \(\)"),
        (np.array([None, "a"]), "no plain array"),
    ],
)
def test_npz_with_other_readings_is_refused(tmp_path, x, match):
    np.savez(tmp_path / "x.npz", x=x)
    with pytest.raises(BadInput, match=match):
        open_source(f"npz:{tmp_path}/x.npz", IMAGE)


@pytest.mark.parametrize("what", ["missing", "text", "other", "cut", "folder", "flipped"])
def test_npz_that_is_none_is_refused_in_one_line(tmp_path, what):
    path = tmp_path / "x.npz"
    np.savez(path, **{"other" if what == "other" else "x": pictures(200)})
    if what == "missing":
        path.unlink()
    elif what == "text":
        path.write_text("not an archive")
    elif what == "cut":
        path.write_bytes(path.read_bytes()[:-100])
    elif what == "flipped":
        data = bytearray(path.read_bytes())
        data[1500] ^= 1
        path.write_bytes(bytes(data))
    elif what == "folder":
        path.unlink()
        path.mkdir()
    with pytest.raises(BadInput, match=r"x\.npz") as caught:
        open_source(f"npz:{path}", IMAGE)
    assert "\n" not in str(caught.value)


def test_images_come_in_order_of_their_names(tmp_path):
    x = pictures()
    for name, picture in zip(("b.png", "a.bmp", "c.PNG"), x, strict=True):
        cv2.imwrite(str(tmp_path / name), picture)
    (tmp_path / "notes.txt").write_text("no picture")
    frames = drain(open_source(f"images:{tmp_path}", IMAGE))
    assert [frame.index for frame in frames] == [0, 1, 2]
    for frame, picture in zip(frames, x[[1, 0, 2]], strict=True):
        assert np.array_equal(frame._data, picture[..., None])


def test_images_of_sixteen_bits_and_in_colour_stay_what_they_are(tmp_path):
    deep = pictures(1, dtype=np.uint16)[0]
    cv2.imwrite(str(tmp_path / "0.png"), deep)
    red = np.zeros((4, 5, 3), np.uint8)
    red[..., 2] = 200  # OpenCV writes blue, green, red
    cv2.imwrite(str(tmp_path / "1.png"), red)
    first, second = drain(open_source(f"images:{tmp_path}", IMAGE))
    assert np.array_equal(first._data[..., 0], deep)
    assert first._data.dtype == np.uint16
    assert second._data[0, 0].tolist() == [200, 0, 0]


def test_an_image_that_cannot_be_read_drops_and_the_next_one_comes(tmp_path):
    (tmp_path / "0.png").write_bytes(b"no picture")
    cv2.imwrite(str(tmp_path / "1.png"), pictures(1)[0])
    source = open_source(f"images:{tmp_path}", IMAGE)
    with pytest.raises(FrameDropped, match="unreadable"):
        source.next()
    assert source.next().index == 1
    assert source.next() is None


def test_images_say_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "cv2", None)
    with pytest.raises(DeviceFailed, match="pip install opencv-python-headless") as caught:
        open_source(f"images:{tmp_path}", IMAGE)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("text", "spec", "match"),
    [
        ("images:{}/none", IMAGE, "expected a folder"),
        ("images:{}", IMAGE, "expected pictures"),
        ("images:{}", VECTOR, "vectors"),
        ("camera:0", IMAGE, "npz:FILE or images:DIR"),
        ("npz:", IMAGE, "npz:FILE"),
        ("x.npz", IMAGE, "npz:FILE"),
    ],
)
def test_a_source_that_is_none_is_refused(tmp_path, text, spec, match):
    with pytest.raises(BadInput, match=match):
        open_source(text.format(tmp_path), spec)


@pytest.mark.parametrize("order", ["C", "F"])
def test_npz_rows_come_in_order_whatever_the_order_of_the_file(tmp_path, order):
    x = np.asarray(np.arange(12, dtype=np.float32).reshape(4, 3), order=order)
    np.savez(tmp_path / "x.npz", x=x)
    with open_source(f"npz:{tmp_path}/x.npz", VECTOR) as source:
        assert [frame._data.tolist() for frame in iter(source.next, None)] == x.tolist()


def test_npz_is_not_held_in_memory(tmp_path):
    import tracemalloc

    np.savez(tmp_path / "x.npz", x=np.zeros((2_000_000, 3), np.float32))
    tracemalloc.start()
    with open_source(f"npz:{tmp_path}/x.npz", VECTOR) as source:
        assert source.size == 2_000_000
        for _ in range(1000):
            source.next()
        most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 2**20, "24 MB of readings were read, and not one after the other"
