"""A board at the other end of a transport, which executes a plan: every decision was made in ``plan``."""

from __future__ import annotations

import json
import posixpath
from collections.abc import Callable, Mapping, Sequence

from edgeveil.devices.agents import read_agent
from edgeveil.devices.flashing import service_files as service
from edgeveil.devices.flashing.camera_unit import UNIT as CAMERA_UNIT
from edgeveil.devices.flashing.plan import Plan
from edgeveil.devices.flashing.records import (
    BundleFacts,
    Facts,
    InstallRelease,
    MakeLedger,
    PushBundle,
    StartService,
    Step,
    StopService,
    TrustKeys,
    UnpackWheels,
    WriteService,
    numbered,
)
from edgeveil.devices.transports.base import Completed, Progress, Transport, check, digest
from edgeveil.devices.transports.sudo import Sudo
from edgeveil.edge_runtime.device import CPU, open_limit_s
from edgeveil.edge_runtime.errors import BadInput, DeviceFailed
from edgeveil.edge_runtime.paths import ROOT, named, service_of

RUNTIME = "runtime/current/edgeveil-edge.pyz"
UNFINISHED = "unfinished"  # in EdgeVeil's folder, from the first change to the end of the service's restart
TRIAL_S = 300  # besides what opening may take there, twice: by the installed runtime and by the bundle's own
START_S = 200  # longer than the units' TimeoutStartSec: what went wrong is systemd's to say

Say = Callable[[str], None]


class Board:
    """A board at the other end of a transport; ``root`` is EdgeVeil's folder there."""

    def __init__(
        self, transport: Transport, *, root: str = ROOT, say: Say = lambda _: None, sudo: Sudo | None = None
    ) -> None:
        self.transport, self.root, self.say = transport, root, say
        self.service = service_of(root)
        self.sudo = sudo or Sudo(transport)
        self.environment: dict[str, str] = {}  # what this board's libraries need: its profile's
        self._writes: bool | None = None
        self._incoming: str | None = None

    def __enter__(self) -> Board:
        return self

    def __exit__(self, *_: object) -> None:
        self.transport.close()

    def facts(self, accelerator: str | None = None) -> Facts:
        """The board's facts, from a script that is sent there. Raises ``DeviceFailed``."""
        return Facts.of(self.facts_document(accelerator))

    def facts_document(self, accelerator: str | None = None) -> dict:
        """The facts as the script printed them; as root, where only the password makes a user root."""
        site = posixpath.join(self.root, "site")
        command = [*self._python(), "-", self.root, accelerator or "", site]
        run = self.sudo.run if self.sudo.has_password and self.sudo.allowed() else self.transport.run
        done = run(command, data=read_agent("gather_facts"), timeout_s=600)
        if done.code in (126, 127):
            raise BadInput(
                f"Python 3.6 or later was expected on {self.transport.name}; there is none. Install python3."
            )
        try:
            return json.loads(check(done, "Gathering facts"))
        except ValueError:
            raise DeviceFailed(f"The board's answer is not its facts: {done.last_line()}") from None

    def edge(self, *arguments: str, timeout_s: float = 120) -> Completed:
        """Run a command of the installed runtime, as root if possible. Raises ``BadInput`` if none is installed."""
        # A first flash that failed leaves a runtime and no release; a board of version 0.1 has the release's own.
        for runtime in (RUNTIME, "current/edgeveil-edge.pyz"):
            command = [*self._python(), posixpath.join(self.root, runtime), *arguments]
            done = self._root(command, timeout_s=timeout_s)
            if done.code not in (126, 127) and b"can't open file" not in done.err:
                return done
        raise BadInput(f"There is no EdgeVeil on {self.transport.name}: flash it first.")

    def run_agent(self, name: str, *arguments: str, timeout_s: float = 120) -> Completed:
        """Send a program of ``devices/agents`` and run it, as root if possible."""
        return self._root([*self._python(), "-", *arguments], data=read_agent(name), timeout_s=timeout_s)

    def _python(self, site: str | None = None) -> list[str]:
        """The command that starts Python there, with what its libraries need, and wheels at ``site``."""
        words = dict(self.environment)
        if site is not None:
            words["PYTHONPATH"] = ":".join(filter(None, (site, words.get("PYTHONPATH"))))
        prefix = ["env", *(f"{name}={value}" for name, value in words.items())] if words else []
        return [*prefix, self.transport.python]

    def execute(self, plan: Plan, progress: Progress = lambda *_: None) -> None:
        """Execute every step in order. Raises at the first that fails; uploads stay for the next try.

        A service that was stopped for the trial is started again even if the trial fails.
        """
        stopped = False
        mark = posixpath.join(self.root, UNFINISHED)
        restarts = any(isinstance(step, StartService) for step in plan.steps)
        if restarts:
            check(self._root(["mkdir", "-p", mark]), f"Making {mark}")
        try:
            for step, line in zip(plan.steps, numbered(plan.steps), strict=True):
                self.say(line)
                stopped = (stopped or isinstance(step, StopService)) and not isinstance(step, StartService)
                self._execute(step, plan.device, progress)
        except BaseException:
            if stopped:
                self.control("start")
            raise
        if restarts:
            check(self._root(["rmdir", mark]), f"Removing {mark}")
        if plan.steps:
            self._forget_incoming()

    def _execute(self, step: Step, device: str, progress: Progress) -> None:
        match step:
            case TrustKeys(trust):
                folder = posixpath.join(self.root, "trust")
                check(self._root(["mkdir", "-p", "-m", "755", folder]), f"Making {folder}")
                for name, data in sorted(trust.files.items()):
                    self._place(data, posixpath.join(folder, name), "644")
                check(self._root(["sync"]), "Waiting for the disk")  # a lost trust cannot be replaced over a connection
            case UnpackWheels(wheels):
                archive = posixpath.join(self._incoming_folder(), wheels.name + ".zip")
                self.transport.put(wheels.archive, archive, progress)
                arguments = [archive, digest(wheels.archive), posixpath.join(self.root, wheels.name)]
                # Hundreds of megabytes onto a slow card.
                done = self.run_agent("unpack_wheels", *arguments, timeout_s=600)
                check(done, "Unpacking the wheels")
            case PushBundle(bundle):
                self.transport.put(bundle.data, self._bundle_path(bundle), progress)
            case StopService():
                self.control("stop")
            case InstallRelease():
                self._install(step)
            case WriteService(files, owner):
                if named(service.CONFIG, self.service) in files:
                    self._make_users(service.user_commands(owner, files))
                stale = service.left_over(files, self.service)
                if stale:
                    check(self._sudoed(["rm", "-f", *stale]), "Removing the unit of an earlier camera")
                groups = service.groups(owner)
                for path, data in sorted(files.items()):
                    group = ["-g", groups[path]] if path in groups else []
                    self._place(data, path, "640" if group else "644", group)
                for command in service.enable_commands(files, self.service):
                    check(self._sudoed(command, timeout_s=START_S), " ".join(command[:2]))
            case MakeLedger(owner):
                self._make_ledger(step.place, owner.user)
            case StartService():
                self.control("restart", device)

    def _install(self, step: InstallRelease) -> None:
        limit_s = TRIAL_S + 2 * open_limit_s(step.runs_on)
        arguments = ["install", self._bundle_path(step.bundle), "--root", self.root, *step.options]
        if step.first:
            # The runtime comes over the same authenticated channel as the root key.
            runtime = posixpath.join(self._incoming_folder(), "edgeveil-edge.pyz")
            self.transport.put(step.bundle.runtime, runtime)
            # An installed release finds its wheels next to it; this runtime needs their path (numpy may be one).
            python = self._python(posixpath.join(self.root, "site"))
            done = self._root([*python, runtime, *arguments], timeout_s=limit_s)
        else:
            done = self.edge(*arguments, timeout_s=limit_s)
        self.say(runtime_output(done).decode("utf-8", "replace").strip())

    def _make_ledger(self, place: str, user: str) -> None:
        command = [*self._python(), "-", posixpath.join(self.root, RUNTIME), place, user]
        runtime_output(self.sudo.run(command, data=read_agent("make_ledger")))

    def _make_users(self, commands: Mapping[str, list[str]]) -> None:
        for user, command in commands.items():
            if self._sudoed(["id", "-u", user]).code:
                check(self._sudoed(command), f"Making the user {user}")

    def rollback(self) -> str:
        """Go back to the previous release and restart the service; returns the output. Raises the board's own error."""
        output = runtime_output(self.edge("rollback", "--root", self.root))
        if self.has_service():
            self.control("restart")
        return output.decode("utf-8", "replace").strip()

    def control(self, what: str, device: str = CPU) -> None:
        """``start``, ``stop`` or ``restart`` the service, which runs its model on ``device``.

        Raises ``DeviceFailed`` if that fails.
        """
        # The recover unit, which prepares the sockets' folder, keeps running; a restart runs it again for new units.
        first = {"stop": service.UNITS[-2:], "restart": [service.RECOVER, service.MAIN]}.get(what, [service.MAIN])
        units = [named(unit, self.service) for unit in first]
        check(self._sudoed(["systemctl", what, *units], timeout_s=START_S + open_limit_s(device)), f"systemctl {what}")

    def logs(self, lines: int) -> bytes:
        """The last lines of the service units' logs. Raises ``DeviceFailed``."""
        which = [part for unit in [*service.UNITS, CAMERA_UNIT] for part in ("-u", named(unit, self.service))]
        return check(self._sudoed(["journalctl", "--no-pager", "-n", str(lines), *which]), "journalctl")

    def has_service(self) -> bool:
        """Whether a flash has installed the service there."""
        return self.transport.run(["test", "-e", service.UNIT_FOLDER + named(service.MAIN, self.service)]).code == 0

    def _place(self, data: bytes, path: str, mode: str, owner: Sequence[str] = ()) -> None:
        """Upload a file as the user, then install it as root."""
        incoming = posixpath.join(self._incoming_folder(), digest(data))
        self.transport.put(data, incoming)
        run = self._sudoed if path.startswith("/etc/") else self._root
        check(run(["install", "-D", "-m", mode, *owner, incoming, path]), f"Writing {path}")

    def _bundle_path(self, bundle: BundleFacts) -> str:
        return posixpath.join(self._incoming_folder(), digest(bundle.data) + ".veil")

    def _incoming_folder(self) -> str:
        if self._incoming is None:
            out = check(self.transport.run([self.transport.python, "-c", _INCOMING]), "Making a place for uploads")
            self._incoming = out.decode().strip()
        return self._incoming

    def _forget_incoming(self) -> None:
        # Everything was installed from there; wheels and bundles are large.
        check(self.transport.run(["rm", "-rf", self._incoming_folder()]), "Tidying up")
        self._incoming = None

    def _root(self, command: list[str], *, data: bytes = b"", timeout_s: float = 120) -> Completed:
        """Run as root, or as a user who may write EdgeVeil's folder."""
        if self._writes is None:
            self._writes = self.sudo.is_root() or self.transport.run(["test", "-w", self.root]).code == 0
        run = self.transport.run if self._writes else self.sudo.run
        return run(command, data=data, timeout_s=timeout_s)

    def _sudoed(self, command: Sequence[str], *, timeout_s: float = 120) -> Completed:
        """Run as root: for system files."""
        return self.sudo.run(command, timeout_s=timeout_s)


def runtime_output(done: Completed, *, accepted: Sequence[int] = (0,)) -> bytes:
    """The runtime's output on the board. Raises its own error if its exit code is not accepted."""
    if done.code in accepted:
        return done.out
    text = done.last_line()
    text = text[len("error: ") :] if text.startswith("error: ") else text
    raise BadInput(text) if done.code == 2 else DeviceFailed(text)


_INCOMING = """
import os
place = os.path.join(os.path.expanduser("~"), ".cache", "edgeveil-incoming")
os.makedirs(place, mode=0o700, exist_ok=True)
print(place)
"""
