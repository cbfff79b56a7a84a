"""The log: events with a name and a few facts. By default they stay in memory, because SD cards wear out.

A fact is a number or a short text of this program, never a value from a frame.
"""

import collections
import json
import sys
import time
from typing import Any, Dict, List

_KEPT = 500  # events in memory
_LOUD = (
    "start", "ready", "source", "stop", "degraded", "running", "spent", "isolation", "port", "sink",
    "sink-again", "inside-ended", "hang",
)  # fmt: skip


class Log(object):
    """Log events. ``kind`` "text" or "json" writes all to stderr, "memory" only those that a person waits for."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._kept: Any = collections.deque(maxlen=_KEPT)

    def say(self, event: str, **facts: Any) -> None:
        """Log one event and its facts."""
        time_ = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        record = dict(facts, event=event, time=time_)
        self._kept.append(record)
        if self._kind == "memory" and event not in _LOUD:
            return
        try:
            sys.stderr.write((as_json if self._kind == "json" else _as_text)(record) + "\n")
            sys.stderr.flush()
        except (OSError, ValueError):
            pass  # a full disk or a closed terminal is no reason to stop

    def kept(self) -> List[Dict[str, Any]]:
        """The last events, oldest first."""
        return list(self._kept)


def as_json(record: Dict[str, Any]) -> str:
    """One line of ASCII, so that no text can control a terminal."""
    return json.dumps(record, sort_keys=True)


def _as_text(record: Dict[str, Any]) -> str:
    facts = dict(record)
    time_, event, message = facts.pop("time"), facts.pop("event"), facts.pop("message", "")
    rest = " ".join("{}={}".format(key, _word(value)) for key, value in sorted(facts.items()))
    return " ".join(part for part in ("{} {}:".format(time_, event), ascii(message)[1:-1], rest) if part)


def _word(value: Any) -> str:
    return "{:.4g}".format(value) if isinstance(value, float) else ascii(value).strip("'")
