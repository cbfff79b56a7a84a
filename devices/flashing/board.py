"""A board at the other end of a transport: its facts, what is run and written there, and its service."""

from __future__ import annotations

import json
import posixpath
from collections.abc import Callable, Sequence

from edgeveil.devices.agents import read_agent
from edgeveil.devices.flashing import service_files as service
from edgeveil.devices.flashing.records import Facts
from edgeveil.devices.transports.base import Completed, Progress, Transport, check, digest
from edgeveil.devices.transports.sudo import Sudo
from edgeveil.edge_runtime.device import CPU, open_limit_s
from edgeveil.edge_runtime.errors import BadInput, DeviceFailed
from edgeveil.edge_runtime.paths import ROOT, named, service_of

RUNTIME = "runtime/current/edgeveil-edge.pyz"
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

    def facts(self, accelerator: str | None = None, needs: Sequence[str] = ()) -> Facts:
        """The board's facts, from a script that is sent there, and of ``needs.tests``. Raises ``DeviceFailed``."""
        return Facts.from_document(self.facts_document(accelerator, needs))

    def facts_document(self, accelerator: str | None = None, needs: Sequence[str] = ()) -> dict:
        """The facts as the script printed them; as root, where only the password makes a user root."""
        site = posixpath.join(self.root, "site")
        command = [*self.python(), "-", self.root, accelerator or "", json.dumps(list(needs)), site]
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
            command = [*self.python(), posixpath.join(self.root, runtime), *arguments]
            done = self.run(command, timeout_s=timeout_s)
            if done.code not in (126, 127) and b"can't open file" not in done.err:
                return done
        raise BadInput(f"There is no EdgeVeil on {self.transport.name}: flash it first.")

    def run_agent(self, name: str, *arguments: str, timeout_s: float = 120) -> Completed:
        """Send a program of ``devices/agents`` and run it, as root if possible."""
        return self.run([*self.python(), "-", *arguments], data=read_agent(name), timeout_s=timeout_s)

    def run_root_agent(self, name: str, *arguments: str, timeout_s: float = 120) -> Completed:
        """The same as root, by sudo."""
        return self.sudo.run([*self.python(), "-", *arguments], data=read_agent(name), timeout_s=timeout_s)

    def python(self, site: str | None = None) -> list[str]:
        """The command that starts Python there, with what its libraries need, and wheels at ``site``."""
        words = dict(self.environment)
        if site is not None:
            words["PYTHONPATH"] = ":".join(filter(None, (site, words.get("PYTHONPATH"))))
        prefix = ["env", *(f"{name}={value}" for name, value in words.items())] if words else []
        return [*prefix, self.transport.python]

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
        command = ["systemctl", what, *self.units(what)]
        check(self.sudo.run(command, timeout_s=START_S + open_limit_s(device)), f"systemctl {what}")

    def units(self, what: str) -> list[str]:
        """The units that systemctl is given to ``start``, ``stop`` or ``restart`` the service."""
        # The recover unit, which prepares the sockets' folder, keeps running; a restart runs it again for new units.
        first = {"stop": service.UNITS[-2:], "restart": [service.RECOVER, service.MAIN]}.get(what, [service.MAIN])
        return [named(unit, self.service) for unit in first]

    def logs(self, lines: int) -> bytes:
        """The last lines of the service units' logs. Raises ``DeviceFailed``."""
        which = [part for unit in [*service.UNITS, service.CAMERA] for part in ("-u", named(unit, self.service))]
        return check(self.sudo.run(["journalctl", "--no-pager", "-n", str(lines), *which]), "journalctl")

    def has_service(self) -> bool:
        """Whether a flash has installed the service there."""
        return self.transport.run(["test", "-e", service.UNIT_FOLDER + named(service.MAIN, self.service)]).code == 0

    def unit_states(self) -> dict[str, str]:
        """Each unit that sends or perturbs, with its state as systemctl is-active has it."""
        units = [named(unit, self.service) for unit in service.UNITS[-2:]]
        return {
            u: self.transport.run(["systemctl", "is-active", u]).out.decode("utf-8", "replace").strip() for u in units
        }

    def place(self, data: bytes, path: str, mode: str, owner: Sequence[str] = ()) -> None:
        """Upload a file as the user, then install it as root."""
        incoming = self.upload(data, digest(data))
        run = self.sudo.run if path.startswith("/etc/") else self.run
        check(run(["install", "-D", "-m", mode, *owner, incoming, path]), f"Writing {path}")

    def upload(self, data: bytes, name: str, progress: Progress = lambda *_: None) -> str:
        """Send bytes into the user's folder of uploads; their path there."""
        path = self.incoming(name)
        self.transport.put(data, path, progress)
        return path

    def incoming(self, name: str) -> str:
        """A path in the user's folder of uploads, which is made."""
        if self._incoming is None:
            out = check(self.transport.run([self.transport.python, "-c", _INCOMING]), "Making a place for uploads")
            self._incoming = out.decode().strip()
        return posixpath.join(self._incoming, name)

    def forget_uploads(self) -> None:
        """Remove them once everything was installed from there: wheels and bundles are large."""
        # The folder above it goes where nothing else is in it: a flash may have made it.
        script = 'rm -rf "$1" && { rmdir "${1%/*}" 2>/dev/null || true; }'
        check(self.transport.run(["sh", "-c", script, "sh", self.incoming("").rstrip("/")]), "Tidying up")
        self._incoming = None

    def run(self, command: list[str], *, data: bytes = b"", timeout_s: float = 120) -> Completed:
        """Run as root, or as a user who may write EdgeVeil's folder."""
        if self._writes is None:
            # A folder that is not there yet is made in the nearest one that is.
            script = 'd=$1; while [ ! -e "$d" ]; do d=${d%/*}; [ "$d" ] || d=/; done; test -w "$d"'
            writes = ["sh", "-c", script, "sh", self.root]
            self._writes = self.sudo.is_root() or self.transport.run(writes).code == 0
        run = self.transport.run if self._writes else self.sudo.run
        return run(command, data=data, timeout_s=timeout_s)


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
