"""``iio:NAME,RATE``: a sensor that Linux's Industrial I/O knows (accelerometer, gyroscope, light, distance), polled.

``NAME`` is what the driver calls it (``cat /sys/bus/iio/devices/*/name``), ``RATE`` the samples a second to read. The
bundle's channels are IIO's: ``accel_x`` is read from ``in_accel_x_raw``, with its scale and offset, in the units of
``Documentation/ABI/testing/sysfs-bus-iio``: m/s^2, rad/s, lux, m; a bundle may ask for g and deg/s as well.
"""

import os
import re
import time
from typing import Callable, Dict, List, Optional, Sequence, Tuple

import numpy as np

from edgeveil.edge_runtime.errors import BadInput, Disconnected, Unsupported
from edgeveil.edge_runtime.manifest.manifest import Sampling
from edgeveil.edge_runtime.sources.series.source import Sample, Samples

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
        there = sorted(one[3:-4] for one in os.listdir(folder) if one.startswith("in_") and one.endswith("_raw"))
        try:
            found = [self._channel(folder, there, *one) for one in zip(sampling.channels, sampling.units)]
        except BaseException:
            self.close()
            raise
        self._scale, self._offset = (np.array(side) for side in zip(*found))

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
        found = scale_of(folder, self.name, there, channel, unit)
        self._files.append(os.open(os.path.join(folder, "in_{}_raw".format(channel)), os.O_RDONLY | os.O_CLOEXEC))
        return found


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
