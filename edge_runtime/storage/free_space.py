"""Free space on a disk, checked before a write that cannot be undone in part."""

import errno
import os

from edgeveil.edge_runtime.storage.atomic import writing

MARGIN_BYTES = 2**20  # for what a file needs besides its frames


def require(path: str, size_bytes: int) -> None:
    """Raise ``WriteFailed`` where the disk of ``path`` has less than ``size_bytes`` and the margin free."""
    with writing(path):
        disk = os.statvfs(os.path.dirname(os.path.abspath(path)))
        if disk.f_bavail * disk.f_frsize < size_bytes + MARGIN_BYTES:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
