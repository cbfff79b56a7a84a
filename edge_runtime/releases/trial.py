"""``edgeveil-edge install | update | recover | rollback | status | releases | trust | policy``: what this board runs.

The installed runtime does all of it: what lies inside a new bundle is data until that bundle has been verified.
"""

import contextlib
import os
import subprocess
import sys

from edgeveil.edge_runtime.device import CPU, check_device
from edgeveil.edge_runtime.errors import BadInput, DeviceFailed

TRIAL_FRAMES = 30
TRIAL_LIMIT_S = 300


def open_releases(root):
    """The ``Releases`` under ``root``, with the device's own trust and policy. Raises ``BadInput``."""
    from edgeveil.edge_runtime.bundle.trust_store import open_trust
    from edgeveil.edge_runtime.releases.store import Releases

    if not os.path.isdir(root):
        raise BadInput("There is no {} on this board: flash it first, over a channel you trust.".format(root))
    return Releases(root, lambda floor: open_trust(os.path.join(root, "trust"), floor=floor))


def trial(root, source=None, frames=TRIAL_FRAMES, device=CPU):
    """The trial of a release: its own runtime, in its own process, verifies it, tests it and perturbs some frames."""

    def run(folder, _bundle):
        command = [
            sys.executable,
            os.path.join(folder, "edgeveil-edge.pyz"),
            "try",
            os.path.join(folder, "bundle.veil"),
        ]
        command += ["--trust", os.path.join(root, "trust"), "--frames", str(frames)]
        if source:
            command += ["--source", source]
        if device != CPU:
            command += ["--device", device]
        try:
            done = subprocess.run(  # noqa: S603 - a release that was verified
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=TRIAL_LIMIT_S
            )
        except subprocess.TimeoutExpired:
            done = None
        if done is None:
            raise DeviceFailed("its trial took more than {} s".format(TRIAL_LIMIT_S))
        if done.returncode:
            last = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:] or ["it said nothing"]
            raise DeviceFailed("its trial ended with code {} ({})".format(done.returncode, last[0][:300]))

    return run


def _device_of(arguments):
    """What a release is tried on: what was named, else what the service that will run it has in its settings."""
    from edgeveil.edge_runtime import config

    named = getattr(arguments, "device", None)
    return check_device(named) if named else config.read(None).get("device", CPU)


@contextlib.contextmanager
def _making_way(device):
    """While a release is tried on an accelerator, the service that has it stands aside: one process can have it."""
    from edgeveil.edge_runtime.paths import INIT_SCRIPT, SYSTEMD

    stop, start = [INIT_SCRIPT, "stop"], [INIT_SCRIPT, "start"]
    runs = [INIT_SCRIPT, "status"]
    if os.path.isdir(SYSTEMD):
        # Both halves by name: the one that is inside has the accelerator, also while the other is still starting, and
        # stop waits for what it names alone.
        both = ["edgeveil.service", "edgeveil-inside.service"]
        stop, start = ["systemctl", "stop"] + both, ["systemctl", "start", both[0]]
        runs = ["systemctl", "--quiet", "is-active"] + both
    if device == CPU or _called(runs) != 0:
        yield
        return
    if _called(stop) != 0:
        raise DeviceFailed("the service could not be stopped, and it has the {}: stop it by hand".format(device))
    try:
        yield
    finally:
        if _called(start) != 0:
            _say("the service, which stood aside for the trial, did not start again: see edgeveil logs or its journal")


def _called(command):
    """The exit code of a command of the system's; 127 where there is none."""
    try:
        return subprocess.call(  # noqa: S603 - words of ours
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
    except OSError:
        return 127


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")


def status(root):
    """What runs under ``root``, as a dict for programs and people."""
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
