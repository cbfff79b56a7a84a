"""``iio:NAME,RATE,buffered``: samples that the kernel took at a trigger, out of the device's buffer.

The driver sets the time of each. What the device is told: its rate, the channels, the buffer's length, and to begin.
https://docs.kernel.org/iio/iio_devbuf.html
"""

import os
import select
from typing import Any, Dict, List, Optional, Tuple

import numpy as np

from edgeveil.edge_runtime.errors import BadInput, Disconnected, Unsupported
from edgeveil.edge_runtime.manifest.manifest import Sampling
from edgeveil.edge_runtime.sources.series.iio import ROOT, IioDevice, find_device, rate_of, scale_of
from edgeveil.edge_runtime.sources.series.scan_layout import Element, layout
from edgeveil.edge_runtime.sources.series.source import Sample, Samples

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
        there = self._there()
        scales = [scale_of(self._folder, self.name, there, *one) for one in zip(sampling.channels, sampling.units)]
        self._scale, self._offset = (np.array(side) for side in zip(*scales))
        if TIMESTAMP not in there:
            raise Unsupported("{} gives no timestamp: read it without ,buffered".format(self.name))
        try:
            self._layout, self._size = self._begin(rate_hz, there)
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
            try:
                os.pwrite(self._enable, b"0", 0)
            except OSError:
                pass  # it went away
        for handle in (self._handle, self._enable):
            if handle >= 0:
                os.close(handle)
        self._handle = self._enable = -1

    def _there(self) -> List[str]:
        names = os.listdir(self._elements) if os.path.isdir(self._elements) else []
        found = sorted(one[3:-3] for one in names if one.startswith("in_") and one.endswith("_en"))
        if not found:
            raise Unsupported("{} has no buffer: read it without ,buffered".format(self.name))
        return found

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
        found = layout(types)
        os.pwrite(self._enable, b"1", 0)
        return found

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
