"""A source of windows: what reads samples below, and what makes windows of them above."""

import collections
import importlib
import time
from typing import Callable, Deque, List, Optional, Tuple

import numpy as np

from edgeveil.edge_runtime.errors import FrameDropped, Stalled
from edgeveil.edge_runtime.frames import RawFrame
from edgeveil.edge_runtime.manifest.manifest import Input, Sampling, Windows
from edgeveil.edge_runtime.sources.base import STALL_S, Source, now_ns
from edgeveil.edge_runtime.sources.series.windower import Result, Windower

UNREADABLE = "unreadable"
# The kinds of sources that give samples of a series, by module and what opens one.
READERS = {
    "csv": ("timed_lines", "TimedLines"),
    "serial": ("serial_port", "SerialPort"),
    "iio": ("iio_buffer", "open_iio"),
}
Sample = Optional[Tuple[float, np.ndarray]]  # its time in seconds and values float64 (channels,); None: not readable


class Samples(object):
    """The base of what reads samples; the constructor opens it. ``live``, ``name`` as of a ``Source``.

    ``silent``: what to say of one that gives nothing readable for ``STALL_S``.
    """

    live = False
    name = "samples"
    silent = "unplug it and plug it in again"

    def read(self) -> Optional[List[Sample]]:
        """What came since the last call, in order, maybe nothing; None at the end. A live one waits for some 0.25 s.

        Raises ``SourceFailed`` where it cannot go on.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Close files and devices."""


class WindowSource(Source):
    """Windows of ``samples``, numbered from 0. Broken samples and windows are drops with a reason of their own."""

    def __init__(
        self,
        samples: Samples,
        spec: Input,
        sampling: Sampling,
        rules: Windows,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._samples, self._windower, self._clock = samples, Windower(spec, sampling, rules), clock
        self.live, self.name = samples.live, samples.name
        self._results: Deque[Result] = collections.deque()
        self._next = 0

    def next(self) -> Optional[RawFrame]:
        """The next window. Raises ``FrameDropped`` with the reason for one that was dropped, ``Stalled`` in silence."""
        since = self._clock()
        self._windower.total = self.total
        while not self._results:
            self.beat()
            samples = self._samples.read()
            if samples is None:
                return None
            for sample in samples:
                self._results += [UNREADABLE] if sample is None else self._windower.push(*sample)
            if any(sample is not None for sample in samples):
                since = self._clock()
            elif self.live and self._clock() - since > STALL_S:
                raise Stalled(
                    "{} gave no readable sample for {:.0f} s: {}".format(self.name, STALL_S, self._samples.silent)
                )
        result = self._results.popleft()
        if isinstance(result, str):
            raise FrameDropped(result)
        number, self._next = self._next, self._next + 1
        return RawFrame(np.ascontiguousarray(result), number, now_ns())

    def close(self) -> None:
        """Close what reads samples."""
        self._samples.close()


def open_samples(kind: str, where: str, spec: Input, rules: Windows) -> WindowSource:
    """The source of windows for ``csv:``, ``serial:`` and ``iio:``. Raises as ``sources.open_source``."""
    sampling = spec.series
    assert sampling is not None  # noqa: S101 - the manifest's check holds it
    module, name = READERS[kind]
    reader = getattr(importlib.import_module("edgeveil.edge_runtime.sources.series." + module), name)
    return WindowSource(reader(where, sampling), spec, sampling, rules)
