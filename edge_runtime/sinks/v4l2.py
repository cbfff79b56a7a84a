"""``v4l2:/dev/videoN``: pictures into a camera that programs of this machine see, by the kernel module v4l2loopback.

Any program that reads a camera reads it: a browser, OBS, Frigate, ffmpeg. The format is YUYV (ITU-R BT.601), which all
of them take. https://docs.kernel.org/userspace-api/media/v4l/vidioc-g-fmt.html
"""

import contextlib
import errno
import fcntl
import os
import struct
from typing import Any, Dict, List, Optional

import numpy as np

from edgeveil.edge_runtime.errors import BadInput, DeviceFailed
from edgeveil.edge_runtime.manifest.manifest import Manifest, Output
from edgeveil.edge_runtime.sinks.base import Sink
from edgeveil.edge_runtime.sinks.forms import checked_slot, picture_of
from edgeveil.edge_runtime.sinks.uri import slot_of, split

# struct v4l2_capability: driver, card and bus, the version, capabilities of all nodes and of this one.
_CAPABILITY = struct.Struct("=16s32s32sIII12x")
# struct v4l2_format: the type, and 200 bytes at the next place for a pointer, which begin with v4l2_pix_format.
_FORMAT = struct.Struct("@I0P12I152x")
_OUTPUT, _FIELD_NONE, _SRGB = 2, 1, 8  # of v4l2_buf_type, v4l2_field and v4l2_colorspace
_CAN_OUTPUT, _CAN_WRITE, _PER_NODE = 0x2, 0x01000000, 0x80000000
_YUYV = 0x56595559
MODULE = "modprobe v4l2loopback video_nr=10 makes /dev/video10"


def _request(direction: int, number: int, size: int) -> int:
    """The number of an ioctl (asm-generic/ioctl.h): 2 reads from the kernel, 3 writes to it as well."""
    return direction << 30 | size << 16 | ord("V") << 8 | number


QUERYCAP = _request(2, 0, _CAPABILITY.size)
S_FMT = _request(3, 5, _FORMAT.size)


def yuyv(picture: np.ndarray) -> np.ndarray:
    """A picture uint8 (height, width[, 1 or 3]) as YUYV, (height, width rounded up to even, 2), BT.601 of 16 to 235."""
    if picture.ndim == 2:
        picture = picture[:, :, None]
    if picture.shape[1] % 2:
        picture = np.concatenate([picture, picture[:, -1:]], axis=1)
    height, width, channels = picture.shape
    out = np.full((height, width, 2), 128, np.uint8)
    if channels == 1:
        out[:, :, 0] = (16.5 + np.arange(256) * (219 / 255)).astype(np.uint8)[picture[:, :, 0]]
        return out
    red, green, blue = np.moveaxis(picture.astype(np.float32) / 255, 2, 0)
    luma = 0.299 * red + 0.587 * green + 0.114 * blue
    out[:, :, 0] = np.rint(16 + 219 * luma)
    # Of two pixels side by side, the mean.
    for place, (colour, share) in enumerate(((blue, 1.772), (red, 1.402))):
        difference = ((colour - luma) / share).reshape(height, width // 2, 2).mean(axis=2)
        out[:, place::2, 1] = np.rint(128 + 224 * difference)
    return out


class V4l2Sink(Sink):
    """The main output of one slot. Its device is opened again after an error, as where the module was loaded anew."""

    schemes = ("v4l2",)
    forms = ("v4l2:/dev/videoN",)
    help = "the main output as a camera of this machine, through the kernel module v4l2loopback; `slot=0`"
    live = True
    device = True

    def __init__(
        self, uri: str, outputs: List[Output], manifest: Optional[Manifest], _settings: Dict[str, Any]
    ) -> None:
        self._path, options = split(uri.partition(":")[2], {"slot": slot_of})
        if not self._path.startswith("/dev/"):
            raise BadInput("expected v4l2:/dev/videoN; got {!r}. {}".format(self._path, MODULE))
        self._slot = checked_slot(options.get("slot", 0), manifest)
        self._main, self._picture = outputs[0].name, picture_of(outputs[0], manifest)
        blank = yuyv(self._picture(np.zeros(outputs[0].shape, np.dtype(outputs[0].dtype))))
        self._height, self._width = blank.shape[:2]
        self._shown = 0
        self._device: Optional[int] = None
        self._open()

    def _open(self) -> None:
        try:
            handle = os.open(self._path, os.O_WRONLY | os.O_CLOEXEC | os.O_NOCTTY)
        except OSError as error:
            raise self._failed(error) from None
        try:
            self._ask(handle)
        except OSError as error:
            os.close(handle)
            other = error.errno in (errno.ENOTTY, errno.EINVAL)
            raise self._failed(error, "it is no output of Video4Linux" if other else "") from None
        except BaseException:
            os.close(handle)
            raise
        self._device = handle

    def _ask(self, handle: int) -> None:
        answer = fcntl.ioctl(handle, QUERYCAP, bytes(_CAPABILITY.size))
        *_, capabilities, own = _CAPABILITY.unpack(answer)
        able = own if capabilities & _PER_NODE else capabilities
        if not able & _CAN_OUTPUT or not able & _CAN_WRITE:
            raise BadInput("{} takes no pictures: it is a camera. {}".format(self._path, MODULE))
        size = (self._width, self._height, _YUYV, _FIELD_NONE, 2 * self._width, 2 * self._width * self._height, _SRGB)
        answer = fcntl.ioctl(handle, S_FMT, _FORMAT.pack(_OUTPUT, *size, 0, 0, 0, 0, 0))
        taken = _FORMAT.unpack(answer)[1 : 1 + len(size)]
        if taken[:3] != size[:3] or taken[4] not in (0, size[4]):
            problem = "{} takes no YUYV of {} x {}: it asks for {} x {}. Is another program showing there?"
            raise BadInput(problem.format(self._path, self._width, self._height, taken[0], taken[1]))

    def _failed(self, error: OSError, what: str = "") -> DeviceFailed:
        text = "cannot write pictures to {} ({}): {}, and the user must be in its group"
        return DeviceFailed(text.format(self._path, what or (error.strerror or "").lower(), MODULE))

    def _write(self, frame: Any) -> None:
        if frame.slot != self._slot:
            return
        if self._device is None:
            self._open()
        data = yuyv(self._picture(frame.outputs[self._main])).tobytes()
        try:
            # One call is one picture.
            if os.write(self._device or 0, data) != len(data):
                raise OSError(errno.EIO, os.strerror(errno.EIO))
        except OSError as error:
            self.close()
            raise self._failed(error) from None
        self._shown += 1

    def counts(self) -> Dict[str, int]:
        """``put``: pictures that were written."""
        return {"put": self._shown}

    def close(self) -> None:
        """Close the device; its readers keep the last picture."""
        handle, self._device = self._device, None
        if handle is not None:
            os.close(handle)

    def discard(self) -> None:
        """Show black instead of the last picture, and close the device."""
        if self._device is not None:
            black = yuyv(np.zeros((self._height, self._width), np.uint8))
            with contextlib.suppress(OSError):
                os.write(self._device, black.tobytes())
        self.close()
