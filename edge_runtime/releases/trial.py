"""The trial of a release on this board: its own runtime verifies it, tests it and perturbs some frames.

The installed runtime starts the trial: the content of a new bundle is data until that bundle is verified.
"""

import contextlib
import os
import subprocess
import sys
from typing import Any, Callable, Dict, Iterator, List, Optional

from edgeveil.edge_runtime import config, paths
from edgeveil.edge_runtime.bundle.reader import Bundle
from edgeveil.edge_runtime.bundle.trust_store import open_trust
from edgeveil.edge_runtime.device import CPU, check_device
from edgeveil.edge_runtime.errors import BadInput, DeviceFailed
from edgeveil.edge_runtime.releases.store import Releases

TRIAL_FRAMES = 30
TRIAL_LIMIT_S = 300
# Both by name: the inside holds the accelerator even while the outside starts, and stop ends only the units named.
_UNITS = ["edgeveil.service", "edgeveil-inside.service"]


def open_releases(root: str) -> Releases:
    """The ``Releases`` under ``root``, with the device's own trust and policy. Raises ``BadInput``."""
    if not os.path.isdir(root):
        raise BadInput("There is no {} on this board: flash it first, over a channel you trust.".format(root))
    return Releases(root, lambda floor: open_trust(os.path.join(root, "trust"), floor=floor))


def trial(
    root: str, source: Optional[str] = None, frames: int = TRIAL_FRAMES, device: str = CPU
) -> Callable[[str, Bundle], None]:
    """A function that tries the release in a folder, in a process of its own. It raises ``DeviceFailed``."""

    def run(folder: str, _bundle: Bundle) -> None:
        runtime, bundle = os.path.join(folder, "edgeveil-edge.pyz"), os.path.join(folder, "bundle.veil")
        command = [sys.executable, runtime, "try", bundle, "--trust", os.path.join(root, "trust")]
        command += ["--frames", str(frames)]
        if source:
            command += ["--source", source]
        if device != CPU:
            command += ["--device", device]
        try:
            done = subprocess.run(  # noqa: S603 - a release that was verified
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=TRIAL_LIMIT_S
            )
        except subprocess.TimeoutExpired:
            raise DeviceFailed("its trial took more than {} s".format(TRIAL_LIMIT_S)) from None
        if done.returncode:
            last = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:] or ["without a message"]
            raise DeviceFailed("its trial ended with code {} ({})".format(done.returncode, last[0][:300]))

    return run


def trial_device(named: Optional[str]) -> str:
    """The device to try a release on: the one named, else the one in the settings of the service."""
    return check_device(named) if named else str(config.read(None).get("device", CPU))


@contextlib.contextmanager
def service_stopped(device: str, say: Callable[[str], None]) -> Iterator[None]:
    """Stop the service while a release is tried on an accelerator, which only one process can open at a time.

    A service that systemd does not run must be stopped by its user.
    """
    if device == CPU or not os.path.isdir(paths.SYSTEMD) or _exit_code(["systemctl", "--quiet", "is-active"] + _UNITS):
        yield
        return
    if _exit_code(["systemctl", "stop"] + _UNITS) != 0:
        raise DeviceFailed("the service could not be stopped, and it uses the {}: stop it by hand".format(device))
    try:
        yield
    finally:
        if _exit_code(["systemctl", "start", _UNITS[0]]) != 0:
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
    }
