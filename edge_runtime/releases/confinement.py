"""Runs a command that is not trusted: as a user of its own, without a network, with few processes and little memory.

As root, the command gets new namespaces: no network but a loopback that is down, no other process to see, folders for
temporary files that go with it, and the folder of the releases read-only. It can make no user namespace. When it ends,
every process of its user is ended. An ordinary user cannot give it another user, so that nothing but the installed
runtime may run in this way there.
"""

import contextlib
import ctypes
import errno
import os
import platform
import resource
import signal
import subprocess
import sys
import tempfile
from typing import Callable, Dict, Iterator, List, NamedTuple, Sequence, Tuple

from edgeveil.edge_runtime.errors import DeviceFailed
from edgeveil.edge_runtime.late_imports import ONE_THREAD
from edgeveil.edge_runtime.machine import process_limit_bytes
from edgeveil.edge_runtime.sandbox import allowed_calls, hardening, seccomp
from edgeveil.edge_runtime.util import root_lock

UIDS = range(60928, 61184)  # of no account: just below the users that systemd makes up
LOCKS, USERS = "/run", "edgeveil-users"  # of root alone, and empty after a start
PROCESSES, FILES, FILE_BYTES, SHOWN_BYTES = 64, 256, 64 * 2**20, 4096
_NEWNS, _NEWIPC, _NEWUSER, _NEWPID, _NEWNET = 0x20000, 0x08000000, 0x10000000, 0x20000000, 0x40000000
_READ_ONLY, _REMOUNT, _BIND, _RECURSIVE, _PRIVATE = 1, 32, 4096, 16384, 1 << 18
_NO_SETUID, _NO_DEVICES, _NO_PROGRAMS = 2, 4, 8
_TEMPORARY, _EMPTY = ("/tmp", "/var/tmp", "/dev/shm"), "mode=755,size=1m"  # noqa: S108 - empty ones of its own
_KEPT = ("LANG", "LC_ALL", "LD_LIBRARY_PATH", "OPENBLAS_CORETYPE", "PATH", "PYTHONPATH")


class Ended(NamedTuple):
    """How a command ended: its exit code, None where it took too long; and the last of what it printed."""

    code: object
    output: str
    error: str


def run(
    command: Sequence[str],
    *,
    root: str,
    limit_s: int,
    groups: Sequence[int] = (),
    network: bool = False,
    environment: Sequence[Tuple[str, str]] = (),
) -> Ended:
    """Run ``command``, which may read ``root`` and not write it, for ``limit_s`` seconds at most.

    ``groups`` are those of the devices that it may open; ``network`` leaves it the system's network. Raises
    ``DeviceFailed`` where the system refuses to confine it.
    """
    variables = {name: os.environ[name] for name in _KEPT if name in os.environ}
    variables.update(ONE_THREAD, HOME="/nonexistent", PYTHONDONTWRITEBYTECODE="1")
    variables.update(environment)
    needed = _named(command, variables)
    with _own_user() as uid, tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as error:
        try:
            process = subprocess.Popen(  # noqa: S603 - that is what this is for
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=error,
                env=variables,
                cwd="/",
                start_new_session=True,
                preexec_fn=_confined(os.path.realpath(root), uid, limit_s, list(groups), network, needed),
            )
        except subprocess.SubprocessError:
            raise DeviceFailed("it could not be confined ({})".format(_last(error))) from None
        except (FileNotFoundError, PermissionError):
            raise DeviceFailed(_out_of_reach(command[0])) from None
        code: object = None
        try:
            code = process.wait(limit_s)
        except subprocess.TimeoutExpired:
            pass
        finally:
            with contextlib.suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            _end_all(uid)
        return Ended(code, _last(output), _last(error))


@contextlib.contextmanager
def _own_user() -> Iterator[int]:
    """One of ``UIDS``: another one each time, so that nothing that was left of one run can reach the next.

    No other run on this machine has it meanwhile: the end of one would end the other. Raises ``DeviceFailed`` where all
    are taken.
    """
    first = ord(os.urandom(1))
    uids = [UIDS[(first + at) % len(UIDS)] for at in range(len(UIDS))]
    if os.geteuid() != 0 or not os.access(LOCKS, os.W_OK):
        yield uids[0]  # it stays an ordinary user, or the system keeps no locks
        return
    folder = os.path.join(LOCKS, USERS)
    os.makedirs(folder, 0o700, exist_ok=True)
    for uid in uids:
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(root_lock.held(folder, "trial", name=str(uid), wait_s=0))
            except DeviceFailed:
                continue
            yield uid
            return
    raise DeviceFailed("it could not be confined (none of {} users for it is free)".format(len(uids)))


def _end_all(uid: int) -> None:
    """End whatever runs as ``uid``: a command may have left its group and its parent."""
    if os.geteuid() != 0:
        return
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(uid)
            os.setuid(uid)
            for _ in range(3):  # what was being made meanwhile, too
                os.kill(-1, signal.SIGKILL)
        except OSError:
            pass  # there was none
        finally:
            os._exit(0)
    os.waitpid(child, 0)


def _named(command: Sequence[str], environment: Dict[str, str]) -> List[str]:
    """The folders of what a command names: they stay in reach where they lie among temporary files."""
    words = [word for word in command if word.startswith("/")] + environment.get("PYTHONPATH", "").split(":")
    words += [word.partition(":")[2] for word in command if ":/" in word]
    paths = [os.path.realpath(word) for word in words if word and os.path.exists(word)]
    return sorted({path if os.path.isdir(path) else os.path.dirname(path) for path in paths})


def _out_of_reach(program: str) -> str:
    """Why a program that is there could not be started: the links by which it is found, and a cure."""
    links: List[str] = []
    path = program
    while os.path.islink(path) and len(links) < 40:
        path = os.path.normpath(os.path.join(os.path.dirname(path), os.readlink(path)))
        links.append(path)
    hops = ", a link by way of {}".format(", ".join(links[:-1] or links)) if links else ""
    return (
        "a trial cannot start {}{}: temporary files and closed folders of others are out of its reach. Link it to a "
        "program elsewhere, or install one".format(program, hops)
    )


def _confined(
    root: str, uid: int, limit_s: int, groups: List[int], network: bool, needed: List[str]
) -> Callable[[], None]:
    memory = process_limit_bytes()
    is_root = os.geteuid() == 0
    library = ctypes.CDLL(None, use_errno=True)

    def enter() -> None:
        try:
            confine()
        except Exception as error:
            os.write(2, "{}: {}".format(type(error).__name__, error).encode())
            raise

    def confine() -> None:
        os.umask(0o022)  # the folders that are made for mounts, whatever shell this came from
        alone = network or _unshare(library, _NEWNET if is_root else _NEWUSER | _NEWNET)
        if is_root:
            # A camera's daemon and accelerators may have their sockets and memory among the temporary files.
            hidden = [] if groups else [path for path in _TEMPORARY if path not in needed]
            apart = _unshare(library, _NEWNS) and _mount_read_only(library, root, needed, hidden)
            _unshare(library, _NEWIPC)
            if _unshare(library, _NEWPID):
                _wait_for_child()
                if apart:
                    _mount(library, "proc", "/proc", "proc", _NO_SETUID | _NO_DEVICES | _NO_PROGRAMS)
            os.setgroups(groups)
            os.setgid(uid)
            os.setuid(uid)
        _limit(memory, limit_s)
        hardening.no_new_privileges()
        hardening.end_with_parent()
        seccomp.restrict(allowed_calls.no_namespaces(), platform.machine())
        if not alone:
            seccomp.restrict(allowed_calls.no_network(), platform.machine())

    return enter


def _limit(memory: int, limit_s: int) -> None:
    limits = {
        resource.RLIMIT_DATA: memory,
        resource.RLIMIT_CPU: limit_s,
        resource.RLIMIT_FSIZE: FILE_BYTES,
        resource.RLIMIT_NOFILE: FILES,
        resource.RLIMIT_CORE: 0,
    }
    if os.geteuid() in UIDS:
        limits[resource.RLIMIT_NPROC] = PROCESSES  # an ordinary user's other processes would count
    for name, most in limits.items():
        hard = resource.getrlimit(name)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(name, (most, most))
    try:
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write("1000")
    except OSError:
        pass


def _wait_for_child() -> None:
    """Go on in a child, the first process of the new namespace: with it, all the others end."""
    child = os.fork()
    if child == 0:
        return
    # What subprocess waits on for the start of the command must be the child's alone.
    os.closerange(3, 4096)
    status = os.waitpid(child, 0)[1]
    os._exit(os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status))


def _mount_read_only(library: ctypes.CDLL, root: str, needed: List[str], hidden: List[str]) -> bool:
    """Make ``root`` read-only here, and reachable with Python's own folders and ``needed`` wherever they lie; the
    folders ``hidden`` are empty ones of its own.

    Where ``/`` is no mount of its own, as after chroot, nothing is mounted, and the answer is no: it could not be kept
    from the others. The user may still write nothing there.
    """
    try:
        _mount(library, None, "/", None, _RECURSIVE | _PRIVATE)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        return False
    python = os.path.dirname(sys.executable)
    seen = sorted({os.path.realpath(path) for path in (root, sys.prefix, sys.base_prefix)} | {os.path.abspath(python)})
    temporary = [path for path in hidden if os.path.isdir(path) and os.path.realpath(path) == path]
    closed: Dict[str, List[Tuple[str, int]]] = {path: [] for path in temporary}
    for path in sorted({*seen, *needed}):
        ancestor = next((one for one in temporary if path.startswith(one + "/")), "")
        ancestor = ancestor or (_closed_ancestor(path) if path in seen else "")
        if ancestor:
            closed.setdefault(ancestor, []).append((path, os.open(path, os.O_PATH | os.O_DIRECTORY)))
    for ancestor, inside in closed.items():
        _mount(library, "tmpfs", ancestor, "tmpfs", 0, "mode=1777,size=64m" if ancestor in temporary else _EMPTY)
        for path, handle in inside:
            os.makedirs(path, 0o755, exist_ok=True)
            _mount(library, "/proc/self/fd/{}".format(handle), path, None, _BIND | _RECURSIVE)
            os.close(handle)
    _mount(library, root, root, None, _BIND)
    _mount(library, None, root, None, _BIND | _REMOUNT | _READ_ONLY)
    return True


def _closed_ancestor(path: str) -> str:
    """The topmost folder above ``path`` that others may not pass through; empty where there is none."""
    parts = path.split("/")
    for depth in range(2, len(parts)):
        ancestor = "/".join(parts[:depth])
        if not os.stat(ancestor).st_mode & 1:
            return ancestor
    return ""


def _unshare(library: ctypes.CDLL, flags: int) -> bool:
    return bool(library.unshare(flags) == 0)


def _mount(library: ctypes.CDLL, source: object, place: str, kind: object, flags: int, data: str = "") -> None:
    words = [None if word is None else str(word).encode() for word in (source, place, kind, data or None)]
    if library.mount(words[0], words[1], words[2], ctypes.c_ulong(flags), words[3]) != 0:
        raise OSError(ctypes.get_errno(), "mount", place)


def _last(file: object) -> str:
    size = file.seek(0, os.SEEK_END)  # type: ignore[attr-defined]
    file.seek(max(0, size - SHOWN_BYTES))  # type: ignore[attr-defined]
    return str(file.read().decode("utf-8", "replace"))  # type: ignore[attr-defined]
