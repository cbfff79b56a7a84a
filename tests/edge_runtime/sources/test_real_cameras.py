"""Cameras through their true driver interfaces, with recordings, dummies and servers in place of the devices.

Each runs in a process of its own (tests/support/boards/camera_probe.py). Skipped, loudly, where the system's libraries
are not there.
"""

import contextlib
import http.server
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import cv2
import numpy as np
import pytest

from tests.support import bundles, programs
from tests.support.boards import fakenect_recording
from tests.support.checkout import PACKAGES as CHECKOUT
from tests.support.checkout import ROOT

PROBE = ROOT / "tests/support/boards/camera_probe.py"
RTSP_SERVER = ROOT / "scripts/emulation/rtsp_server.py"
FAKENECT = Path("/usr/lib/x86_64-linux-gnu/fakenect")
SYSTEM_PYTHON = "/usr/bin/python3"
PACKAGES = Path(np.__file__).parents[1]

pytestmark = [pytest.mark.cameras, pytest.mark.programs]


def probe(text, shape, dtype="uint16", unit_mm=1.0, frames=5, python=sys.executable, env=None, timeout=40):
    sensor = json.dumps({"shape": shape, "dtype": dtype, "unit_mm": unit_mm})
    environment = {**os.environ, "PYTHONPATH": f"{CHECKOUT}{os.pathsep}{PACKAGES}", "PROBE_STALL_S": "3", **(env or {})}
    done = subprocess.run(
        [python, str(PROBE), text, sensor, str(frames)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    # Libraries print on stdout what they like; the probe's line is the last.
    assert done.stdout.strip(), done.stderr
    return json.loads(done.stdout.strip().splitlines()[-1]), done.stdout + done.stderr


# Kinect v1: libfreenect, and fakenect in its place


@pytest.fixture(scope="module")
def recording():
    """A wall at 3 m and a box at 1.5 m that moves to the right; no reading at the left edge."""
    programs.need("fakenect", "libfreenect")
    depths = []
    for number in range(12):
        depth = np.full((480, 640), 3000.0)
        depth[:, :8] = 0
        depth[190:290, 100 + 30 * number : 200 + 30 * number] = 1500.0
        depths.append(depth + number % 2)
    # Not below tmp_path, which is for its owner alone: started by root, the inside reads it as nobody.
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        fakenect_recording.write(Path(name) / "recording", depths)
        yield Path(name) / "recording"


def test_a_kinect_v1_is_read_through_libfreenects_own_interface(recording):
    env = {"FAKENECT_PATH": str(recording), "LD_LIBRARY_PATH": str(FAKENECT)}
    found, text = probe("kinect:", [480, 640], frames=10, env=env)
    assert found["error"] is None, text
    assert found["live"]
    assert [frame["index"] for frame in found["frames"]] == list(range(10))
    for frame in found["frames"]:
        assert frame["shape"] == [480, 640, 1]
        assert frame["dtype"] == "uint16"
        assert abs(frame["least"] - 1500) <= 5  # 11 bits are 4 mm there
        assert abs(frame["most"] - 3000) <= 14
        assert frame["zeros"] == 8 * 480


@pytest.mark.nightly  # by day that it is read, above
def test_a_kinect_that_goes_away_is_disconnected(recording):
    """At the end of a recording fakenect's bus fails, as it does when the plug is pulled."""
    env = {"FAKENECT_PATH": str(recording), "LD_LIBRARY_PATH": str(FAKENECT)}
    found, _ = probe("kinect:", [480, 640], frames=40, env=env)
    assert len(found["frames"]) == 12
    assert found["error"][0] == "Disconnected"


@pytest.mark.nightly  # by day in millimetres, above
def test_a_kinect_in_other_units_than_millimetres(recording):
    env = {"FAKENECT_PATH": str(recording), "LD_LIBRARY_PATH": str(FAKENECT)}
    found, _ = probe("kinect:", [480, 640], unit_mm=0.5, frames=1, env=env)
    assert abs(found["frames"][0]["least"] - 3000) <= 10


def test_without_a_kinect_one_sentence_says_so():
    programs.need("libfreenect")
    found, _ = probe("kinect:", [480, 640])
    assert found["error"][0] in ("Disconnected", "SourceFailed")
    assert found["error"][2] == 4
    assert "\n" not in found["error"][1]


# OpenNI2: its own dummy driver


def test_any_openni2_camera_is_read_through_its_c_interface():
    programs.need("OpenNI2")
    found, text = probe("openni:Dummy", [240, 320], frames=5)
    assert found["error"] is None, text
    assert len(found["frames"]) == 5
    assert found["frames"][0]["shape"] == [240, 320, 1]
    other, _ = probe("openni:Dummy", [480, 640])
    assert other["error"][0] == "Unsupported"
    assert "(240, 320)" in other["error"][1]


# GStreamer, through PyGObject and a Python that has it


@pytest.fixture(scope="module")
def gstreamer():
    programs.need("PyGObject", "GStreamer")
    if sys.version_info[:2] != (3, 11):
        pytest.skip("the packages of .venv are not for the system's Python 3.11")


@pytest.mark.parametrize(
    ("shape", "dtype", "middle"),
    [([60, 81], "uint8", [150]), ([60, 81, 3], "uint8", [0, 255, 0]), ([60, 80], "uint16", None)],
)
def test_a_gstreamer_pipeline_gives_the_type_that_is_asked_for(gstreamer, shape, dtype, middle):
    text = "gst:videotestsrc is-live=true pattern=green ! videoscale"
    found, said = probe(text, shape, dtype, python=SYSTEM_PYTHON, frames=3)
    assert found["error"] is None, said
    for frame in found["frames"]:
        assert frame["shape"] == (shape if len(shape) == 3 else [*shape, 1])
        assert frame["dtype"] == dtype
        if middle:
            assert np.allclose(frame["middle"], middle, atol=6)
        else:
            assert frame["most"] > 255 * 100


@pytest.mark.parametrize(
    ("pipeline", "error"),
    [
        ("videotestsrc ! tee name=t ! queue ! filesink location=raw t.", "BadInput"),
        ("nosuchsrc", "BadInput"),
        ("rtspsrc location=rtsp://camera", "BadInput"),
        ("videotestsrc num-buffers=2", "Disconnected"),
    ],
)
def test_a_pipeline_that_cannot_be_is_refused(gstreamer, pipeline, error):
    found, _ = probe("gst:" + pipeline, [240, 320], "uint8", python=SYSTEM_PYTHON, frames=20)
    assert found["error"][0] == error
    assert not Path("raw").exists()


# Cameras on a network: a real server on the loopback interface


class Camera(http.server.BaseHTTPRequestHandler):
    """Serves what its server's ``mode`` says; sends a moving square."""

    def log_message(self, *_):
        pass

    def do_GET(self):
        server = self.server
        server.asked.append(dict(self.headers))
        if server.mode == "locked" or (server.login and "Authorization" not in self.headers):
            self.send_response(401)
            self.end_headers()
            return
        single = server.mode == "single"
        self.send_response(200)
        kind = "image/jpeg" if single else "multipart/x-mixed-replace; boundary=frame"
        self.send_header("Content-Type", "text/html" if server.mode == "page" else kind)
        self.end_headers()
        for number in range(1 if single else 400):
            picture = np.full((240, 320, 3), 40, np.uint8)
            picture[100:140, 20 + number % 250 : 60 + number % 250] = (0, 0, 250)
            data = cv2.imencode(".jpg", picture)[1].tobytes()
            if number == 3 and server.mode == "corrupt":
                data = b"\xff\xd8" + bytes(500)
            head = b"" if single else b"--frame\r\nContent-Type: image/jpeg\r\nContent-Length: %d\r\n\r\n" % len(data)
            if number == 5 and server.mode == "cut":
                self.wfile.write(head + data[:100])
                return
            if number == 5 and server.mode == "silent":
                server.stop.wait(30)
                return
            with contextlib.suppress(OSError):
                self.wfile.write(head + data + (b"" if single else b"\r\n"))
            if server.stop.wait(0.01):
                return


@pytest.fixture
def camera():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Camera)
    server.daemon_threads = True
    server.mode, server.login, server.asked, server.stop = "stream", False, [], threading.Event()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield server
    server.stop.set()
    server.shutdown()
    server.server_close()
    thread.join()


def address(server, who=""):
    return f"http://{who}127.0.0.1:{server.server_address[1]}/video?token=secret"


@pytest.mark.parametrize(("mode", "frames"), [("stream", 20), ("single", 4)])
def test_a_network_camera_sends_jpeg_after_jpeg(camera, mode, frames):
    camera.mode, camera.login = mode, True
    found, text = probe(address(camera, "who:pass%20word@"), [240, 320, 3], "uint8", None, frames=frames)
    assert found["error"] is None, text
    assert found["raw_on_network"]
    assert len(found["frames"]) == frames
    assert found["frames"][0]["most"] > 200
    assert [one.get("Authorization") for one in camera.asked[:2]] == [None, "Basic d2hvOnBhc3Mgd29yZA=="]
    assert found["name"] == f"http://127.0.0.1:{camera.server_address[1]}/..."


@pytest.mark.parametrize(
    ("mode", "error", "words"),
    [
        ("locked", "Unsupported", "name and password"),
        ("page", "Unsupported", "no JPEG"),
        ("cut", "Disconnected", "middle of a picture"),
        ("silent", "Stalled", "nothing for 3 s"),
        ("corrupt", None, None),
    ],
)
def test_what_goes_wrong_with_a_network_camera_has_a_name_and_no_password(camera, mode, error, words):
    camera.mode = mode
    found, text = probe(address(camera, "who:topsecret@"), [240, 320], "uint8", None, frames=8)
    assert (found["error"] or [None])[0] == error
    assert words is None or words in found["error"][1]
    assert found["dropped"] == (1 if mode == "corrupt" else 0)
    for secret in ("topsecret", "token", "who:"):
        assert secret not in text


def test_a_network_camera_that_is_not_there_or_of_another_size(camera):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        nobody = free.getsockname()[1]
    found, _ = probe(f"http://127.0.0.1:{nobody}/", [240, 320], "uint8", None)
    assert found["error"][0] == "Disconnected"
    found, _ = probe(address(camera), [480, 640], "uint8", None)
    assert found["error"][0] == "Unsupported"
    assert "240 x 320" in found["error"][1]


def test_an_rtsp_camera_is_read_and_its_password_is_not_printed():
    programs.need(*programs.RTSP_SERVER)
    with subprocess.Popen([SYSTEM_PYTHON, RTSP_SERVER, "0"], stdout=subprocess.PIPE, text=True) as server:
        try:
            port = int(server.stdout.readline())
            found, text = probe(f"rtsp://who:topsecret@127.0.0.1:{port}/cam", [240, 320, 3], "uint8", None, frames=10)
            assert found["error"] is None, text
            assert len(found["frames"]) == 10
            assert found["name"] == f"rtsp://127.0.0.1:{port}/..."
            nobody, more = probe(f"rtsp://who:topsecret@127.0.0.1:{port}/none", [240, 320, 3], "uint8", None)
            assert nobody["error"][0] == "Disconnected"
            assert "topsecret" not in text + more
            assert "rtsp @" not in more, "FFmpeg speaks, and it may speak of the address"
        finally:
            server.kill()


# Films


@pytest.fixture(scope="module")
def film(tmp_path_factory):
    path = tmp_path_factory.mktemp("film") / "walk.mp4"
    command = [
        programs.need("ffmpeg"),
        "-v",
        "error",
        "-f",
        "lavfi",
        "-i",
        "testsrc=size=160x120:rate=25:duration=2",
        "-pix_fmt",
        "yuv420p",
    ]
    subprocess.run([*command, str(path)], check=True, timeout=60)
    return path


def test_a_film_of_ffmpegs_is_read_to_its_end(film):
    found, text = probe(f"video:{film}", [120, 160, 3], "uint8", None, frames=1000)
    assert found["error"] is None, text
    assert [frame["index"] for frame in found["frames"]] == list(range(50))


def test_a_film_that_is_cut_short_or_none_is_said_to_be(film, tmp_path):
    whole = film.read_bytes()
    for name, data in (("none.mp4", b"no film"), ("cut.mp4", whole[: len(whole) // 2])):
        (tmp_path / name).write_bytes(data)
        found, _ = probe(f"video:{tmp_path}/{name}", [120, 160, 3], "uint8", None, frames=1000)
        assert found["error"][0] in ("BadInput", "SourceFailed")
        assert name in found["error"][1]


@pytest.mark.nightly  # by day a film to its end, above
def test_a_film_at_its_own_pace_takes_its_own_time(film):
    from edgeveil.edge_runtime.manifest.manifest import Input
    from edgeveil.edge_runtime.sources import open_source

    spec = Input("x", "image", (120, 160, 1), "uint8", None, None)
    start = time.monotonic()
    with open_source(f"video:{film}", spec, realtime=True, repeat=True) as source:
        assert source.live
        for _ in range(26):
            frame = source.next()
    assert frame.index == 25
    assert 0.95 < time.monotonic() - start < 10  # 25 frames of 40 ms; what a busy machine adds is not the film


def test_a_kinect_v1_is_read_inside_without_a_network(recording, tiny, tmp_path):
    """The whole service: libfreenect behind the filter, the capture's depth, a generator, what leaves."""
    manifest = {key: value for key, value in tiny.manifest.items() if key != "members"}
    manifest["capture"] = {
        **bundles.captured_example()[0]["capture"],
        "frame": {"shape": [480, 640], "dtype": "uint16", "unit_mm": 1.0},
        "measure": "depth",
        "low": 500.0,
        "high": 4000.0,
        "crop": None,
        "slots": 1,
    }
    made = bundles.make_bundle(tmp_path / "bundle", example=(manifest, tiny.members))
    environment = {**os.environ, "FAKENECT_PATH": str(recording), "LD_LIBRARY_PATH": str(FAKENECT)}
    environment["PYTHONPATH"] = f"{CHECKOUT}{os.pathsep}{PACKAGES}"
    command = [
        sys.executable,
        "-m",
        "edgeveil.edge_runtime",
        "run",
        str(made.path),
        "--trust",
        str(made.trust),
        "--json",
    ]
    command += ["--source", "kinect:", "--sink", f"npz:{tmp_path}/out.npz", "--health", "off", "--log", "json"]
    done = subprocess.run(
        [*command, "--duration", "2"], env=environment, capture_output=True, text=True, timeout=120, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout.strip().splitlines()[-1])
    # How many there are is the machine's to say; that none is lost between the two processes is not.
    assert document["frames_in"] == document["frames_out"] + sum(document["dropped"].values())
    assert document["frames_out"] >= 3
    ready = next(json.loads(line) for line in done.stderr.splitlines() if '"event": "ready"' in line)
    assert "filter" in ready["isolation"]
    with np.load(tmp_path / "out.npz") as out:
        assert out["x"].shape[1:] == (12, 12, 1)
