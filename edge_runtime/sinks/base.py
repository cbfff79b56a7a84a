"""The base of all sinks: they take perturbed frames only, and keep them, or discard them at a privacy stop."""

import contextlib
from typing import Any, Dict, NamedTuple, Optional, Sequence

from edgeveil.edge_runtime.errors import PrivacyStop
from edgeveil.edge_runtime.frames import PerturbedFrame
from edgeveil.edge_runtime.sinks.count_report import CountReport
from edgeveil.edge_runtime.sinks.uri import Known


class Delivery(NamedTuple):
    """What became of the records that a sink was given; ``waiting`` ones are on the disk, for the next run."""

    delivered: int
    waiting: int
    lost: int


class Sink(object):
    """A destination of perturbed frames. A subclass gives ``_write``, ``close`` and ``discard``.

    ``live`` is true where a consumer follows a stream, false for files.

    A kind of sink is a class with ``schemes``, its words before the colon. Its facts are literals of its body:
    ``forms`` and ``help`` (a row of docs/reference/sinks.md), ``file``, or ``network`` where an address follows the
    colon; of a file ``part``, the ending of a part where it can rotate, ``twice`` where closing one needs its size
    again, and ``named`` where it takes the ``manifest``, which names classes; ``secret_path`` where a path may be a
    secret, ``hides`` the option that is one; ``needs``, the libraries that it needs (keys of
    ``late_imports.LIBRARIES``, or a test as there); ``starttls`` where TLS begins after a first line; ``reads`` and
    ``writes``, the options that name files that are read, and folders that are written; ``device`` where it opens one.
    For ``traffic``: the form that it ``sends`` where no ``as=`` names one, ``label_topics``, ``one_slot``, and
    ``keeps_s``, seconds after which a record is of no use. ``options`` are those of a file's name, with their readers.
    """

    live = False
    options: Known = {}  # noqa: RUF012 - never written to

    def write(self, frame: Any) -> None:
        """Take one ``PerturbedFrame``. Raises ``PrivacyStop`` for anything else, ``DeviceFailed`` when full."""
        if type(frame) is not PerturbedFrame:
            raise PrivacyStop("a sink takes perturbed frames only; it was given a {}".format(type(frame).__name__))
        self._write(frame)

    def write_set(self, frames: Sequence[PerturbedFrame]) -> None:
        """Take frames that belong together, and flush them."""
        for frame in frames:
            self.write(frame)
        self.flush()

    def _write(self, frame: PerturbedFrame) -> None:
        raise NotImplementedError

    def write_count(self, report: Any) -> None:
        """Take the ``CountReport`` of one period; raises as ``write``. What follows no counts ignores them."""
        if type(report) is not CountReport:
            raise PrivacyStop("a sink takes the counts of a period only; it was given a " + type(report).__name__)
        self._write_count(report)

    def _write_count(self, report: CountReport) -> None:
        pass

    def announce(self, state: str, tick_ns: Optional[int]) -> None:
        """Tell consumers that the stream is ``"degraded"``, ``"spent"`` or ``"running"`` since the tick at ``tick_ns``,
        or ``"aiming"``: a person is shown edges of the raw picture.

        Called on the schedule's coarse grid, and as an aim begins and ends. Files ignore it.
        """

    def shift(self, document: Dict[str, Any]) -> None:
        """Tell consumers how far the codes are from those of the audit: ``ShiftWatch.document``, about each minute."""

    def releases(self, running: str, offered: str) -> None:
        """Tell consumers which release runs, and which the board's update index offers: each a manifest's hash."""

    def local(self, counters: Dict[str, int], levels: Dict[str, int], latency_ms: Optional[float] = None) -> None:
        """Numbers that a page on this device may show next to the stream; no other sink gets them.

        ``counters`` are frames dropped inside, by reason; ``levels`` are those of ``pipeline.camera_aid``, empty unless
        it is on; ``latency_ms`` is the time from the source to the release of the last frame.
        """

    def counts(self) -> Dict[str, int]:
        """Numbers for this device's own metrics: what waits, what was sent, what was dropped here."""
        return {}

    def problem(self) -> str:
        """Why its records do not arrive at a receiver and what to do, in one sentence; empty where they do."""
        return ""

    def dropped(self) -> Dict[str, int]:
        """How many records it took and then dropped so far, by the reason in words."""
        return {}

    def delivery(self) -> Optional[Delivery]:
        """What became of the records, once closed; None where all that ``write`` took is there."""
        return None

    def flush(self) -> None:
        """Pass on the frames so far; called after each block of frames."""

    def close(self) -> None:
        """Finish the output, so that it lasts."""
        raise NotImplementedError

    def discard(self) -> None:
        """Delete the output of this run: it may reveal too much."""
        raise NotImplementedError


class _Discarded(Exception):
    pass


def abandon(files: contextlib.ExitStack) -> None:
    """Leave the contexts of ``files`` as after an error, so that ``atomic_path`` removes its temporary file."""
    with contextlib.suppress(_Discarded, OSError), files:
        raise _Discarded()
