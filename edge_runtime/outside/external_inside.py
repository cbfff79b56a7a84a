"""An inside that a service manager started, as its own unit: told of by two named pipes and a page of counters.

So the inside can have what systemd gives a unit and not a process: no network at all, its camera and no other device,
a user of its own. Who starts it again when it ends is the manager; the outside's ticks go on meanwhile.
"""

import os
from typing import Any, Callable, List

from edgeveil.edge_runtime.ipc.counters import Counters, page_at
from edgeveil.edge_runtime.ipc.notes import Event, parse_notes
from edgeveil.edge_runtime.ipc.record import Layout, RecordBroken, RecordReader
from edgeveil.edge_runtime.ipc.rendezvous import COUNTERS, NOTES, RECORDS, _listen, make_pipe


class Attached(object):
    """What ``Supervisor`` is, for an inside that is not ours to start. ``folder`` is where the two meet."""

    def __init__(
        self,
        folder: str,
        layout: Layout,
        *,
        counters: Counters,
        say: Callable[..., None],
        manifest_sha256: str,
        ended: Callable[[], None],
    ) -> None:
        self._folder, self._layout, self._counters = folder, layout, counters
        self._say, self._told_ended, self.manifest_sha256 = say, ended, manifest_sha256
        for name in (RECORDS, NOTES):
            make_pipe(os.path.join(folder, name))
        self.inside = Counters(page_at(os.path.join(folder, COUNTERS)))
        # What an earlier service of this folder counted is none of ours.
        self.inside.clear()
        self._records = self._notes = -1
        self._reader: Any = None
        self._text = b""
        self.ended = False

    def start(self) -> None:
        """Listen from now on."""
        self._open_records()
        self._notes = _listen(os.path.join(self._folder, NOTES))

    def handles(self) -> List[int]:
        """What to wait for, for reading."""
        return [self._records, self._notes]

    def records(self) -> Any:
        """The records that have come. After a broken one the pipe is made anew: its writer finds nobody there."""
        problem = ""
        try:
            for record in self._reader.records():
                yield record
        except RecordBroken as error:
            problem = str(error)
        if problem:
            self._counters.add("fault:record")
            self._say("record", message=problem)
        if problem or self._reader.ended:
            self._open_records()
            self._told_ended()

    def poll(self) -> List[Event]:
        """What the inside said since the last time."""
        try:
            data = os.read(self._notes, 1 << 16)
        except BlockingIOError:
            return []
        if not data:
            os.close(self._notes)
            self._notes = _listen(os.path.join(self._folder, NOTES))
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
        """The inside that has this bundle is welcome; its manager starts it."""
        os.close(bundle)
        self.manifest_sha256 = manifest_sha256

    def _open_records(self) -> None:
        if self._records >= 0:
            os.close(self._records)
        self._records = _listen(os.path.join(self._folder, RECORDS))
        self._reader = RecordReader(self._records, self._layout)
