"""A source of windows: what reads samples below, and what makes windows of them above."""

import collections
import time
from typing import Any, Callable, Deque, Dict, List, Optional, Tuple, Union

import numpy as np

from edgeveil.edge_runtime.errors import FrameDropped, Stalled
from edgeveil.edge_runtime.frames import RawFrame
from edgeveil.edge_runtime.kinds import SOURCES
from edgeveil.edge_runtime.manifest.manifest import Input, Sampling, Windows
from edgeveil.edge_runtime.sources.base import STALL_S, Source, now_ns
from edgeveil.edge_runtime.sources.text import LinesSource

# Samples with their times to windows of evenly spaced steps: a ring buffer, linear interpolation, and when to drop.
#
# A window is made only of samples that follow each other without a gap. What breaks that (a gap, a sample that comes
# late, a clock that runs back) empties the buffer and counts as one window dropped; so does a window in which the
# sensor saturates or is stuck. Nothing is guessed. With ``total`` such a window is a reading as any other.


GAP, LATE, BACK, SATURATED, STUCK = "gap", "late-sample", "time-back", "saturated", "stuck"
Result = Union[np.ndarray, str]  # a window, or the reason why one was dropped


class Windower(object):
    """Windows float32 (steps, channels) of the manifest's input, one every ``rules.hop`` steps.

    The first step is at the first sample's time; a sensor of another rate is resampled, without a filter.
    """

    def __init__(self, spec: Input, sampling: Sampling, rules: Windows) -> None:
        self.total = False
        self._length, channels = spec.shape
        self._step_s, self._hop, self._longest_gap_s = 1.0 / sampling.rate_hz, rules.hop, rules.longest_gap_s
        ends = rules.full_scale
        self._full_scale = None if ends is None else np.array(ends, np.float64)
        self._ring = np.empty((self._length, channels), np.float32)
        self._clipped = np.zeros(self._length, bool)  # which steps were made of a saturated sample
        self._time_s: Optional[float] = None  # of the last sample; None: there was none
        self._values, self._saturated = np.zeros(channels), False  # and what it was
        self._steps = 0  # since the buffer was last emptied
        self._first_s = self._next_s = 0.0  # when the first of them was, and when the next one is

    def push(self, time_s: float, values: np.ndarray) -> List[Result]:
        """Take one sample: its time in seconds, by any clock that runs evenly, and its values (channels,)."""
        saturated = self._full_scale is not None and bool((np.abs(values) >= self._full_scale).any())
        if self._time_s is None:
            self._begin(time_s, values, saturated)
            return self._ready()
        passed = time_s - self._time_s
        if passed <= 0 and passed > -self._longest_gap_s:
            # Where it belongs is past; what comes next may follow on what was there before.
            self._restart()
            return [LATE]
        if passed <= 0 or passed > self._longest_gap_s:
            self._restart()
            self._begin(time_s, values, saturated)
            return [GAP if passed > 0 else BACK]
        ready: List[Result] = []
        while self._next_s <= time_s + 1e-9:
            share = min((self._next_s - self._time_s) / passed, 1.0)
            self._add(self._values + share * (values - self._values), saturated or self._saturated)
            ready += self._ready()
        self._time_s, self._values, self._saturated = time_s, values, saturated
        return ready

    def _restart(self) -> None:
        self._time_s, self._steps = None, 0

    def _begin(self, time_s: float, values: np.ndarray, saturated: bool) -> None:
        self._time_s, self._values, self._saturated = time_s, values, saturated
        self._first_s = self._next_s = time_s
        self._add(values, saturated)

    def _add(self, values: np.ndarray, saturated: bool) -> None:
        place = self._steps % self._length
        self._ring[place], self._clipped[place] = values, saturated
        self._steps += 1
        # Counted from the first, so that no rounding adds up.
        self._next_s = self._first_s + self._steps * self._step_s

    def _ready(self) -> List[Result]:
        """The window that the last step completed, if it did."""
        if self._steps < self._length or (self._steps - self._length) % self._hop:
            return []
        if self._clipped.any() and not self.total:
            return [SATURATED]
        window = np.roll(self._ring, -(self._steps % self._length), axis=0)
        return [STUCK if not self.total and bool((window == window[0]).all()) else window]


UNREADABLE = "unreadable"
Sample = Optional[Tuple[float, np.ndarray]]  # its time in seconds and values float64 (channels,); None: not readable


class Samples(object):
    """The base of what reads samples; the constructor opens it. ``live``, ``name`` as of a ``Source``.

    ``silent``: what to say of one that gives nothing readable for ``STALL_S``.
    """

    samples = True
    series_only = True
    live = False
    name = "samples"
    silent = "unplug it and plug it in again"

    @classmethod
    def open_samples(cls, where: str, sampling: Sampling) -> "Samples":
        """The reader of the samples of a source. Raises as the constructor."""
        make: Any = cls
        opened: Samples = make(where, sampling)
        return opened

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
    """The source of windows of a kind that gives samples. Raises as ``sources.open_source``."""
    sampling = spec.series
    assert sampling is not None  # noqa: S101 - the manifest's check holds it
    return WindowSource(SOURCES[kind].load().open_samples(where, sampling), spec, sampling, rules)


# ``csv:FILE`` or ``csv:-`` for a series: a sample a line, its time in seconds first, then its channels.


class TimedLines(Samples):
    """Lines of a file or of standard input; a first line of names is skipped. Raises ``BadInput`` as ``csv:`` does."""

    def __init__(self, path: str, sampling: Sampling) -> None:
        self.name = "csv"
        columns = 1 + len(sampling.channels)
        names: List[Optional[str]] = [None, *sampling.channels]
        self._lines = LinesSource(path, {"kind": "vector", "shape": [columns], "dtype": "float64", "features": names})

    def read(self) -> Optional[List[Sample]]:
        """The samples of the lines that came, with a None for each line that is none."""
        frames = self._lines.next_block()
        by_line: Dict[int, Sample] = {number: None for number, _ in self._lines.refused()}
        if frames is None:
            return list(by_line.values()) or None
        by_line.update((frame.index, _sample(frame._data)) for frame in frames)
        return [sample for _, sample in sorted(by_line.items(), key=lambda item: item[0])]

    def close(self) -> None:
        """Close the file."""
        self._lines.close()


def _sample(row: np.ndarray) -> Sample:
    return float(row[0]), row[1:]
