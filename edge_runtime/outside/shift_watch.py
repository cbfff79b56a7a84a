"""Compares the codes of a live stream with those of its audit, minute by minute, and does what the owner's policy says.

The figure is of what leaves alone, so it tells nothing more. A perturber that was audited on one sensor says nothing of
another: where its codes shift, its privacy figures do not speak of this stream any more.
"""

import os
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from edgeveil.edge_runtime.bundle.archive import index_seen
from edgeveil.edge_runtime.bundle.audit_document import read_audit
from edgeveil.edge_runtime.bundle.policy import STOP, OnShift
from edgeveil.edge_runtime.bundle.reader import Bundle
from edgeveil.edge_runtime.bundle.trust_store import open_trust
from edgeveil.edge_runtime.errors import BundleRefused, EdgeVeilError, PrivacyStop
from edgeveil.edge_runtime.frames import PerturbedFrame
from edgeveil.edge_runtime.shift.distance import BLOCK_S, MOST_SHIFT, SHIFTED, Histogram, Shift, reference_of, shift_of

MINUTES = 60  # with a release, that are looked at together
ERROR = 1e-6  # of one look: one false alarm in two years of looks each minute


class ShiftWatch(object):
    """``guard`` sees every set before it leaves. ``last`` is the latest ``Shift``, None before the first whole minute.

    ``shifted`` is called with each. Where the bundle's audit counted no codes, nothing is watched. ``say`` logs.
    """

    def __init__(
        self,
        bundle: Bundle,
        demand: Optional[OnShift],
        *,
        clock: Callable[[], float],
        say: Callable[..., None],
        looked: Callable[[Dict[str, Any]], None] = lambda _document: None,
    ) -> None:
        manifest = bundle.manifest
        self._reference = reference_of(read_audit(manifest, bundle.members), manifest.crops)
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
        found = {"state": "unknown", "most": self._most} if self.last is None else self.last.document()
        return dict(found, label_only=self.label_only)

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


def open_shift_watch(
    bundle: Bundle,
    trust: str,
    *,
    clock: Callable[[], float],
    say: Callable[..., None],
    looked: Callable[[Dict[str, Any]], None],
) -> ShiftWatch:
    """What compares the stream with the audit of ``bundle``, as the policy in the folder ``trust`` demands."""
    policy = open_trust(trust).policy
    return ShiftWatch(bundle, None if policy is None else policy.on_shift, clock=clock, say=say, looked=looked)


# Reads a running service's trust again, so that a key that was revoked meanwhile ends it.


EVERY_S, DAY_S = 60.0, 86400


class TrustWatch(object):
    """Holds the verified ``bundle`` that runs against the trust in ``folder``; assign another after a reload.

    ``say(event, **facts)`` logs. ``clock`` gives seconds. ``problem`` is why the trust cannot be read today; empty
    where it can. Without it nothing new is accepted, and what runs goes on: a fault alone must not end a service.
    ``index`` is what the board last saw of its update index (``bundle.index_seen``), None where nothing is known.
    """

    def __init__(self, folder: str, bundle: Bundle, say: Callable[..., None], clock: Callable[[], float]) -> None:
        self.folder, self.bundle, self.problem = folder, bundle, ""
        self._say, self._clock = say, clock
        self.index: Optional[Dict[str, Any]] = None
        self._stale_days: Optional[int] = None
        self._seen: Optional[Tuple[Tuple[str, int, int, int], ...]] = None
        self._due_s = clock() + EVERY_S

    def check(self, *, now: bool = False) -> None:
        """Read the trust where it changed, at most once a minute, or at once for ``now``.

        Raises ``PrivacyStop`` where it does not take the running bundle any more: its key was revoked or removed, or
        the least security version or the audience is another; and where it wants a newer index than there is. The
        policy is held at the next start.
        """
        if not now and self._clock() < self._due_s:
            return
        self._due_s = self._clock() + EVERY_S
        seen = self._look()
        try:
            if seen != self._seen or now or self.problem:
                self._seen = seen
                self._hold()
            self.index = index_seen(os.path.dirname(os.path.abspath(self.folder)))
        except PrivacyStop:
            raise
        except EdgeVeilError as error:
            if not self.problem:
                self._say("trust-unreadable", message="{} What runs goes on; nothing new is accepted.".format(error))
            self.problem = str(error)
            return
        self.problem = ""
        self._hold_fresh()

    def gauges(self) -> Dict[str, float]:
        """For /metrics: whether the trust can be read, the age of the update index, and the one that ends the service.

        The ages are in seconds, and left out where nothing is known of the first, or no second one was set.
        """
        found = {"trust-readable": float(not self.problem)}
        if self.index is not None:
            found["index-age-seconds"] = float(self.index["age_s"])
        if self._stale_days is not None:
            found["index-stale-seconds"] = float(self._stale_days * DAY_S)
        return found

    def _hold(self) -> None:
        trust = open_trust(self.folder)
        self._stale_days = trust.index_stale_days
        try:
            trust.check_claims(self.bundle.manifest, trust.key_of(self.bundle.key))
        except BundleRefused as error:
            raise PrivacyStop(
                "This device's trust does not take the running bundle any more: {}".format(error)
            ) from None

    def _hold_fresh(self) -> None:
        """Its age is counted from the first flash on, and by the time that the board is up (``bundle.index_seen``)."""
        if self._stale_days is None or self.index is None or self.index["age_s"] <= self._stale_days * DAY_S:
            return
        what = "The update index of this board is of version {}".format(self.index["version"])
        raise PrivacyStop(
            "{} for {:.0f} days, and its trust file allows {}. It may be kept from newer ones. Run edgeveil-edge "
            "update, or ask the owner for a newer index.".format(
                what if self.index["name"] else "No update index came to this board",
                self.index["age_s"] / DAY_S,
                self._stale_days,
            )
        )

    def _look(self) -> Tuple[Tuple[str, int, int, int], ...]:
        """What tells a changed folder without reading it: verifying costs a small board tens of milliseconds."""
        found = []
        try:
            for entry in sorted(os.listdir(self.folder)):
                facts = os.stat(os.path.join(self.folder, entry))
                found.append((entry, facts.st_ino, facts.st_mtime_ns, facts.st_size))
        except OSError:
            return ()
        return tuple(found)
