"""``iio:NAME,RATE,buffered``: samples that the kernel took at a trigger, out of the device's buffer.

The driver sets the time of each. The device is given its rate, the channels, the buffer's length, and to begin.
https://docs.kernel.org/iio/iio_devbuf.html
"""

import contextlib
import os
import re
import select
import time
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from edgeveil.edge_runtime.errors import BadInput, Disconnected, Unsupported
from edgeveil.edge_runtime.manifest.manifest import Sampling
from edgeveil.edge_runtime.sources.series import Sample, Samples

# ``iio:NAME,RATE``: a sensor that Linux's Industrial I/O knows (accelerometer, gyroscope, light, distance), polled.
#
# ``NAME`` is what the driver calls it (``cat /sys/bus/iio/devices/*/name``), ``RATE`` the samples a second to read. The
# bundle's channels are IIO's: ``accel_x`` is read from ``in_accel_x_raw``, with its scale and offset, in the units of
# ``Documentation/ABI/testing/sysfs-bus-iio``: m/s^2, rad/s, lux, m; a bundle may ask for g and deg/s as well.


ROOT = "/sys/bus/iio/devices"
MOST_RATE_HZ = 1000.0
# What IIO's units of a kind of channel are, and what a value is to be multiplied with to be of another.
UNITS = {
    "accel": {"m/s^2": 1.0, "g": 1 / 9.80665},
    "anglvel": {"rad/s": 1.0, "deg/s": 57.29577951308232},
    "illuminance": {"lux": 1.0},
    "distance": {"m": 1.0},
    "proximity": {"count": 1.0},
    "magn": {"gauss": 1.0},
}


class IioDevice(Samples):
    """Samples of one device. Raises ``BadInput``, ``Disconnected`` (not there) and ``Unsupported`` (other channels)."""

    schemes = ("iio",)
    forms = ("iio:mpu6050,50",)
    help = (
        "samples of a series from a driver of Linux's Industrial I/O, polled so many times a second; with `,buffered` "
        "those that the kernel took at the device's trigger, with its times (the user must be allowed to write the "
        "device's `buffer` and `scan_elements`); the bundle's channels are IIO's (`accel_x`), in m/s^2 or g, rad/s or "
        "deg/s, lux, m"
    )
    sensor = "motion"  # or what else Industrial I/O has
    gives = "motion"
    listed = "iio"
    devices = ()  # its values are files of /sys that any user may read
    own_unit = r".*,buffered$"  # it writes the device's settings there, which a unit's inside may not

    live = True
    silent = "its driver gives nothing"

    def __init__(
        self,
        where: str,
        sampling: Sampling,
        root: str = ROOT,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        name, rate_hz = rate_of(where)
        self.name = "IIO device " + name
        self._clock, self._sleep, self._every_s = clock, sleep, 1 / rate_hz
        self._next_s = clock()
        self._files: List[int] = []
        folder = find_device(root, name)
        available = sorted(one[3:-4] for one in os.listdir(folder) if one.startswith("in_") and one.endswith("_raw"))
        try:
            scales = [self._channel(folder, available, *one) for one in zip(sampling.channels, sampling.units)]
        except BaseException:
            self.close()
            raise
        self._scale, self._offset = (np.array(side) for side in zip(*scales))

    @classmethod
    def open_samples(cls, where: str, sampling: Sampling) -> Samples:
        """The device, or its buffer where ``where`` says so."""
        return open_iio(where, sampling)

    def read(self) -> Optional[List[Sample]]:
        """One sample, when it is due; it has the time at which reading it began."""
        now = self._clock()
        if self._next_s > now:
            self._sleep(min(self._next_s - now, 0.25))
            if self._next_s > self._clock():
                return []
        now = self._clock()
        # One that is late is not made up for: the time between two says it.
        self._next_s += self._every_s
        if self._next_s <= now:
            self._next_s = now + self._every_s
        try:
            raw = [os.pread(handle, 64, 0) for handle in self._files]
        except OSError:
            raise Disconnected("{} went away".format(self.name)) from None
        try:
            values = np.array([float(text) for text in raw])
        except ValueError:
            return [None]
        if not np.isfinite(values).all():
            return [None]
        return [(now, (values + self._offset) * self._scale)]

    def close(self) -> None:
        """Close its files."""
        files, self._files = self._files, []
        for handle in files:
            os.close(handle)

    def _channel(self, folder: str, there: Sequence[str], channel: str, unit: str) -> Tuple[float, float]:
        """Open a channel; its scale into ``unit``, and its offset in steps."""
        scaling = scale_of(folder, self.name, there, channel, unit)
        self._files.append(os.open(os.path.join(folder, "in_{}_raw".format(channel)), os.O_RDONLY | os.O_CLOEXEC))
        return scaling


def rate_of(where: str) -> Tuple[str, float]:
    """The name of a device and its samples a second in ``NAME,RATE``. Raises ``BadInput``."""
    name, _, rate = where.partition(",")
    match = re.fullmatch(r"[0-9]{1,4}(?:\.[0-9]{1,3})?", rate)
    rate_hz = float(rate) if match else 0.0
    if not name or not 0 < rate_hz <= MOST_RATE_HZ:
        raise BadInput(
            "expected iio:NAME,RATE, such as iio:mpu6050,50, with a RATE of up to {:g} samples a second; got "
            "{!r}".format(MOST_RATE_HZ, "iio:" + where)
        )
    return name, rate_hz


def scale_of(folder: str, device: str, there: Sequence[str], channel: str, unit: str) -> Tuple[float, float]:
    """The scale of a channel into ``unit``, and its offset in steps. Raises ``Unsupported``.

    ``device`` is its name for messages, ``there`` are the channels that it has.
    """
    kind = channel.partition("_")[0]
    factors = UNITS.get(kind, {})
    if channel not in there:
        problem = "{} has no channel {!r}, which this bundle takes; it has {}"
        raise Unsupported(problem.format(device, channel, ", ".join(there) or "none"))
    if unit not in factors:
        problem = "{}: {!r} is given in {}, and this bundle takes it in {!r}: make it for one of these"
        raise Unsupported(problem.format(device, channel, " or ".join(factors) or "units not known here", unit))
    scale, offset = (_shared(folder, channel, kind, what, default) for what, default in (("scale", 1), ("offset", 0)))
    return scale * factors[unit], offset


def find_device(root: str, name: str) -> str:
    """The folder of the device that its driver calls ``name``. Raises ``Disconnected``."""
    names: Dict[str, str] = {}
    for one in sorted(os.listdir(root)) if os.path.isdir(root) else []:
        try:
            with open(os.path.join(root, one, "name")) as file:
                names[file.read().strip()] = os.path.join(root, one)
        except OSError:
            continue  # it went away meanwhile
    if name not in names:
        known = ", ".join(names) or "none"
        raise Disconnected("no IIO device is called {!r}; there is {}".format(name, known))
    return names[name]


def _shared(folder: str, channel: str, kind: str, what: str, default: float) -> float:
    """A number of a channel, or of all of its kind; ``default`` where neither is there."""
    for one in (channel, kind):
        try:
            with open(os.path.join(folder, "in_{}_{}".format(one, what))) as file:
                return float(file.read())
        except FileNotFoundError:
            continue
        except (OSError, ValueError):
            raise Unsupported("the IIO file in_{}_{} holds no number".format(one, what)) from None
    return default


# How the channels of an IIO device lie in its buffer: ``scan_elements/in_*_index`` and ``in_*_type``.
#
# A type is ``[be|le]:[s|u]BITS/STORAGEBITS[>>SHIFT]``. Elements follow each other by their index, each at a multiple of
# its own size, and a scan is a multiple of its largest element.


_TYPE = re.compile(r"(be|le):([su])([0-9]{1,2})/(8|16|32|64)(?:X([0-9]+))?(?:>>([0-9]{1,2}))?")


class Element(NamedTuple):
    """One channel in a scan: its numpy type at ``offset``, and which bits of it count."""

    dtype: str
    offset: int
    signed: bool
    bits: int
    shift: int

    def decode(self, scans: np.ndarray) -> np.ndarray:
        """The whole numbers int64 (n,) of scans uint8 (n, bytes)."""
        size = np.dtype(self.dtype).itemsize
        stored = np.ascontiguousarray(scans[:, self.offset : self.offset + size]).view(self.dtype)[:, 0]
        value = (stored.astype(np.uint64) >> np.uint64(self.shift)).view(np.int64)
        if self.bits == 64:
            return value
        value = value & ((1 << self.bits) - 1)
        return value - ((value >> (self.bits - 1)) << self.bits) if self.signed else value


def layout(types: Mapping[str, Tuple[int, str]]) -> Tuple[Dict[str, Element], int]:
    """The elements of channels {name: (index, type)}, and the bytes of a scan. Raises ``Unsupported``."""
    elements: Dict[str, Element] = {}
    at, largest = 0, 1
    for name, (_, text) in sorted(types.items(), key=lambda item: item[1][0]):
        match = _TYPE.fullmatch(text)
        order, sign, bits, stored, repeat, shift = match.groups() if match else ("", "", "0", "8", None, None)
        size, length, moved = int(stored) // 8, int(bits), int(shift or 0)
        if match is None or repeat not in (None, "1") or not 0 < length <= int(stored) - moved:
            raise Unsupported("the IIO channel {!r} has the type {!r}, which is not known here".format(name, text[:40]))
        at = -(-at // size) * size
        elements[name] = Element((">" if order == "be" else "<") + "u{}".format(size), at, sign == "s", length, moved)
        at, largest = at + size, max(largest, size)
    return elements, -(-at // largest) * largest


DEV = "/dev"
TIMESTAMP = "timestamp"
BUFFERED_S = 2.0  # that fit into the buffer, should this process wait
WAIT_S = 0.25
MOST_SCANS = 256  # that are read at once


class IioBuffer(Samples):
    """Samples of one device's buffer. Raises ``BadInput``, ``Disconnected`` and ``Unsupported``, as ``IioDevice``."""

    live = True
    silent = "its trigger does not fire"

    def __init__(self, where: str, sampling: Sampling, root: str = ROOT, dev: str = DEV) -> None:
        name, rate_hz = rate_of(where.rpartition(",")[0])
        self.name = "IIO buffer of " + name
        self._folder = find_device(root, name)
        self._elements, self._channels = os.path.join(self._folder, "scan_elements"), sampling.channels
        self._handle, self._enable, self._rest = -1, -1, b""
        available = self._there()
        scales = [scale_of(self._folder, self.name, available, *one) for one in zip(sampling.channels, sampling.units)]
        self._scale, self._offset = (np.array(side) for side in zip(*scales))
        if TIMESTAMP not in available:
            raise Unsupported("{} gives no timestamp: read it without ,buffered".format(self.name))
        try:
            self._layout, self._size = self._begin(rate_hz, available)
            self._handle = os.open(
                os.path.join(dev, os.path.basename(self._folder)), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
            )
        except OSError as error:
            self.close()
            problem = (
                "{} cannot be read ({}): is a trigger set in trigger/current_trigger, and may this user write there?"
            )
            raise Unsupported(problem.format(self.name, (error.strerror or "no reason").lower())) from None
        except BaseException:
            self.close()
            raise

    def read(self) -> Optional[List[Sample]]:
        """What the buffer holds, at most ``MOST_SCANS``; each with the time that the kernel took it."""
        if not select.select([self._handle], [], [], WAIT_S)[0]:
            return []
        try:
            data = os.read(self._handle, MOST_SCANS * self._size)
        except BlockingIOError:
            return []
        except OSError:
            data = b""
        if not data:
            raise Disconnected("{} went away".format(self.name))
        data = self._rest + data
        whole = len(data) // self._size * self._size
        self._rest = data[whole:]
        scans = np.frombuffer(data[:whole], np.uint8).reshape(-1, self._size)
        times = self._layout[TIMESTAMP].decode(scans) / 1e9
        raw = np.stack([self._layout[channel].decode(scans) for channel in self._channels], axis=1)
        return list(zip(times.tolist(), (raw + self._offset) * self._scale))

    def close(self) -> None:
        """Stop the capture, and close its files."""
        if self._enable >= 0:
            with contextlib.suppress(OSError):  # it went away
                os.pwrite(self._enable, b"0", 0)
        for handle in (self._handle, self._enable):
            if handle >= 0:
                os.close(handle)
        self._handle = self._enable = -1

    def _there(self) -> List[str]:
        names = os.listdir(self._elements) if os.path.isdir(self._elements) else []
        channels = sorted(one[3:-3] for one in names if one.startswith("in_") and one.endswith("_en"))
        if not channels:
            raise Unsupported("{} has no buffer: read it without ,buffered".format(self.name))
        return channels

    def _begin(self, rate_hz: float, there: List[str]) -> Tuple[Dict[str, Element], int]:
        """Set the device up and start it. Raises ``OSError`` where it cannot be written to."""
        enable = os.path.join(self._folder, "buffer", "enable")
        self._enable = os.open(enable, os.O_RDWR | os.O_CLOEXEC)
        if os.pread(self._enable, 8, 0).strip() == b"1":
            os.close(self._enable)
            self._enable = -1  # another's: it is not ours to stop
            raise Unsupported("another program reads {}: end it first".format(self.name))
        self._set_rate(rate_hz)
        wanted = [*self._channels, TIMESTAMP]
        types: Dict[str, Tuple[int, str]] = {}
        for channel in there:
            place = os.path.join(self._elements, "in_" + channel)
            _write(place + "_en", "1" if channel in wanted else "0")
            if channel in wanted:
                types[channel] = (_whole(place + "_index"), _text(place + "_type"))
        _write(os.path.join(self._folder, "buffer", "length"), str(max(2, int(BUFFERED_S * rate_hz))))
        scan_layout = layout(types)
        os.pwrite(self._enable, b"1", 0)
        return scan_layout

    def _set_rate(self, rate_hz: float) -> None:
        """Tell the device its rate, where it has one of its own; else its trigger's is what comes."""
        path = os.path.join(self._folder, "sampling_frequency")
        if not os.path.exists(path):
            return
        try:
            _write(path, "{:g}".format(rate_hz))
        except OSError:
            able = path + "_available"
            known = _text(able) if os.path.exists(able) else "others"
            problem = "{} does not take {:g} samples a second; it takes {}"
            raise Unsupported(problem.format(self.name, rate_hz, known)) from None


def open_iio(where: str, sampling: Sampling, **options: Any) -> Samples:
    """The reader of ``iio:NAME,RATE`` or ``iio:NAME,RATE,buffered``."""
    last = where.split(",")[2:]
    if last not in ([], ["buffered"]):
        raise BadInput("expected iio:NAME,RATE or iio:NAME,RATE,buffered; got {!r}".format("iio:" + where))
    return IioBuffer(where, sampling, **options) if last else IioDevice(where, sampling, **options)


def _write(path: str, text: str) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(handle, text.encode("ascii"))
    finally:
        os.close(handle)


def _text(path: str) -> str:
    with open(path) as file:
        return file.read().strip()


def _whole(path: str) -> int:
    text = _text(path)
    if not text.isdigit():
        raise Unsupported("the IIO file {} holds no number".format(os.path.basename(path)))
    return int(text)
