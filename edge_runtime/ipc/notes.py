"""Notes: events from the inside to the outside, one line of JSON each."""

import contextlib
import fcntl
import json
import os
import select
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

from edgeveil.edge_runtime.util.filesystem import write_all

MOST_NOTE = 4000  # characters of one note; lines this short are written to a pipe whole


class Notes(object):
    """Writes notes to a pipe; a note that does not fit is discarded."""

    def __init__(self, handle: int) -> None:
        self._handle = handle
        os.set_blocking(handle, False)

    def say(self, event: str, **facts: Any) -> None:
        """Write one note."""
        line = json.dumps(dict(facts, event=event), sort_keys=True)
        if len(line) > MOST_NOTE:
            line = json.dumps({"event": event, "code": facts.get("code"), "message": "(too long)"})
        with contextlib.suppress(BlockingIOError, BrokenPipeError):
            os.write(self._handle, line.encode("ascii") + b"\n")


Event = NamedTuple("Event", [("name", str), ("facts", Dict[str, Any])])


def parse_notes(text: bytes) -> Tuple[List[Event], bytes]:
    """The notes in ``text``, and the rest: the start of one more. Malformed lines are skipped."""
    *lines, rest = text.split(b"\n")
    events = [event for event in map(_event, lines) if event is not None]
    return events, rest[-MOST_NOTE:]


def _event(line: bytes) -> Optional[Event]:
    """One note; None where it is malformed: the writer may be compromised."""
    try:
        facts = json.loads(line.decode("ascii"))
        return Event(str(facts.pop("event")), facts) if type(facts) is dict else None
    except (ValueError, KeyError, RecursionError):
        return None


# The coarse levels of the camera aid: the only form in which they leave the inside.


LEVELS = 16
NAMES = ("exposure", "dark", "bright", "near", "far", "blob", "cut", "focus")


# Edges of an aim (``edgeveil-edge aim``): the only form in which a picture leaves the process that has the camera then.
EDGE_ROWS, EDGE_COLUMNS = 72, 96
EDGE_BYTES = EDGE_ROWS * EDGE_COLUMNS // 8


def only_levels(numbers: Dict[str, int]) -> Dict[str, int]:
    """The ``numbers`` with the name of a level, 15 at most each; negative ones are omitted."""
    return {name: min(int(numbers[name]), LEVELS - 1) for name in NAMES if numbers.get(name, -1) >= 0}


# The pipe for records: it holds a set of pictures, and a slow reader does not look like a hang.


_F_SETPIPE_SZ = 1031
_BYTES = 1 << 20


def widen(handle: int) -> None:
    """Enlarge a pipe to hold a few sets of pictures, if the system allows it, so that its writer need not wait."""
    with contextlib.suppress(OSError):
        fcntl.fcntl(handle, _F_SETPIPE_SZ, _BYTES)


class Pipe(object):
    """A pipe whose writer calls ``beat``, for the watchdog, while it waits for a slow reader."""

    def __init__(self, handle: int) -> None:
        self._handle = handle
        self.beat: Callable[[], Any] = lambda: None
        os.set_blocking(handle, False)

    def write(self, data: bytes) -> None:
        """Write all of ``data``; raises ``BrokenPipeError`` if the reader has closed the pipe."""
        write_all(self._handle, data, wait=self._wait)

    def _wait(self, handle: int) -> None:
        self.beat()
        select.select([], [handle], [], 1.0)
