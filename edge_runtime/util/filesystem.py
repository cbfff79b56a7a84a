"""Every file operation that changes which release a board runs, in one class.

There are only eight, so that a test can record their order and replay every power cut. Nothing is on the disk until it
was synced: a file's bytes by ``sync``, its name by ``sync_folder`` of its folder.
"""

import errno
import os
import stat
from typing import Callable, Iterable, List, Optional, Tuple

# Writing to file descriptors.


def write_all(handle: int, data: bytes, *, wait: Optional[Callable[[int], None]] = None) -> None:
    """Write all of ``data`` to a descriptor; raises ``OSError``, such as ``BrokenPipeError``.

    ``wait(handle)`` is called when a non-blocking descriptor is full, and returns when writing may be tried again.
    """
    left = memoryview(data)
    while len(left):
        try:
            left = left[os.write(handle, left) :]
        except BlockingIOError:
            if wait is None:
                raise
            wait(handle)


class Filesystem(object):
    """The real file system. Raises ``OSError`` as the system does."""

    def write(self, path: str, data: bytes, mode: int = 0o644) -> None:
        """Write ``data`` to a new or truncated file; neither bytes nor name are on the disk yet."""
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK, mode)
        try:
            os.fchmod(handle, mode)  # whatever the umask: the service's users read what root writes
            write_all(handle, data)
        finally:
            os.close(handle)

    def sync(self, path: str) -> None:
        """Wait until the file's bytes are on the disk."""
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    def sync_folder(self, path: str) -> None:
        """Wait until the names in the folder are on the disk."""
        self.sync(path)

    def make_folder(self, path: str) -> None:
        """Make one folder."""
        os.mkdir(path, 0o755)
        os.chmod(path, 0o755)  # noqa: S103 - as the files in it

    def link(self, target: str, path: str) -> None:
        """Make a symbolic link."""
        os.symlink(target, path)

    def rename(self, old: str, new: str) -> None:
        """Give a file, link or folder another name in one step; a file or link of that name is replaced."""
        os.rename(old, new)

    def remove(self, path: str) -> None:
        """Remove a file or link."""
        os.unlink(path)

    def remove_folder(self, path: str) -> None:
        """Remove an empty folder."""
        os.rmdir(path)


STATE_BYTES = 1 << 20  # the most that a file of a board's state has, where its reader names no other limit


def read(path: str, most_bytes: int = STATE_BYTES, *, links: bool = False) -> Optional[bytes]:
    """As ``read_strict``; None also for what cannot be read."""
    try:
        return read_strict(path, most_bytes, links=links)
    except OSError:
        return None


def read_strict(path: str, most_bytes: int = STATE_BYTES, *, links: bool = False) -> Optional[bytes]:
    """The bytes of a file that a board keeps, or None where there is none. Raises ``OSError`` as ``open_strict``, and
    for more than ``most_bytes``."""
    try:
        handle = open_strict(path, links=links)
    except (FileNotFoundError, NotADirectoryError):
        if links and os.path.islink(path):
            raise
        return None
    with open(handle, "rb") as file:
        data = file.read(most_bytes + 1) if os.fstat(handle).st_size <= most_bytes else None
    if data is None or len(data) > most_bytes:
        raise OSError(errno.EFBIG, "it has more than {} bytes".format(most_bytes))
    return data


def open_strict(path: str, *, links: bool = False) -> int:
    """A descriptor of a file that a board keeps, for reading: each of them is opened here, and nothing waits.

    Raises ``OSError`` for anything else under that name, such as a link (but for ``links``), a pipe or a device, and
    for a file of another user than root, that of this process or of the folder.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if links else os.O_NOFOLLOW))
    except OSError as error:
        if error.errno == errno.ELOOP:
            error.strerror = "it is a link"
        raise
    try:
        facts = os.fstat(handle)
        if not stat.S_ISREG(facts.st_mode):
            raise OSError(errno.EINVAL, "it is no regular file")
        if facts.st_uid not in (0, os.geteuid(), os.stat(os.path.dirname(os.path.realpath(path))).st_uid):
            raise OSError(errno.EPERM, "another user owns it")
    except OSError:
        os.close(handle)
        raise
    return handle


def target(path: str) -> Optional[str]:
    """Where a symbolic link points, or None where there is no link. Raises ``OSError`` where it cannot be read."""
    try:
        return os.readlink(path)
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.EINVAL):
            raise
        return None


def names(path: str) -> List[str]:
    """The names in a folder, sorted; empty where there is no folder. Raises ``OSError`` where it cannot be read."""
    try:
        return sorted(os.listdir(path))
    except (FileNotFoundError, NotADirectoryError):
        return []


def replace_file(filesystem: Filesystem, path: str, data: bytes, mode: int = 0o644) -> None:
    """Give a file another content in one step, which lasts after ``sync_folder``."""
    filesystem.write(path + ".tmp", data, mode)
    filesystem.sync(path + ".tmp")
    filesystem.rename(path + ".tmp", path)


def replace_link(filesystem: Filesystem, target: str, path: str) -> None:
    """Make ``path`` a link to ``target`` in one step, which lasts after ``sync_folder``."""
    if os.path.lexists(path + ".tmp"):
        filesystem.remove(path + ".tmp")
    filesystem.link(target, path + ".tmp")
    filesystem.rename(path + ".tmp", path)


def replace_folder(filesystem: Filesystem, path: str, files: Iterable[Tuple[str, bytes, int]]) -> None:
    """A folder of these files, (name, content, mode), which has its name once they are on the disk."""
    new = path + ".new"
    for leftover in (new, path):
        remove_tree(filesystem, leftover)
    filesystem.make_folder(new)
    for name, data, mode in files:
        filesystem.write(os.path.join(new, name), data, mode)
        filesystem.sync(os.path.join(new, name))
    filesystem.sync_folder(new)
    filesystem.rename(new, path)


def remove_tree(filesystem: Filesystem, path: str) -> None:
    """Remove a file, a link, or a folder with all that is in it."""
    try:
        is_folder = stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return
    if not is_folder:
        filesystem.remove(path)
        return
    for name in names(path):
        remove_tree(filesystem, os.path.join(path, name))
    filesystem.remove_folder(path)
