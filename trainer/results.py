"""Where a verb writes its result: locked while it does, and never over an earlier one."""

from __future__ import annotations

import fcntl
import functools
import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.util import atomic


@contextmanager
def locked(out: Path, verb: str) -> Iterator[None]:
    """Hold the lock of ``out``, a file or folder that ``verb`` writes; folders above it are made.

    The lock is a file next to it, which the kernel frees however the holder ends. Raises ``BadInput`` with the verb and
    the process of who holds it, or where nothing can be written there.
    """
    out = out.absolute()
    path, parents = out.with_name(f".{out.name}.lock"), _parents(out)
    handle = -1
    try:
        handle = _opened(path, out)
        os.ftruncate(handle, 0)
        os.pwrite(handle, f"edgeveil {verb} (process {os.getpid()})".encode(), 0)
        yield
    finally:
        if handle >= 0:
            # While it is held: anyone who takes it next sees that it has gone, and makes another.
            path.unlink(missing_ok=True)
            os.close(handle)
        with suppress(OSError):  # the folders are in use, as they should be
            for parent in parents:
                parent.rmdir()


def own_folder(run: Path, kind: str = "audits") -> Path:
    """The folder, made if need be, where this user's audits of the run in ``run`` keep what they may use again.

    It is not in the run's folder, which may come from the one who is audited: rows and answers that lie there decide an
    audit. With the kind "samples" it is of a user's data. Raises ``BadInput`` where others could read or write it.
    """
    return _private(hashlib.sha256(os.fsencode(run.resolve())).hexdigest()[:16], "XDG_CACHE_HOME", "~/.cache", kind)


def looks_before(rows: str, configuration: str) -> int:
    """How many other configurations this user audited on ``rows`` before this one was for the first time.

    Both are hashes. It is written down, once, in a file that outlasts runs and caches: by it later ones are charged for
    what they may have been built from. Raises ``BadInput`` where it cannot be written.
    """
    path = _private("looks", "XDG_STATE_HOME", "~/.local/state") / rows
    try:
        with path.open("a+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            before = file.read().split()
            if configuration in before:
                return before.index(configuration)
            file.write(f"\n{configuration}\n")
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise BadInput(f"{path} cannot be written ({error.strerror}): set XDG_STATE_HOME to another place.") from None
    return len(before)


def _private(name: str, variable: str, usual: str, *kind: str) -> Path:
    """A folder of this user alone in the place that an environment variable names."""
    folder = Path(os.environ.get(variable) or usual).expanduser().joinpath("edgeveil", *kind, name)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.lstat()
    except OSError as error:
        raise BadInput(f"{folder} cannot be made ({error.strerror}): set {variable} to another place.") from None
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o077:
        raise BadInput(f"{folder} is not a folder that you alone can read and write: remove it.")
    return folder


def require_free(out: Path, *, replace: bool) -> None:
    """Raise ``BadInput`` where something is at ``out`` already, unless it may be replaced."""
    if os.path.lexists(out) and not replace:
        raise BadInput(f"{out} exists. Choose another name, or add --replace: the old one is kept under a dated name.")


def set_aside(out: Path) -> Path | None:
    """As ``storage.atomic.set_aside``, of a ``Path``."""
    old = atomic.set_aside(out)
    return None if old is None else Path(old)


def _parents(out: Path) -> list[Path]:
    """Make the folders above ``out``; returns those that were not there, the lowest first."""
    missing = [parent for parent in out.parents if not parent.exists()]
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(f"The folder {out.parent} cannot be made: {error.strerror}. Choose another place.") from None
    return missing


def _opened(path: Path, out: Path) -> int:
    while True:
        atomic.file_place(path)
        try:
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise BadInput(f"{out} cannot be written: {error.strerror}. Choose another place.") from None
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.pread(handle, 200, 0).decode("utf-8", "replace").strip() or "another command"
            os.close(handle)
            raise BadInput(
                f"{out} is being written by {holder}: nothing was done. Wait until that has ended, or choose another "
                "place."
            ) from None
        try:
            if os.fstat(handle).st_ino == path.stat().st_ino:
                return handle
        except FileNotFoundError:
            pass
        os.close(handle)  # its holder removed it between our two calls


# Which code made a result: what is kept of one version is not taken by another.


@functools.cache
def code_of(folder: Path) -> bytes:
    """A hash of the Python sources in ``folder``."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.digest()
