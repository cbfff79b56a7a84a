"""The steps of a flash: eight kinds, each a record with all that it takes, and what it does on a board.

Every decision was made before, in ``plan``.
"""

from __future__ import annotations

import json
import posixpath
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from edgeveil.devices.agents import read_agent
from edgeveil.devices.flashing import service_files
from edgeveil.devices.flashing.board import RUNTIME, START_S, Board, runtime_output
from edgeveil.devices.flashing.records import BundleFacts, TrustFacts, Wheels
from edgeveil.devices.flashing.service_files import CONFIG
from edgeveil.devices.profiles import Service
from edgeveil.devices.transports.base import Progress, check, digest
from edgeveil.edge_runtime.device import CPU, open_limit_s
from edgeveil.edge_runtime.errors import BadInput, DeviceFailed
from edgeveil.edge_runtime.paths import CAMERA_PATH, LEDGER, named
from edgeveil.edge_runtime.releases.try_settings import KEPT
from edgeveil.edge_runtime.sinks.network_base import NOTHING_YET

UNFINISHED = posixpath.dirname(KEPT)  # in EdgeVeil's folder, from the first change to the end of the service's restart
RECEIVERS_S = 15.0  # for the first record to arrive
TRIAL_S = 300  # besides what opening may take there, twice: by the installed runtime and by the bundle's own

# ``kind`` of a step is its word in JSON.


@dataclass(frozen=True)
class TrustKeys:
    """Put the owner's root key, trust file and policy on the board: only on a first flash."""

    kind: ClassVar[str] = "trust"
    trust: TrustFacts


@dataclass(frozen=True)
class UnpackWheels:
    """Send the wheels' archive and unpack it there."""

    kind: ClassVar[str] = "wheels"
    wheels: Wheels


@dataclass(frozen=True)
class PushBundle:
    """Send the bundle and read it back."""

    kind: ClassVar[str] = "upload"
    bundle: BundleFacts


@dataclass(frozen=True)
class StopService:
    """Stop the service, which uses the camera that the trial needs. It is started again even if the trial fails."""

    kind: ClassVar[str] = "stop"


@dataclass(frozen=True)
class InstallRelease:
    """Have the board verify the bundle, switch to it and try it. The board rolls back if the trial fails.

    ``device`` is set only where it changes. ``first``: the board has no installed runtime (it is new, or
    of version 0.1), and this toolkit's is sent.
    """

    kind: ClassVar[str] = "install"
    bundle: BundleFacts
    artefact: str
    runs_on: str
    frames: int
    source: str | None = None
    device: str | None = None
    again: bool = False
    first: bool = False

    @property
    def options(self) -> list[str]:
        """The options of ``edgeveil-edge install``, after the bundle and the root folder."""
        options = ["--frames", str(self.frames)]
        options += ["--source", self.source] if self.source else []
        options += ["--device", self.device] if self.device else []
        return options + (["--again"] if self.again else [])


@dataclass(frozen=True)
class WriteService:
    """Create the service's users where they are missing, write its files and have it start at boot."""

    kind: ClassVar[str] = "service"
    files: Mapping[str, bytes]  # by path on the board
    owner: Service


@dataclass(frozen=True)
class MakeLedger:
    """Make the empty ledger that a bundle with a promised epsilon is charged to. One that is there is never replaced.

    ``owner`` has the user of the process that charges it. ``anew``: one that is there gets a dated name, and the board
    forgets what was spent.
    """

    kind: ClassVar[str] = "ledger"
    owner: Service
    anew: bool = False

    @property
    def place(self) -> str:
        """Its path on the board."""
        return named(LEDGER, self.owner.name)


@dataclass(frozen=True)
class StartService:
    """Start or restart the service. ``back``: there are settings before, which come back where that fails."""

    kind: ClassVar[str] = "start"
    back: bool = field(default=False, compare=False)


Step = TrustKeys | UnpackWheels | PushBundle | StopService | InstallRelease | WriteService | MakeLedger | StartService


@dataclass(frozen=True)
class Plan:
    """The steps, and what will run the bundle on the board. Without steps there is nothing to do."""

    steps: tuple[Step, ...]
    artefact: str
    backend: str
    notes: tuple[str, ...] = ()
    device: str = CPU

    @property
    def size(self) -> int:
        """Bytes of the bundle and of wheels that are sent."""
        return sent_bytes(self.steps)

    def lines(self) -> list[str]:
        """A line for each step, the same in the plan and during the flash."""
        return [f"{number}/{len(self.steps)} {_text(step)}" for number, step in enumerate(self.steps, 1)]

    def text(self) -> str:
        """The plan for people, a line for each step."""
        return "\n".join([*(self.lines() or ["Nothing to do."]), *(f"note: {note}" for note in self.notes)])


@dataclass(frozen=True)
class Flashed:
    """What was done: the plan, the bundle's manifest hash, and on a first flash the root key to compare."""

    plan: Plan
    sha: str
    refused: tuple[str, ...] = ()  # receivers that do not take records: each with the reason and what to do

    @property
    def root_key(self) -> str | None:
        """The root key that the board trusts from now on; None where it trusted one before."""
        return next((step.trust.root_key for step in self.plan.steps if isinstance(step, TrustKeys)), None)


def sent_bytes(steps: Iterable[Step]) -> int:
    """Bytes of the bundle and of wheels that these steps send."""
    return sum(
        step.wheels.size if isinstance(step, UnpackWheels) else step.bundle.size
        for step in steps
        if isinstance(step, UnpackWheels | PushBundle)
    )


def _text(step: Step) -> str:
    match step:
        case TrustKeys(trust):
            return f"put the root key {trust.root_key[:16]}... and version {trust.version} of its trust there"
        case UnpackWheels(wheels):
            return f"put {', '.join(wheels.interpreters)} there, as {wheels.name} ({wheels.size} bytes)"
        case PushBundle(bundle):
            return f"send {bundle.name} ({bundle.size} bytes), and read it back"
        case StopService():
            return "stop the service, which uses the camera that the trial needs"
        case InstallRelease():
            runtime = "send a runtime, " if step.first else ""
            frames = f"{step.frames} frames of {step.source}" if step.source else f"{step.frames} synthetic frames"
            return (
                f"{runtime}have it verified there, switch to it, test {step.artefact} on {step.runs_on} and run "
                f"{frames}; back if that fails"
            )
        case WriteService(files, owner):
            names = ", ".join(path.rsplit("/", 1)[1] for path in sorted(files))
            settings, camera = (named(path, owner.name) in files for path in (CONFIG, CAMERA_PATH))
            users = f" for the users {owner.user} and {owner.inside_user}" if settings else ""
            users += f", and {owner.camera_user} for the camera's address" if camera else ""
            return f"write {names}{users}, and have the service start at boot"
        case MakeLedger():
            new = "set the ledger aside and " if step.anew else ""
            return f"{new}make an empty ledger, {step.place}, which counts the epsilon that is spent"
        case StartService():
            back = "; back to the settings before if that fails" if step.back else ""
            return "start the service, and wait until it sends something new" + back


def execute(plan: Plan, board: Board, progress: Progress = lambda *_: None) -> tuple[str, ...]:
    """Execute every step in order; what ``Flashed.refused`` holds. Raises at the first that fails; uploads stay.

    A service that was stopped for the trial is started again even if the trial fails.
    """
    stopped = False
    mark = posixpath.join(board.root, UNFINISHED)
    restarts = StartService() in plan.steps
    if restarts:
        check(board.run(["mkdir", "-p", mark]), f"Making {mark}")
    try:
        for step, line in zip(plan.steps, plan.lines(), strict=True):
            board.say(line)
            stopped = (stopped or isinstance(step, StopService)) and not isinstance(step, StartService)
            _execute(step, board, plan.device, progress)
    except BaseException:
        if stopped:
            try:
                board.control("start")
            except DeviceFailed as error:  # what failed first is said last
                board.say(f"  The service that was stopped did not start again: {error}")
        raise
    if restarts:
        check(board.run(["rmdir", mark]), f"Removing {mark}")
    if plan.steps:
        board.forget_uploads()
    return refused_receivers(board) if restarts else ()


def refused_receivers(board: Board) -> tuple[str, ...]:
    """Receivers to which nothing of the running service has arrived in its time, each with the reason and the cure."""
    end = time.monotonic() + RECEIVERS_S
    while True:
        try:
            found = json.loads(runtime_output(board.edge("status", "--json", "--root", board.root)))
            receivers = dict((found["service"] or {}).get("receivers", {}))
        except (BadInput, DeviceFailed, ValueError, LookupError, TypeError, AttributeError):
            return ()  # an earlier runtime's
        bad = {name: said for name, said in receivers.items() if said != "ok"}
        if not bad or NOTHING_YET not in bad.values() or time.monotonic() > end:
            return tuple(f"{name}: {said}" for name, said in sorted(bad.items()))
        time.sleep(1.0)


def _execute(step: Step, board: Board, device: str, progress: Progress) -> None:
    match step:
        case TrustKeys(trust):
            folder = posixpath.join(board.root, "trust")
            check(board.run(["mkdir", "-p", "-m", "755", folder]), f"Making {folder}")
            for name, data in sorted(trust.files.items()):
                board.place(data, posixpath.join(folder, name), "644")
            check(board.run(["sync"]), "Waiting for the disk")  # a lost trust cannot be replaced over a connection
        case UnpackWheels(wheels):
            archive = board.upload(wheels.archive, wheels.name + ".zip", progress)
            arguments = [archive, digest(wheels.archive), posixpath.join(board.root, wheels.name)]
            # Hundreds of megabytes onto a slow card.
            check(board.run_agent("unpack_wheels", *arguments, timeout_s=600), "Unpacking the wheels")
        case PushBundle(bundle):
            board.upload(bundle.data, _name_of(bundle), progress)
        case StopService():
            board.control("stop")
        case InstallRelease():
            _install(step, board)
        case WriteService(files, owner):
            if named(CONFIG, owner.name) in files:
                for user, command in service_files.user_commands(owner, files).items():
                    if board.sudo.run(["id", "-u", user]).code:
                        check(board.sudo.run(command), f"Making the user {user}")
            stale = service_files.left_over(files, owner.name)
            first = sorted([*files, *stale], key=lambda path: (path != named(CONFIG, owner.name), path))
            check(board.run_root_agent("try_settings", "keep", _kept(board), *first), "Keeping the settings before")
            if stale:
                check(board.sudo.run(["rm", "-f", *stale]), "Removing the unit of an earlier camera")
            groups = service_files.groups(owner)
            for path, data in sorted(files.items()):
                group = ["-g", groups[path]] if path in groups else []
                board.place(data, path, "640" if group else "644", group)
            for command in service_files.enable_commands(files, owner.name):
                check(board.sudo.run(command, timeout_s=START_S), " ".join(command[:2]))
        case MakeLedger(owner, anew):
            make_ledger(board, step.place, owner.user, anew=anew)
            if anew:
                runtime_output(board.edge("recover", "--new-ledger", "--root", board.root))
        case StartService():
            _start(board, device)


def _kept(board: Board) -> str:
    """Where the settings before lie until the service is ready with the new ones."""
    return posixpath.join(board.root, KEPT)


def _start(board: Board, device: str) -> None:
    """Restart the service; ``DeviceFailed`` where it is not ready in its time, by then with its settings before."""
    units, limit_s = board.units("restart"), 2 * (START_S + open_limit_s(device))
    done = board.run_root_agent("try_settings", "restart", _kept(board), *units, timeout_s=limit_s)
    if done.code == 0:
        return
    try:
        document = json.loads(done.out)
        lines, back, runs = [str(line) for line in document["lines"]], document["back"], document["runs"]
    except (ValueError, LookupError, TypeError):
        raise DeviceFailed(f"Starting the service failed with code {done.code}: {done.last_line()}") from None
    for line in lines:
        board.say(f"  {line}")
    then = "It runs with the settings before again" if runs else "The settings before are back; it does not run" * back
    last = f" ({lines[-1][:300]})" if lines else ""
    raise DeviceFailed(
        f"The service was not ready in its time{last}. {then or 'It does not run'}: see edgeveil board logs, cure "
        "that, and flash again."
    )


def make_ledger(board: Board, place: str, user: str, *, anew: bool = False) -> None:
    """Make the empty ledger at ``place``, as ``user``. Raises ``BadInput`` where there is a file, but for ``anew``."""
    command = [*board.python(), "-", posixpath.join(board.root, RUNTIME), place, user, *["anew"] * anew]
    runtime_output(board.sudo.run(command, data=read_agent("make_ledger")))


def _install(step: InstallRelease, board: Board) -> None:
    limit_s = TRIAL_S + 2 * open_limit_s(step.runs_on)
    arguments = ["install", board.incoming(_name_of(step.bundle)), "--root", board.root, *step.options]
    if step.first:
        # The runtime comes over the same authenticated channel as the root key.
        runtime = board.upload(step.bundle.runtime, "edgeveil-edge.pyz")
        # An installed release finds its wheels next to it; this runtime needs their path (numpy may be one).
        python = board.python(posixpath.join(board.root, "site"))
        done = board.run([*python, runtime, *arguments], timeout_s=limit_s)
    else:
        done = board.edge(*arguments, timeout_s=limit_s)
    board.say(runtime_output(done).decode("utf-8", "replace").strip())


def _name_of(bundle: BundleFacts) -> str:
    """Among the uploads."""
    return digest(bundle.data) + ".veil"
