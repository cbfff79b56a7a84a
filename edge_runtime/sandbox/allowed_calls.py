"""The system calls that the inside may make, by name: what its interpreter and its source need, and no others.

Measured with strace on x86-64 by ``tests/security/measure.py`` (docs/results/system-calls.json); next to them stand the
same calls by the other names that older C libraries and 32-bit ARM use for them. A call that the kernel knows and that
is not here is refused. ``CHECKED`` calls pass with some arguments only.
"""

from typing import Dict, Iterable, List, NamedTuple, Optional, Tuple

from edgeveil.edge_runtime.device import CPU
from edgeveil.edge_runtime.kinds import BACKENDS, SOURCES, backends, fact_of

_GROUPS = {
    "memory": "brk madvise membarrier mlock mlockall mmap mmap2 mprotect mremap munlock munmap",
    "threads": (
        "clone exit exit_group futex futex_time64 get_robust_list getpid gettid rseq rt_sigaction rt_sigprocmask "
        "rt_sigreturn sched_getaffinity sched_getparam sched_getscheduler sched_yield set_robust_list set_tid_address "
        "sigaltstack sigreturn tgkill cacheflush set_tls"
    ),
    "time": (
        "clock_getres clock_getres_time64 clock_gettime clock_gettime64 clock_nanosleep clock_nanosleep_time64 "
        "gettimeofday nanosleep restart_syscall setitimer time"
    ),
    "reading": (
        "_llseek access close faccessat faccessat2 fcntl fcntl64 fstat fstat64 fstatat64 fstatfs fstatfs64 getcwd "
        "getdents getdents64 lseek lstat lstat64 newfstatat open openat pread64 preadv read readlink readlinkat readv "
        "stat stat64 statfs statfs64 statx"
    ),
    "pipes": "_newselect poll ppoll ppoll_time64 pselect6 pselect6_time64 select write writev",
    "itself": (
        "getegid getegid32 geteuid geteuid32 getgid getgid32 getppid getrandom getrlimit getrusage getuid getuid32 "
        "prlimit64 setrlimit ugetrlimit"
    ),
}
_EVERYWHERE = frozenset(" ".join(_GROUPS.values()).split())
# Until the source is open: the last restrictions and the last change of user are still to come.
SETTLING = frozenset(["prctl", "seccomp", "setresuid", "setresuid32"])
# What was refused before there was a list of what is allowed, and more: for what could not be measured.
_REACHING_OUT = (
    "socketpair io_uring_setup io_uring_enter io_uring_register ptrace process_vm_readv process_vm_writev "
    "process_madvise pidfd_open pidfd_getfd pidfd_send_signal kcmp shmget shmat shmctl msgget msgsnd msgrcv msgctl "
    "semget semop semctl semtimedop semtimedop_time64 mq_open mq_unlink mq_timedsend mq_timedreceive mq_notify "
    "add_key request_key keyctl bpf perf_event_open userfaultfd mount umount2 pivot_root move_mount open_tree "
    "fsopen fsmount chroot setns init_module finit_module delete_module kexec_load kexec_file_load reboot swapon "
    "swapoff acct settimeofday clock_settime adjtimex sethostname setdomainname quotactl syslog mknod mknodat "
    "symlink symlinkat link linkat setxattr lsetxattr fsetxattr open_by_handle_at name_to_handle_at fanotify_init "
    "vhangup personality"
)
REFUSED = frozenset(_REACHING_OUT.split())
_HELPERS = frozenset(["socketpair"])  # Python's own subprocess and asyncio, and libusb, use it within a process
_STARTING = frozenset(["execve", "execveat"])
# What an interpreter or a source needs beyond that is its fact ``calls``, where it was measured.
# The process that fetches a network camera's frames: Python's HTTP and TLS or FFmpeg's RTSP, over TCP; names by DNS.
_FETCHING = (
    "bind connect getpeername getsockname getsockopt recv recvfrom recvmsg send sendmmsg sendmsg sendto setsockopt "
    "shutdown sysinfo uname"
)
# What it needs in addition where it checks TLS for FFmpeg, which calls a socket that listens before the filter.
_ACCEPTING = frozenset(["accept", "accept4"])

# A call with a condition: an argument, with one of some masks, is the value that goes with it.
Condition = NamedTuple("Condition", [("argument", int), ("pairs", Tuple[Tuple[int, int], ...])])
_WRITING, _CREATING = 0o3, 0o100 | 0o1000 | 0o20000000  # the access mode; O_CREAT, O_TRUNC and the bit of O_TMPFILE
_INET, _INET6, _NETLINK, _ROUTE, _UEVENT, _GENERIC, _TCP, _UDP = 2, 10, 16, 0, 15, 16, 6, 17
_UNIX = 1
_THREAD = 0x10000  # CLONE_THREAD: a thread, and no process
_NEWUSER = 0x10000000  # CLONE_NEWUSER
# F_DUPFD, F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_DUPFD_CLOEXEC, F_SETPIPE_SZ, F_GETPIPE_SZ: none of them signals, or
# locks a file, which others would notice
_FCNTL = (0, 1, 2, 3, 4, 1030, 1031, 1032)
_IOCTL = (0x5401, 0x5421, 0x5450, 0x5451)  # TCGETS, FIONBIO, FIONCLEX, FIOCLEX: what Python asks of its descriptors
_FIONREAD = 0x541B  # what the resolver asks of an answer


def _one_of(argument: int, values: Iterable[int]) -> Condition:
    return Condition(argument, tuple((0xFFFFFFFF, value) for value in values))


Rules = NamedTuple(
    "Rules",
    [
        ("allowed", Optional[frozenset]),  # None: everything but ``refused``
        ("refused", frozenset),
        ("checked", Dict[str, List[Condition]]),
    ],
)


def interpreters() -> List[str]:
    """The interpreters that were measured."""
    return [kind.name for kind in backends() if "calls" in kind.facts]


def measured(source: str, names: Iterable[str], device: str) -> bool:
    """Whether it is known which calls this source needs, and these interpreters on this device."""
    return fact_of(SOURCES, source, "calls") is not None and set(names) <= set(interpreters()) and device == CPU


def no_network() -> Rules:
    """For a program that may start others, and reaches no network."""
    return Rules(None, REFUSED, {"socket": [_one_of(0, (_NETLINK,)), _one_of(2, (_UEVENT,))]})


def no_namespaces() -> Rules:
    """For a program that may start others, and makes no user namespace, in which it would have every right."""
    return Rules(None, frozenset(["setns", "unshare"]), {"clone": [Condition(0, ((_NEWUSER, 0),))]})


def by_daemon() -> Rules:
    """For a process that asks a daemon of this device for frames: sockets of the file system, and no program."""
    return Rules(None, REFUSED | _STARTING, {"socket": [_one_of(0, (_UNIX,))]})


def by_helper() -> Rules:
    """For a process with a vendor's library or program: it may start programs, hears udev, and reaches no network."""
    sockets = [_one_of(0, (_UNIX, _NETLINK)), _one_of(2, (0, _UEVENT))]
    return Rules(None, REFUSED - _HELPERS, {"socket": sockets})


def fetching(process: int) -> Rules:
    """The rules for the process with the id ``process`` that fetches frames over a network."""
    checked = _checked(process, [0], _one_of(1, _IOCTL + (_FIONREAD,)))
    # The resolver asks the system for its own addresses; the protocol is that of all three families.
    checked["socket"] = [_one_of(0, (_INET, _INET6, _NETLINK)), _one_of(2, (_ROUTE, _TCP, _UDP))]
    return Rules(_EVERYWHERE.union(["ioctl", "socket"], _FETCHING.split()), frozenset(), checked)


def accepting(given: Rules) -> Rules:
    """The same rules, for a process that takes calls at a socket that listens already; it can make none listen."""
    return given._replace(allowed=None if given.allowed is None else given.allowed | _ACCEPTING)


def rules(source: str, names: Iterable[str], device: str, process: int, *, settled: bool) -> Rules:
    """The rules for the process with the id ``process``. ``settled``: its source is open and no frame was read yet."""
    if not measured(source, names, device):
        interface = fact_of(SOURCES, source, "interface")
        protocols = (_UEVENT, _GENERIC) if interface else (_UEVENT,)
        sockets = [_one_of(0, (_NETLINK,)), _one_of(2, protocols)]
        # Only a scan of Wi-Fi is made by a program.
        return Rules(None, REFUSED if interface else REFUSED | _STARTING, {"socket": sockets})
    ioctls = fact_of(SOURCES, source, "ioctls")  # of a device that it opens
    modes = range(1) if ioctls is None else range(3)
    commands = _one_of(1, _IOCTL)
    if ioctls is not None:
        commands = Condition(1, commands.pairs + ((0xFF00, ioctls << 8),))
    checked = _checked(process, modes, commands)
    needed = [fact_of(SOURCES, source, "calls")] + [BACKENDS[name].facts["calls"] for name in names]
    allowed = _EVERYWHERE.union(["ioctl"], *(calls.split() for calls in needed))
    return Rules(allowed if settled else allowed | SETTLING, frozenset(), checked)


def _checked(process: int, modes: Iterable[int], commands: Condition) -> Dict[str, List[Condition]]:
    """The calls that pass with some arguments only: ``modes`` of opening a file, ``commands`` of ioctl."""
    opening = tuple((_WRITING | _CREATING, mode) for mode in modes)
    return {
        "open": [Condition(1, opening)],
        "openat": [Condition(2, opening)],
        "clone": [Condition(0, ((_THREAD, _THREAD),))],
        "tgkill": [_one_of(0, (process,))],
        "prlimit64": [_one_of(0, (0,))],
        "fcntl": [_one_of(1, _FCNTL)],
        "fcntl64": [_one_of(1, _FCNTL)],
        "ioctl": [commands],
    }
