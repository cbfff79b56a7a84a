"""Parts of npz:, images: and video:, a full disk that is real, and a film that is whole or not there."""

import contextlib
import subprocess

import cv2
import numpy as np
import pytest

from edgeveil.edge_runtime.errors import BadInput, DeviceFailed
from edgeveil.edge_runtime.frames import _PIPELINE, PerturbedFrame
from edgeveil.edge_runtime.manifest.manifest import Output
from edgeveil.edge_runtime.sinks import open_sink
from edgeveil.edge_runtime.sinks.group import RotatingSink
from edgeveil.edge_runtime.sinks.npz import NpzSink
from edgeveil.edge_runtime.util.atomic import WriteFailed
from tests.support import network_receivers

SHAPE = (64, 80, 1)
OUTPUTS = [Output("frame", "frame", "x", SHAPE, "uint8", None)]


def frame(n, shape=SHAPE):
    data = np.random.default_rng(n).integers(0, 256, shape).astype(np.uint8)
    return PerturbedFrame(n, {"frame": data}, _PIPELINE)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def numbers(folder):
    return [n for name in names(folder) for n in np.load(folder / name)["index"].tolist()]


def film(path):
    reader, out = cv2.VideoCapture(str(path)), []
    while True:
        there, picture = reader.read()
        if not there:
            return out
        out.append(picture)


def test_parts_by_size_hold_every_frame_once(tmp_path):
    sink = open_sink(f"npz:{tmp_path}/out?rotate=20kB", OUTPUTS)
    for n in range(10):
        sink.write(frame(n))
    assert names(tmp_path / "out") == ["part-00000000.npz", "part-00000001.npz", "part-00000002.npz"]
    sink.close()
    assert numbers(tmp_path / "out") == list(range(10))
    assert sink.counts() == {"put": 10, "parts": 4, "lost": 0}


def test_parts_by_time_and_a_restart_goes_on_behind_them(tmp_path):
    now = [0.0]

    def opened():
        return RotatingSink(
            str(tmp_path / "out"),
            lambda path: NpzSink(path, OUTPUTS),
            suffix=".npz",
            limits=(None, 60.0),
            frame_bytes=5128,
            clock=lambda: now[0],
        )

    sink = opened()
    for n in range(6):
        sink.write(frame(n))
        now[0] += 25.0
    sink.close()
    assert len(names(tmp_path / "out")) == 2
    before = {name: (tmp_path / "out" / name).read_bytes() for name in names(tmp_path / "out")}
    sink = opened()
    sink.write(frame(6))
    sink.close()
    assert all((tmp_path / "out" / name).read_bytes() == data for name, data in before.items())
    assert numbers(tmp_path / "out") == list(range(7))


def test_a_privacy_stop_forgets_the_last_hour_and_no_more(tmp_path):
    now = [0.0]
    sink = RotatingSink(
        str(tmp_path / "out"),
        lambda path: NpzSink(path, OUTPUTS),
        suffix=".npz",
        limits=(None, 600.0),
        frame_bytes=5128,
        clock=lambda: now[0],
    )
    for n in range(10):
        sink.write(frame(n))
        now[0] += 601.0
    sink.discard()
    assert numbers(tmp_path / "out") == [0, 1, 2, 3]


def test_images_and_films_come_in_parts_too(tmp_path):
    for kind in ("images", "video"):
        sink = open_sink(f"{kind}:{tmp_path}/{kind}?rotate=20kB", OUTPUTS)
        for n in range(7):
            sink.write(frame(n))
        sink.close()
    assert names(tmp_path / "images") == ["part-00000000", "part-00000001", "part-00000002"]
    assert names(tmp_path / "images/part-00000002") == ["00000006.png"]
    shown = [picture for name in names(tmp_path / "video") for picture in film(tmp_path / "video" / name)]
    assert len(shown) == 7
    assert np.array_equal(shown[4][:, :, :1], frame(4).data)


def test_a_film_gives_every_pixel_back_and_is_there_when_it_is_closed(tmp_path):
    outputs = [OUTPUTS[0]._replace(shape=(20, 30, 3))]
    sink = open_sink(f"video:{tmp_path}/out.avi?fps=12.5", outputs)
    for n in range(5):
        sink.write(frame(n, (20, 30, 3)))
    assert not (tmp_path / "out.avi").exists()
    sink.close()
    assert names(tmp_path) == ["out.avi"]
    assert cv2.VideoCapture(str(tmp_path / "out.avi")).get(cv2.CAP_PROP_FPS) == 12.5
    for n, picture in enumerate(film(tmp_path / "out.avi")):
        assert np.array_equal(picture[:, :, ::-1], frame(n, (20, 30, 3)).data)


def test_a_film_that_is_forgotten_leaves_nothing(tmp_path):
    sink = open_sink(f"video:{tmp_path}/out.avi?codec=MJPG", OUTPUTS)
    sink.write(frame(0))
    sink.discard()
    assert names(tmp_path) == []


@contextlib.contextmanager
def small_disk(folder, size_kb):
    """A real file system that is soon full."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size_kb}k", "tmpfs", str(folder)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("NOT ALLOWED TO MOUNT: no disk was filled")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.mark.parametrize("kind", ["npz", "images", "video"])
def test_a_disk_that_is_really_full_loses_no_closed_part_and_goes_on_when_there_is_room(tmp_path, kind):
    with small_disk(tmp_path / "disk", 3000) as disk:
        ballast = disk / "ballast"
        ballast.write_bytes(bytes(1_200_000))
        sink = open_sink(f"{kind}:{disk}/out?rotate=100kB", OUTPUTS)
        refused = []
        for n in range(400):
            try:
                sink.write(frame(n))
            except WriteFailed as error:
                refused.append(str(error))
        assert refused
        assert "no space left" in refused[0]
        counts = sink.counts()
        assert counts["put"] + counts["lost"] == 400
        ballast.unlink()
        sink.write(frame(400))
        sink.close()
        assert sink.counts()["put"] == counts["put"] + 1
        kept = [path for path in sorted((disk / "out").rglob("*")) if path.is_file()]
        assert not [path for path in kept if path.name.startswith(".")]
        if kind == "npz":
            found = numbers(disk / "out")
            assert found == [*range(counts["put"]), 400]
        elif kind == "images":
            assert len(kept) == counts["put"] + 1
        else:
            assert sum(len(film(path)) for path in kept) == counts["put"] + 1


def test_a_row_that_did_not_fit_is_cut_off_again(tmp_path):
    with small_disk(tmp_path / "disk", 40) as disk:
        sink = open_sink(f"npz:{disk}/out.npz", OUTPUTS)
        for n in range(7):
            sink.write(frame(n))
        with pytest.raises(DeviceFailed, match="no space left"):
            sink.write(frame(7))
        sizes = [file.seek(0, 2) for *_, file in sink._columns]
        assert sizes == [7 * 8, 7 * 64 * 80]
        sink.discard()


def test_a_film_that_opencv_could_not_write_is_found_out(tmp_path, monkeypatch):
    monkeypatch.setattr("edgeveil.edge_runtime.sinks.video.atomic.require", lambda *_: None)
    with small_disk(tmp_path / "disk", 100) as disk:
        sink = open_sink(f"video:{disk}/out.avi", OUTPUTS)
        for n in range(60):
            sink.write(frame(n))
        with pytest.raises(WriteFailed, match="of 60 frames"):
            sink.close()
        assert names(disk) == []


@pytest.mark.parametrize(
    ("text", "outputs", "match"),
    [
        ("npz:{}/out?rotate=often", OUTPUTS, "duration"),
        ("npz:{}/out?rotate=0MB", OUTPUTS, "size"),
        ("npz:{}/out?rotate=1h,2h,3h", OUTPUTS, "duration|a size, a time"),
        ("npz:{}/out?rotated=1h", OUTPUTS, "expected options"),
        ("npz:{}/file?rotate=1h", OUTPUTS, "there is a file"),
        ("video:{}/out.mp4", OUTPUTS, "ending in .avi"),
        ("video:{}/none/out.avi", OUTPUTS, "folder that exists"),
        ("video:{}/out.avi?codec=H264", OUTPUTS, "codec=FFV1"),
        ("video:{}/out.avi?fps=0", OUTPUTS, "frames a second"),
        ("video:{}/out.avi", [OUTPUTS[0]._replace(shape=(5, 4, 1))], "even height"),
        ("video:{}/out.avi", [OUTPUTS[0]._replace(dtype="uint16")], "8-bit"),
        ("video:{}/out.avi", network_receivers.OUTPUTS[1:], "8-bit"),
    ],
)
def test_what_cannot_be_meant_is_refused(tmp_path, text, outputs, match):
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput, match=match):
        open_sink(text.format(tmp_path), outputs)


def test_a_question_mark_may_be_part_of_a_name(tmp_path):
    sink = open_sink(f"npz:{tmp_path}/who?.npz", OUTPUTS)
    sink.close()
    assert names(tmp_path) == ["who?.npz"]
