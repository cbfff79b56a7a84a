"""Carries a plan out over a transport. Thin: what to do was decided in ``plan``; the switch is made on the board."""

from __future__ import annotations

import json
import posixpath
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import edgeveil.devices.agents.gather_facts
from edgeveil.devices.flashing import service_files as service
from edgeveil.devices.flashing.plan import Plan
from edgeveil.devices.flashing.records import Facts, Site, Wanted
from edgeveil.devices.profiles import Service
from edgeveil.devices.transports import Transport
from edgeveil.devices.transports.base import Completed, check, digest
from edgeveil.edge_runtime.errors import BadInput, DeviceFailed
from edgeveil.edge_runtime.paths import ROOT, SYSTEMD

TRIAL_S = 600


@dataclass(frozen=True)
class Payload:
    """What travels: the bundle's bytes, the runtime for a first flash, the owner's trust, wheels, units."""

    bundle: bytes
    runtime: bytes
    trust: dict[str, bytes] = field(default_factory=dict)  # root.pub, trust.json, policy.json
    site: Site | None = None
    site_archive: bytes = b""
    service: dict[str, bytes] = field(default_factory=dict)  # path on the board -> content
    owner: Service = field(default_factory=Service)  # whom the service runs as


Say = Callable[[str], None]


class Board:
    """A board at the other end of a transport; ``root`` is where EdgeVeil lies there."""

    def __init__(self, transport: Transport, *, root: str = ROOT, say: Say = lambda _: None) -> None:
        self.transport, self.root, self.say = transport, root, say
        self._sudo: list[str] | None = None
        self._incoming: str | None = None

    def __enter__(self) -> Board:
        return self

    def __exit__(self, *_: object) -> None:
        self.transport.close()

    def facts(self, accelerator: str | None = None) -> Facts:
        """What the board is, found out by a script that is sent along. Raises ``DeviceFailed``."""
        return Facts.of(self.facts_document(accelerator))

    def facts_document(self, accelerator: str | None = None) -> dict:
        """The same as it was printed there."""
        script = Path(edgeveil.devices.agents.gather_facts.__file__).read_bytes()
        site = posixpath.join(self.root, "site")
        done = self.transport.run(
            [self.transport.python, "-", self.root, accelerator or "", site], data=script, timeout_s=180
        )
        if done.code in (126, 127):
            raise BadInput(
                f"Python 3.6 or later was expected on {self.transport.name}; there is none. Install python3."
            )
        try:
            return json.loads(check(done, "Gathering facts"))
        except ValueError:
            raise DeviceFailed(f"The board's answer is not its facts: {done.said()}") from None

    def edge(self, *arguments: str, timeout_s: float = 120) -> Completed:
        """A command of the installed runtime, as root where that is possible. Raises ``BadInput`` where none is."""
        runtime = posixpath.join(self.root, "current", "edgeveil-edge.pyz")
        done = self._root([self.transport.python, runtime, *arguments], timeout_s=timeout_s)
        if done.code in (126, 127) or b"can't open file" in done.err:
            raise BadInput(f"There is no EdgeVeil on {self.transport.name}: flash it first.")
        return done

    def script(self, source: bytes, *arguments: str, timeout_s: float = 120) -> Completed:
        """A Python program of ours that is sent along, as root where that is possible."""
        return self._root([self.transport.python, "-", *arguments], data=source, timeout_s=timeout_s)

    def carry_out(self, plan: Plan, payload: Payload, wanted: Wanted, progress: Callable[[int, int], None]) -> None:
        """Every step in order. Raises at the first that fails; what was uploaded stays for the next try."""
        for number, step in enumerate(plan.steps, 1):
            self.say(f"{number}/{len(plan.steps)} {step.text}")
            getattr(self, f"_{step.kind}")(payload, wanted, progress)
        if plan.steps:
            self._forget_incoming()

    def _trust(self, payload: Payload, *_: object) -> None:
        folder = posixpath.join(self.root, "trust")
        check(self._root(["mkdir", "-p", "-m", "755", folder]), f"Making {folder}")
        for name, data in sorted(payload.trust.items()):
            self._place(data, posixpath.join(folder, name), "644")

    def _site(self, payload: Payload, _wanted: Wanted, progress: Callable[[int, int], None]) -> None:
        site = payload.site
        if site is None:
            raise BadInput("The plan takes wheels along, and none were given.")
        place = posixpath.join(self._incoming_folder(), site.name + ".zip")
        self.transport.put(payload.site_archive, place, progress)
        done = self._root(
            [
                self.transport.python,
                "-c",
                UNPACK,
                place,
                digest(payload.site_archive),
                posixpath.join(self.root, site.name),
            ],
            timeout_s=TRIAL_S,  # hundreds of megabytes onto a slow card
        )
        check(done, "Unpacking the wheels")

    def _upload(self, payload: Payload, _wanted: Wanted, progress: Callable[[int, int], None]) -> None:
        self.transport.put(payload.bundle, self._bundle_place(payload), progress)

    def _install(self, payload: Payload, wanted: Wanted, _progress: object) -> None:
        arguments = ["install", self._bundle_place(payload), "--root", self.root, "--frames", str(wanted.frames)]
        arguments += ["--source", wanted.source] if wanted.source else []
        arguments += ["--device", wanted.device] if wanted.device else []
        arguments += ["--again"] if wanted.again else []
        # Two cannot have one camera: what runs makes way for the trial, and comes back whatever becomes of it; by
        # the service's own step where one follows.
        makes_way = bool(wanted.source) and self.has_service()
        if makes_way:
            self.control("stop")
        try:
            self._install_there(payload, arguments)
        except BaseException:
            if makes_way:
                self.control("start")
            raise
        if makes_way and not wanted.service:
            self.control("start")

    def _install_there(self, payload: Payload, arguments: list[str]) -> None:
        installed = self._root(["test", "-e", posixpath.join(self.root, "current", "edgeveil-edge.pyz")]).code == 0
        if installed:
            done = self.edge(*arguments, timeout_s=TRIAL_S)
        else:
            # A first flash: the runtime comes over the same authenticated channel as the root key.
            place = posixpath.join(self._incoming_folder(), "edgeveil-edge.pyz")
            self.transport.put(payload.runtime, place)
            # A release finds its wheels beside it, numpy perhaps among them; from there it is shown them.
            wheels = "PYTHONPATH=" + posixpath.join(self.root, "site")
            done = self._root(["env", wheels, self.transport.python, place, *arguments], timeout_s=TRIAL_S)
        as_it_was_there(done)
        self.say(done.out.decode("utf-8", "replace").strip())

    def _service(self, payload: Payload, *_: object) -> None:
        if payload.service:
            if service.CONFIG in payload.service:
                self._make_users(payload.owner)
            for path, data in sorted(payload.service.items()):
                owner = ["-g", payload.owner.user] if path == service.CONFIG else []
                mode = "640" if owner else "755" if service.executable(path) else "644"
                self._place(data, path, mode, owner)
            for command in service.enabling(payload.service):
                check(self._sudoed(command), " ".join(command[:2]))
        self.control("restart")

    def _make_users(self, owner: Service) -> None:
        for user, command in service.users(owner).items():
            if self._sudoed(["id", "-u", user]).code:
                done = self._sudoed(command)
                if done.code in (126, 127):
                    # BusyBox has another program for it, and the smallest systems none.
                    done = self._sudoed([self.transport.python, "-c", service.ACCOUNTS, owner.user, user])
                check(done, f"Making the user {user}")

    def rollback(self) -> str:
        """Have it run its previous release again, its service too; returns what it said. Raises as it did there."""
        said = as_it_was_there(self.edge("rollback", "--root", self.root))
        if self.has_service():
            self.control("restart")
        return said.decode("utf-8", "replace").strip()

    def control(self, what: str) -> None:
        """``start``, ``stop`` or ``restart`` the service. Raises ``DeviceFailed`` where that is not done."""
        if not self._has_systemd():
            check(self._sudoed([service.INIT, what], timeout_s=480), f"{service.INIT} {what}")
            return
        # What prepares the place of both halves stays up, and is done again for units that may be others now.
        units = {"stop": service.UNITS[-2:], "restart": [service.RECOVER, service.MAIN]}.get(what, [service.MAIN])
        check(self._sudoed(["systemctl", what, *units], timeout_s=240), f"systemctl {what}")

    def logs(self, lines: int) -> bytes:
        """The last lines that the service's units said. Raises ``DeviceFailed``."""
        if not self._has_systemd():
            return check(self._sudoed(["tail", "-n", str(lines), "/var/log/edgeveil.log"]), "tail")
        which = [part for unit in service.UNITS for part in ("-u", unit)]
        return check(self._sudoed(["journalctl", "--no-pager", "-n", str(lines), *which]), "journalctl")

    def has_service(self) -> bool:
        """Whether a flash has installed the service there."""
        place = service.UNIT_FOLDER + service.MAIN if self._has_systemd() else service.INIT
        return self.transport.run(["test", "-e", place]).code == 0

    def _has_systemd(self) -> bool:
        return self.transport.run(["test", "-d", SYSTEMD]).code == 0

    def _place(self, data: bytes, path: str, mode: str, owner: Sequence[str] = ()) -> None:
        """A file that belongs to root, by way of one that does not."""
        incoming = posixpath.join(self._incoming_folder(), digest(data))
        self.transport.put(data, incoming)
        run = self._sudoed if path.startswith("/etc/") else self._root
        check(run(["install", "-D", "-m", mode, *owner, incoming, path]), f"Writing {path}")

    def _bundle_place(self, payload: Payload) -> str:
        return posixpath.join(self._incoming_folder(), digest(payload.bundle) + ".veil")

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
        if self._sudo is None:
            self._sudo = [] if self._is_root() or self._may_write() else ["sudo", "-n"]
        return self.transport.run([*self._sudo, *command], data=data, timeout_s=timeout_s)

    def _sudoed(self, command: Sequence[str], *, timeout_s: float = 120) -> Completed:
        """As root, whoever owns the place: for what is the system's."""
        prefix = [] if self._is_root() else ["sudo", "-n"]
        return self.transport.run([*prefix, *command], timeout_s=timeout_s)

    def _is_root(self) -> bool:
        return check(self.transport.run(["id", "-u"]), "id").strip() == b"0"

    def _may_write(self) -> bool:
        """Whether the user owns the place itself: then nothing needs root but the service."""
        return self.transport.run(["test", "-w", self.root]).code == 0


def as_it_was_there(done: Completed, *, well: Sequence[int] = (0,)) -> bytes:
    """What our own runtime printed on the board; its refusal or failure is raised here as what it was there."""
    if done.code in well:
        return done.out
    text = done.said()
    text = text[len("error: ") :] if text.startswith("error: ") else text
    raise BadInput(text) if done.code == 2 else DeviceFailed(text)


_INCOMING = """
import os
place = os.path.join(os.path.expanduser("~"), ".cache", "edgeveil-incoming")
os.makedirs(place, mode=0o700, exist_ok=True)
print(place)
"""

# Unpacked beside its name and renamed: a site's name is never that of half a site.
UNPACK = """
import hashlib, os, shutil, sys, zipfile
archive, sha, place = sys.argv[1:]
with open(archive, "rb") as f:
    if hashlib.sha256(f.read()).hexdigest() != sha:
        sys.exit("the wheels came out different on the board")
shutil.rmtree(place + ".new", ignore_errors=True)
zipfile.ZipFile(archive).extractall(place + ".new")
os.sync()
if not os.path.isdir(place):
    os.rename(place + ".new", place)
link = os.path.join(os.path.dirname(place), "site")
if os.path.lexists(link + ".tmp"):
    os.unlink(link + ".tmp")
os.symlink(os.path.basename(place), link + ".tmp")
os.rename(link + ".tmp", link)
os.sync()
"""
