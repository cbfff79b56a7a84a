"""The trial of a release on this board, by two runtimes, both as a user that may change nothing.

The installed runtime verifies the bundle, runs its golden vectors and perturbs some frames: that decides. The bundle's
own runtime does the same on synthetic frames, and must come to the same verdict. It is code that a signing key brought:
it never runs as root, sees no raw frame and has no network (``releases.confinement``).
"""

import contextlib
import grp
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple

from edgeveil.edge_runtime import config, paths
from edgeveil.edge_runtime.bundle.index_seen import index_seen
from edgeveil.edge_runtime.bundle.reader import Bundle
from edgeveil.edge_runtime.bundle.trust_store import open_trust
from edgeveil.edge_runtime.camera_address import on_network
from edgeveil.edge_runtime.device import CPU, check_device, hears_of_usb, open_limit_s
from edgeveil.edge_runtime.errors import BadInput, DeviceFailed
from edgeveil.edge_runtime.ledger.board_total import board_total
from edgeveil.edge_runtime.manifest.schema import RUNTIME_MEMBER
from edgeveil.edge_runtime.releases import confinement
from edgeveil.edge_runtime.releases.runtimes import Runtimes
from edgeveil.edge_runtime.releases.store import BUNDLE, RUNTIME, Releases
from edgeveil.edge_runtime.signing.keys import Key, public_key_line

TRIAL_FRAMES = 30
TRIAL_FRAMES_S = 120  # for its frames, besides what opening may take
# Groups that may open cameras and accelerators, by the names that the boards' systems give them.
_DEVICE_GROUPS = ("apex", "plugdev", "render", "users", "video")


def open_releases(root: str) -> Releases:
    """The ``Releases`` under ``root``, with the device's own trust and policy. Raises ``BadInput``."""
    if not os.path.isdir(root):
        raise BadInput("There is no {} on this board: flash it first, over a channel you trust.".format(root))
    return Releases(root, lambda floor: open_trust(os.path.join(root, "trust"), floor=floor))


def trial(
    root: str,
    source: Optional[str] = None,
    frames: int = TRIAL_FRAMES,
    device: str = CPU,
    say: Callable[[str], None] = lambda _: None,
) -> Callable[[str, Bundle], None]:
    """A function that tries the release in a folder, in processes of their own. It raises ``DeviceFailed``."""
    root = os.path.realpath(root)
    words = ["--frames", str(frames)] + (["--device", device] if device != CPU else [])

    def run(folder: str, bundle: Bundle) -> None:
        command, environment = _installed_runtime(root)
        place = os.path.join(os.path.realpath(folder), BUNDLE)
        more = ["--source", source] if source else []
        begin = command + ["try", place, "--trust", os.path.join(root, "trust")]
        _passes("its trial", begin + words + more, root, device, source, environment)
        if os.geteuid() != 0:
            say("note: the bundle's own runtime was not tried: only root can give it another user")
            return
        if device != CPU:
            # It would get the devices of this board, and with some of them its network.
            say("note: the bundle's own runtime was not tried: nothing of a bundle is given the {}".format(device))
            return
        with _own_runtime(root, bundle) as (own, trust):
            begin = [sys.executable, own, "try", place, "--trust", trust]
            _passes("the trial by its own runtime", begin + words, root, device, None, ())

    return run


def _passes(
    what: str,
    command: List[str],
    root: str,
    device: str,
    source: Optional[str],
    environment: Sequence[Tuple[str, str]],
) -> None:
    limit_s = TRIAL_FRAMES_S + int(open_limit_s(device))
    ended = confinement.run(
        command,
        root=root,
        limit_s=limit_s,
        groups=_groups() if source or device != CPU else [],
        network=hears_of_usb(device) or (source is not None and on_network(source)),
        environment=environment,
    )
    if ended.code is None:
        raise DeviceFailed("{} took more than {} s".format(what, limit_s))
    if ended.code:
        killed = ended.code in (-signal.SIGKILL, 128 + signal.SIGKILL)
        silent = "killed: there may be too little memory" if killed else "without a message"
        last = ended.error.strip().splitlines()[-1:] or [silent]
        raise DeviceFailed("{} ended with code {} ({})".format(what, ended.code, last[0][:300]))


def _installed_runtime(root: str) -> Tuple[List[str], List[Tuple[str, str]]]:
    """The command that starts it, and what it needs in its environment."""
    runtimes = Runtimes(root)
    if runtimes.current is not None:
        return [sys.executable, runtimes.path(runtimes.current)], []
    zipapp = paths.zipapp()
    if zipapp is not None:
        return [sys.executable, zipapp], []
    where = os.pathsep.join(os.path.realpath(path) for path in sys.path if path)
    return [sys.executable, "-m", "edgeveil.edge_runtime"], [("PYTHONPATH", where)]


@contextlib.contextmanager
def _own_runtime(root: str, bundle: Bundle) -> Iterator[Tuple[str, str]]:
    """The bundle's own runtime as a file, and a trust folder of the one key that was found to have signed the bundle.

    It may be older or newer than this one, and need not understand this board's trust file.
    """
    folder = tempfile.mkdtemp(prefix="trial-", suffix=".tmp", dir=root)
    try:
        os.chmod(folder, 0o755)  # noqa: S103 - another user runs it
        for name in ("own", "trust"):
            os.mkdir(os.path.join(folder, name))
        # Two folders deep, as an installed one is: it looks for wheels in ../../site.
        own, trust = os.path.join(folder, "own", RUNTIME), os.path.join(folder, "trust")
        key = public_key_line(Key(bundle.key, "signer", bundle.development)).encode("ascii")
        for path, data in ((own, bundle.members[RUNTIME_MEMBER]), (os.path.join(trust, "signer.pub"), key)):
            with open(path, "wb") as file:
                file.write(data)
        for path in (os.path.dirname(own), trust, own, os.path.join(trust, "signer.pub")):
            os.chmod(path, 0o755)  # noqa: S103
        yield own, trust
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _groups() -> List[int]:
    return sorted(group.gr_gid for group in grp.getgrall() if group.gr_name in _DEVICE_GROUPS)


def trial_device(word: Optional[str], root: str) -> str:
    """The device to try a release on: ``word``, else the one in the settings of the service of ``root``."""
    if word:
        return check_device(word)
    service = paths.service_of(root)
    own = None if service == paths.FIRST else paths.named(paths.DEFAULT_PATH, service)
    return str(config.read(own).get("device", CPU)) if own is None or os.path.lexists(own) else CPU


def units(root: str) -> List[str]:
    """The sending and the perturbing unit of the service of ``root``.

    Both by name: the inside holds the accelerator even while the outside starts, and stop ends only the units named.
    """
    service = paths.service_of(root)
    return ["{}.service".format(service), "{}-inside.service".format(service)]


@contextlib.contextmanager
def service_stopped(root: str, device: str, say: Callable[[str], None]) -> Iterator[None]:
    """Stop the service of ``root`` while a release is tried on an accelerator: only one process can open it.

    A service that systemd does not run must be stopped by its user.
    """
    both = units(root)
    if device == CPU or not os.path.isdir(paths.SYSTEMD) or _exit_code(["systemctl", "--quiet", "is-active"] + both):
        yield
        return
    if _exit_code(["systemctl", "stop"] + both) != 0:
        raise DeviceFailed("the service could not be stopped, and it uses the {}: stop it by hand".format(device))
    try:
        yield
    finally:
        if _exit_code(["systemctl", "start", both[0]]) != 0:
            say("the service was stopped for the trial and did not start again: see edgeveil logs, or its journal")


def _exit_code(command: List[str]) -> int:
    """The exit code of a system command; 127 where there is none."""
    try:
        return subprocess.call(  # noqa: S603 - words of ours
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
    except OSError:
        return 127


def status(root: str) -> Dict[str, Any]:
    """What runs under ``root``, as a JSON document."""
    releases = open_releases(root)
    state = releases.state()
    bundle = releases.read(state.committed) if state.committed else None
    return {
        "schema": 1,
        "committed": state.committed,
        "current": releases.current,
        "name": bundle.manifest.name if bundle else None,
        "security_version": bundle.manifest.security_version if bundle else None,
        "previous": state.previous,
        "floor": state.floor,
        "failed": state.failed,
        "reason": state.reason,
        "runtime": Runtimes(root).current,
        "index": index_seen(root),
        "spent": board_total(),
    }
