"""What every sink is: takes perturbed frames and nothing else, and keeps them, or at a privacy stop forgets them."""

from typing import Dict, Optional

from edgeveil.edge_runtime.errors import PrivacyStop
from edgeveil.edge_runtime.frames import PerturbedFrame


class Sink(object):
    """Somewhere perturbed frames go. A subclass gives ``_write``, ``close`` and ``discard``.

    ``live`` says whether somebody takes part in a stream there; else it is a file that keeps what it is given.
    """

    live = False

    def write(self, frame):
        """Take one ``PerturbedFrame``. Raises ``PrivacyStop`` for anything else, ``DeviceFailed`` when full."""
        if type(frame) is not PerturbedFrame:
            raise PrivacyStop("a sink takes perturbed frames alone; it was given a {}".format(type(frame).__name__))
        self._write(frame)

    def _write(self, frame):
        raise NotImplementedError

    def announce(self, state, tick_ns):
        """Tell whoever listens that the stream is ``"degraded"`` or ``"running"`` since the tick at ``tick_ns``.

        Only at the coarse grain of the schedule. Sinks that nobody listens to have nothing to tell.
        """

    def local(self, counters: Dict[str, int], aim: Dict[str, int], latency_ms: Optional[float] = None) -> None:
        """What a page on this device may show beside the stream; it goes to no other sink.

        ``counters`` are frames dropped inside, by reason; ``aim`` is the record of ``capture.camera_aid``, empty unless
        it was switched on; ``latency_ms`` is how long the last frame took from the source to its release.
        """

    def counts(self) -> Dict[str, int]:
        """Numbers for this device's own metrics: what waits, what was sent, what was dropped here."""
        return {}

    def flush(self):
        """Hand on what was written, where somebody may be waiting for it; called after each block of frames."""

    def close(self):
        """Make what was written last."""
        raise NotImplementedError

    def discard(self):
        """Forget what was written in this run: it may not be what it should."""
        raise NotImplementedError
