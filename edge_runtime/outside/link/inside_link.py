"""The outside's end of the link to the inside: records, notes and counters."""

import os
from typing import Callable, Iterator, List, NamedTuple, Optional, Union

from edgeveil.edge_runtime.ipc.counted import Counted
from edgeveil.edge_runtime.ipc.counters import Counters
from edgeveil.edge_runtime.ipc.notes import Event, parse_notes
from edgeveil.edge_runtime.ipc.record import Layout, Record, RecordBroken, RecordReader

LinkOwner = NamedTuple(
    "LinkOwner",
    [
        ("layout", Layout),
        ("counters", Counters),  # of the outside
        ("say", Callable[..., None]),  # say(event, **facts) logs restarts and faults
        ("manifest_sha256", str),  # of the bundle that the inside must run
        ("on_end", Callable[[], None]),  # called when an inside has ended and all its records were read
    ],
)


class InsideLink(object):
    """A link to one inside after the other. ``Supervisor`` starts them; ``ExternalInside`` waits for a manager's.

    ``inside`` are the counters of the inside, ``page`` their memory. ``ended`` is true when no other inside follows.
    """

    def __init__(self, page: int, owner: LinkOwner) -> None:
        self._owner = owner
        self.inside = Counters(page)
        self.manifest_sha256 = owner.manifest_sha256
        self.ended = False
        self._records, self._notes, self._text = -1, -1, b""
        self._reader: Optional[RecordReader] = None

    def start(self) -> None:
        """Listen, and start an inside if this link starts them."""
        raise NotImplementedError

    def handles(self) -> List[int]:
        """The descriptors to wait for, for reading."""
        return [handle for handle in (self._records, self._notes) if handle >= 0]

    def poll(self) -> List[Event]:
        """The notes of the inside since the last call. Raises ``InsideFailed`` if none can run."""
        raise NotImplementedError

    def records(self) -> Iterator[Union[Record, Counted]]:
        """The records that have come. After a broken record, nothing more is read from that inside."""
        if self._reader is None:
            return
        try:
            yield from self._reader.records()
            return
        except RecordBroken as error:
            problem = str(error)
        self._owner.counters.add("fault:record")
        self._owner.say("record", message=problem)
        self._record_broken()

    def stop(self) -> None:
        """Tell the inside to finish; ``ended`` is true when it has."""
        raise NotImplementedError

    def kill(self) -> None:
        """End the inside at once, if this link starts them."""
        raise NotImplementedError

    def reload(self, bundle: int, manifest_sha256: str) -> None:
        """Go on with another verified bundle: a descriptor, which the link closes."""
        raise NotImplementedError

    def _record_broken(self) -> None:
        """Called after a broken record."""
        raise NotImplementedError

    def _read_notes(self) -> Optional[List[Event]]:
        """The notes that have come; None if their writer has closed the pipe."""
        try:
            data = os.read(self._notes, 1 << 16)
        except BlockingIOError:
            return []
        if not data:
            return None
        events, self._text = parse_notes(self._text + data)
        return events
