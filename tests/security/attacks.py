# ruff: noqa: PTH116, PTH208, S108 - as plain as an attacker has it
"""What code does that has taken over the inside, or what fetches for it: it runs behind everything that holds it.

``run`` tries all of ``ATTACKS`` in that process. An attack returns what it gained, or nothing, or raises; a bare system
call has failed only if the filter refused it, whatever the kernel would have said to this user.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import platform
import socket
import stat
import threading
from collections.abc import Callable
from typing import Any

FACTS: dict[str, Any] = {}  # paths and process numbers, given by the test
_LIBC = ctypes.CDLL(None, use_errno=True)
_BYTES = ctypes.create_string_buffer(4096)
_COLUMN = ("x86_64", "aarch64").index(platform.machine())

# Numbers of x86-64 and of 64-bit ARM, None where it has no such call; then arguments that do no harm where the call is
# allowed.
_CALLS: dict[str, tuple[Any, ...]] = {
    "fork": (56, 220, 0x800 | 17, 0, 0, 0, 0),  # with flags that do not go together: it fails where it is allowed
    "execve": (59, 221, b"/dev/null/none", None, None),
    "execveat": (322, 281, -100, b"/dev/null/none", None, None, 0),
    "kill of the outside": (62, 129, "parent", 0),
    "tgkill of the outside": (234, 131, "parent", "parent", 0),
    "tkill of the outside": (200, 130, "parent", 0),
    "rt_sigqueueinfo": (129, 138, "parent", 0, _BYTES),
    "pidfd_open of the outside": (434, 434, "parent", 0),
    "pidfd_getfd": (438, 438, 0, 0, 0),
    "pidfd_send_signal": (424, 424, 0, 0, None, 0),
    "ptrace of the outside": (101, 117, 0x4206, "parent", 0, 0),
    "process_vm_readv": (310, 270, "parent", None, 0, None, 0, 0),
    "process_vm_writev": (311, 271, "parent", None, 0, None, 0, 0),
    "kcmp": (312, 272, "parent", "parent", 0, 0, 0),
    "limits of the outside": (302, 261, "parent", 7, None, _BYTES),
    "priority of the outside": (141, 140, 0, "parent", 5),
    "processors of the outside": (203, 122, "parent", 8, _BYTES),
    "scheduler of the outside": (144, 119, "parent", 0, _BYTES),
    "shmget": (29, 194, 0, 4096, 0o1600),
    "shmat": (30, 196, -1, None, 0),
    "msgget": (68, 186, 0, 0o1600),
    "semget": (64, 190, 0, 1, 0o1600),
    "mq_open": (240, 180, b"x", 0o102, 0o600, None),
    "add_key": (248, 217, b"user", b"x", b"x", 1, -2),
    "keyctl": (250, 219, 0, -2, 0),
    "memfd_create": (319, 279, b"x", 0),
    "io_uring_setup": (425, 425, 1, _BYTES),
    "bpf": (321, 280, 0, _BYTES, 0),
    "perf_event_open": (298, 241, _BYTES, 0, -1, -1, 0),
    "userfaultfd": (323, 282, 0),
    "inotify_init1": (294, 26, 0),
    "fanotify_init": (300, 262, 0, 0),
    "open_by_handle_at": (304, 265, -100, _BYTES, 0),
    "name_to_handle_at": (303, 264, -100, b"/", _BYTES, _BYTES, 0),
    "mount": (165, 40, None, b"/nonexistent", None, 0, None),
    "umount2": (166, 39, b"/nonexistent", 0),
    "chroot": (161, 51, b"/nonexistent"),
    "unshare": (272, 97, 0),
    "setns": (308, 268, -1, 0),
    "setuid": (105, 146, "uid"),
    "setresuid": (117, 147, "uid", "uid", "uid"),
    "setfsuid": (122, 151, "uid"),
    "setgroups": (116, 159, 0, None),
    "capset": (126, 91, _BYTES, None),
    "prctl of its name": (157, 167, 15, b"x", 0, 0, 0),
    "prctl of core dumps": (157, 167, 4, 1, 0, 0, 0),
    "prctl of its parent's end": (157, 167, 1, 0, 0, 0, 0),
    "another filter": (317, 277, 1, 0, None),
    "lock of a file": (73, 32, 0, 8),
    "lock by fcntl": (72, 25, 0, 5, _BYTES),
    "owner of a descriptor": (72, 25, 0, 8, "parent"),
    "notice of a folder": (72, 25, 0, 1026, 1),
    "typing on a terminal": (16, 29, 0, 0x5412, b"x"),
    "socket of x32": (0x40000000 + 41, None, 2, 1, 0),
    "sendto": (44, 206, -1, None, 0, 0, None, 0),
    "sendmsg": (46, 211, -1, None, 0),
    "connect": (42, 203, -1, None, 0),
    "mkdir": (83, None, "new", 0o700),
    "mknod": (133, None, "new", 0o10600, 0),
    "symlink": (88, None, b"what a reading says", "new"),
    "link": (86, None, "open file", "new"),
    "rename": (82, None, "open file", "new"),
    "unlink": (87, None, "new"),
    "chmod": (90, None, "open file", 0o666),
    "chown": (92, None, "open file", -1, -1),
    "truncate": (76, 45, "open file", 0),
    "ftruncate": (77, 46, -1, 0),
    "utimensat": (280, 88, -100, "open file", None, 0),
    "setxattr": (188, 5, "open file", b"user.x", b"x", 1, 0),
    "fallocate": (285, 47, -1, 0, 0, 0),
    "syslog": (103, 116, 10, None, 0),
    "sethostname": (170, 161, b"x", 0),
    "clock_settime": (227, 112, 0, None),
    "personality": (135, 92, 0xFFFFFFFF),
    "quotactl": (179, 60, 0, None, 0, None),
    "modify_ldt": (154, None, 0, None, 0),
    "iopl": (172, None, 0),
    "timer_create": (222, 107, 0, None, _BYTES),
    "splice": (275, 76, -1, None, -1, None, 0, 0),
    "sendfile": (40, 71, -1, -1, None, 0),
    "sched_setattr": (314, 274, "parent", _BYTES, 0),
    "process_madvise": (440, 440, -1, None, 0, 0, 0),
    "landlock_create_ruleset": (444, 444, None, 0, 1),
    "mkdirat": (258, 34, -100, "new", 0o700),
    "mknodat": (259, 33, -100, "new", 0o10600, 0),
    "symlinkat": (266, 36, b"what a reading says", -100, "new"),
    "linkat": (265, 37, -100, "open file", -100, "new", 0),
    "renameat": (264, 38, -100, "open file", -100, "new"),
    "unlinkat": (263, 35, -100, "new", 0),
    "fchmodat": (268, 53, -100, "open file", 0o666),
    "fchownat": (260, 54, -100, "open file", -1, -1, 0),
}


def _call(name: str) -> str:
    number, *arguments = _CALLS[name][_COLUMN], *_CALLS[name][2:]
    known = {
        "parent": FACTS["outside"],
        "uid": os.getuid(),
        "new": os.fsencode(FACTS["folder"] + "/new"),
        "open file": os.fsencode(FACTS["folder"] + "/open"),
    }
    words = [known.get(one, one) if isinstance(one, str) else one for one in arguments]
    words = [ctypes.c_long(one) if isinstance(one, int) else one for one in words]
    ctypes.set_errno(0)
    result = _LIBC.syscall(ctypes.c_long(number), *words)
    return "" if result == -1 and ctypes.get_errno() == errno.EACCES else f"{result}, {ctypes.get_errno()}"


def _socket(family: int, kind: int, protocol: int = 0) -> Callable[[], str]:
    return lambda: str(socket.socket(family, kind, protocol))


def _listening() -> str:
    with socket.socket() as made:
        made.listen()
        return str(made)


def _connected(which: str) -> Callable[[], str]:
    """A connection to a port of this machine that the test has opened."""

    def attempt() -> str:
        with socket.socket() as made:
            made.settimeout(5)
            made.connect(("127.0.0.1", FACTS.get(which, 1)))
            return str(made)

    return attempt


def _opened(path: str, flags: int) -> Callable[[], str]:
    return lambda: str(os.open(path.format(**FACTS), flags, 0o600))


def _descriptors() -> str:
    """Whether it holds anything but pipes, /dev/null, its source's file or camera, and memory that has no name."""
    source = os.stat(FACTS["source"]).st_ino
    found = []
    for handle in range(256):
        try:
            facts = os.fstat(handle)
        except OSError:
            continue
        kind = stat.S_IFMT(facts.st_mode)
        fine = kind == stat.S_IFIFO or (kind == stat.S_IFCHR and facts.st_rdev == os.makedev(1, 3))
        fine = fine or (kind == stat.S_IFSOCK and FACTS.get("camera") is not None)
        fine = fine or (kind == stat.S_IFREG and (facts.st_nlink == 0 or facts.st_ino in (source, FACTS["page"])))
        found += [] if fine else [f"{handle}: {oct(facts.st_mode)}"]
    return ", ".join(found)


def _status(*names: str) -> list[str]:
    with open("/proc/self/status") as file:  # noqa: PTH123 - as plain as it can be
        lines = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
    return [lines[name] for name in names]


def _capabilities() -> str:
    return "".join(value for value in _status("CapEff", "CapPrm", "CapInh", "CapAmb") if int(value, 16))


def _root() -> str:
    (users,) = _status("Uid")
    return users if "0" in users.split() else ""


def _privileges() -> str:
    return "" if _status("NoNewPrivs") == ["1"] else "may gain privileges by a program"


def _terminal() -> str:
    with open("/proc/self/stat") as file:  # noqa: PTH123
        number = file.read().rpartition(")")[2].split()[4]
    return "" if number == "0" else f"terminal {number}"


def _other_threads() -> str:
    """Whether a thread that ran before is less restricted than this one."""
    held = []
    for task in os.listdir("/proc/self/task"):
        with open(f"/proc/self/task/{task}/status") as file:  # noqa: PTH123
            held += [line.split()[1] for line in file if line.startswith(("Seccomp:", "NoNewPrivs:"))]
    return "" if set(held) <= {"1", "2"} else str(held)


def _new_thread() -> str:
    """A thread that is started now is behind the same filter."""
    gained: list[str] = []

    def attempt() -> None:
        try:
            gained.append(str(socket.socket()))
        except OSError:
            gained.append("")

    thread = threading.Thread(target=attempt)
    thread.start()
    thread.join()
    return gained[0]


_W, _R = os.O_WRONLY, os.O_RDONLY
ATTACKS: dict[str, Callable[[], Any]] = {
    "tcp": _socket(socket.AF_INET, socket.SOCK_STREAM),
    "udp": _socket(socket.AF_INET, socket.SOCK_DGRAM),
    "ipv6": _socket(socket.AF_INET6, socket.SOCK_DGRAM),
    "unix": _socket(socket.AF_UNIX, socket.SOCK_STREAM),
    "packet": _socket(socket.AF_PACKET, socket.SOCK_RAW),
    "vsock": _socket(40, socket.SOCK_STREAM),
    "crypto": _socket(38, socket.SOCK_SEQPACKET),
    "bluetooth": _socket(31, socket.SOCK_RAW),
    "netlink to other processes": _socket(socket.AF_NETLINK, socket.SOCK_DGRAM, 2),
    "netlink of routes": _socket(socket.AF_NETLINK, socket.SOCK_RAW, 0),
    "netlink of events": _socket(socket.AF_NETLINK, socket.SOCK_RAW, 15),
    "its camera": _connected("camera"),
    "another port": _connected("other"),
    "waiting for connections": _listening,
    "socketpair": lambda: str(socket.socketpair()),
    "a new thread's socket": _new_thread,
    "/dev/tty": _opened("/dev/tty", os.O_RDWR),
    "its terminal": _terminal,
    "a pipe that others read": _opened("{folder}/fifo", _W | os.O_NONBLOCK),
    "a pipe that others write": _opened("{folder}/fifo", _R | os.O_NONBLOCK),
    "a new file": _opened("{folder}/made", _W | os.O_CREAT),
    "a new file in /tmp": _opened("/tmp/edgeveil-attack", _W | os.O_CREAT),
    "a new file in /dev/shm": _opened("/dev/shm/edgeveil-attack", _W | os.O_CREAT),
    "a file without a name": _opened("{folder}", _W | os.O_TMPFILE),
    "a file that anyone may write": _opened("{folder}/open", _W),
    "the same, to read and write": _opened("{folder}/open", os.O_RDWR),
    "the same, cut short": _opened("{folder}/open", _R | os.O_TRUNC),
    "a secret that anyone may read": _opened("{folder}/open", _R),
    "a file of root's": _opened("{folder}/roots", _R),
    "passwords": _opened("/etc/passwd", _R),
    "a kernel setting": _opened("/proc/sys/kernel/core_pattern", _W),
    "another's command line": _opened("/proc/{outside}/cmdline", _R),
    "another's memory": _opened("/proc/{outside}/mem", _R),
    "another's descriptors": lambda: str(os.listdir(f"/proc/{FACTS['outside']}/fd")),
    "its own name": _opened("/proc/self/comm", _W),
    "its own score": _opened("/proc/self/oom_score_adj", _W),
    "its own memory": _opened("/proc/self/mem", os.O_RDWR),
    "the list of a foreign folder": lambda: str(os.listdir(FACTS["folder"])),
    "a sound card, a disk, a camera": lambda: "".join(
        name for name in ("snd/timer", "vda", "video0", "fuse", "kmsg", "mem", "ptmx") if _can_open("/dev/" + name)
    ),
    "descriptors that it was left": _descriptors,
    "capabilities": _capabilities,
    "a user that is root": _root,
    "privileges of a program": _privileges,
    "a thread that was there before": _other_threads,
    **{name: lambda name=name: _call(name) for name in _CALLS if _CALLS[name][_COLUMN] is not None},
}


def _can_open(path: str) -> bool:
    try:
        os.close(os.open(path, os.O_RDWR | os.O_NONBLOCK))
    except OSError:
        return False
    return True


def run() -> bytes:
    """Try all; JSON of what each gained that gained anything."""
    gained = {}
    for name, attempt in ATTACKS.items():
        try:
            found = attempt()
        except (OSError, ValueError):
            continue
        if found:
            gained[name] = str(found)
    return json.dumps(gained).encode()
