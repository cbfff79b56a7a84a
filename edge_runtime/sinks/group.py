"""Several sinks as one: each gets every frame, and a failure of one is told when the others have got theirs."""

import threading
from typing import Any, Callable, Dict, List, Optional, Sequence

from edgeveil.edge_runtime.errors import BadInput, DeviceFailed
from edgeveil.edge_runtime.frames import PerturbedFrame
from edgeveil.edge_runtime.ipc.counters import Counters
from edgeveil.edge_runtime.sinks.base import Sink


class Several(Sink):
    """``live`` where one of them is."""

    def __init__(self, sinks: Sequence[Sink]) -> None:
        self.sinks = list(sinks)
        self.live = any(sink.live for sink in self.sinks)

    def _write(self, frame: Any) -> None:
        self._each(lambda sink: sink.write(frame))

    def announce(self, state: str, tick_ns: Optional[int]) -> None:
        """To each."""
        self._each(lambda sink: sink.announce(state, tick_ns))

    def local(self, counters: Dict[str, int], aim: Dict[str, int], latency_ms: Optional[float] = None) -> None:
        """To each."""
        self._each(lambda sink: sink.local(counters, aim, latency_ms))

    def counts(self) -> Dict[str, int]:
        """Of all of them, each name with the sink's place in front: ``0.put``."""
        return {
            "{}.{}".format(place, name): count
            for place, sink in enumerate(self.sinks)
            for name, count in sink.counts().items()
        }

    def flush(self) -> None:
        """Each."""
        self._each(lambda sink: sink.flush())

    def close(self) -> None:
        """Each, whatever the others do, and all at once: a network may take its time to take what is left."""
        errors: List[BaseException] = []

        def close(sink: Sink) -> None:
            try:
                sink.close()
            except Exception as error:
                errors.append(error)

        threads = [threading.Thread(target=close, args=(sink,)) for sink in self.sinks]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if errors:
            raise errors[0]

    def discard(self) -> None:
        """Each, whatever the others do."""
        self._each(lambda sink: sink.discard())

    def _each(self, call: Callable[[Sink], None]) -> None:
        first: Optional[BaseException] = None
        for sink in self.sinks:
            try:
                call(sink)
            except Exception as error:
                first = first or error
        if first is not None:
            raise first


def open_several(texts: Sequence[str], open_one: Callable[[str], Sink]) -> Sink:
    """Open each, or none: what was opened is forgotten where the next cannot be."""
    if not texts or len(set(texts)) != len(texts):
        raise BadInput("expected one sink or more, all of them different")
    if len(texts) == 1:
        return open_one(texts[0])
    sinks: List[Sink] = []
    try:
        for text in texts:
            sinks.append(open_one(text))
    except BaseException:
        for sink in sinks:
            # What an earlier run left in a spool is still good.
            if sink.live:
                sink.close()
            else:
                sink.discard()
        raise
    return Several(sinks)


Say = Callable[..., None]


class SinkSet(object):
    """Several sinks as one. A sink that fails costs its own frames alone; they are counted and said once."""

    def __init__(self, counters: Counters, say: Say) -> None:
        self._sinks: Dict[str, Any] = {}
        self._counters, self._say = counters, say
        self._failing: Any = set()

    @property
    def opened(self) -> bool:
        """Whether there are any yet."""
        return bool(self._sinks)

    def open(self, sinks: Dict[str, Any]) -> None:
        """From now on these take what is written."""
        self._sinks = sinks

    def write(self, frames: List[PerturbedFrame]) -> None:
        """Hand ``frames`` to every sink. Raises ``PrivacyStop`` where one of them is no perturbed frame."""
        for name, sink in self._sinks.items():
            try:
                for frame in frames:
                    sink.write(frame)
                sink.flush()
            except DeviceFailed as error:
                self._counters.add("sink-dropped", len(frames))
                if name not in self._failing:
                    self._failing.add(name)
                    self._counters.add("fault:sink")
                    self._say("sink", sink=name, message=str(error))
            else:
                if name in self._failing:
                    self._failing.discard(name)
                    self._say("sink-again", sink=name)

    def announce(self, state: str, tick_ns: int) -> None:
        """Tell every sink's consumers that the stream is ``"degraded"`` or ``"running"``."""
        for sink in self._sinks.values():
            sink.announce(state, tick_ns)

    def local(self, counts: Dict[str, int], aim: Dict[str, int], latency_ms: float) -> None:
        """What pages on this device may show."""
        for sink in self._sinks.values():
            sink.local(counts, aim, latency_ms)

    def counts(self) -> Dict[str, Dict[str, int]]:
        """The sinks' own numbers, by sink."""
        return {name: sink.counts() for name, sink in self._sinks.items()}

    def close(self) -> None:
        """Close every sink, whatever the others say; raises the last error."""
        problem = None
        for sink in self._sinks.values():
            try:
                sink.close()
            except DeviceFailed as error:
                problem = error
        if problem is not None:
            raise problem

    def discard(self) -> None:
        """Every sink forgets what it holds."""
        for sink in self._sinks.values():
            try:
                sink.discard()
            except (DeviceFailed, OSError):
                continue
