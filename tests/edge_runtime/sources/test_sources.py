"""edgeveil.edge_runtime.sources: frames in order with their numbers, one sentence for a place that holds none."""

import sys
import time

import cv2
import numpy as np
import pytest

from edgeveil.edge_runtime.errors import (
    BadInput,
    DeviceFailed,
    Disconnected,
    FrameDropped,
    Missing,
    SourceFailed,
    Stalled,
    Unsupported,
)
from edgeveil.edge_runtime.manifest.manifest import Input, SensorFrame, expected
from edgeveil.edge_runtime.sources import npz, open_source
from edgeveil.edge_runtime.sources.base import Freshness, Pace
from edgeveil.edge_runtime.sources.images import ImagesSource
from tests.support.bundles import capture_of

IMAGE = Input("x", "image", (4, 5, 1), "uint8", 0, 255)
VECTOR = Input("x", "vector", (3,), "float32", 0, 1)


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
        (np.asfortranarray(np.random.default_rng(0).random((4, 3), np.float32)), VECTOR),
        (np.zeros((0, 3), np.float32), VECTOR),
    ],
)
@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_npz_gives_rows_in_order(tmp_path, x, spec, save):
    save(tmp_path / "x.npz", x=x, y=np.zeros(3))
    before = int(time.monotonic() * 1e9)
    source = open_source(f"npz:{tmp_path}/x.npz", spec)
    assert source.size == len(x)
    frames = drain(source)
    assert [frame.index for frame in frames] == list(range(len(x)))
    for frame, row in zip(frames, x, strict=True):
        assert np.array_equal(frame._data, row.reshape(spec.shape))
        assert frame.captured_ns >= before


@pytest.mark.parametrize(
    ("x", "match"),
    [
        (pictures(shape=(5, 4)), r"expected x of uint8 \(N, 4, 5, 1\) .* got uint8 \(3, 5, 4\)"),
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
        ("floppy:0", IMAGE, "npz:FILE or images:DIR"),
        ("npz:", IMAGE, "npz:FILE"),
        ("x.npz", IMAGE, "npz:FILE"),
    ],
)
def test_a_source_that_is_none_is_refused(tmp_path, text, spec, match):
    with pytest.raises(BadInput, match=match):
        open_source(text.format(tmp_path), spec)


def test_what_is_asked_of_a_source_is_the_frame_of_the_capture(tmp_path):
    np.savez(tmp_path / "x.npz", x=pictures(shape=(8, 9), dtype=np.uint16))
    capture = capture_of(SensorFrame((8, 9), "uint16", 1.0))
    assert drain(open_source(f"npz:{tmp_path}/x.npz", IMAGE, capture))[0]._data.shape == (8, 9, 1)
    with pytest.raises(BadInput, match=r"expected x of uint8 \(N, 4, 5, 1\)"):
        open_source(f"npz:{tmp_path}/x.npz", IMAGE)


def recording(folder, times, names=None):
    names = names or [f"{n}.png" for n in range(len(times))]
    for number, name in enumerate(names):
        cv2.imwrite(str(folder / name), np.full((4, 5), 1000 + number, np.uint16))
    lines = ["# a recording", *(f"{time} {name}" for time, name in zip(times, names, strict=True)), ""]
    (folder / "depth.txt").write_text("\n".join(lines))


class Clock:
    """Time that passes only by sleeping, and what was slept."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


def test_a_recording_keeps_its_own_times_and_all_its_bits(tmp_path):
    recording(tmp_path, [5.0, 5.1, 5.4], ["b.png", "a.png", "c.png"])
    clock = Clock()
    pace = Pace(clock=clock, sleep=clock.sleep)
    source = ImagesSource(str(tmp_path), expected(IMAGE._replace(dtype="uint16"), None), realtime=True, pace=pace)
    assert source.live
    came = []
    for frame in iter(source.next, None):
        came.append((round(clock.now - 100.0, 6), int(frame._data[0, 0, 0]), frame.index))
    assert came == [(0.0, 1000, 0), (0.1, 1001, 1), (0.4, 1002, 2)]


def test_whoever_is_late_is_not_held_and_the_rest_keeps_its_times():
    clock = Clock()
    pace = Pace(clock=clock, sleep=clock.sleep)
    for moment, busy, expected_now in ((0.0, 0.0, 100.0), (1.0, 2.5, 102.5), (2.0, 0.0, 102.5), (3.0, 0.0, 103.0)):
        clock.now += busy
        pace.wait(moment)
        assert clock.now == expected_now


def test_a_recording_can_be_repeated_and_its_numbers_go_on(tmp_path):
    recording(tmp_path, [0.0, 0.1, 0.2])
    clock = Clock()
    pace = Pace(clock=clock, sleep=clock.sleep)
    source = ImagesSource(str(tmp_path), expected(IMAGE, None), realtime=True, repeat=True, pace=pace)
    assert source.size is None
    frames = [source.next() for _ in range(7)]
    assert [frame.index for frame in frames] == list(range(7))
    assert [int(frame._data[0, 0, 0]) for frame in frames] == [1000, 1001, 1002] * 2 + [1000]
    assert round(clock.now - 100.0, 6) == 0.6


@pytest.mark.parametrize("winds_back", [True, False])
def test_a_film_is_repeated_without_opening_it_again_where_it_winds_back(tmp_path, monkeypatch, winds_back):
    """An isolated process may have lost the right to the folder."""
    film = cv2.VideoWriter(str(tmp_path / "f.avi"), cv2.VideoWriter_fourcc(*"MJPG"), 1000.0, (64, 48))
    for level in (10, 90, 170, 250):
        film.write(np.full((48, 64, 3), level, np.uint8))
    film.release()
    spec = Input("x", "image", (48, 64, 1), "uint8", 0, 255)
    with open_source(f"video:{tmp_path}/f.avi", spec, realtime=True, repeat=True) as source:
        if winds_back:
            (tmp_path / "f.avi").unlink()
        else:
            monkeypatch.setattr(source._cv2, "CAP_PROP_POS_FRAMES", -1)
        frames = [source.next() for _ in range(10)]
    assert [frame.index for frame in frames] == list(range(10))
    levels = [round(int(frame._data[0, 0, 0]) / 80) for frame in frames]
    assert levels == [0, 1, 2, 3] * 2 + [0, 1]


@pytest.mark.parametrize("line", ["soon 0.png", "0.1", "0.1 /etc/passwd", "-1 0.png", "nan 0.png"])
def test_a_list_of_times_that_is_none_is_refused_by_its_line(tmp_path, line):
    recording(tmp_path, [0.0])
    with (tmp_path / "depth.txt").open("a") as file:
        file.write(line + "\n")
    with pytest.raises(BadInput, match=r"line 3 of .*depth\.txt"):
        open_source(f"images:{tmp_path}", IMAGE)


def test_only_recordings_are_played_in_real_time(tmp_path):
    with pytest.raises(BadInput, match=r"images:.*npz: is not one"):
        open_source("npz:x.npz", IMAGE, realtime=True)


def test_a_frozen_picture_is_told_after_five_seconds_and_a_noisy_one_never():
    clock = Clock()
    fresh = Freshness("the camera", clock=clock)
    still, noise = np.zeros((8, 8, 1), np.uint16), np.random.default_rng(0)
    for _ in range(100):
        clock.now += 0.1
        fresh.check(still + noise.integers(0, 3, still.shape).astype(np.uint16))
    fresh.check(still)
    clock.now += 4.9
    fresh.check(still)
    clock.now += 0.2
    with pytest.raises(Stalled, match="same picture for 5 s"):
        fresh.check(still)


def test_every_failure_of_a_source_ends_with_exit_code_4_but_what_the_user_can_install():
    codes = {kind: kind("").exit_code for kind in (SourceFailed, Disconnected, Stalled, Unsupported, Missing)}
    assert codes == {SourceFailed: 4, Disconnected: 4, Stalled: 4, Unsupported: 4, Missing: 2}


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


def test_npz_rows_are_read_together_and_passed_over(tmp_path, monkeypatch):
    monkeypatch.setattr(npz, "READ", 4096)
    x = np.arange(3000, dtype=np.float32).reshape(1000, 3)  # 341 rows together
    np.savez(tmp_path / "x.npz", x=x)
    with open_source(f"npz:{tmp_path}/x.npz", VECTOR) as source:
        for passed, row in ((0, 0), (3, 4), (0, 5), (400, 406), (500, 907)):
            source.skip(passed)
            frame = source.next()
            assert (frame.index, frame._data.tolist()) == (row, x[row].tolist())
        source.skip(5000)
        assert source.next() is None


def test_npz_that_ends_too_early_says_at_which_row(tmp_path, monkeypatch):
    monkeypatch.setattr(npz, "READ", 4096)
    np.savez(tmp_path / "x.npz", x=np.zeros((1000, 3), np.float32))
    with open_source(f"npz:{tmp_path}/x.npz", VECTOR) as source:
        whole, left = source._member.read, [6000]  # bytes that are still there: 500 rows

        def short(size):
            data = whole(min(size, left[0]))
            left[0] -= len(data)
            return data

        monkeypatch.setattr(source._member, "read", short)
        assert sum(1 for _ in zip(range(341), iter(source.next, None), strict=False)) == 341
        with pytest.raises(SourceFailed, match="its x ends at row 500"):
            source.next()
