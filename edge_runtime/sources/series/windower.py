"""Samples with their times to windows of evenly spaced steps: a ring buffer, linear interpolation, and when to drop.

A window is made only of samples that follow each other without a gap. What breaks that (a gap, a sample that comes
late, a clock that runs back) empties the buffer and counts as one window dropped; so does a window in which the sensor
saturates or is stuck. Nothing is guessed. With ``total`` such a window is a reading as any other.
"""

from typing import List, Optional, Union

import numpy as np

from edgeveil.edge_runtime.manifest.manifest import Input, Sampling, Windows

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
        found: List[Result] = []
        while self._next_s <= time_s + 1e-9:
            share = min((self._next_s - self._time_s) / passed, 1.0)
            self._add(self._values + share * (values - self._values), saturated or self._saturated)
            found += self._ready()
        self._time_s, self._values, self._saturated = time_s, values, saturated
        return found

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
