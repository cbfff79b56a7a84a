"""Free space on a disk, checked before something is written that cannot be taken back in part."""

import errno
import os

from edgeveil.edge_runtime.storage.atomic import writing

MARGIN_BYTES = 2**20  # for what a file needs besides its frames


def require(path: str, size_bytes: int) -> None:
    """Raises ``WriteFailed`` where the disk that ``path`` is on has less than that, and the margin, left."""
    with writing(path):
        disk = os.statvfs(os.path.dirname(os.path.abspath(path)))
        if disk.f_bavail * disk.f_frsize < size_bytes + MARGIN_BYTES:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
