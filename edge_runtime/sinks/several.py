"""Several sinks as one: each gets every frame, and a failure of one is told when the others have got theirs."""

import threading
from typing import Any, Callable, Dict, List, Optional, Sequence

from edge_runtime.errors import BadInput
from edge_runtime.sinks.base import Sink


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
