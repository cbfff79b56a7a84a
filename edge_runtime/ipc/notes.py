"""Notes: events from the inside to the outside, one line of JSON each."""

import json
import os
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

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
        try:
            os.write(self._handle, line.encode("ascii") + b"\n")
        except (BlockingIOError, BrokenPipeError):
            pass


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
