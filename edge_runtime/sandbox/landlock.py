"""Landlock: the kernel refuses this process every file but those that were named, whatever its user may do.

Linux has it from 5.13 on, in versions that know more each (``version``). Numbers and structures are those of
linux/landlock.h, the same on every architecture.
"""

import ctypes
import os
import stat
import struct
from typing import Iterable

_CREATE, _ADD, _RESTRICT = 444, 445, 446  # the same on all architectures
_BENEATH, _PORT = 1, 2  # LANDLOCK_RULE_PATH_BENEATH, LANDLOCK_RULE_NET_PORT
_ASK_VERSION = 1
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR, _IOCTL_DEV = 1 << 0, 1 << 1, 1 << 2, 1 << 3, 1 << 15
# version: the rights on files that it knows; what is not granted is refused
_RIGHTS = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 4: (1 << 15) - 1, 5: (1 << 16) - 1}
_NETWORK, _CONNECT = 0b11, 0b10  # from version 4: TCP, to bind and to connect
_SCOPES = 0b11  # from version 6: abstract sockets and signals of processes that are not restricted with this one


def version() -> int:
    """The version that this kernel has; 0 for none."""
    return max(0, _call(_CREATE, None, 0, _ASK_VERSION))


def restrict(
    readable: Iterable[str], writable: Iterable[str], ports: Iterable[int] = (), *, runs: bool = False
) -> bool:
    """Refuse this thread and those it starts every file but ``readable`` and devices in ``writable``; for ever.

    A folder stands for all that is below it, and a path that does not exist is left out. Nothing may be run, but what
    is ``readable`` where it ``runs`` programs. ``ports`` are those that it may connect to by TCP, where the kernel
    knows that. Returns whether the system did so; no_new_privs must be set before.
    """
    known = version()
    if not known:
        return False
    rights = _RIGHTS[min(known, max(_RIGHTS))]
    attributes = struct.pack("QQQ", rights, _NETWORK if known >= 4 else 0, _SCOPES if known >= 6 else 0)
    size = 24 if known >= 6 else 16 if known >= 4 else 8
    rules = _call(_CREATE, attributes, size, 0)
    if rules < 0:
        return False
    try:
        for path in readable:
            _allow(rules, path, rights & (_READ_FILE | _READ_DIR | (_EXECUTE if runs else 0)))
        for path in writable:
            _allow(rules, path, rights & (_READ_FILE | _READ_DIR | _WRITE_FILE | _IOCTL_DEV))
        for port in ports if known >= 4 else ():
            _call(_ADD, rules, _PORT, struct.pack("QQ", _CONNECT, port), 0)
        return _call(_RESTRICT, rules, 0) == 0
    finally:
        os.close(rules)


def _allow(rules: int, path: str, rights: int) -> None:
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        if not stat.S_ISDIR(os.fstat(place).st_mode):
            rights &= ~_READ_DIR
        _call(_ADD, rules, _BENEATH, struct.pack("=Qi", rights, place), 0)
    finally:
        os.close(place)


def _call(number: int, *arguments: object) -> int:
    """The result of a system call; -1 where it fails, and on systems that have none such."""
    words = [ctypes.c_long(one) if isinstance(one, int) else one for one in arguments]
    try:
        return int(ctypes.CDLL(None, use_errno=True).syscall(number, *words))
    except (OSError, AttributeError):
        return -1
