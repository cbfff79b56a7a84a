"""Sensors behind a vendor's library, each against a stand-in with its interface, and LD2410 against a pseudo-terminal.

Where a library imports here, what is used of it is looked up in it.
"""

import os
import pty
import sys
import threading
import tty
import types

import numpy as np
import pytest

from edgeveil.devices import profiles
from edgeveil.devices.flashing import service_files
from edgeveil.edge_runtime.errors import Disconnected, FrameDropped, Missing, Stalled, Unsupported
from edgeveil.edge_runtime.kinds import needs_daemon
from edgeveil.edge_runtime.manifest.manifest import parse
from edgeveil.edge_runtime.sources import SOURCES, ld2410, open_source

DEPTH = np.random.default_rng(1).integers(0, 9000, (24, 32)).astype(np.uint16)
VENDORS = ("orbbec:", "oak:", "mlx90640:1", "vl53l5cx:1", "ld2410:/dev/ttyUSB0")


def bundle(shape, dtype="uint16"):
    return parse({"input": {"kind": "image", "shape": list(shape), "dtype": dtype}, "capture": None}).input


def module(**names):
    return types.SimpleNamespace(**names)


class OBError(Exception):
    pass


def orbbec(frames, profile=None, count=1):
    """pyorbbecsdk, as far as it is used: depth of 0.5 mm a step."""

    class Pipeline:
        def __init__(self, device):
            self.device, self.ended = device, False

        def get_stream_profile_list(self, _kind):
            def asked(width, height, form, fps):
                if profile != (height, width):
                    raise OBError("no profile of this size\nmore")
                return (width, height, form, fps)

            return module(get_video_stream_profile=asked)

        def start(self, config):
            assert config.asked[2:] == ("Y16", 30)

        def wait_for_frames(self, _ms):
            if not frames:
                return None
            data = frames.pop(0)
            frame = module(
                get_height=lambda: data.shape[0],
                get_width=lambda: data.shape[1],
                get_data=lambda: np.frombuffer(data.tobytes(), np.uint8),
                get_depth_scale=lambda: 0.5,
            )
            return module(get_depth_frame=lambda: frame)

        def stop(self):
            self.ended = True

    class Config:
        def enable_stream(self, asked):
            self.asked = asked

    devices = module(
        get_count=lambda: count,
        get_device_by_index=lambda _: "first",
        get_device_by_serial_number=lambda number: number,
    )
    return module(
        OBError=OBError,
        Context=lambda: module(query_devices=lambda: devices),
        Pipeline=Pipeline,
        Config=Config,
        OBSensorType=module(DEPTH_SENSOR=1),
        OBFormat=module(Y16="Y16"),
    )


def test_an_orbbec_camera_gives_depth_in_millimetres(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyorbbecsdk", orbbec([DEPTH], (24, 32)))
    with open_source("orbbec:CP123", bundle((24, 32, 1))) as source:
        assert source._pipeline.device == "CP123"
        assert np.array_equal(source.next()._data[..., 0], np.rint(DEPTH / 2).astype(np.uint16))
        with pytest.raises(Stalled):
            source.next()
    with pytest.raises(Unsupported, match="no depth of 24 x 30: no profile of this size"):
        open_source("orbbec:", bundle((24, 30, 1)))
    monkeypatch.setitem(sys.modules, "pyorbbecsdk", orbbec([], (24, 32), count=0))
    with pytest.raises(Disconnected, match="there is no Orbbec camera"):
        open_source("orbbec:", bundle((24, 32, 1)))


def oak(frames, problem=""):
    """depthai 3, as far as it is used."""
    linked = []

    class Queue:
        def get(self, timeout):
            assert timeout.total_seconds() == 5
            if not frames:
                return None
            data = frames.pop(0)
            return module(getFrame=lambda: data)

    class Stereo:
        left, right = "left", "right"
        depth = module(createOutputQueue=lambda maxSize, blocking: Queue())

        def setOutputSize(self, *size):
            linked.append(size)

    class Camera:
        def build(self, socket):
            self.socket = socket
            return self

        def requestOutput(self, size, type, fps):
            return module(link=lambda side: linked.append((self.socket, size, side)))

    class Pipeline:
        def __init__(self, device):
            if problem:
                raise RuntimeError(problem)

        def create(self, kind):
            return kind()

        def start(self):
            pass

        stop = start

    return module(
        linked=linked,
        Device=lambda *info: info,
        DeviceInfo=lambda name: name,
        Pipeline=Pipeline,
        node=module(StereoDepth=Stereo, Camera=Camera),
        CameraBoardSocket=module(CAM_B="B", CAM_C="C"),
        ImgFrame=module(Type=module(GRAY8=1)),
    )


def test_an_oak_gives_depth_of_its_two_cameras(monkeypatch):
    library = oak([DEPTH])
    monkeypatch.setitem(sys.modules, "depthai", library)
    with open_source("oak:", bundle((24, 32, 1))) as source:
        assert library.linked == [("B", (32, 24), "left"), ("C", (32, 24), "right"), (32, 24)]
        assert np.array_equal(source.next()._data[..., 0], DEPTH)
        with pytest.raises(Stalled):
            source.next()
    monkeypatch.setitem(sys.modules, "depthai", oak([], "No available devices\nand more"))
    with pytest.raises(Disconnected, match=r"does not start: No available devices$"):
        open_source("oak:", bundle((24, 32, 1)))


def test_an_mlx90640_gives_temperatures_and_a_picture_that_cannot_be_read_is_dropped(monkeypatch):
    answers = [list(range(768)), ValueError("too slow"), OSError(5, "gone")]

    class Chip:
        def __init__(self, bus):
            assert bus == (1, 1000000)

        def getFrame(self, values):
            answer = answers.pop(0)
            if isinstance(answer, Exception):
                raise answer
            values[:] = answer

    library = module(MLX90640=Chip, RefreshRate=module(REFRESH_8_HZ=4))
    monkeypatch.setitem(sys.modules, "adafruit_mlx90640", library)
    bus = module(ExtendedI2C=lambda number, frequency: (number, frequency))
    monkeypatch.setitem(sys.modules, "adafruit_extended_bus", bus)
    with open_source("mlx90640:1", bundle((24, 32, 1), "float32")) as source:
        assert source._chip.refresh_rate == 4
        frame = source.next()._data
        assert frame.dtype == np.float32
        assert frame[1, 2, 0] == 34.0
        with pytest.raises(FrameDropped):
            source.next()
        with pytest.raises(Disconnected, match="does not answer any more"):
            source.next()
    with pytest.raises(Unsupported, match="gives float32"):
        open_source("mlx90640:1", bundle((24, 32, 1)))


def test_a_vl53l5cx_gives_distances_of_valid_zones(monkeypatch):
    states = [5] * 60 + [9, 0, 255, 5]
    answer = module(distance_mm=[[*range(63), -7]], target_status=[states])
    chip = module(ready=0, asked=[])

    class Chip:
        def __init__(self, i2c_dev):
            assert i2c_dev == 1

        def data_ready(self):
            chip.ready += 1
            return chip.ready > 2

        def get_data(self):
            return answer

        def __getattr__(self, name):
            return lambda *values: chip.asked.append((name, *values))

    monkeypatch.setitem(sys.modules, "vl53l5cx_ctypes", module(VL53L5CX=Chip))
    monkeypatch.setitem(sys.modules, "smbus2", module(SMBus=int))
    with open_source("vl53l5cx:1", bundle((8, 8, 1))) as source:
        frame = source.next()._data
    expected = np.array([*range(61), 0, 0, 0], np.uint16).reshape(8, 8, 1)
    assert np.array_equal(frame, expected)
    assert chip.asked == [
        ("set_resolution", 64),
        ("set_ranging_frequency_hz", 15),
        ("start_ranging",),
        ("stop_ranging",),
    ]
    with pytest.raises(Unsupported, match="gives depth of"):
        open_source("vl53l5cx:1", bundle((16, 8, 1)))


class Radar(threading.Thread):
    """An LD2410 at the far end of a pseudo-terminal: it answers three commands, and reports then."""

    def __init__(self, reports):
        super().__init__(daemon=True)
        self._end, far = pty.openpty()
        tty.setraw(far)
        self.path, self._far, self._reports, self.commands = os.ttyname(far), far, reports, []
        self.start()

    def run(self):
        data = b""
        while len(self.commands) < 3:
            data += os.read(self._end, 64)
            while b"\x04\x03\x02\x01" in data:
                command, _, data = data.partition(b"\x04\x03\x02\x01")
                self.commands.append(command[6:])
                answer = bytes([command[6], 1, 0, 0])
                os.write(
                    self._end, b"\xfd\xfc\xfb\xfa" + len(answer).to_bytes(2, "little") + answer + b"\x04\x03\x02\x01"
                )
        for report in self._reports:
            os.write(self._end, report)


def report(kind=1, energies=range(18), end=b"\xf8\xf7\xf6\xf5"):
    """As the protocol's document has one of the engineering mode; the last two are light and the state of a pin."""
    data = bytes([kind, 0xAA, 3, 0x1E, 0, 60, 0x39, 0, 57, 0, 0, 8, 8, *energies, 0xB0, 1, 0x55, 0])
    return b"\xf4\xf3\xf2\xf1" + len(data).to_bytes(2, "little") + data + end


def test_an_ld2410_is_put_into_engineering_mode_and_gives_its_energies(monkeypatch):
    monkeypatch.setattr(ld2410, "STALL_S", 0.5)
    noise = b"\xf4\xf3\xf2" + b"\x00" * 7
    radar = Radar([noise, report(), report(kind=2), report(end=b"none"), report(energies=[100] * 18)])
    with open_source(f"ld2410:{radar.path}", bundle((2, 9, 1), "uint8")) as source:
        assert radar.commands == [b"\xff\x00\x01\x00", b"\x62\x00", b"\xfe\x00"]
        assert source.next()._data.reshape(-1).tolist() == list(range(18))
        for _ in range(2):  # of another mode; one that was cut
            with pytest.raises(FrameDropped):
                source.next()
        assert set(source.next()._data.reshape(-1)) == {100}
        with pytest.raises(Stalled, match="is it an LD2410"):
            source.next()
    with pytest.raises(Disconnected, match="cannot be opened"):
        open_source("ld2410:/dev/nothing-here", bundle((2, 9, 1), "uint8"))


@pytest.mark.parametrize("text", VENDORS[:-1])
def test_without_the_library_the_line_that_installs_it_is_said(monkeypatch, text):
    for name in ("pyorbbecsdk", "depthai", "adafruit_extended_bus", "vl53l5cx_ctypes"):
        monkeypatch.setitem(sys.modules, name, None)
    shape, dtype = ((24, 32, 1), "float32") if text.startswith("mlx") else ((8, 8, 1), "uint16")
    with pytest.raises(Missing, match=r"pip install 'edgeveil\[" + text.partition(":")[0]):
        open_source(text, bundle(shape, dtype))


@pytest.mark.parametrize("text", VENDORS)
def test_each_is_read_by_a_process_of_its_own_whose_unit_has_its_devices_alone(text):
    assert needs_daemon(text)
    made = service_files.files("/opt/edgeveil", text, ["none"], profiles.load("raspberry-pi5"), "cpu")
    camera = made[service_files.UNIT_FOLDER + service_files.CAMERA].decode()
    inside = made[service_files.UNIT_FOLDER + service_files.INSIDE].decode()
    assert "PrivateNetwork=yes" in camera
    for device in SOURCES[text.partition(":")[0]].facts["devices"]:
        assert f"\nDeviceAllow={device} rw\n" in camera
        assert device not in inside


USED = {
    "pyorbbecsdk": (
        "OBError Context Context.query_devices DeviceList.get_count DeviceList.get_device_by_index "
        "DeviceList.get_device_by_serial_number Pipeline.get_stream_profile_list Pipeline.start Pipeline.stop "
        "Pipeline.wait_for_frames Config.enable_stream StreamProfileList.get_video_stream_profile OBFormat.Y16 "
        "OBSensorType.DEPTH_SENSOR FrameSet.get_depth_frame DepthFrame.get_data DepthFrame.get_depth_scale "
        "DepthFrame.get_height DepthFrame.get_width"
    ),
    "depthai": (
        "Device DeviceInfo Pipeline.create Pipeline.start Pipeline.stop node.StereoDepth.depth node.StereoDepth.left "
        "node.StereoDepth.right node.StereoDepth.setOutputSize node.Camera.build node.Camera.requestOutput "
        "Node.Output.link Node.Output.createOutputQueue CameraBoardSocket.CAM_B CameraBoardSocket.CAM_C "
        "ImgFrame.Type.GRAY8 ImgFrame.getFrame MessageQueue.get"
    ),
    "adafruit_mlx90640": "MLX90640.getFrame MLX90640.refresh_rate RefreshRate.REFRESH_8_HZ",
    "adafruit_extended_bus": "ExtendedI2C",
    "vl53l5cx_ctypes": (
        "VL53L5CX.set_resolution VL53L5CX.set_ranging_frequency_hz VL53L5CX.start_ranging VL53L5CX.stop_ranging "
        "VL53L5CX.data_ready VL53L5CX.get_data"
    ),
}


@pytest.mark.parametrize("name", USED)
def test_what_is_used_of_a_library_is_there(name):
    library = pytest.importorskip(name)
    for path in USED[name].split():
        found = library
        for part in path.split("."):
            assert hasattr(found, part), path
            found = getattr(found, part)
