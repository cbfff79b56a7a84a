"""The inside has no network and no files: it cuts itself off before it opens a bundle, as far as the system allows.

A network namespace of its own has only a loopback that is down; root may enter one, and an ordinary user where user
namespaces are allowed. A seccomp filter refuses every system call that its interpreter and source were not seen to need
(``allowed_calls``), or, where nothing was measured, those that reach out of a process. Landlock refuses every file but
the system's own and the source's. It has no capability, and is never root.
"""

import contextlib
import ctypes
import os
import platform
import pwd
import resource
import sys
from importlib.util import find_spec
from typing import Iterable, List, NamedTuple, Optional, Sequence

from edgeveil.edge_runtime import machine
from edgeveil.edge_runtime.device import compiled_formats, hears_of_usb
from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.kinds import SOURCES, backends, device_file, fact_of
from edgeveil.edge_runtime.sandbox import allowed_calls, hardening, landlock, seccomp

# Another user for a process that the service starts as root.


_NOBODY = 65534  # everywhere; not looked up, which may ask another process
_PR_SET_KEEPCAPS, _CAP_SETUID = 8, 1 << 7

Account = NamedTuple("Account", [("uid", int), ("gid", int), ("groups", List[int]), ("home", str)])


def find_account(name: str) -> Account:
    """The account ``name`` with all its groups. Raises ``BadInput`` if this process cannot become it."""
    if os.geteuid() != 0:
        raise BadInput("only root can start a process as the user {}: run it as root".format(name))
    try:
        user = pwd.getpwnam(name)
    except KeyError:
        problem = "expected a user of this system; there is no {}: add one with useradd --system".format(name)
        raise BadInput(problem) from None
    if user.pw_uid == 0:
        raise BadInput("expected a user other than root for the process with the camera; got {}".format(name))
    return Account(user.pw_uid, user.pw_gid, os.getgrouplist(user.pw_name, user.pw_gid), user.pw_dir)


def nobody() -> Account:
    """The account ``nobody``, with no group but its own."""
    return Account(_NOBODY, _NOBODY, [], "/nonexistent")


def become(account: Account, *, files_of_root: bool = False) -> None:
    """Run as that account from now on, irrevocably. Raises ``OSError`` if the system refuses.

    The process may then lock memory without limit, which only root can grant. ``files_of_root``: it still counts as
    their owner where it opens files, and as nothing more, until its next change of user.
    """
    # A container may forbid it; the inside reports whether its memory is locked.
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    os.setgroups(account.groups)
    os.setgid(account.gid)
    if files_of_root:
        hardening.prctl(_PR_SET_KEEPCAPS, 1)
    # The saved one too, from which there would be a way back.
    os.setresuid(*[account.uid] * 3)
    if files_of_root:
        hardening.set_capabilities(_CAP_SETUID)
        ctypes.CDLL(None).setfsuid(0)
        hardening.set_capabilities(0)
    os.environ["HOME"] = account.home
    hardening.no_new_privileges()
    # A change of user undoes both.
    hardening.no_core_dumps()
    hardening.end_with_parent()


def leave_root(account: Optional[Account], refusal: str, *, files_of_root: bool = False) -> bool:
    """Run as ``account``, or as ``nobody`` where root started this process; returns whether it is that user.

    ``files_of_root`` as ``become``, for ``nobody`` alone. Raises ``BadInput`` with ``refusal`` if it would remain root.
    """
    as_nobody = account is None and os.geteuid() == 0
    if account is not None:
        become(account)
    elif as_nobody:
        become(nobody(), files_of_root=files_of_root)
    if 0 in (os.getuid(), os.geteuid()):
        raise BadInput(refusal)
    return as_nobody


def give_up_rights() -> None:
    """Without new privileges, capabilities, dumps and unbounded memory, for a process that brings frames."""
    hardening.limit_memory(machine.process_limit_bytes())
    hardening.no_new_privileges()
    hardening.set_capabilities(0)
    hardening.no_core_dumps()
    hardening.end_with_parent()  # a change of user or rights undid both


# A network namespace of this process's own.


_CLONE_NEWUSER, _CLONE_NEWNET = 0x10000000, 0x40000000


def without_network(user: bool = False) -> bool:
    """Enter a network namespace of one's own; returns whether the system allows it.

    ``user``: and a user namespace, in which an ordinary user may do so.
    """
    flags = _CLONE_NEWNET | _CLONE_NEWUSER if user else _CLONE_NEWNET
    try:
        return bool(ctypes.CDLL(None, use_errno=True).unshare(flags) == 0)
    except (OSError, AttributeError):
        return False


NAMESPACE, FILTER, LANDLOCK, CONVENTION = "network namespace", "seccomp filter", "Landlock", "by convention only"
WIDE = "(wide: what this source or device needs was not measured)"

# Below these lie the system's libraries, what it says of its processor and itself, and its random numbers.
_SYSTEM = (
    "/usr /lib /lib32 /lib64 /etc/ld.so.cache /etc/localtime /sys/devices/system /sys/firmware/devicetree "
    "/proc/self /proc/cpuinfo /proc/meminfo /proc/stat /proc/sys/vm /proc/sys/kernel/osrelease "
    "/dev/null /dev/urandom /dev/random"
)


def runtime_files() -> List[str]:
    """The system's own files and folders, Python's and its packages'."""
    own = [path for path in sys.path if path] + [sys.prefix, sys.base_prefix, sys.exec_prefix]
    own.append(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))  # where a link in sys.path leads
    return _SYSTEM.split() + own + [path for path in os.environ.get("LD_LIBRARY_PATH", "").split(":") if path]


def needs_network(source: str, device: str) -> bool:
    """Whether the inside must stay in the system's network namespace, where only the seccomp filter restricts it.

    This is so for a sensor that is a network interface, and for an accelerator whose driver waits for udev to announce
    its stick: udev announces in the system's own namespace only.
    """
    return bool(fact_of(SOURCES, source, "interface")) or hears_of_usb(device)


class Isolation(object):
    """Cuts this process off in two steps: ``enter`` before it opens a bundle, ``settle`` once its source is open.

    ``source``, ``backend`` and ``device`` are those of its settings: they decide what it needs. ``readable`` are
    further files and folders that it may read.
    """

    def __init__(
        self, source: str, backend: str = "auto", device: str = "cpu", *, readable: Sequence[str] = ()
    ) -> None:
        self._source, self._device, self._more = source, device, list(readable)
        self._backends = _candidates(backend)
        self._measured = allowed_calls.measured(source, self._backends, device)
        self._account: Optional[Account] = None
        self._filtered = False

    def enter(self, namespace: bool = True, account: Optional[Account] = None) -> str:
        """Cut this process off from every network and file, and run as ``account``; returns the means, in words.

        Call it while the process has one thread: all of it applies to a thread and its children. ``namespace`` False
        omits the namespace (``needs_network``). Started as root, it becomes the user ``nobody`` unless ``account`` says
        another; until ``settle`` it may open what root's own files are, so its source need not belong to ``nobody``.
        Raises ``OSError`` if the system refuses the account, ``BadInput`` if it would remain root.
        """
        bound = hardening.ends_with_parent()
        hardening.no_terminal()
        single = len(os.listdir("/proc/self/task")) == 1
        # Root enters a network namespace as root: in a user namespace there is no other user to become.
        separate = namespace and single and without_network()
        refusal = "the process that sees raw frames does not run as root: name a user with --inside-user"
        if leave_root(account, refusal, files_of_root=True):
            self._account = nobody()
        if not single:
            return CONVENTION
        means: List[str] = []
        if separate or (namespace and without_network(user=True)):
            means.append(NAMESPACE)
        hardening.no_new_privileges()
        hardening.set_capabilities(0)
        self._renew(bound)
        restricted = self._measured and landlock.restrict(self._readable(), self._devices())
        self._filtered = self._filter(settled=False)
        if self._filtered:
            means.append(FILTER if self._measured else FILTER + " " + WIDE)
        if restricted:
            means.append(LANDLOCK)
        return " and ".join(means) or CONVENTION

    def settle(self, backends: Iterable[str]) -> None:
        """Give up what only opening needed, and what other interpreters than these need, before the first frame.

        Raises ``OSError`` where that is refused.
        """
        if self._account is not None:
            # By the C library, which does it in all threads; it makes the files of root foreign, too.
            bound = hardening.ends_with_parent()
            os.setresuid(*[self._account.uid] * 3)
            self._renew(bound)
        if self._filtered and self._measured:
            self._backends = list(backends)
            self._filter(settled=True)

    def _renew(self, bound: bool) -> None:
        """What a change of user or rights undoes."""
        hardening.no_core_dumps()
        if bound:
            hardening.end_with_parent()

    def _filter(self, settled: bool) -> bool:
        rules = allowed_calls.rules(self._source, self._backends, self._device, os.getpid(), settled=settled)
        return seccomp.restrict(rules, platform.machine())

    def _readable(self) -> List[str]:
        """The system, Python and its packages, and what the source reads."""
        place = self._source.partition(":")[2]
        read = [os.path.abspath(place)] if fact_of(SOURCES, self._source, "file") else []
        return runtime_files() + self._more + read

    def _devices(self) -> List[str]:
        path = device_file(self._source)
        return [] if path is None else [os.path.realpath(path)]


def _candidates(backend: str) -> List[str]:
    """The interpreters that may run for this word of the settings: all that were measured, if one of them is here."""
    if backend != "auto":
        return [backend]
    on_processor = [kind for kind in backends() if not compiled_formats().issuperset(kind.facts["formats"])]
    here = [kind for kind in on_processor if kind.name != "numpy" and find_spec(kind.facts["package"]) is not None]
    if any("calls" in kind.facts for kind in here):
        return allowed_calls.interpreters()
    return [kind.name for kind in here] or allowed_calls.interpreters()


# The process that asks a camera's daemon for frames has that daemon's socket, and no network, file or program.
#
# NVIDIA's CSI cameras belong to nvargus-daemon, which answers at a socket in the file system. The inside may open no
# socket at all, so another process asks: in a network namespace of its own, with sockets of the file system alone.


def enter(account: Optional[Account], *, runs: bool = False) -> None:
    """Cut this process off from all but sockets of the file system and devices, as ``account`` or as ``nobody``.

    All code must be loaded and the pipeline be made: afterwards no program starts, but where it ``runs`` a helper,
    which is as cut off as this process. Raises ``OSError`` if the system refuses the account, ``BadInput`` if it would
    remain root.
    """
    hardening.no_terminal()
    separate = without_network()
    refusal = "the process that asks for a camera's frames does not run as root: name a user, --inside-user"
    leave_root(account, refusal)
    if not separate:
        without_network(user=True)
    give_up_rights()
    # It may read, for its library's settings, and write to devices; no file is made anywhere.
    landlock.restrict(["/"], ["/dev"], runs=runs)
    seccomp.restrict(allowed_calls.by_helper() if runs else allowed_calls.by_daemon(), platform.machine())
