"""The interface of a transport, which runs commands on a board and writes files there; and what all share."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from typing import Protocol

from edgeveil.edge_runtime.errors import DeviceFailed

Progress = Callable[[int, int], None]  # (bytes there, bytes in all)


# All that a terminal obeys but newline and tab: C0 and DEL, then C1 as UTF-8 has it, which what is left could form.
_C0, _C1 = re.compile(rb"[\x00-\x08\x0b-\x1f\x7f]"), re.compile(rb"\xc2+[\x80-\x9f]")


class Completed:
    """How a command ended on the board: its exit code, and the text of its output and of stderr.

    Text has no control characters but newline and tab: an answer must not command the owner's terminal. ``raw`` are
    the bytes of the output, for a file that is fetched.
    """

    def __init__(self, code: int, out: bytes, err: bytes) -> None:
        self.code, self.raw = code, out
        self.out, self.err = (_C1.sub(b"", _C0.sub(b"", text)) for text in (out, err))

    def __repr__(self) -> str:
        return f"Completed(code={self.code!r}, out={self.out!r}, err={self.err!r})"

    def last_line(self) -> str:
        """Its last line of output, for a message."""
        text = (self.err or self.out).decode("utf-8", "replace").strip()
        return text.splitlines()[-1][:300] if text else "no output"


class Transport(Protocol):
    """A connection to one board."""

    name: str  # for messages: pi@host
    trusted: bool  # whether the other end was authenticated
    python: str  # the interpreter there

    def run(self, command: Sequence[str], *, data: bytes = b"", timeout_s: float = 120) -> Completed:
        """Run a command with ``data`` on its stdin. No shell interprets any part of it."""
        ...

    def put(self, data: bytes, path: str, progress: Progress = lambda *_: None) -> None:
        """Write these bytes to ``path`` on the board. Bytes that are there already are not sent again."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


def check(done: Completed, what: str) -> bytes:
    """The output of a command that succeeded. Raises ``DeviceFailed`` with its last line where it failed."""
    if done.code:
        raise DeviceFailed(f"{what} failed on the board with code {done.code}: {done.last_line()}")
    return done.out


def digest(data: bytes) -> str:
    """SHA-256 in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


# Prints the size and SHA-256 of a file, or nothing if there is none. Runs on every Python from 3.6.
READ_BACK = """
import hashlib, os, sys
if os.path.exists(sys.argv[1]):
    h = hashlib.sha256()
    with open(sys.argv[1], "rb") as f:
        for block in iter(lambda: f.read(65536), b""):
            h.update(block)
    print(os.path.getsize(sys.argv[1]), h.hexdigest())
"""


def read_back(transport: Transport, path: str) -> tuple[int, str]:
    """Size and SHA-256 of the file at ``path`` on the board; (0, "") where there is none."""
    out = check(transport.run([transport.python, "-c", READ_BACK, path]), f"Reading {path}").split()
    return (int(out[0]), out[1].decode()) if out else (0, "")


def holds(transport: Transport, path: str, data: bytes) -> bool:
    """Whether the file at ``path`` on the board has exactly these bytes."""
    return read_back(transport, path) == (len(data), digest(data))


def already_sent(transport: Transport, part: str, data: bytes) -> int:
    """How many bytes of ``data`` the unfinished upload ``part`` on the board has; 0 where it has other bytes."""
    size, sha256 = read_back(transport, part)
    return size if size <= len(data) and sha256 == digest(data[:size]) else 0
