"""What a V4L2 camera offers and how it is set; the stand-ins are at the kernel's call and at OpenCV's VideoCapture.

Numbers and places are those of linux/videodev2.h, as a C compiler gives them.
"""

import errno
import struct

import cv2
import numpy as np
import pytest

from edgeveil.edge_runtime.errors import BadInput, Unsupported
from edgeveil.edge_runtime.kinds import check_source, device_file
from edgeveil.edge_runtime.manifest.manifest import expected, parse
from edgeveil.edge_runtime.pipeline.crops import Capture as Runner
from edgeveil.edge_runtime.pipeline.resize import area
from edgeveil.edge_runtime.sources import open_source, video_modes
from edgeveil.trainer.recipe.training_sections import Capture

ENUM_FMT, ENUM_SIZES, ENUM_INTERVALS, SET = 0xC0405602, 0xC02C564A, 0xC034564B, 0xC008561C
EXPOSURE_AUTO, EXPOSURE, MAINS = 0x9A0901, 0x9A0902, 0x980918
USB2 = {
    "MJPG": {(640, 480): 30, (1280, 720): 30, (1920, 1080): 30},
    "YUYV": {(640, 480): 30, (320, 240): 30, (1280, 720): 10},
    "H264": {(1920, 1080): 30},
}


class Driver:
    """A camera's driver: what it ``offers``, its controls and what they were set to."""

    def __init__(self, offers, controls=(EXPOSURE_AUTO, EXPOSURE, MAINS), steps=None):
        self.offers, self.controls, self.steps, self.set_to = offers, controls, steps, {}

    def ioctl(self, handle, request, data):
        assert handle > 2
        assert request >> 16 & 0x3FFF == len(data)
        if request == SET:
            number, value = struct.unpack("<Ii", data)
            if number not in self.controls:
                raise OSError(errno.EINVAL, "Invalid argument")
            if number == EXPOSURE and value > 5000:
                raise OSError(errno.ERANGE, "Numerical result out of range")
            self.set_to[number] = value
            return data
        answer, index = bytearray(data), struct.unpack_from("<I", data)[0]
        try:
            if request == ENUM_FMT:
                answer[44:48] = list(self.offers)[index].encode()
            elif request == ENUM_SIZES and self.steps:
                struct.pack_into("<7I", answer, 8, 3, *self.steps[: 6 if index == 0 else -1])
            elif request == ENUM_SIZES:
                struct.pack_into("<3I", answer, 8, 1, *list(self.offers[data[4:8].decode()])[index])
            elif request == ENUM_INTERVALS:
                form, size = data[4:8].decode(), struct.unpack_from("<2I", data, 8)
                rates = self.offers[form]
                rate = next(iter(rates.values())) if self.steps else rates[size]
                struct.pack_into("<3I", answer, 16, 1, 1, [rate, 5][index])
        except (IndexError, struct.error):
            raise OSError(errno.EINVAL, "Invalid argument") from None
        return bytes(answer)


class Device:
    """OpenCV's VideoCapture of a camera that gives the size it is set to."""

    def __init__(self):
        self.set_to, self.rng, self.given = {}, np.random.default_rng(0), []

    def __call__(self, _place, backend):
        assert backend == cv2.CAP_V4L2
        return self

    def isOpened(self):
        return True

    def set(self, key, value):
        self.set_to[key] = value

    @property
    def size(self):
        return int(self.set_to[cv2.CAP_PROP_FRAME_HEIGHT]), int(self.set_to[cv2.CAP_PROP_FRAME_WIDTH])

    @property
    def form(self):
        code = self.set_to.get(cv2.CAP_PROP_FOURCC)
        return code and struct.pack("<I", int(code)).decode()

    def read(self):
        self.given.append(self.rng.integers(0, 256, (*self.size, 3)).astype(np.uint8))
        return True, self.given[-1]

    def release(self):
        pass


def rules_of(shape, fit, tick_hz=10.0, **more):
    frame = {"shape": shape, "dtype": "uint8"}
    section = Capture.model_validate({"frame": frame, "fit": fit, "resize": "area", "tick_hz": tick_hz, **more})
    return parse({"capture": section.manifest(), "input": section.input()})


@pytest.fixture
def opened(tmp_path, monkeypatch):
    """A function that opens the camera of a driver for a manifest, and gives source and OpenCV's device."""
    node = tmp_path / "video7"
    node.touch()
    sources = []

    def start(driver, rules, options=""):
        for last in sources:
            last.close()
        device = Device()
        monkeypatch.setattr(video_modes.fcntl, "ioctl", driver.ioctl)
        monkeypatch.setattr(cv2, "VideoCapture", device)
        sources.append(open_source(f"camera:{node}{options}", rules.input, rules.capture))
        return sources[-1], device

    yield start
    for source in sources:
        source.close()


@pytest.mark.parametrize(
    ("shape", "tick_hz", "options", "size", "form"),
    [
        ([32, 32, 3], 10.0, "", (240, 320), "YUYV"),  # the smallest that is larger
        ([300, 32, 3], 10.0, "", (480, 640), "YUYV"),
        ([300, 32, 3], 60.0, "", (480, 640), "YUYV"),  # neither is as quick: the first
        ([32, 700, 3], 10.0, "", (720, 1280), "YUYV"),
        ([32, 700, 3], 30.0, "", (720, 1280), "MJPG"),  # the other is too slow at that size
        ([2000, 2000, 3], 10.0, "", (1080, 1920), "MJPG"),  # none is larger
        ([32, 32, 3], 10.0, "?mode=1280x720", (720, 1280), "YUYV"),
        ([32, 32, 3], 10.0, "?mode=1280x720&fps=30", (720, 1280), "MJPG"),
        ([32, 32, 3], 10.0, "?format=MJPG", (480, 640), "MJPG"),
    ],
)
def test_the_nearest_larger_mode_in_the_format_that_is_quick_enough(opened, shape, tick_hz, options, size, form):
    rules = rules_of(shape, "crop", tick_hz)
    source, device = opened(Driver(USB2), rules, options)
    assert (device.size, device.form) == (size, form)
    assert device.set_to.get(cv2.CAP_PROP_FPS) == (30.0 if "fps" in options else None)
    ((_, frame),) = Runner(rules).frames(source.next())
    assert list(frame._data.shape) == shape


def test_pictures_of_1280_x_720_become_32_x_32_as_the_bundle_signs(opened):
    for fit, part in (("crop", np.s_[:, 280:1000]), ("stretch", np.s_[:])):
        rules = rules_of([32, 32, 3], fit)
        source, device = opened(Driver(USB2), rules, "?mode=1280x720")
        ((_, frame),) = Runner(rules).frames(source.next())
        picture = np.ascontiguousarray(device.given[-1][part][:, :, ::-1])
        assert np.array_equal(frame._data, np.rint(area(picture.shape[:2], (32, 32), picture.dtype)(picture)))


def test_a_camera_that_gives_any_size_within_a_range_gives_that_one(opened):
    driver = Driver({"YUYV": {(): 30}}, steps=(32, 2592, 2, 32, 1944, 2))
    assert opened(driver, rules_of([45, 63, 3], "crop"))[1].size == (46, 64)
    assert opened(driver, rules_of([4000, 63, 3], "crop"))[1].size == (1944, 2592)


def test_without_a_fit_it_is_the_bundles_size_and_only_its_format_is_chosen(opened):
    _, device = opened(Driver(USB2), rules_of([720, 1280, 3], None, 30.0))
    assert (device.size, device.form) == ((720, 1280), "MJPG")
    _, device = opened(Driver(USB2), rules_of([32, 32, 3], None))  # not listed: the driver may do it all the same
    assert (device.size, device.form) == ((32, 32), None)
    with pytest.raises(Unsupported, match=r"gives uint8 \(720, 1280, 3\); this bundle takes .* --camera fit=letterbox"):
        opened(Driver(USB2), rules_of([32, 32, 3], None), "?mode=1280x720")


def test_a_driver_that_lists_nothing_is_left_to_opencv(opened):
    assert opened(Driver({}), rules_of([24, 32, 3], "crop"))[1].size == (24, 32)
    _, device = opened(Driver({}), rules_of([24, 32, 3], "crop"), "?mode=64x48&format=MJPG")
    assert (device.size, device.form) == ((48, 64), "MJPG")


def test_exposure_and_mains_are_set_before_the_first_picture(opened):
    driver = Driver(USB2)
    opened(driver, rules_of([32, 32, 3], "crop"), "?exposure=12.5&mains=60")
    assert driver.set_to == {EXPOSURE_AUTO: 1, EXPOSURE: 125, MAINS: 2}
    opened(driver, rules_of([32, 32, 3], "crop"), "?exposure=auto&mains=off")
    assert driver.set_to == {EXPOSURE_AUTO: 3, EXPOSURE: 125, MAINS: 0}
    with pytest.raises(Unsupported, match=r"exposure= .*numerical result"):
        opened(driver, rules_of([32, 32, 3], "crop"), "?exposure=900")
    with pytest.raises(Unsupported, match=r"video7 cannot be set so: mains= .*Leave it out"):
        opened(Driver(USB2, controls=()), rules_of([32, 32, 3], "crop"), "?mains=50")


@pytest.mark.parametrize("options", ["?mode=800x600", "?format=YUYV&mode=1920x1080", "?fps=60", "?format=YUYV&fps=90"])
def test_what_the_camera_does_not_offer_is_refused_with_what_it_does(opened, options):
    with pytest.raises(
        Unsupported, match=r"choose of 320x240 YUYV to 30 fps, 640x480 MJPG to 30 fps, .*1920x1080 MJPG"
    ):
        opened(Driver(USB2), rules_of([32, 32, 3], "crop"), options)


WRONG = (
    "mode=big",
    "mode=0x480",
    "fps=0",
    "fps=fast",
    "format=H264",
    "exposure=-1",
    "mains=55",
    "gain=3",
    "fps",
    "fps=5&fps=6",
)


@pytest.mark.parametrize("text", WRONG)
def test_wrong_options_are_refused_at_every_door_with_all_that_there_are(text):
    with pytest.raises(
        BadInput, match=r"expected mode, format \(YUYV, MJPG\), fps, .* as in camera:0\?mode=1280x720&format=MJPG"
    ):
        check_source("camera:0?" + text)


def test_options_are_no_part_of_the_device_and_sixteen_bits_have_one_format(opened):
    assert device_file("camera:3?fps=30") == "/dev/video3"
    assert device_file("camera:/dev/v4l/by-id/usb-cam?mains=50") == "/dev/v4l/by-id/usb-cam"
    section = Capture.model_validate({"frame": {"shape": [24, 32], "dtype": "uint16"}})
    rules = parse({"capture": section.manifest(), "input": {**section.input(), "low": 0.0, "high": 1.0}})
    with pytest.raises(BadInput, match="format= for a bundle of 16 bits"):
        opened(Driver(USB2), rules, "?format=MJPG")
    assert expected(rules.input, rules.capture)["any_size"] is False


def test_a_driver_whose_list_never_ends_is_read_to_a_limit(monkeypatch):
    class Endless(Driver):
        def ioctl(self, handle, request, data):
            return super().ioctl(handle, request, bytes(4) + data[4:])

    monkeypatch.setattr(video_modes.fcntl, "ioctl", Endless({"YUYV": {(640, 480): 30}}).ioctl)
    monkeypatch.setattr(video_modes, "MOST_LISTED", 4)
    assert len(video_modes.modes(7, ("YUYV",), (640, 480))) == 4 * 4
