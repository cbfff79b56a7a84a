"""The inside has no network: it cuts itself off before it opens a camera, as far as the system allows.

It uses two means if both are available. A network namespace of its own has only a loopback that is down; root may enter
one, and an ordinary user where user namespaces are allowed. A seccomp filter refuses every socket but netlink (by which
libusb hears of cameras being plugged in; its other end is always the kernel), and io_uring, which could make a socket
past the filter.
"""

import ctypes
import errno
import os
import platform
import struct
from typing import List, Optional

from edgeveil.edge_runtime.device import hears_of_usb
from edgeveil.edge_runtime.sandbox import hardening
from edgeveil.edge_runtime.sandbox.account import Account, become

NAMESPACE, FILTER, CONVENTION = "network namespace", "seccomp filter", "by convention only"

# Sensors that are network interfaces: in a namespace of its own, the inside would not see them.
_NETWORK_SENSORS = ("wifi",)
_CLONE_NEWUSER, _CLONE_NEWNET = 0x10000000, 0x40000000
_PR_SET_SECCOMP, _MODE_FILTER = 22, 2
_NETLINK = 16
_IO_URING_SETUP = 425  # the same number on all of these
# machine: audit architecture, socket, socketpair; from the kernel's system call tables
_CALLS = {
    "x86_64": (0xC000003E, 41, 53),
    "aarch64": (0xC00000B7, 198, 199),
    "armv7l": (0x40000028, 281, 288),
    "armv6l": (0x40000028, 281, 288),
}
# Classic BPF: load a word of the call's record; jump if equal, if greater or equal; return
_LOAD, _JUMP_EQ, _JUMP_GE, _RETURN = 0x20, 0x15, 0x35, 0x06
_ALLOW, _REFUSE, _KILL = 0x7FFF0000, 0x00050000 | errno.EACCES, 0x80000000
_X32 = 0x40000000  # a second set of numbers for the same calls on x86-64


def needs_network(source: str, device: str) -> bool:
    """Whether the inside must stay in the system's network namespace, where only the seccomp filter restricts it.

    This is so for a sensor that is a network interface, and for an accelerator whose driver waits for udev to announce
    its stick: udev announces in the system's own namespace only.
    """
    return source.partition(":")[0] in _NETWORK_SENSORS or hears_of_usb(device)


def enter(namespace: bool = True, account: Optional[Account] = None) -> str:
    """Cut this process off from every network, then run as ``account``; returns the means, in words.

    Call it while the process has one thread: both means apply to a thread and its children only. ``namespace`` False
    omits the namespace (``needs_network``). Raises ``OSError`` if the system refuses the account.
    """
    single = len(os.listdir("/proc/self/task")) == 1
    # Root enters a network namespace as root: in a user namespace there is no other user to become.
    separate = namespace and single and _unshare(_CLONE_NEWNET)
    if account is not None:
        become(account)
    if not single:
        return CONVENTION
    means: List[str] = []
    if separate or (namespace and _unshare(_CLONE_NEWUSER | _CLONE_NEWNET)):
        means.append(NAMESPACE)
    if _filter():
        means.append(FILTER)
    return " and ".join(means) or CONVENTION


def _unshare(flags: int) -> bool:
    """Enter new namespaces; returns whether the system allows it."""
    try:
        return bool(ctypes.CDLL(None, use_errno=True).unshare(flags) == 0)
    except (OSError, AttributeError):
        return False


def program(machine: str) -> bytes:
    """The filter as the kernel reads it, for ``platform.machine()``; empty if its system calls are not known."""
    # A 64-bit kernel under a 32-bit system reports its own architecture.
    if machine == "aarch64" and struct.calcsize("P") == 4:
        machine = "armv7l"
    if machine not in _CALLS:
        return b""
    architecture, socket, socketpair = _CALLS[machine]

    def step(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
        return struct.pack("HBBI", code, if_true, if_false, value)

    steps = [
        step(_LOAD, 4),  # the architecture of the call
        step(_JUMP_EQ, architecture, 1, 0),
        step(_RETURN, _KILL),
        step(_LOAD, 0),  # its number
        step(_JUMP_GE, _X32, 5, 0),
        step(_JUMP_EQ, socketpair, 4, 0),
        step(_JUMP_EQ, _IO_URING_SETUP, 3, 0),
        step(_JUMP_EQ, socket, 0, 3),
        step(_LOAD, 16),  # its first argument, the family
        step(_JUMP_EQ, _NETLINK, 1, 0),
        step(_RETURN, _REFUSE),
        step(_RETURN, _ALLOW),
    ]
    return b"".join(steps)


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("steps", ctypes.c_char_p)]


def _filter() -> bool:
    steps = program(platform.machine())
    if not steps or not hardening.no_new_privileges():
        return False
    record = _Program(len(steps) // 8, steps)
    return hardening.prctl(_PR_SET_SECCOMP, _MODE_FILTER, ctypes.byref(record))
