"""One loop for one camera: a lock that goes with its process, however that ends."""

import fcntl
import hashlib
import os
import tempfile
from typing import Any, Optional

from edge_runtime.errors import BadInput

_FOLDERS = ("/run/edgeveil", "/run/lock")


class SourceLock(object):
    """Held in a ``with`` block; raises ``BadInput`` where another process holds it for the same source."""

    def __init__(self, source: str, folder: Optional[str] = None) -> None:
        self._folder = folder or next((f for f in _FOLDERS if os.access(f, os.W_OK)), tempfile.gettempdir())
        self._source = source
        self._handle: Optional[int] = None

    def __enter__(self) -> "SourceLock":
        # The name tells nothing of the source: addresses hold passwords.
        name = "edgeveil-{}.lock".format(hashlib.sha256(self._source.encode("utf-8")).hexdigest()[:16])
        path = os.path.join(self._folder, name)
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            self._handle = os.open(path, flags, 0o600)
        except OSError as error:
            raise BadInput(
                "the lock {} cannot be had: {}. Remove it, or run as the user it belongs to.".format(
                    path, (error.strerror or "no such file").lower()
                )
            ) from None
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            other = os.pread(self._handle, 20, 0).decode("ascii", "replace").strip()
            os.close(self._handle)
            self._handle = None
            kind = self._source.partition(":")[0]
            raise BadInput(
                "another loop (process {}) has this {}: source; stop that one first".format(
                    other if other.isdigit() else "unknown", kind
                )
            ) from None
        os.ftruncate(self._handle, 0)
        os.pwrite(self._handle, str(os.getpid()).encode("ascii"), 0)
        return self

    def __exit__(self, *_: Any) -> None:
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None
