"""The outside's end of the link to the inside: records, notes and counters."""

from typing import Any, Callable, Iterator, List, Optional

from edgeveil.edge_runtime.ipc.counters import Counters
from edgeveil.edge_runtime.ipc.notes import Event
from edgeveil.edge_runtime.ipc.record import Layout, Record, RecordBroken, RecordReader


class InsideLink(object):
    """One inside after the other. ``Supervisor`` starts them itself; ``ExternalInside`` waits for a manager's.

    ``inside`` are the counters of the inside, ``page`` their memory; ``say(event, **facts)`` is told of restarts and
    faults; ``on_end`` is called when one inside has ended and all its records were read. ``ended``: no other follows.
    """

    def __init__(
        self,
        layout: Layout,
        page: int,
        *,
        counters: Counters,
        say: Callable[..., None],
        manifest_sha256: str,
        on_end: Callable[[], None],
    ) -> None:
        self._layout, self._counters, self._say, self._on_end = layout, counters, say, on_end
        self.inside = Counters(page)
        self.manifest_sha256 = manifest_sha256  # of the bundle that the inside must run
        self.ended = False
        self._reader: Optional[RecordReader] = None

    def start(self) -> None:
        """Begin to listen, and start an inside where that is ours to do."""
        raise NotImplementedError

    def handles(self) -> List[int]:
        """The descriptors to wait for, for reading."""
        raise NotImplementedError

    def poll(self) -> List[Event]:
        """The notes of the inside since the last call. Raises ``InsideFailed`` where none can run."""
        raise NotImplementedError

    def records(self) -> Iterator[Record]:
        """The records that have come. After a broken one, nothing more is read of that inside."""
        if self._reader is None:
            return
        try:
            for record in self._reader.records():
                yield record
        except RecordBroken as error:
            problem = str(error)
        else:
            self._records_read()
            return
        self._counters.add("fault:record")
        self._say("record", message=problem)
        self._record_broken()

    def stop(self) -> None:
        """Tell the inside to finish; ``ended`` is true when it has."""
        raise NotImplementedError

    def kill(self) -> None:
        """End the inside at once, where that is ours to do."""
        raise NotImplementedError

    def reload(self, bundle: int, manifest_sha256: str) -> None:
        """Go on with another verified bundle (a descriptor, which is ours to close from now on)."""
        raise NotImplementedError

    def _records_read(self) -> Any:
        """Called when all records that had come were read."""

    def _record_broken(self) -> None:
        """Called after a broken record."""
        raise NotImplementedError
