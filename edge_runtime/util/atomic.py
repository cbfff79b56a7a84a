"""Write a file whole or not at all: temporary name in the same folder, fsync, rename.

Only a file takes the place of a file: devices, pipes and sockets are never replaced or renamed. A link stays a link,
and what is written to it goes into the file that it leads to.
"""

import contextlib
import errno
import os
import stat
import sys
import time
from typing import IO, Iterator, Optional, Tuple, Union

from edgeveil.edge_runtime.errors import BadInput, DeviceFailed

Path = Union[str, "os.PathLike[str]"]
_NOTHING = 0
_KINDS = {stat.S_IFCHR: "a device", stat.S_IFBLK: "a device", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
_ADVICE = {
    errno.ENOSPC: "free some space there or choose another place",
    errno.EDQUOT: "free some of your quota there or choose another place",
    errno.EROFS: "that file system is read-only: choose another place",
    errno.EACCES: "choose a place you may write to",
    errno.EPERM: "choose a place you may write to",
    errno.ENOENT: "make the folder first, or choose one that exists",
    errno.ENOTDIR: "its folder is a file: choose another place",
    errno.EISDIR: "a folder has that name: choose another one",
}


class WriteFailed(DeviceFailed):
    """A file could not be written, and no part of it was left. The user can choose another place: exit code 2."""

    exit_code = 2


def _failed(path: Path, error: OSError, left: str = "Nothing was left half-written.") -> WriteFailed:
    what = os.strerror(error.errno).lower() if error.errno else "the write came up short"
    advice = _ADVICE.get(error.errno or 0, "check the disk, or choose another place")
    return WriteFailed("cannot write {}: {}; {}. {}".format(os.fspath(path), what, advice, left))


def _sync_folder(folder: str) -> None:
    """Make the rename last through a power cut, where the file system can (FAT on SD cards cannot)."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    except OSError:
        pass
    finally:
        os.close(handle)


def _refused(path: Path, what: str) -> WriteFailed:
    return WriteFailed("cannot write {}: it is {}. It was left as it is.".format(os.fspath(path), what))


def _look(path: Path) -> Tuple[str, int]:
    """The absolute path, behind a link, and what is there: ``stat.S_IFREG`` and so on, or ``_NOTHING``."""
    place = os.fspath(path)
    place = place if os.path.isabs(place) else os.path.join(os.getcwd(), place)
    with writing(path):
        try:
            status = os.lstat(place)
        except (FileNotFoundError, NotADirectoryError):
            return place, _NOTHING
    if not stat.S_ISLNK(status.st_mode):
        return place, stat.S_IFMT(status.st_mode)
    if status.st_uid not in (0, os.geteuid()):
        raise _refused(path, "a link that another user made: name the file itself")
    try:
        return os.path.realpath(place), stat.S_IFMT(os.stat(place).st_mode)
    except OSError:
        raise _refused(path, "a link that leads nowhere: remove it") from None


def file_place(path: Path) -> str:
    """Where a file that is written to ``path`` is, absolute and behind a link: there is a file now, or nothing.

    Raises ``WriteFailed`` for anything else, for a link that leads nowhere and for one that another user made.
    """
    place, kind = _look(path)
    if kind == stat.S_IFDIR:
        raise _failed(path, OSError(errno.EISDIR, ""))
    if kind not in (_NOTHING, stat.S_IFREG):
        raise _refused(path, "{}, and a file was expected: choose another name".format(_KINDS[kind]))
    return place


def open_stream(path: Path) -> Optional[IO[bytes]]:
    """A pipe or a character device, opened to be written into; None where ``path`` is for a file.

    Waits until a named pipe has a reader. Raises ``WriteFailed``.
    """
    if _look(path)[1] not in (stat.S_IFIFO, stat.S_IFCHR):
        return None
    with writing(path):
        return os.fdopen(os.open(path, os.O_WRONLY | os.O_NOCTTY | os.O_CLOEXEC), "wb")


def set_aside(path: Path) -> Optional[str]:
    """Give the file or folder at ``path`` a dated name in its folder, and return that; None where there is nothing.

    Raises ``WriteFailed`` for anything else, links too, and where it cannot be renamed; ``BadInput`` where there are a
    thousand of that second.
    """
    path = os.fspath(path)
    kind = _own_kind(path)
    if kind == _NOTHING:
        return None
    stem, suffix = (path, "") if kind == stat.S_IFDIR else os.path.splitext(path)
    date = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    for number in range(1, 1000):
        old = "{}.{}{}{}".format(stem, date, "" if number == 1 else "-{}".format(number), suffix)
        if not os.path.lexists(old):
            with writing(path):
                os.rename(path, old)
            return old
    raise BadInput("{} cannot be set aside: there are too many of that second.".format(path))


def take_name(new: Path, path: Path) -> None:
    """Give the folder ``new`` the name ``path``, at which there is nothing or an empty folder.

    Raises ``WriteFailed`` for anything else, ``OSError`` where it cannot be renamed.
    """
    if _own_kind(path) == stat.S_IFREG:
        raise _refused(path, "a file, and a folder was expected: choose another name")
    os.rename(new, path)


def _own_kind(path: Path) -> int:
    """What is at ``path``: nothing, a file or a folder. Raises ``WriteFailed`` for anything else, links too."""
    kind = _look(path)[1]
    if os.path.islink(path):
        raise _refused(path, "a link: name what it leads to")
    if kind != stat.S_IFDIR:
        file_place(path)
    return kind


@contextlib.contextmanager
def atomic_path(path: Path, *, mode: int = 0o666, lasting: bool = True, keep_old: bool = False) -> Iterator[str]:
    """Yield the name of an empty temporary file in the folder of ``path``; it becomes ``path`` unless the block raises.

    A link at ``path`` stays: the file that it leads to is the one that is written (``file_place``).
    The temporary name ends with the name of ``path``, for writers that look at the suffix. ``mode`` is that of the new
    file, less the umask. Without ``lasting``, another write to the folder makes it last. With ``keep_old``, a file that
    is at ``path`` then gets a dated name. On any error, Ctrl-C too, the temporary is removed and the file that was at
    ``path`` before is unchanged. Raises ``WriteFailed`` (a ``DeviceFailed``) where that fails.
    """
    path = os.fspath(path)
    place = file_place(path)
    folder = os.path.dirname(place)
    temporary = os.path.join(folder, "." + os.urandom(6).hex() + "-" + os.path.basename(path))
    try:
        os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode))
    except OSError as error:
        raise _failed(path, error) from None
    try:
        try:
            yield temporary
            handle = os.open(temporary, os.O_RDWR)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
            if file_place(path) != place:
                raise _refused(path, "not the same link as before")
            if keep_old:
                set_aside(place)
            os.replace(temporary, place)
        except OSError as error:
            # An error about another file is for the code that opened that one.
            if error.filename is not None and os.fspath(error.filename) != temporary:
                raise
            raise _failed(path, error) from None
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    if lasting:
        _sync_folder(folder)


@contextlib.contextmanager
def writing(path: Path, *, streams: bool = False) -> Iterator[None]:
    """Turn an ``OSError`` in the block into a ``WriteFailed`` for ``path``.

    Where ``path`` ``streams``, a ``BrokenPipeError`` is left as it is: the reader has read enough.
    """
    try:
        yield
    except OSError as error:
        if streams and isinstance(error, BrokenPipeError):
            raise
        raise _failed(path, error, *(["It keeps what it got."] if streams else [])) from None


def flush_output(code: int, closed: int = 0) -> int:
    """The exit code of a command that ends with ``code``, once standard output is written; 2 where that fails.

    It is ``closed`` where the reader has closed it: that is no failure, and nothing is printed.
    """
    try:
        sys.stdout.flush()
    except OSError as error:
        # Print nothing more, not even at exit, where Python would end with a code of its own.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not code and isinstance(error, BrokenPipeError):
            return closed
        if not code:
            sys.stderr.write("error: {}\n".format(_failed("standard output", error, "It keeps what it got.")))
            return WriteFailed.exit_code
    return code


def write_atomic(path: Path, data: bytes, *, mode: int = 0o666, lasting: bool = True, keep_old: bool = False) -> None:
    """Write the bytes ``data`` to ``path``, whole or not at all. Arguments and errors are those of ``atomic_path``."""
    whole = atomic_path(path, mode=mode, lasting=lasting, keep_old=keep_old)
    with whole as temporary, open(temporary, "wb") as file:
        file.write(data)


# Free space on a disk, checked before a write that cannot be undone in part.


MARGIN_BYTES = 2**20  # for what a file needs besides its frames


def require(path: str, size_bytes: int) -> None:
    """Raise ``WriteFailed`` where the disk of ``path`` has less than ``size_bytes`` and the margin free."""
    with writing(path):
        disk = os.statvfs(os.path.dirname(os.path.abspath(path)))
        if disk.f_bavail * disk.f_frsize < size_bytes + MARGIN_BYTES:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
