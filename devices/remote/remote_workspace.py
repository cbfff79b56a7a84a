"""A temporary folder on a board: files are put there, used, fetched, and removed at the end.

It is in the board's memory (``/dev/shm``) if there is room: a card may keep what was deleted from it.
"""

from __future__ import annotations

import contextlib
import posixpath
from collections.abc import Iterator

from edgeveil.devices.flashing.board import Board
from edgeveil.devices.transports.base import check, digest, holds, read_back
from edgeveil.edge_runtime.errors import DeviceFailed, EdgeVeilError

PIECE = 64 * 1024  # bytes that are requested again after a lost connection


class RemoteWorkspace:
    """A folder on a board that only its user can read. ``in_memory``: it is not on the board's card."""

    def __init__(self, board: Board, folder: str, in_memory: bool) -> None:
        self.board, self.folder, self.in_memory = board, folder, in_memory

    def put(self, data: bytes) -> str:
        """Write bytes to a file there and return its path. Bytes that are there already are not sent again."""
        path = posixpath.join(self.folder, digest(data))
        self.board.transport.put(data, path)
        return path

    def put_bundle(self, data: bytes) -> str:
        """A bundle's path there: that of the installed bundle if it is the same, bit for bit."""
        installed = posixpath.join(self.board.root, "current", "bundle.veil")
        if holds(self.board.transport, installed, data):
            return installed
        return self.put(data)

    def fetch(self, path: str) -> bytes:
        """The bytes of a file there. Raises ``DeviceFailed`` if it is missing, or changed meanwhile."""
        transport, pieces = self.board.transport, []
        size, sha = read_back(transport, path)
        for number in range(-(-size // PIECE)):
            command = ["dd", f"if={path}", f"bs={PIECE}", f"skip={number}", "count=1"]
            pieces.append(check(transport.run(command), f"Reading {path}"))
        data = b"".join(pieces)
        if not sha or (len(data), digest(data)) != (size, sha):
            raise DeviceFailed(f"{path} is missing, or changed while it was fetched from {transport.name}. Try again.")
        return data

    def remove(self, *paths: str) -> None:
        """Remove files that are no longer needed."""
        check(self.board.transport.run(["rm", "-f", *paths]), "Removing files")


@contextlib.contextmanager
def remote_workspace(board: Board, key: str, *, size_bytes: int = 0) -> Iterator[RemoteWorkspace]:
    """A ``RemoteWorkspace`` that is removed when the block ends; a failure to remove it is reported.

    ``key`` (letters and digits) names it, so that it is found again after a lost connection. ``size_bytes`` is the most
    that it will hold at a time.
    """
    transport = board.transport
    command = [transport.python, "-c", _FOLDER, f"edgeveil-{key[:32]}", str(size_bytes)]
    where, folder = check(transport.run(command), "Making a place for what is sent").decode().split()
    try:
        yield RemoteWorkspace(board, folder, where == "memory")
    except BaseException:
        try:
            _remove(board, folder)
        except EdgeVeilError:
            board.say(
                f"What was sent to {transport.name} could not be removed: repeat the command, which removes it, "
                f"or remove {folder} there."
            )
        raise
    _remove(board, folder)


def _remove(board: Board, folder: str) -> None:
    check(board.transport.run(["rm", "-rf", folder]), f"Removing {folder}")


# A folder of that name that another user owns, or that is a link or open to others, is not used.
_FOLDER = """
import os, stat, sys
name, room = sys.argv[1], int(sys.argv[2])
def ours(place):
    try:
        os.makedirs(place, mode=0o700)
    except OSError:
        pass
    try:
        found = os.lstat(place)
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not stat.S_IMODE(found.st_mode) & 0o077
try:
    space = os.statvfs("/dev/shm")
    memory = space.f_bavail * space.f_frsize > 2 * room
except OSError:
    memory = False
place = "/dev/shm/%s-%d" % (name, os.getuid())
if memory and ours(place):
    print("memory", place)
else:
    place = os.path.join(os.path.expanduser("~"), ".cache", name)
    if not ours(place):
        sys.exit(place + " is not a folder for this user alone; remove it")
    print("card", place)
"""
