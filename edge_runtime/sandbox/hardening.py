"""Restrictions that a process puts on itself before it sees the first raw frame."""

import ctypes
import fcntl
import os
import resource
import signal
import struct
import termios
from typing import Any, Callable

from edgeveil.edge_runtime import machine

_PR_SET_PDEATHSIG, _PR_GET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_NO_NEW_PRIVS = 1, 2, 4, 38
_CAPABILITIES_3 = 0x20080522
_MCL_CURRENT, _MCL_FUTURE, _MCL_ONFAULT = 1, 2, 4


def no_core_dumps() -> None:
    """Keep memory out of crash dumps and away from debuggers of the same user, as far as the system allows."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # The limit does not apply where dumps are piped to a program.
    prctl(_PR_SET_DUMPABLE, 0)


def no_files() -> None:
    """From now on no write can make a file longer, so that no frame is left on a disk. Pipes are not affected."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


def limit_memory(size_bytes: int) -> None:
    """Let this process have no more memory of its own than that; what it asks for beyond is refused."""
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    most = size_bytes if hard == resource.RLIM_INFINITY else min(size_bytes, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))


def limit_growth(more_bytes: int) -> Callable[[], None]:
    """Let this process have so much more memory of its own than it has now; returns a function that ends that."""
    now, (soft, hard) = machine.data_bytes(), resource.getrlimit(resource.RLIMIT_DATA)
    if now is None:
        return lambda: None
    most = now + more_bytes
    resource.setrlimit(resource.RLIMIT_DATA, (most if soft == resource.RLIM_INFINITY else min(most, soft), hard))
    return lambda: resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def close_outputs() -> None:
    """Discard all output from now on: a library that fails on a frame may print a part of it."""
    nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for handle in (0, 1, 2):
        os.dup2(nothing, handle)
    if nothing > 2:
        os.close(nothing)


def end_with_parent() -> None:
    """Have this process killed when its parent ends."""
    prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def ends_with_parent() -> bool:
    """Whether this process is killed when its parent ends. A change of user or of its rights undoes that."""
    number = ctypes.c_int(0)
    return prctl(_PR_GET_PDEATHSIG, ctypes.byref(number)) and number.value != 0


def no_new_privileges() -> bool:
    """Let no program that this process starts gain more rights than it has; returns whether that worked."""
    return prctl(_PR_SET_NO_NEW_PRIVS, 1)


def set_capabilities(which: int) -> bool:
    """Keep those capabilities that this mask of bits names, of those it has; returns whether that worked."""
    head, low = struct.pack("Ii", _CAPABILITIES_3, 0), which & 0xFFFFFFFF
    try:
        return bool(ctypes.CDLL(None).capset(head, struct.pack("6I", low, low, 0, which >> 32, which >> 32, 0)) == 0)
    except (OSError, AttributeError):
        return False


def no_terminal() -> None:
    """Leave the session of the shell that started this, if any: /dev/tty is no terminal from now on."""
    try:
        os.setsid()
    except OSError:
        # The leader of a group of processes cannot leave, but can let go of the terminal.
        try:
            terminal = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
        except OSError:
            return
        try:
            fcntl.ioctl(terminal, termios.TIOCNOTTY)
        finally:
            os.close(terminal)


def lock_memory() -> bool:
    """Keep this process's memory out of swap; returns whether that worked.

    Not done under a limit on locked memory: later allocations would fail.
    """
    soft, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    if os.geteuid() != 0 and soft != resource.RLIM_INFINITY:
        return False
    try:
        # On fault: memory that an interpreter only reserves costs nothing.
        return ctypes.CDLL(None).mlockall(_MCL_CURRENT | _MCL_FUTURE | _MCL_ONFAULT) == 0
    except (OSError, AttributeError):
        return False


def prctl(option: int, value: Any, argument: Any = 0) -> bool:
    """Call prctl(2); returns whether it succeeded. Other systems than Linux do not have it."""
    try:
        return bool(ctypes.CDLL(None).prctl(option, value, argument, 0, 0) == 0)
    except (OSError, AttributeError):
        return False
