"""What a source needs (``late_imports``), and one camera for one process: a lock that ends with its process."""

import fcntl
import hashlib
import os
import tempfile
from typing import Optional, Sequence

from edgeveil.edge_runtime.errors import Unsupported
from edgeveil.edge_runtime.late_imports import load, missing

__all__ = ["Claim", "load", "missing"]

FOLDERS = ("/run/lock", None)  # None: the folder of temporary files
LOCK = "edgeveil-[0-9a-f]{16}[.]lock"


class Claim(object):
    """Locks the device called ``name`` for this process. Raises ``Unsupported`` where another one has it.

    The kernel lets several programs open one camera, and does not define what each then gets.
    """

    def __init__(self, name: str, folders: Sequence[Optional[str]] = FOLDERS) -> None:
        path = "edgeveil-{}.lock".format(hashlib.sha256(name.encode("utf-8")).hexdigest()[:16])
        self._file: Optional[int] = None
        for folder in folders:
            try:
                flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
                self._file = os.open(os.path.join(folder or tempfile.gettempdir(), path), flags, 0o666)
                break
            except OSError:
                continue
        if self._file is None:
            return  # no folder for a lock: then the camera's driver decides
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self.release()
            raise Unsupported(
                "another process has {}: two loops cannot share a camera. Stop the other one.".format(name)
            ) from None

    def release(self) -> None:
        """Unlock the device."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
