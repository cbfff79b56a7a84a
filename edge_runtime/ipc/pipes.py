"""Named pipes: how two processes meet that systemd starts, in one folder with their page of counters."""

import os
import random
import stat
import time
from typing import Callable, Dict

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.ipc.counters import page_at

RECORDS, NOTES, COUNTERS = "records", "notes", "counters"
PATIENCE_S = 180.0  # both are started at once, and the outside verifies its bundle before it makes the pipes


def open_for_inside(folder: str) -> Dict[str, int]:
    """The inside's ends, by the names of ``inside.main``; waits for the outside. Raises ``BadInput``."""
    deadline = time.monotonic() + PATIENCE_S
    while not os.path.lexists(os.path.join(folder, NOTES)) and time.monotonic() < deadline:
        time.sleep(0.2)
    ends = {}
    try:
        for name in (RECORDS, NOTES):
            path = os.path.join(folder, name)
            _check_pipe(path)
            ends[name] = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        ends[COUNTERS] = page_at(os.path.join(folder, COUNTERS))
    except OSError as error:
        problem = (error.strerror or "no such file").lower()
        raise BadInput("the outside cannot be reached in {}: {}. Start it first.".format(folder, problem)) from None
    return ends


def make_pipe(path: str) -> None:
    """Make a named pipe that the group may write to; raises ``BadInput`` if that fails or another file is there."""
    try:
        os.mkfifo(path, 0o660)
        os.chmod(path, 0o660)
    except FileExistsError:
        pass
    except OSError as error:
        raise BadInput("cannot make a pipe at {}: {}".format(path, (error.strerror or "").lower())) from None
    _check_pipe(path)


def _check_pipe(path: str) -> None:
    if not stat.S_ISFIFO(os.lstat(path).st_mode):
        raise BadInput("expected a pipe at {}; found something else. Remove it.".format(path))


def open_for_outside(folder: str, name: str) -> int:
    """The outside's end of a pipe in ``folder``, for reading without blocking."""
    return os.open(os.path.join(folder, name), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)


# The pipe of raw frames between two units: the inside, and the process that fetches them or asks a camera's daemon.
#
# It lies in a folder that only these two users may enter: the sending process is neither. The inside makes a new pipe
# at each start, so a writer that was in the middle of a frame when the last inside ended gets an error, and the next
# one begins at a frame's begin.


NAME = "frames"
POLL_S = 0.5
_OTHER = "expected a pipe at {}; found something else. Remove it."


def make_for_inside(folder: str) -> int:
    """A new pipe in ``folder``, for reading; a writer may open it later. Raises ``BadInput``."""
    path, new = os.path.join(folder, NAME), os.path.join(folder, NAME + ".new")
    try:
        if os.path.lexists(path) and not stat.S_ISFIFO(os.lstat(path).st_mode):
            raise BadInput(_OTHER.format(path))
        if os.path.lexists(new):
            os.remove(new)
        os.mkfifo(new, 0o600)
        os.chmod(new, 0o622)  # noqa: S103 - users who may enter the folder write; only its owner reads
        handle = os.open(new, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        os.rename(new, path)
    except OSError as error:
        raise BadInput(
            "cannot make a pipe in {}: {}. The unit edgeveil-recover makes the folder; name it with --frames-at".format(
                folder, (error.strerror or "").lower()
            )
        ) from None
    os.set_blocking(handle, True)
    return handle


def open_for_camera(folder: str, sleep: Callable[[float], None] = time.sleep) -> int:
    """The end for writing; waits without end for an inside that reads. Raises ``BadInput`` for what is no pipe."""
    path = os.path.join(folder, NAME)
    while True:
        try:
            handle = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as error:
            if isinstance(error, PermissionError):
                raise BadInput("{} may not be written to: start this as the camera's user".format(path)) from None
            sleep(POLL_S)  # no pipe yet, or one that an inside left behind
            continue
        if not stat.S_ISFIFO(os.fstat(handle).st_mode):
            os.close(handle)
            raise BadInput(_OTHER.format(path))
        os.set_blocking(handle, True)
        return handle


# Exponential backoff with jitter.


class Backoff(object):
    """Waits of ``first_s``, twice that, ... up to ``most_s``, each drawn between half of it and all of it.

    The draw keeps a hundred devices from reconnecting in the same second when their broker comes back.
    """

    def __init__(self, *, first_s: float = 0.5, most_s: float = 60.0, rng: Callable[[], float] = random.random) -> None:
        self._first_s, self._most_s, self._rng = first_s, most_s, rng
        self._tries = 0  # since the last success

    def next_s(self) -> float:
        """Seconds to wait now; one more try."""
        whole = min(self._first_s * 2.0 ** min(self._tries, 30), self._most_s)
        self._tries += 1
        return whole * (0.5 + 0.5 * self._rng())

    def reset(self) -> None:
        """Start again with short waits, after a success."""
        self._tries = 0
