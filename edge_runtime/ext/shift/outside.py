"""Compares the codes of a live stream with those of its audit, minute by minute, and does what the owner's policy says.

The figure is of what is sent alone, so it adds nothing. A perturber that was audited on one sensor says nothing of
another: where its codes shift, its privacy figures do not speak of this stream any more.
"""

from typing import Any, Callable, Dict, List, Optional, Sequence

from edgeveil.edge_runtime.bundle.opened import Opened
from edgeveil.edge_runtime.bundle.policy import STOP
from edgeveil.edge_runtime.errors import PrivacyStop
from edgeveil.edge_runtime.ext.shift.distance import (
    BLOCK_S,
    MOST_SHIFT,
    SHIFTED,
    Histogram,
    Shift,
    reference_of,
    shift_of,
)
from edgeveil.edge_runtime.frames import PerturbedFrame

MINUTES = 60  # with a release, that are looked at together
ERROR = 1e-6  # of one look: one false alarm in two years of looks each minute


class ShiftWatch(object):
    """``guard`` sees every set before it leaves. ``last`` is the latest ``Shift``, None before the first whole minute.

    ``shifted`` is called with each. Where the bundle's audit counted no codes, nothing is watched. ``say`` logs.
    """

    def __init__(
        self,
        opened: Opened,
        *,
        clock: Callable[[], float],
        say: Callable[..., None],
        looked: Callable[[Dict[str, Any]], None] = lambda _document: None,
    ) -> None:
        manifest, policy = opened.bundle.manifest, opened.policy
        self._reference = reference_of(opened.audit, manifest.crops)
        demand = None if policy is None else policy.on_shift
        self._demand, self._clock, self._say, self._looked = demand, clock, say, looked
        self._most = MOST_SHIFT if demand is None else demand.most_shift
        self._labels = [output.name for output in manifest.outputs if output.kind == "label"]
        self._histogram = (
            None if self._reference is None else Histogram(self._reference, clock=clock, most_blocks=MINUTES)
        )
        self._minute = int(clock() // BLOCK_S)
        self.last: Optional[Shift] = None
        self.label_only = False

    def guard(self, frames: List[PerturbedFrame], flat: Sequence[PerturbedFrame]) -> List[PerturbedFrame]:
        """The set that may leave in place of ``frames``, which are new; ``flat`` is the set of an empty scene.

        Raises ``PrivacyStop`` where the policy says so.
        """
        if self._histogram is None:
            return frames
        if not self.label_only:  # no figure is of codes that stay here
            self._histogram.add(frames)
            minute = int(self._clock() // BLOCK_S)
            if minute != self._minute:
                self._minute = minute
                self._look(self._histogram)
        if not self.label_only:
            return frames
        return [frame.labels_of(self._labels, rest) for frame, rest in zip(frames, flat)]

    def document(self) -> Dict[str, Any]:
        """For pages and sinks."""
        if self._reference is None:
            return {"state": "not watched", "label_only": False}
        state = {"state": "unknown", "most": self._most} if self.last is None else self.last.document()
        return dict(state, label_only=self.label_only)

    def gauges(self) -> Dict[str, float]:
        """For /metrics."""
        values = {"label-only": float(self.label_only)}
        if self.last is not None:
            values.update({"shift": self.last.distance, "shift-low": self.last.low})
            values["shifted"] = float(self.last.state == SHIFTED)
        return values

    def _look(self, histogram: Histogram) -> None:
        before, reference = self.last, self._reference
        if reference is None:
            return
        counts, effective = histogram.counts(), histogram.effective()
        self.last = shift_of(reference, counts, effective, most=self._most, error=ERROR)
        if self.last.state == SHIFTED:
            self._act(before is None or before.state != SHIFTED)
        elif before is not None and before.state == SHIFTED:
            self._say("shift", message="the codes are as audited again", **self.last.document())
        self._looked(self.document())

    def _act(self, new: bool) -> None:
        shift = self.last
        if shift is None or not new:
            return
        text = "the codes of the last hour are not those of the audit: a shift of {:.2f} ({:.2f} to {:.2f})".format(
            shift.distance, shift.low, shift.high
        )
        if self._demand is not None and self._demand.do == STOP:
            raise PrivacyStop(text + "; the policy says to stop. Look at the sensor and its place.")
        self.label_only = self.label_only or self._demand is not None
        more = "; from here on y alone leaves, until a restart" if self.label_only else ""
        self._say("shift", message=text + more, **shift.document())
