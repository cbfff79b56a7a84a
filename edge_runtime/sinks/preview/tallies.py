"""What an operator taps on site, as tallies: how often which y was really there for each y-hat, and counts by period.

Taps stay in memory, so that the last can be taken back. What can be read from here are sums alone: by minute for y, by
period for counts, and how often each code left.
"""

import threading
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

from edgeveil.edge_runtime.acceptance.histogram import BLOCK_S, Histogram
from edgeveil.edge_runtime.acceptance.shift import Reference
from edgeveil.edge_runtime.manifest.manifest import Manifest
from edgeveil.edge_runtime.sinks.count_report import COUNTED, CountReport

KIND, SCHEMA = "edgeveil-acceptance", 1


class _Class(NamedTuple):
    """A tap of the y that is there, with the y-hat that was out."""

    minute: int
    y: int
    y_hat: int


class _Passage(NamedTuple):
    """A tap of somebody who crossed a line."""

    period: int
    line: str
    way: str


class Tallies(object):
    """Taps of one acceptance that ends ``length_s`` after it began, beside what left meanwhile.

    ``clock`` is the one that periods are counted by. Frames and reports come from one thread, taps from others.
    """

    def __init__(
        self,
        manifest: Manifest,
        reference: Optional[Reference],
        *,
        length_s: float,
        clock: Callable[[], float],
        manifest_sha256: str = "",
    ) -> None:
        self._manifest, self._reference, self._clock, self._sha256 = manifest, reference, clock, manifest_sha256
        self._began_s, self._length_s = clock(), length_s
        self._lock = threading.Lock()
        self._histogram = None if reference is None else Histogram(reference, clock=clock)
        labels = [output.name for output in manifest.outputs if output.kind == "label"]
        slots = 1 if manifest.capture is None else manifest.capture.slots
        self._label = labels[0] if labels and slots == 1 else None
        self._newest: Optional[Any] = None
        self._taps: List[Any] = []
        self._reports: Dict[int, CountReport] = {}

    @property
    def classes(self) -> Sequence[str]:
        """The names of y that may be tapped; none where no y leaves, or several people's do."""
        return () if self._label is None else self._manifest.perturber.target_classes

    @property
    def lines(self) -> Sequence[str]:
        """The names of the lines whose crossings may be tapped."""
        return () if self._manifest.counts is None else [line.name for line in self._manifest.counts.lines]

    @property
    def left_s(self) -> float:
        """Seconds until it is over."""
        return max(0.0, self._began_s + self._length_s - self._clock())

    @property
    def taps(self) -> int:
        """How many there are."""
        return len(self._taps)

    def write(self, frame: Any) -> None:
        """See a frame that left."""
        with self._lock:
            if self.left_s:
                self._newest = frame
                if self._histogram is not None:
                    self._histogram.add([frame])

    def write_count(self, report: CountReport) -> None:
        """See the counts of a period that left."""
        with self._lock:
            if self.left_s:
                self._reports[report.period] = report

    def tap_class(self, y: int) -> bool:
        """The y that is there now; False where nothing was out to compare it with, or it is over."""
        with self._lock:
            if not (self.left_s and self._label and 0 <= y < len(self.classes) and self._newest is not None):
                return False
            y_hat, now = int(self._newest.outputs[self._label]), self._clock()
            self._newest = None  # one tap for each release
            self._taps.append(_Class(int((now - self._began_s) // BLOCK_S), y, y_hat))
            return True

    def tap_passage(self, line: str, way: str) -> bool:
        """Somebody crossed a line, ``way`` in or out; False where there is none, or it is over."""
        rules = self._manifest.counts
        with self._lock:
            if not self.left_s or rules is None or line not in self.lines or way not in ("in", "out"):
                return False
            self._taps.append(_Passage(int(self._clock() // rules.period_s), line, way))
            return True

    def undo(self) -> bool:
        """Take the last tap back; False where there is none."""
        with self._lock:
            if not self.left_s or not self._taps:
                return False
            self._taps.pop()
            return True

    def document(self) -> Dict[str, Any]:
        """The tallies so far. docs/how-to/accept-a-site.md describes them."""
        with self._lock:
            histogram = None
            if self._histogram is not None and self._reference is not None:
                histogram = {
                    "output": self._reference.output,
                    "counts": self._histogram.counts(),
                    "effective": round(self._histogram.effective(), 3),
                }
            return {
                "kind": KIND,
                "schema": SCHEMA,
                "bundle": self._manifest.name,
                "manifest_sha256": self._sha256,
                "minutes": round(self._length_s / 60, 3),
                "seconds": round(self._length_s - self.left_s),
                "taps": len(self._taps),
                "y": self._of_classes(),
                "counts": self._of_periods(),
                "histogram": histogram,
            }

    def _of_classes(self) -> List[Dict[str, Any]]:
        """By minute and pair of y and y-hat, how many taps."""
        found: Dict[_Class, int] = {}
        for tap in self._taps:
            if isinstance(tap, _Class):
                found[tap] = found.get(tap, 0) + 1
        return [dict(tap._asdict(), taps=count) for tap, count in sorted(found.items())]

    def _of_periods(self) -> List[Dict[str, Any]]:
        """By period that was tapped and counted as a whole, and line: [in, out] of both."""
        rules = self._manifest.counts
        if rules is None:
            return []
        tapped: Dict[Tuple[int, str, str], int] = {}
        for tap in self._taps:
            if isinstance(tap, _Passage):
                tapped[tap] = tapped.get(tap, 0) + 1
        first = int(self._began_s // rules.period_s)  # began in its middle
        whole = {p: one for p, one in self._reports.items() if p > first and one.state == COUNTED and one.values}
        found = []
        for period in sorted(whole):
            given = dict(zip(rules.names, whole[period].values or ()))
            for line in self.lines:
                both = {
                    "tapped": [tapped.get((period, line, way), 0) for way in ("in", "out")],
                    "counted": [given["line", line, way] for way in ("in", "out")],
                }
                found.append(dict(both, period=period - min(whole), line=line))
        return found
