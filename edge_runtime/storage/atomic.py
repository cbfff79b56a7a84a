"""Write a file whole or not at all: temporary name in the same folder, fsync, rename."""

import contextlib
import errno
import os
from typing import Iterator, Union

from edgeveil.edge_runtime.errors import DeviceFailed
from edgeveil.edge_runtime.storage.aside import set_aside

Path = Union[str, "os.PathLike[str]"]
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


def _failed(path: str, error: OSError) -> WriteFailed:
    what = os.strerror(error.errno).lower() if error.errno else "the write came up short"
    advice = _ADVICE.get(error.errno or 0, "check the disk, or choose another place")
    return WriteFailed("cannot write {}: {}; {}. Nothing was left half-written.".format(path, what, advice))


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


@contextlib.contextmanager
def atomic_path(path: Path, *, mode: int = 0o666, lasting: bool = True, keep_old: bool = False) -> Iterator[str]:
    """Yield the name of an empty temporary file in the folder of ``path``; it becomes ``path`` unless the block raises.

    The temporary name ends with the name of ``path``, for writers that look at the suffix. ``mode`` is that of the new
    file, less the umask. Without ``lasting``, another write to the folder makes it last. With ``keep_old``, a file that
    is at ``path`` then gets a dated name. On any error, Ctrl-C too, the temporary is removed and the file that was at
    ``path`` before is unchanged. Raises ``WriteFailed`` (a ``DeviceFailed``) where that fails.
    """
    path = os.fspath(path)
    folder, name = os.path.split(os.path.abspath(path))
    temporary = os.path.join(folder, "." + os.urandom(6).hex() + "-" + name)
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
            if keep_old:
                set_aside(path)
            os.replace(temporary, path)
        except OSError as error:
            # An error about another file is for the code that opened that one.
            if error.filename is not None and os.fspath(error.filename) != temporary:
                raise
            raise _failed(path, error) from None
    except BaseException:
        try:
            os.unlink(temporary)
        except OSError:
            pass
        raise
    if lasting:
        _sync_folder(folder)


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn an ``OSError`` in the block into a ``WriteFailed`` for ``path``."""
    try:
        yield
    except OSError as error:
        raise _failed(os.fspath(path), error) from None


def write_atomic(path: Path, data: bytes, *, mode: int = 0o666, lasting: bool = True) -> None:
    """Write the bytes ``data`` to ``path``, whole or not at all. Arguments and errors are those of ``atomic_path``."""
    with atomic_path(path, mode=mode, lasting=lasting) as temporary, open(temporary, "wb") as file:
        file.write(data)
