"""What a process that sees raw frames does to itself before the first one."""

import ctypes
import os
import resource
import signal

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_NO_NEW_PRIVS = 1, 4, 38
_MCL_CURRENT, _MCL_FUTURE, _MCL_ONFAULT = 1, 2, 4


def no_core_dumps() -> None:
    """Keep memory out of crash dumps and away from debuggers of the same user, as far as this system lets us."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # Where dumps are piped to a program, the limit alone does not hold them.
    _prctl(_PR_SET_DUMPABLE, 0)


def no_files() -> None:
    """From now on no write makes a file longer: nothing that was seen can be left on a disk. Pipes are not files."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


def close_outputs() -> None:
    """From now on what is printed goes nowhere: a library that chokes on a frame may print what it read of it."""
    nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for handle in (0, 1, 2):
        os.dup2(nothing, handle)
    if nothing > 2:
        os.close(nothing)


def end_with_parent() -> None:
    """Be killed when the process that started this one ends, however it ends."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def no_new_privileges() -> None:
    """Whatever this process starts from now on, no program gives it more rights than it has."""
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)


def lock_memory() -> bool:
    """Keep this process's memory out of swap; returns whether that could be had.

    Only where the amount is not limited: under a limit, later allocations would fail instead.
    """
    soft, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    if os.geteuid() != 0 and soft != resource.RLIM_INFINITY:
        return False
    try:
        # As pages are used, so that what an interpreter only reserves costs nothing.
        return ctypes.CDLL(None).mlockall(_MCL_CURRENT | _MCL_FUTURE | _MCL_ONFAULT) == 0
    except (OSError, AttributeError):
        return False


def _prctl(option: int, value: int) -> None:
    try:
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)
    except (OSError, AttributeError):
        pass  # not Linux: there is no such thing to ask for
