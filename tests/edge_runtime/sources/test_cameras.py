"""Cameras whose devices are not here: what the sources ask of the libraries, and what they make of their answers.

The libraries are stand-ins; test_real_cameras.py has the true ones. Scans are in the form iw(8) prints.
"""

import subprocess
import sys
import types

import cv2
import numpy as np
import pytest

from edgeveil.edge_runtime import camera_address
from edgeveil.edge_runtime.camera_address import on_network
from edgeveil.edge_runtime.errors import (
    BadInput,
    DeviceFailed,
    Disconnected,
    FrameDropped,
    Missing,
    Stalled,
    Unsupported,
)
from edgeveil.edge_runtime.manifest.manifest import Input, SensorFrame
from edgeveil.edge_runtime.sources import open_source
from edgeveil.edge_runtime.sources.base import Freshness
from edgeveil.edge_runtime.sources.install_hints import Claim, missing
from edgeveil.edge_runtime.sources.wifi import WifiSource, signals
from tests.support.bundles import capture_of

RGB = Input("x", "image", (24, 32, 3), "uint8", 0, 255)
GRAY = RGB._replace(shape=(24, 32, 1))
DEEP = GRAY._replace(dtype="uint16")


# V4L2 through OpenCV


class Device:
    """A V4L2 camera behind OpenCV's VideoCapture: ``pictures`` in order, then nothing."""

    def __init__(self, pictures, opens=True):
        self.pictures, self.opens, self.set_to, self.released = list(pictures), opens, {}, False

    def __call__(self, place, backend):
        assert backend == cv2.CAP_V4L2
        self.place = place
        return self

    def isOpened(self):
        return self.opens

    def set(self, key, value):
        self.set_to[key] = value

    def read(self):
        return (True, self.pictures.pop(0)) if self.pictures else (False, None)

    def release(self):
        self.released = True


@pytest.fixture
def plugged_in(tmp_path, monkeypatch):
    """A function that puts a camera at a place that exists, and gives that place."""
    node = tmp_path / "video7"

    def plug(device):
        node.touch()
        monkeypatch.setattr(cv2, "VideoCapture", device)
        return f"camera:{node}"

    return plug


def pictures(n, shape=(24, 32, 3), dtype=np.uint8):
    return list(np.random.default_rng(0).integers(0, np.iinfo(dtype).max, (n, *shape)).astype(dtype))


def test_a_camera_gives_rgb_or_gray_at_the_bundles_size(plugged_in):
    given = pictures(3)
    device = Device(given)
    with open_source(plugged_in(device), RGB) as source:
        frame = source.next()
        assert np.array_equal(frame._data, given[1][:, :, ::-1])
        assert (source.live, frame.index) == (True, 0)
        assert device.set_to[cv2.CAP_PROP_FRAME_WIDTH] == 32
    assert device.released
    with open_source(plugged_in(Device(given)), GRAY) as source:
        assert np.array_equal(source.next()._data[..., 0], cv2.cvtColor(given[1], cv2.COLOR_BGR2GRAY))


def test_sixteen_bits_stay_sixteen_bits(plugged_in):
    given = pictures(2, (24, 32), np.uint16)
    device = Device(given)
    with open_source(plugged_in(device), DEEP) as source:
        assert np.array_equal(source.next()._data[..., 0], given[1])
    assert device.set_to[cv2.CAP_PROP_CONVERT_RGB] == 0


def test_an_unplugged_camera_is_told_from_one_that_hangs(plugged_in, tmp_path):
    source = open_source(plugged_in(Device(pictures(2))), RGB)
    source.next()
    with pytest.raises(Stalled, match="no pictures any more"):
        source.next()
    (tmp_path / "video7").unlink()
    with pytest.raises(Disconnected, match="unplugged"):
        source.next()
    source.close()


def test_a_frozen_camera_is_stalled_after_five_seconds(plugged_in, monkeypatch):
    now = [0.0]
    same = pictures(1) * 20
    source = open_source(plugged_in(Device(same)), RGB)
    source.freshness = Freshness("the camera", clock=lambda: now[0])
    for now[0] in (0.0, 2.5, 4.9):
        source.next()
    now[0] = 5.0
    with pytest.raises(Stalled, match="frozen"):
        source.next()
    source.close()


@pytest.mark.parametrize(
    ("given", "spec", "match"),
    [
        (pictures(1, (48, 64, 3)), RGB, r"gives uint8 \(48, 64, 3\); this bundle takes uint8 \(24, 32, 3\)"),
        (
            pictures(1, (48, 64, 3)),
            RGB,
            r"whose \[capture\] resizes .* edgeveil recipe new --camera frame=64x48x3 --camera size",
        ),
        (pictures(1), DEEP, r"this bundle takes uint16 \(24, 32, 1\)\. Set the camera to that$"),
    ],
)
def test_another_size_or_type_is_unsupported_and_the_camera_is_let_go(plugged_in, given, spec, match):
    device = Device(given)
    with pytest.raises(Unsupported, match=match):
        open_source(plugged_in(device), spec)
    assert device.released
    with pytest.raises(Unsupported, match="cannot be opened"):
        open_source(plugged_in(Device([], opens=False)), RGB)


def test_a_picture_of_another_size_on_the_way_is_dropped(plugged_in):
    with open_source(plugged_in(Device(pictures(1) + pictures(1, (48, 64, 3)) + pictures(1))), RGB) as source:
        with pytest.raises(FrameDropped, match="shape"):
            source.next()
        assert source.next()._data.shape == (24, 32, 3)


def test_two_loops_cannot_have_one_camera(plugged_in):
    first = open_source(plugged_in(Device(pictures(5))), RGB)
    with pytest.raises(Unsupported, match="two loops cannot share a camera"):
        open_source(plugged_in(Device(pictures(5))), RGB)
    first.close()
    open_source(plugged_in(Device(pictures(5))), RGB).close()


def test_a_lock_is_the_processes_own(tmp_path):
    folders = [str(tmp_path)]
    held = Claim("cam", folders)
    code = f"from edgeveil.edge_runtime.sources.install_hints import Claim; Claim('cam', {folders!r})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert "two loops cannot share" in done.stderr
    held.release()
    assert not subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60).returncode


@pytest.mark.parametrize(
    ("text", "spec", "error", "match"),
    [
        ("camera:0", RGB, Disconnected, "no camera at /dev/video0"),
        ("camera:front", RGB, BadInput, "camera:0 or camera:/dev/video0"),
        ("camera:0", RGB._replace(kind="vector", shape=(3,)), BadInput, "vectors"),
        ("kinect:", GRAY, Unsupported, "gives depth"),
        ("kinect:", DEEP, BadInput, "480, 640"),
        ("openni:", RGB, Unsupported, "gives depth"),
        ("realsense:", RGB, Unsupported, "gives depth"),
        ("libcamera:front", RGB, BadInput, "libcamera:1"),
        ("gst:videotestsrc ! fakesink", RGB, BadInput, "without a sink"),
        ("gst:rtspsrc location=rtsp://a", RGB, BadInput, "rtsp://"),
        ("rtsp://", RGB, BadInput, "expected an address"),
        ("video:frames/%04d.png", RGB, BadInput, "images:DIR"),
        ("video:depth.png", RGB, BadInput, "images:DIR"),
        ("video:none.mp4", RGB, BadInput, "there is none"),
    ],
)
def test_what_cannot_be_is_one_sentence(text, spec, error, match):
    with pytest.raises(error, match=match):
        open_source(text, spec)


@pytest.mark.parametrize(
    ("text", "module", "hint"),
    [
        ("realsense:", "pyrealsense2", "pyrealsense2"),
        ("libcamera:", "picamera2", "camera:0 or gst:"),
        ("gst:videotestsrc", "gi", "apt install python3-gi"),
    ],
)
def test_a_library_that_is_not_here_is_named_with_how_to_get_it(monkeypatch, text, module, hint):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(Missing, match=hint) as caught:
        open_source(text, DEEP if text == "realsense:" else RGB)
    assert caught.value.exit_code == 2


def test_the_hint_is_that_of_the_board():
    board = "Raspberry Pi 4 Model B Rev 1.2"
    assert "apt install python3-picamera2" in str(missing("x", "picamera2", board))
    assert "wheels for x86-64 and 64-bit ARM" in str(missing("x", "realsense", "NVIDIA Jetson Nano Developer Kit"))


# picamera2 and pyrealsense2


def test_a_ribbon_camera_gives_rgb_or_brightness(monkeypatch):
    class Picamera2:
        @staticmethod
        def global_camera_info():
            return [{"Model": "imx219"}]

        def __init__(self, number):
            assert number == 0

        def create_video_configuration(self, **about):
            Picamera2.asked = about
            return about

        def configure(self, about):
            self.format = about["main"]["format"]

        def start(self):
            self.count = 0

        def capture_array(self, name):
            self.count += 1
            # Rows of 32 pixels come padded to 64; below the brightness lies the colour.
            full = np.zeros((24, 64, 3) if self.format == "BGR888" else (36, 64), np.uint8)
            full[:24, :32] = self.count
            return full

        def stop(self):
            pass

        def close(self):
            pass

    monkeypatch.setitem(sys.modules, "picamera2", types.SimpleNamespace(Picamera2=Picamera2))
    for spec in (RGB, GRAY):
        with open_source("libcamera:", spec) as source:
            frame = source.next()
            assert frame._data.shape == spec.shape
            assert (frame._data == 2).all()
            assert Picamera2.asked["main"]["size"] == (32, 24)
    with pytest.raises(Disconnected, match="no libcamera 1"):
        open_source("libcamera:1", RGB)


def realsense(frames, problem=None):
    """pyrealsense2, as far as it is used: depth of 0.25 mm a step."""

    class Pipeline:
        def start(self, config):
            if problem:
                raise RuntimeError(problem)
            sensor = types.SimpleNamespace(get_depth_scale=lambda: 0.00025)
            device = types.SimpleNamespace(first_depth_sensor=lambda: sensor)
            return types.SimpleNamespace(get_device=lambda: device)

        def wait_for_frames(self, limit_ms):
            if not frames:
                raise RuntimeError("Frame didn't arrive within 5000")
            data = frames.pop(0)
            depth = types.SimpleNamespace(get_data=lambda: data)
            return types.SimpleNamespace(get_depth_frame=lambda: depth)

        def stop(self):
            pass

    config = types.SimpleNamespace(enable_stream=lambda *_: None, enable_device=lambda _: None)
    named = types.SimpleNamespace(depth=1, z16=2)
    return types.SimpleNamespace(pipeline=Pipeline, config=lambda: config, stream=named, format=named)


def test_a_realsense_gives_depth_in_the_bundles_unit(monkeypatch):
    given = pictures(1, (24, 32), np.uint16)
    monkeypatch.setitem(sys.modules, "pyrealsense2", realsense(list(given)))
    capture = capture_of(SensorFrame((24, 32), "uint16", 0.5))
    with open_source("realsense:", RGB, capture) as source:
        assert np.array_equal(source.next()._data[..., 0], np.rint(given[0] / 2).astype(np.uint16))
        with pytest.raises(Stalled):
            source.next()
    monkeypatch.setitem(sys.modules, "pyrealsense2", realsense([], "No device connected"))
    with pytest.raises(Disconnected, match="No device connected"):
        open_source("realsense:", DEEP)
    monkeypatch.setitem(sys.modules, "pyrealsense2", realsense([], "Couldn't resolve requests"))
    with pytest.raises(Unsupported, match="24 x 32"):
        open_source("realsense:", DEEP)


# Wi-Fi

SCAN = """\
BSS 00:11:22:33:44:00(on wlan0)
\tlast seen: 1203.512s [boottime]
\tTSF: 1203512000 usec (0d, 00:20:03)
\tfreq: 2412
\tbeacon interval: 100 TUs
\tcapability: ESS Privacy ShortSlotTime (0x0411)
\tsignal: -48.00 dBm
\tlast seen: 0 ms ago
\tSSID: a name\twith BSS 00:11:22:33:44:99
\tRSN:\t * Version: 1
BSS aa:bb:cc:dd:ee:ff(on wlan0) -- associated
\tfreq: 5180
\tsignal: -61.50 dBm
\tSSID: other
BSS 00:11:22:33:44:02(on wlan0)
\tfreq: 5180
\tSSID: no strength given
BSS 00:11:22:33:44:03(on wlan0)
\tsignal: -90.00 dBm
"""
POINTS = [f"00:11:22:33:44:{n:02x}" for n in range(4)]
VECTOR = {"kind": "vector", "shape": [4], "dtype": "int8", "unit_mm": None, "access_points": POINTS}


def iw(output="", code=0, error=None):
    def run(command, **options):
        assert command == ["iw", "dev", "wlan0", "scan"]
        if error is not None:
            raise error
        return subprocess.CompletedProcess(command, code, output.encode(), b"")

    return run


def test_a_scan_becomes_a_vector_in_the_recipes_order():
    assert signals(SCAN) == {POINTS[0]: -48.0, "aa:bb:cc:dd:ee:ff": -61.5, POINTS[3]: -90.0}
    source = WifiSource("wlan0", VECTOR, run=iw(SCAN))
    assert source.next()._data.tolist() == [-48, -128, -128, -90]
    floats = WifiSource("wlan0", {**VECTOR, "dtype": "float32"}, run=iw(SCAN))
    assert floats.next()._data.tolist() == [-48.0, -200.0, -200.0, -90.0]


@pytest.mark.parametrize(
    ("run", "error", "match"),
    [
        (iw(code=240), FrameDropped, "busy"),
        (iw(code=237), Disconnected, "it has gone"),
        (iw(code=255), Disconnected, "CAP_NET_ADMIN"),
        (iw(error=FileNotFoundError()), Missing, "apt install iw"),
        (iw(error=subprocess.TimeoutExpired("iw", 30)), Stalled, "30 s"),
    ],
)
def test_a_scan_that_fails_has_a_name(run, error, match):
    with pytest.raises(error, match=match):
        WifiSource("wlan0", VECTOR, run=run).next()


def test_without_an_order_there_is_no_scan():
    with pytest.raises(Unsupported, match=r"capture\.access_points"):
        open_source("wifi:wlan0", Input("x", "vector", (4,), "int8", None, None))
    with pytest.raises(BadInput, match="wifi:wlan0"):
        WifiSource("wlan0; reboot", VECTOR)


# Addresses


def test_what_is_shown_of_an_address_has_no_credentials():
    one = camera_address.parse("rtsp://who:p%40ss@[::1]:8554/cam?key=secret")
    assert one.shown == "rtsp://[::1]:8554/..."
    assert (one.user, one.password, one.target) == ("who", "p@ss", "/cam?key=secret")
    odd = ("#topsecret@host/", "/topsecret@host/x", "?topsecret@host/", "topsecret#@host/x", "12/topsecret@host:80/v")
    odd = [f"http://who:12{rest}" for rest in odd] + ["http://who/topsecret@host/", "http://host/a#topsecret"]
    for text in ("http://who:topsecret@", "http://who:topsecret@host:port/", "http://who:topsecret@ho st/", *odd):
        with pytest.raises(BadInput) as caught:
            open_source(text, RGB)
        assert "topsecret" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "private"),
    [
        ("http://127.0.0.1/a", True),
        ("http://localhost:8080/", True),
        ("rtsp://[::1]/", True),
        ("https://camera.example/", True),
        ("http://192.168.1.7/", False),
        ("rtsp://127.0.0.1.example/", False),
        ("http://localhost.example/", False),
    ],
)
def test_raw_pictures_are_private_on_this_machine_and_under_tls(text, private):
    assert camera_address.is_private(text) is private
    assert on_network(text)


def test_no_error_of_a_source_is_anything_but_its_own(plugged_in, monkeypatch):
    """A traceback for a user's mistake would show the code, not the way out."""
    for text in ("camera:0", "kinect:9", "openni:nowhere", "libcamera:", "realsense:", "gst:x", "http://127.0.0.1:9/"):
        with pytest.raises(DeviceFailed if not text.startswith("kinect") else (BadInput, DeviceFailed)):
            open_source(
                text, DEEP if text[0] in "ro" else RGB if text[0] != "k" else DEEP._replace(shape=(480, 640, 1))
            )
