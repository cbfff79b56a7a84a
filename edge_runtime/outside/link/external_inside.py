"""An inside that a service manager starts as a unit of its own; two named pipes and a page of counters connect it.

So the inside can have what systemd gives to a unit but not to a process: no network at all, its camera and no other
device, a user of its own. The manager restarts it when it ends; the outside's ticks go on meanwhile.
"""

import os
from typing import Iterator, List, Union

from edgeveil.edge_runtime.ipc.counted import Counted
from edgeveil.edge_runtime.ipc.counters import page_at
from edgeveil.edge_runtime.ipc.notes import Event
from edgeveil.edge_runtime.ipc.record import Record, RecordReader
from edgeveil.edge_runtime.ipc.rendezvous import COUNTERS, NOTES, RECORDS, make_pipe, open_for_outside
from edgeveil.edge_runtime.outside.link.inside_link import InsideLink, LinkOwner


class ExternalInside(InsideLink):
    """Inside and outside meet in ``folder``, where the outside makes the pipes."""

    def __init__(self, folder: str, owner: LinkOwner) -> None:
        # The inside waits for the last of them.
        for name in (RECORDS, NOTES):
            make_pipe(os.path.join(folder, name))
        super(ExternalInside, self).__init__(page_at(os.path.join(folder, COUNTERS)), owner)
        # The page may hold the counts of an earlier service.
        self.inside.clear()
        self._folder = folder

    def start(self) -> None:
        """See ``InsideLink``."""
        self._open_records()
        self._notes = open_for_outside(self._folder, NOTES)

    def poll(self) -> List[Event]:
        """See ``InsideLink``; here it raises nothing."""
        events = self._read_notes()
        if events is None:
            os.close(self._notes)
            self._notes = open_for_outside(self._folder, NOTES)
            self._text = b""
            return []
        for event in events:
            if event.name == "ended" and event.facts.get("code") == 0:
                self.ended = True
            elif event.name == "ended":
                # Its unit says nothing: what a library printed there could be a frame.
                self._owner.say("inside-ended", message=str(event.facts.get("message"))[:400])
        return events

    def records(self) -> Iterator[Union[Record, Counted]]:
        """See ``InsideLink``."""
        yield from super(ExternalInside, self).records()
        if self._reader is not None and self._reader.ended:
            self._record_broken()

    def stop(self) -> None:
        """Stop listening: the manager ends the inside."""
        self.ended = True

    kill = stop

    def reload(self, bundle: int, manifest_sha256: str) -> None:
        """Accept the inside that runs this bundle; its manager starts it."""
        os.close(bundle)
        self.manifest_sha256 = manifest_sha256

    def _record_broken(self) -> None:
        """Open the pipe again: the writer of the old one gets an error."""
        self._open_records()
        self._owner.on_end()

    def _open_records(self) -> None:
        if self._records >= 0:
            os.close(self._records)
        self._records = open_for_outside(self._folder, RECORDS)
        self._reader = RecordReader(self._records, self._owner.layout)
