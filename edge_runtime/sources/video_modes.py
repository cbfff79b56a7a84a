"""What a V4L2 camera offers and how it is set, by its kernel interface (linux/videodev2.h): OpenCV lists no modes.

A driver that lists none leaves the choice to OpenCV.
"""

import errno
import fcntl
import os
import struct
from typing import Any, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from edgeveil.edge_runtime.errors import Unsupported

FORMATS = ("YUYV", "MJPG")  # the first is not compressed: it costs no decoder, and on USB it is slow when it is large
SIXTEEN_BITS = "Y16 "
MOST_LISTED = 256  # of each list: a driver may be wrong about its end
_CAPTURE, _DISCRETE = 1, 1
_FORMAT, _SIZE, _INTERVAL, _CONTROL = "<III32sI16x", "<III6I8x", "<IIIII6I8x", "<Ii"
_MANUAL, _AUTOMATIC = 1, 3  # exposure
_EXPOSURE_AUTO, _EXPOSURE, _MAINS = 0x009A0901, 0x009A0902, 0x00980918
_MAINS_HZ = {"50": 1, "60": 2, "off": 0, "auto": 3}

Mode = NamedTuple("Mode", [("form", str), ("width", int), ("height", int), ("fps", float)])  # 0 fps: not known
Options = NamedTuple(
    "Options",
    [
        ("mode", Optional[Tuple[int, int]]),  # width, height
        ("form", Optional[str]),
        ("fps", Optional[float]),
        ("controls", List[Tuple[str, int, int]]),  # what it is in the address, number, value
    ],
)


def read_options(values: Mapping[str, str]) -> Options:
    """The options of an address, which were checked, as ``Options``."""
    controls, size = [], None
    if "mode" in values:
        width, _, height = values["mode"].partition("x")
        size = int(width), int(height)
    exposure = values.get("exposure")
    if exposure is not None:
        controls.append(("exposure", _EXPOSURE_AUTO, _AUTOMATIC if exposure == "auto" else _MANUAL))
    if exposure not in (None, "auto"):
        controls.append(("exposure", _EXPOSURE, max(1, round(10 * float(exposure or 0)))))  # in 100 us
    if "mains" in values:
        controls.append(("mains", _MAINS, _MAINS_HZ[values["mains"]]))
    fps = float(values["fps"]) if "fps" in values else None
    return Options(size, values.get("format"), fps, controls)


def modes(handle: int, forms: Sequence[str], wanted: Tuple[int, int]) -> List[Mode]:
    """What the camera at a descriptor offers of ``forms``, each with its highest rate; empty where it lists none.

    Of a range of sizes these are the largest, and the nearest that has the ``wanted`` width and height.
    """
    offered = []
    for entry in _listed(handle, 2, _FORMAT, (_CAPTURE, 0, b"", 0)):
        form = struct.pack("<I", entry[4]).decode("ascii", "replace")
        if form not in forms:
            continue
        for size in _listed(handle, 74, _SIZE, (entry[4], 0, *[0] * 6)):
            pairs = {size[3:5]}
            if size[2] != _DISCRETE:
                sides = [_nearest(*size[at : at + 3], side=side) for at, side in zip((3, 6), wanted)]
                pairs = {(size[4], size[7]), tuple(sides)}
            for width, height in sorted(pairs):
                rates = _listed(handle, 75, _INTERVAL, (entry[4], width, height, 0, *[0] * 6))
                # The first interval of a range is its shortest.
                fps = max((one[6] / float(one[5]) for one in rates if one[5]), default=0.0)
                offered.append(Mode(form, int(width), int(height), fps))
    return offered


def _nearest(low: int, high: int, step: int, *, side: int) -> int:
    """The smallest side of a range that is at least ``side``, else the largest."""
    steps = max(0, -(-(side - low) // max(step, 1)))
    return min(high, low + steps * max(step, 1))


def _listed(handle: int, number: int, layout: str, given: Sequence[Any]) -> Iterator[Tuple[Any, ...]]:
    """The entries of one of the kernel's lists; their first field is their index."""
    for index in range(MOST_LISTED):
        try:
            yield struct.unpack(layout, _ask(handle, number, struct.pack(layout, index, *given)))
        except OSError:  # the end of the list, or no such list
            return


def _ask(handle: int, number: int, data: bytes) -> bytes:
    return fcntl.ioctl(handle, 0xC0000000 | len(data) << 16 | ord("V") << 8 | number, data)


def choose(
    offered: Sequence[Mode], options: Options, wanted: Tuple[int, int], fps: float, larger: bool
) -> Optional[Mode]:
    """The mode to set; None where the camera lists none that fits, and OpenCV is to try.

    ``wanted`` is the width and height that the bundle takes; ``larger``: or the nearest that is larger, else the
    largest. Of the formats it is the first that reaches ``fps``, else the quickest. Raises ``Unsupported`` where the
    address asks for what the camera does not offer.
    """
    fitting = [one for one in offered if options.form in (None, one.form)]
    if options.mode is not None or not larger:
        fitting = [one for one in fitting if (one.width, one.height) == wanted]
    enough = [one for one in fitting if one.width >= wanted[0] and one.height >= wanted[1]]
    fitting = sorted(enough or fitting, key=lambda one: one.form != FORMATS[0])
    pixels = [one.width * one.height for one in fitting]
    fitting = [one for one, size in zip(fitting, pixels) if size == (min if enough else max)(pixels)]
    reached = [one for one in fitting if not one.fps or one.fps >= fps - 0.5]  # some list no rates
    explicit = options.mode is not None or options.form is not None or options.fps is not None
    if offered and explicit and not (reached if options.fps else fitting):
        listed = sorted(offered, key=lambda one: (one.width * one.height, one.form))
        words = ", ".join("{}x{} {} to {:g} fps".format(one.width, one.height, one.form, one.fps) for one in listed)
        raise Unsupported("the camera does not offer what its address asks for: choose of {}".format(words))
    return next(iter(reached), max(fitting, key=lambda one: one.fps, default=None))


def set_controls(handle: int, options: Options, name: str) -> None:
    """Set exposure and mains frequency. Raises ``Unsupported`` for one that the camera ``name`` has not."""
    for word, number, value in options.controls:
        try:
            _ask(handle, 28, struct.pack(_CONTROL, number, value))
        except OSError as error:
            how = "takes no such value" if error.errno == errno.ERANGE else "cannot be set so"
            raise Unsupported(
                "{} {}: {}= ({}). Leave it out, or see v4l2-ctl --list-ctrls".format(
                    name, how, word, (error.strerror or "").lower()
                )
            ) from None


def opened(device: str) -> Optional[int]:
    """A descriptor of a device's file, None where it cannot be opened: OpenCV says why."""
    try:
        return os.open(device, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
