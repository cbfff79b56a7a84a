"""A card that is mounted here, for ``dir:FOLDER``: written without following any link that may be on it."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

from edgeveil.edge_runtime.errors import BadInput, DeviceFailed

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


class MountedCard:
    """A boot partition that is mounted: ``dir:/media/bootfs``.

    Whoever had the card before may have put links on it that lead into this machine. Each part of each path is opened
    from the descriptor of the one before and no link is followed, so nothing is read or written outside the card.
    """

    def __init__(self, folder: Path) -> None:
        self._folder, self.name = folder, str(folder)

    def free_bytes(self) -> int:
        """Free space."""
        try:
            return shutil.disk_usage(self._folder).free
        except OSError as error:
            raise self._failed(error) from None

    def read(self, path: str) -> bytes | None:
        """A file's bytes, or None if there is no such file."""
        with contextlib.suppress(FileNotFoundError), self._parent(path) as (folder, last):
            self._refuse_link(path, folder, last)
            if not stat.S_ISREG(os.lstat(last, dir_fd=folder).st_mode):
                return None
            # Without O_NONBLOCK, opening a pipe would wait for its other end.
            handle = os.open(last, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
            with os.fdopen(handle, "rb") as file:
                return file.read()
        return None

    def write(self, files: dict[str, bytes]) -> None:
        """Write files, and create their folders. A file that is there is replaced, not changed."""
        try:
            for path, data in files.items():
                with self._parent(path, make=True) as (folder, last):
                    self._refuse_link(path, folder, last)
                    _replace(folder, last, data)
        except OSError as error:
            raise self._failed(error) from None

    def refuse_links(self, paths: list[str]) -> None:
        """Raise ``BadInput`` if a part of a path is a symbolic link, or a folder has the name of a file."""
        for path in paths:
            with contextlib.suppress(FileNotFoundError), self._parent(path) as (folder, last):
                self._refuse_link(path, folder, last)
                if last != "." and stat.S_ISDIR(os.lstat(last, dir_fd=folder).st_mode):
                    raise BadInput(f"Expected a file or nothing at {path} on {self.name}; it is a folder. Remove it.")

    def check(self) -> None:
        """Raises ``BadInput`` where this user may not write the folder."""
        if not os.access(self._folder, os.W_OK):
            raise BadInput(
                f"Expected a card that can be written at {self.name}; it is mounted read-only, or for another user. "
                "Mount it for writing, or look at the lock on its side."
            )

    @contextlib.contextmanager
    def _parent(self, path: str, *, make: bool = False) -> Iterator[tuple[int, str]]:
        """A descriptor of the folder that holds ``path``, and the last part of it. ``make``: make missing folders.

        Raises ``DeviceFailed`` for whatever fails while it is used, but ``FileNotFoundError`` for what is not there.
        """
        *folders, last = path.strip("/").split("/")
        try:
            handle = os.open(self._folder, _FOLDER)
        except OSError as error:
            raise self._failed(error) from None
        try:
            for depth, name in enumerate(folders, 1):
                if make:
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(name, 0o755, dir_fd=handle)
                try:
                    inner = os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=handle)
                except OSError as error:
                    if error.errno in (errno.ELOOP, errno.ENOTDIR):
                        refuse_link(self.name, "/" + "/".join(folders[:depth]))
                    raise
                os.close(handle)
                handle = inner
            yield handle, last
        except FileNotFoundError:
            raise  # the caller knows what that means
        except OSError as error:
            raise self._failed(error) from None
        finally:
            os.close(handle)

    def _failed(self, error: OSError) -> DeviceFailed:
        return DeviceFailed(
            f"{self.name} cannot be read or written any more ({error.strerror}). If the card was pulled, put it back "
            "and write it again: it starts nothing of EdgeVeil until it is complete."
        )

    def _refuse_link(self, path: str, folder: int, last: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            if stat.S_ISLNK(os.lstat(last, dir_fd=folder).st_mode):
                refuse_link(self.name, path)


def _replace(folder: int, name: str, data: bytes) -> None:
    """A new file under this name: what was there may be a pipe, or have a second name outside the card."""
    part = name + ".edgeveil-part"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(part, dir_fd=folder)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(part, flags, 0o644, dir_fd=folder), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(part, name, src_dir_fd=folder, dst_dir_fd=folder)


def refuse_link(card: str, path: str) -> NoReturn:
    """Raise ``BadInput`` for a link on a card."""
    raise BadInput(
        f"{path} on {card} is a link or no folder, and could lead out of the card. Nothing follows it: write a fresh "
        "image to the card, then flash again."
    )
