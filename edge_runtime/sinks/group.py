"""Several sinks as one: each gets every frame, even when others fail."""

import threading
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Set

from edgeveil.edge_runtime.errors import DeviceFailed
from edgeveil.edge_runtime.frames import PerturbedFrame
from edgeveil.edge_runtime.sinks.base import Delivery, Sink
from edgeveil.edge_runtime.sinks.count_report import CountReport

# Called with a sink's name, its error (None: it works again), how many frames it lost, and whether it worked before.
OnFailure = Callable[[str, Optional[DeviceFailed], int, bool], None]


class SinkGroup(Sink):
    """Sinks by name. ``live`` where one of them is.

    With ``on_failure``, a sink's failure or recovery is reported to it and the others continue; without it, the first
    error is raised after all sinks got their frames. ``PrivacyStop`` is always raised at once.
    """

    def __init__(self, sinks: Mapping[str, Sink], on_failure: Optional[OnFailure] = None) -> None:
        self.sinks = dict(sinks)
        self._on_failure = on_failure
        self._failing: Set[str] = set()
        self._taken: Dict[str, int] = {}
        self._lost: Dict[str, int] = {}

    @property
    def live(self) -> bool:  # type: ignore[override]  # of sinks that may be opened later
        """Whether one of them is."""
        return any(sink.live for sink in self.sinks.values())

    def _write(self, frame: PerturbedFrame) -> None:
        self._each(lambda sink: sink.write(frame), 1)

    def write_set(self, frames: Sequence[PerturbedFrame]) -> None:
        """Write the frames of one tick and flush them."""

        def write(sink: Sink) -> None:
            for frame in frames:
                sink.write(frame)
            sink.flush()

        self._each(write, len(frames))

    def _write_count(self, report: CountReport) -> None:
        self._each(lambda sink: sink.write_count(report), 0)

    def announce(self, state: str, tick_ns: Optional[int]) -> None:
        """See ``Sink``."""
        for sink in self.sinks.values():
            sink.announce(state, tick_ns)

    def shift(self, document: Dict[str, Any]) -> None:
        """See ``Sink``."""
        for sink in self.sinks.values():
            sink.shift(document)

    def local(self, counters: Dict[str, int], levels: Dict[str, int], latency_ms: Optional[float] = None) -> None:
        """See ``Sink``."""
        for sink in self.sinks.values():
            sink.local(counters, levels, latency_ms)

    def counts_by_sink(self) -> Dict[str, Dict[str, int]]:
        """The counts of each sink, by the sink's name."""
        return {name: sink.counts() for name, sink in self.sinks.items()}

    def deliveries(self) -> Dict[str, Delivery]:
        """What became of the records of each sink, by the sink's name."""
        return {
            name: sink.delivery() or Delivery(self._taken.get(name, 0), 0, self._lost.get(name, 0))
            for name, sink in self.sinks.items()
        }

    def flush(self) -> None:
        """See ``Sink``."""
        self._each(lambda sink: sink.flush(), 0)

    def close(self) -> None:
        """Close all at the same time: network sinks may take a while to drain. Raises the first error."""
        errors: List[BaseException] = []

        def close(sink: Sink) -> None:
            try:
                sink.close()
            except Exception as error:
                errors.append(error)

        threads = [threading.Thread(target=close, args=(sink,), daemon=True) for sink in self.sinks.values()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if errors:
            raise errors[0]

    def discard(self) -> None:
        """Discard in each, even when others fail. Raises the first error."""
        first: Optional[Exception] = None
        for sink in self.sinks.values():
            try:
                sink.discard()
            except Exception as error:
                first = first or error
        if first is not None:
            raise first

    def _each(self, call: Callable[[Sink], None], frames: int) -> None:
        first: Optional[DeviceFailed] = None
        for name, sink in self.sinks.items():
            try:
                call(sink)
            except DeviceFailed as error:
                first = first or error
                self._lost[name] = self._lost.get(name, 0) + frames
                if self._on_failure is not None:
                    self._on_failure(name, error, frames, name not in self._failing)
                self._failing.add(name)
            else:
                self._taken[name] = self._taken.get(name, 0) + frames
                if name in self._failing and self._on_failure is not None:
                    self._on_failure(name, None, 0, False)
                self._failing.discard(name)
        if first is not None and self._on_failure is None:
            raise first
