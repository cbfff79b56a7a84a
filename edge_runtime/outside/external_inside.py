"""An inside that a service manager starts as a unit of its own; two named pipes and a page of counters connect it.

So the inside can have what systemd gives a unit and not a process: no network at all, its camera and no other device,
a user of its own. The manager starts it again when it ends; the outside's ticks go on meanwhile.
"""

import os
from typing import Callable, List

from edgeveil.edge_runtime.ipc.counters import Counters, page_at
from edgeveil.edge_runtime.ipc.notes import Event, parse_notes
from edgeveil.edge_runtime.ipc.record import Layout, RecordReader
from edgeveil.edge_runtime.ipc.rendezvous import COUNTERS, NOTES, RECORDS, make_pipe, open_for_outside
from edgeveil.edge_runtime.outside.inside_link import InsideLink


class ExternalInside(InsideLink):
    """``folder`` is where the two meet; the outside makes the pipes there."""

    def __init__(
        self,
        folder: str,
        layout: Layout,
        *,
        counters: Counters,
        say: Callable[..., None],
        manifest_sha256: str,
        on_end: Callable[[], None],
    ) -> None:
        for name in (RECORDS, NOTES):
            make_pipe(os.path.join(folder, name))
        page = page_at(os.path.join(folder, COUNTERS))
        super(ExternalInside, self).__init__(
            layout, page, counters=counters, say=say, manifest_sha256=manifest_sha256, on_end=on_end
        )
        # What an earlier service counted in this folder is not ours.
        self.inside.clear()
        self._folder = folder
        self._records = self._notes = -1
        self._text = b""

    def start(self) -> None:
        """Listen from now on."""
        self._open_records()
        self._notes = open_for_outside(self._folder, NOTES)

    def handles(self) -> List[int]:
        """See ``InsideLink``."""
        return [self._records, self._notes]

    def poll(self) -> List[Event]:
        """See ``InsideLink``; here it raises nothing."""
        try:
            data = os.read(self._notes, 1 << 16)
        except BlockingIOError:
            return []
        if not data:
            os.close(self._notes)
            self._notes = open_for_outside(self._folder, NOTES)
            self._text = b""
            return []
        events, self._text = parse_notes(self._text + data)
        for event in events:
            if event.name == "ended" and event.facts.get("code") == 0:
                self.ended = True
        return events

    def stop(self) -> None:
        """Listen no longer: the inside is its manager's to end."""
        self.ended = True

    kill = stop

    def reload(self, bundle: int, manifest_sha256: str) -> None:
        """Accept the inside that runs this bundle; its manager starts it."""
        os.close(bundle)
        self.manifest_sha256 = manifest_sha256

    def _records_read(self) -> None:
        if self._reader is not None and self._reader.ended:
            self._record_broken()

    def _record_broken(self) -> None:
        """Open the pipe again: the writer of the old one gets an error."""
        self._open_records()
        self._on_end()

    def _open_records(self) -> None:
        if self._records >= 0:
            os.close(self._records)
        self._records = open_for_outside(self._folder, RECORDS)
        self._reader = RecordReader(self._records, self._layout)
