"""The inside has no network and no files: it cuts itself off before it opens a bundle, as far as the system allows.

A network namespace of its own has only a loopback that is down; root may enter one, and an ordinary user where user
namespaces are allowed. A seccomp filter refuses every system call that its interpreter and source were not seen to need
(``allowed_calls``), or, where nothing was measured, those that reach out of a process. Landlock refuses every file but
the system's own and the source's. It has no capability, and is never root.
"""

import os
import platform
import sys
from importlib.util import find_spec
from typing import Iterable, List, Optional, Sequence

from edgeveil.edge_runtime.device import hears_of_usb
from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.sandbox import account as accounts
from edgeveil.edge_runtime.sandbox import allowed_calls, hardening, landlock, namespaces, seccomp
from edgeveil.edge_runtime.sandbox.account import Account

NAMESPACE, FILTER, LANDLOCK, CONVENTION = "network namespace", "seccomp filter", "Landlock", "by convention only"
WIDE = "(wide: what this source or device needs was not measured)"

# Sensors that are network interfaces: in a namespace of its own, the inside would not see them.
_NETWORK_SENSORS = ("wifi",)
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
    return source.partition(":")[0] in _NETWORK_SENSORS or hears_of_usb(device)


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
        omits the namespace (``needs_network``). Started as root, it becomes the user nobody unless ``account`` says
        another; until ``settle`` it may open what root's own files are, so that its source need not belong to nobody.
        Raises ``OSError`` if the system refuses the account, ``BadInput`` if it would remain root.
        """
        bound = hardening.ends_with_parent()
        hardening.no_terminal()
        single = len(os.listdir("/proc/self/task")) == 1
        # Root enters a network namespace as root: in a user namespace there is no other user to become.
        separate = namespace and single and namespaces.without_network()
        if account is not None:
            accounts.become(account)
        elif os.geteuid() == 0:
            self._account = accounts.nobody()
            accounts.become(self._account, files_of_root=True)
        if 0 in (os.getuid(), os.geteuid()):
            raise BadInput("the process that sees raw frames does not run as root: name a user with --inside-user")
        if not single:
            return CONVENTION
        means: List[str] = []
        if separate or (namespace and namespaces.without_network(user=True)):
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
        kind, _, place = self._source.partition(":")
        read = [os.path.abspath(place)] if kind in ("csv", "arff", "npz", "images", "video") else []
        return runtime_files() + self._more + read

    def _devices(self) -> List[str]:
        kind, _, place = self._source.partition(":")
        if kind != "camera":
            return []
        return [os.path.realpath("/dev/video" + place if place.isdigit() else place)]


def _candidates(backend: str) -> List[str]:
    """The interpreters that may run for this word of the settings: all that were measured, if one of them is here."""
    if backend != "auto":
        return [backend]
    modules = ("ai_edge_litert", "tflite_runtime", "onnxruntime")
    only_openvino = find_spec("openvino") is not None and not any(find_spec(name) for name in modules)
    return ["openvino"] if only_openvino else allowed_calls.interpreters()
