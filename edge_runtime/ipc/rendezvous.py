"""How the two processes meet when systemd starts them: named pipes and the page of counters in one folder."""

import os
import stat
import time
from typing import Dict

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.ipc.counters import page_at

RECORDS, NOTES, COUNTERS = "records", "notes", "counters"
PATIENCE_S = 180.0  # both are started at once, and the outside verifies its bundle before it makes the pipes


def open_for_inside(folder: str) -> Dict[str, int]:
    """The inside's ends, by the names of ``inside.main``; waits for the outside. Raises ``BadInput``."""
    deadline = time.monotonic() + PATIENCE_S
    while not os.path.lexists(os.path.join(folder, NOTES)) and time.monotonic() < deadline:
        time.sleep(0.2)
    found = {}
    try:
        for name in (RECORDS, NOTES):
            path = os.path.join(folder, name)
            _check_pipe(path)
            found[name] = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        found[COUNTERS] = page_at(os.path.join(folder, COUNTERS))
    except OSError as error:
        problem = (error.strerror or "no such file").lower()
        raise BadInput("the outside cannot be reached in {}: {}. Start it first.".format(folder, problem)) from None
    return found


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
    if not stat.S_ISFIFO(os.stat(path).st_mode):
        raise BadInput("expected a pipe at {}; found something else. Remove it.".format(path))


def open_for_outside(folder: str, name: str) -> int:
    """The outside's end of a pipe in ``folder``, for reading without blocking."""
    return os.open(os.path.join(folder, name), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
