"""The steps of a flash: seven kinds, each a record with all that it takes.

``kind`` is its word in JSON, ``text`` what a person reads, ``size`` the bytes of the bundle or of wheels that travel.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from edgeveil.devices.flashing.records import BundleFacts, TrustFacts, Wheels
from edgeveil.devices.profiles import Service
from edgeveil.edge_runtime.paths import DEFAULT_PATH as SETTINGS


@dataclass(frozen=True)
class TrustKeys:
    """Put the owner's root key, trust file and policy there: on a first flash alone."""

    kind: ClassVar[str] = "trust"
    size: ClassVar[int] = 0
    trust: TrustFacts

    @property
    def text(self) -> str:
        return f"put the root key {self.trust.root_key[:16]}... and version {self.trust.version} of its trust there"


@dataclass(frozen=True)
class UnpackWheels:
    """Send the wheels' archive and unpack it there."""

    kind: ClassVar[str] = "wheels"
    wheels: Wheels

    @property
    def size(self) -> int:
        return self.wheels.size

    @property
    def text(self) -> str:
        return f"put {', '.join(self.wheels.interpreters)} there, as {self.wheels.name} ({self.size} bytes)"


@dataclass(frozen=True)
class PushBundle:
    """Send the bundle and read it back."""

    kind: ClassVar[str] = "upload"
    bundle: BundleFacts

    @property
    def size(self) -> int:
        return self.bundle.size

    @property
    def text(self) -> str:
        return f"send {self.bundle.name} ({self.size} bytes), and read it back"


@dataclass(frozen=True)
class StopService:
    """Stop the service, which has the camera that the trial needs; it is started again whatever comes of that."""

    kind: ClassVar[str] = "stop"
    size: ClassVar[int] = 0
    text: ClassVar[str] = "stop the service, which has the camera that the trial needs"


@dataclass(frozen=True)
class InstallRelease:
    """Have the board verify the bundle, switch to it and try it; it goes back by itself where that fails.

    ``device`` is named to the board where it changes alone. ``first``: there is no runtime yet, and the bundle's own is
    sent along.
    """

    kind: ClassVar[str] = "install"
    size: ClassVar[int] = 0
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
        """The words of ``edgeveil-edge install`` behind the bundle and the root folder."""
        options = ["--frames", str(self.frames)]
        options += ["--source", self.source] if self.source else []
        options += ["--device", self.device] if self.device else []
        return options + (["--again"] if self.again else [])

    @property
    def text(self) -> str:
        frames = f"{self.frames} frames of {self.source}" if self.source else f"{self.frames} synthetic frames"
        runtime = "send its runtime, " if self.first else ""
        return (
            f"{runtime}have it verified there, switch to it, test {self.artefact} on {self.runs_on} and run {frames}; "
            "back if that fails"
        )


@dataclass(frozen=True)
class WriteService:
    """Make the service's users where they are missing, write its files and have it start at boot."""

    kind: ClassVar[str] = "service"
    size: ClassVar[int] = 0
    files: Mapping[str, bytes]  # by path on the board
    owner: Service

    @property
    def text(self) -> str:
        names = ", ".join(path.rsplit("/", 1)[1] for path in sorted(self.files))
        users = f" for the users {self.owner.user} and {self.owner.inside_user}" if SETTINGS in self.files else ""
        return f"write {names}{users}, and have the service start at boot"


@dataclass(frozen=True)
class StartService:
    """Start the service, or start it again."""

    kind: ClassVar[str] = "start"
    size: ClassVar[int] = 0
    text: ClassVar[str] = "start the service, and wait until something new has left it"


Step = TrustKeys | UnpackWheels | PushBundle | StopService | InstallRelease | WriteService | StartService


def numbered(steps: tuple[Step, ...]) -> list[str]:
    """A line for each step, the same before it is done and when it is done."""
    return [f"{number}/{len(steps)} {step.text}" for number, step in enumerate(steps, 1)]
