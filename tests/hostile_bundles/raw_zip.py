"""A ZIP writer that can lie: every header field of every member can be overridden, here or in the directory.

It shares nothing with the writer and the reader under test but the format.
"""

from __future__ import annotations

import binascii
import struct
from dataclasses import dataclass, field
from typing import Any

HEADER = {"needed": 20, "flags": 0, "method": 0, "time": 0, "date": 33}


@dataclass
class Entry:
    """One member. ``both``, ``local`` and ``central`` override header fields; ``data`` is what stands in the file.

    Fields: needed, flags, method, time, date, crc, packed, size, name, extra; in the directory also made_by, comment,
    disk, internal, external, offset.
    """

    name: bytes
    data: bytes
    both: dict[str, Any] = field(default_factory=dict)
    local: dict[str, Any] = field(default_factory=dict)
    central: dict[str, Any] = field(default_factory=dict)
    before: bytes = b""  # bytes in front of the member that no header speaks of

    def said(self, overrides: dict[str, Any]) -> dict[str, Any]:
        true = {
            **HEADER,
            "crc": binascii.crc32(self.data),
            "packed": len(self.data),
            "size": len(self.data),
            "name": self.name,
            "extra": b"",
        }
        return {**true, **self.both, **overrides}


def _common(said: dict[str, Any]) -> bytes:
    numbers = [said[key] for key in ("needed", "flags", "method", "time", "date", "crc", "packed", "size")]
    return struct.pack("<HHHHHIIIHH", *numbers, len(said["name"]), len(said["extra"]))


def write(entries: list[Entry], *, between: bytes = b"", comment: bytes = b"", **end: int) -> bytes:
    """The archive. ``between`` stands before the directory; ``end`` overrides fields of the last record."""
    front, directory = b"", b""
    for entry in entries:
        front += entry.before
        said = entry.said(entry.local)
        offset = len(front)
        front += b"PK\x03\x04" + _common(said) + said["name"] + said["extra"] + entry.data
        said = {"made_by": 20, "comment": b"", "disk": 0, "internal": 0, "external": 0, "offset": offset}
        said.update(entry.said(entry.central))
        tail = (len(said["comment"]), said["disk"], said["internal"], said["external"], said["offset"])
        directory += b"PK\x01\x02" + struct.pack("<H", said["made_by"]) + _common(said) + struct.pack("<HHHII", *tail)
        directory += said["name"] + said["extra"] + said["comment"]
    front += between
    true = {"disk": 0, "first_disk": 0, "here": len(entries), "total": len(entries)}
    true.update({"size": len(directory), "offset": len(front)}, **end)
    numbers = [true[key] for key in ("disk", "first_disk", "here", "total", "size", "offset")]
    return front + directory + b"PK\x05\x06" + struct.pack("<HHHHIIH", *numbers, len(comment)) + comment
