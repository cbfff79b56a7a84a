"""One lock for all commands that change what lies under a folder, so that only one of them runs at a time.

The kernel frees a lock when its process ends, however that ends. The file says who holds it, for the message alone.
"""

import contextlib
import errno
import fcntl
import os
import stat
import time
from typing import Iterator

from edgeveil.edge_runtime.errors import DeviceFailed
from edgeveil.edge_runtime.util.atomic import writing

LOCK_FILE = "lock"
WAIT_S = 60.0
_PAUSE_S = 0.1


def pause(seconds: float) -> None:
    """Wait between two attempts."""
    time.sleep(seconds)


@contextlib.contextmanager
def held(folder: str, what: str, *, name: str = LOCK_FILE, wait_s: float = WAIT_S) -> Iterator[None]:
    """Hold the lock of ``folder``; ``what`` is the command that others see.

    Waits ``wait_s`` seconds for another holder, then raises ``DeviceFailed`` with its name.
    """
    path = os.path.join(folder, name)
    with writing(path):
        try:
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except PermissionError:
            raise DeviceFailed(
                "{} is another user's, root's on most boards: nothing was done. Run this as that user (sudo).".format(
                    folder
                )
            ) from None
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise DeviceFailed("{} is no regular file: nothing was done. Remove it.".format(path))
        if os.fstat(handle).st_mode & 0o777 != 0o600:
            os.fchmod(handle, 0o600)  # who may read a file may lock it
        deadline = time.monotonic() + wait_s
        while not _taken(handle):
            if time.monotonic() >= deadline:
                raise DeviceFailed(
                    "{} is being changed by {}: nothing was done. Repeat this when that has ended.".format(
                        folder, os.pread(handle, 200, 0).decode("utf-8", "replace").strip() or "another command"
                    )
                )
            pause(_PAUSE_S)
        holder = "edgeveil-edge {} (process {})\n".format(what, os.getpid()).encode()
        # Unchanged it is left alone: a write to it would go to the disk with the next sync of anything.
        if os.pread(handle, len(holder) + 1, 0) != holder:
            os.ftruncate(handle, 0)
            os.pwrite(handle, holder, 0)
        yield
    finally:
        os.close(handle)


def _taken(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in (errno.EAGAIN, errno.EACCES):
            raise
        return False
    return True
