"""The steps of a flash: eight kinds, each a record with all that it takes. ``kind`` is its word in JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from edgeveil.devices.flashing.records import BundleFacts, TrustFacts, Wheels
from edgeveil.devices.profiles import Service
from edgeveil.edge_runtime.paths import CAMERA_PATH, LEDGER, named, service_of
from edgeveil.edge_runtime.paths import DEFAULT_PATH as SETTINGS


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

    ``owner`` has the user of the process that charges it.
    """

    kind: ClassVar[str] = "ledger"
    owner: Service

    @property
    def place(self) -> str:
        """Its path on the board."""
        return named(LEDGER, service_of(self.owner.root))


@dataclass(frozen=True)
class StartService:
    """Start or restart the service."""

    kind: ClassVar[str] = "start"


Step = TrustKeys | UnpackWheels | PushBundle | StopService | InstallRelease | WriteService | MakeLedger | StartService


def sent_bytes(steps: Iterable[Step]) -> int:
    """Bytes of the bundle and of wheels that these steps send."""
    return sum(
        step.wheels.size if isinstance(step, UnpackWheels) else step.bundle.size
        for step in steps
        if isinstance(step, UnpackWheels | PushBundle)
    )


def numbered(steps: tuple[Step, ...]) -> list[str]:
    """A line for each step, the same in the plan and during the flash."""
    return [f"{number}/{len(steps)} {_text(step)}" for number, step in enumerate(steps, 1)]


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
            own = service_of(owner.root)
            settings, camera = named(SETTINGS, own) in files, named(CAMERA_PATH, own) in files
            users = f" for the users {owner.user} and {owner.inside_user}" if settings else ""
            users += f", and {owner.camera_user} for the camera's address" if camera else ""
            return f"write {names}{users}, and have the service start at boot"
        case MakeLedger():
            return f"make an empty ledger, {step.place}, which counts what leaves"
        case StartService():
            return "start the service, and wait until it sends something new"
