"""v4l2: against a stand-in at the system calls: a device node is a file, and ioctl answers as v4l2loopback does.

No machine here has the module. The structures are those of the kernel's header, as the C compiler lays them out.
"""

import errno
import fcntl
import os
import struct
import subprocess

import numpy as np
import pytest

from edgeveil.edge_runtime.errors import BadInput, DeviceFailed
from edgeveil.edge_runtime.frames import _PIPELINE, PerturbedFrame
from edgeveil.edge_runtime.late_imports import opencv
from edgeveil.edge_runtime.sinks import open_sink, v4l2
from tests.edge_runtime.sinks.test_forms import bundle
from tests.support import network_receivers, programs

HEADER = """
#include <stdio.h>
#include <stddef.h>
#include <linux/videodev2.h>
int main(void) {
  struct v4l2_format f; struct v4l2_capability c; struct v4l2_pix_format *p = &f.fmt.pix;
  printf("%lu %lu %lu %lu %lu %lu ", (unsigned long)VIDIOC_QUERYCAP, (unsigned long)VIDIOC_S_FMT, sizeof c, sizeof f,
         (unsigned long)offsetof(struct v4l2_format, fmt),
         (unsigned long)offsetof(struct v4l2_capability, capabilities));
  printf("%u %u %u %u %u %u %u ", V4L2_PIX_FMT_YUYV, V4L2_FIELD_NONE, V4L2_COLORSPACE_SRGB, V4L2_BUF_TYPE_VIDEO_OUTPUT,
         V4L2_CAP_VIDEO_OUTPUT, V4L2_CAP_READWRITE, V4L2_CAP_DEVICE_CAPS);
  printf("%lu %lu %lu\\n", (unsigned long)((char *)&p->pixelformat - (char *)p), (unsigned long)((char *)&p->sizeimage -
         (char *)p), (unsigned long)((char *)&p->colorspace - (char *)p));
}
"""


@pytest.mark.programs
def test_the_numbers_are_those_of_the_kernels_header(tmp_path):
    (tmp_path / "a.c").write_text(HEADER)
    subprocess.run([programs.need("cc"), "-o", tmp_path / "a", tmp_path / "a.c"], check=True)
    said = [int(one) for one in subprocess.check_output([tmp_path / "a"]).split()]
    fields = v4l2._FORMAT.unpack(bytes(range(200)) + bytes(v4l2._FORMAT.size - 200))
    places = [bytes(range(200)).index(struct.pack("@I", value)) for value in fields]
    assert said[:6] == [v4l2.QUERYCAP, v4l2.S_FMT, v4l2._CAPABILITY.size, v4l2._FORMAT.size, places[1], 84]
    assert said[6:13] == [v4l2._YUYV, v4l2._FIELD_NONE, v4l2._SRGB, v4l2._OUTPUT, 2, 0x01000000, 0x80000000]
    assert said[13:] == [places[at] - places[1] for at in (3, 6, 7)]


class Loopback:
    """The kernel's side of one device: what it was asked, and what was written, picture by picture."""

    def __init__(self, monkeypatch, path):
        self.path, self.able, self.wide = path, 0x80000000 | 0x05000003, None
        self.written, self.formats, self.error = [], [], None
        path.touch()
        really = os.open, os.write
        monkeypatch.setattr(os, "open", lambda name, *rest: really[0](self._place(name), *rest))
        monkeypatch.setattr(os, "write", lambda handle, data: self._write(handle, data, really[1]))
        monkeypatch.setattr(fcntl, "ioctl", self._ioctl)
        self.handle = None

    def _place(self, name):
        return str(self.path) if name == "/dev/video10" else name

    def _ioctl(self, handle, request, data):
        self.handle = handle
        if request == v4l2.QUERYCAP:
            return struct.pack("=16s32s32sIII12x", b"v4l2 loopback", b"", b"", 1, self.able, self.able & ~0x80000000)
        assert request == v4l2.S_FMT
        fields = list(v4l2._FORMAT.unpack(data))
        fields[1] = self.wide or fields[1]
        self.formats.append(fields)
        return v4l2._FORMAT.pack(*fields)

    def _write(self, handle, data, really):
        if handle != self.handle:
            return really(handle, data)
        if self.error:
            raise OSError(self.error, os.strerror(self.error))
        self.written.append(bytes(data))
        return len(data)


@pytest.fixture
def loopback(monkeypatch, tmp_path):
    return Loopback(monkeypatch, tmp_path / "video10")


def opened(shape=(4, 6, 3), query=""):
    manifest = bundle(shape)
    return open_sink("v4l2:/dev/video10" + query, manifest.outputs, manifest)


def frame(picture, slot=0):
    return PerturbedFrame(0, {"frame": picture, "label": np.int64(0)}, _PIPELINE, slot=slot)


@pytest.mark.parametrize("shape", [(4, 6, 3), (5, 7, 1), (9, 3, 3)])
def test_each_frame_is_one_write_that_opencv_reads_as_the_frame(loopback, shape):
    sink = opened(shape)
    smooth = np.linspace(0, 255, shape[0] * shape[1]).reshape(shape[:2]).astype(np.uint8)
    picture = np.repeat(smooth[:, :, None], shape[2], axis=2)
    if shape[2] == 3:
        picture[:, :, 0] //= 2
    sink.write(frame(picture))
    sink.write(frame(255 - picture))
    sink.close()
    width = shape[1] + shape[1] % 2
    (taken,) = loopback.formats
    assert taken[:7] == [2, width, shape[0], v4l2._YUYV, 1, 2 * width, 2 * width * shape[0]]
    assert [len(one) for one in loopback.written] == [2 * width * shape[0]] * 2
    cv2 = opencv()
    data = np.frombuffer(loopback.written[0], np.uint8).reshape(shape[0], width, 2)
    seen = cv2.cvtColor(data, cv2.COLOR_YUV2RGB_YUYV)[:, : shape[1]].astype(int)
    assert np.abs(seen - picture).max() <= (14 if shape[2] == 3 else 2)  # two pixels have one colour
    assert sink.counts() == {"put": 2}


def test_a_device_that_goes_is_opened_again_and_a_privacy_stop_leaves_black(loopback):
    sink = opened()
    sink.write(frame(np.full((4, 6, 3), 200, np.uint8)))
    loopback.error = errno.ENODEV
    with pytest.raises(DeviceFailed, match=r"/dev/video10 .no such device.: modprobe v4l2loopback"):
        sink.write(frame(np.zeros((4, 6, 3), np.uint8)))
    loopback.error = None
    sink.write(frame(np.full((4, 6, 3), 100, np.uint8)))
    assert len(loopback.formats) == 2
    sink.discard()
    assert set(loopback.written[-1][::2]) == {16}
    assert len(loopback.written) == 3


def test_a_camera_is_never_written_to(loopback):
    loopback.able = 0x80000000 | 0x05000001
    with pytest.raises(BadInput, match="it is a camera"):
        opened()
    loopback.able, loopback.wide = 0x05000002, 640
    with pytest.raises(BadInput, match="takes no YUYV of 6 x 4: it asks for 640 x 4"):
        opened()
    assert loopback.written == []


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("v4l2:/dev/nothing-here", "no such file.*modprobe v4l2loopback"),
        ("v4l2:/dev/null", "no output of Video4Linux"),
        ("v4l2:video10", "expected v4l2:/dev/videoN"),
        ("v4l2:/dev/video10?slot=1", "a slot below 1"),
        ("v4l2:/dev/video10?slot=x", "number of a slot"),
    ],
)
def test_what_cannot_be_meant_is_refused(text, match):
    with pytest.raises((BadInput, DeviceFailed), match=match):
        open_sink(text, network_receivers.OUTPUTS, network_receivers.MANIFEST)
