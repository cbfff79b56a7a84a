"""What the planner knows of a board, of a bundle and of what else can be sent; plain records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from edgeveil.devices.flashing.camera_unit import OnBoard, by_another_process
from edgeveil.devices.profiles import Service
from edgeveil.devices.transports.base import digest
from edgeveil.edge_runtime.config import TRIAL_FRAMES
from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.kinds import SINKS, fact_of
from edgeveil.edge_runtime.paths import CAMERA_PATH, LEDGER, named, service_of
from edgeveil.edge_runtime.paths import DEFAULT_PATH as SETTINGS

PAHO = "paho-mqtt"
LIBRARIES = ("numpy", "cv2", PAHO)  # of the board's packages, those that run no model


@dataclass(frozen=True)
class Installed:
    """The EdgeVeil on the board: ``committed`` is the manifest hash of its committed release, or None."""

    committed: str | None = None
    floor: int = 0
    root_key: str | None = None
    trust_version: int = 0
    keys: tuple[str, ...] = ()
    revoked: tuple[str, ...] = ()
    audience: str = ""
    wheels: tuple[str, ...] = ()  # the name of the unpacked ones that are in use
    runtime: bool = True  # whether an installed runtime can take the next bundle
    service: bool = False
    service_files: Mapping[str, str | None] = field(default_factory=dict)  # path -> SHA-256
    service_active: bool = True
    device: str | None = None  # the device in its service's settings; "": they cannot be read
    failed: Mapping[str, int] = field(default_factory=dict)  # manifest hash -> failed trials of that release
    unfinished: bool = False  # whether a flash ended before it had restarted the service

    def serves(self, files: Mapping[str, bytes]) -> bool:
        """Whether the service has these files and is active, with the release that was installed last."""
        same = all(self.service_files.get(path) == digest(content) for path, content in files.items())
        return self.service and self.service_active and same and not self.unfinished


@dataclass(frozen=True)
class Facts:
    """A board as ``devices/agents/gather_facts.py`` found it. ``interpreters`` maps names to versions."""

    architecture: str
    python: str
    free_bytes: int
    read_only: bool
    sudo: bool
    systemd: bool
    glibc: str | None = None
    bits: int = 64
    board: str | None = None
    system: str | None = None
    interpreters: Mapping[str, str] = field(default_factory=dict)
    accelerator: bool | None = None
    drivers: Mapping[str, str] = field(default_factory=dict)  # packages of accelerators' libraries -> version
    failed: Mapping[str, str] = field(default_factory=dict)  # interpreters that are there and do not load -> why
    volatile: str | None = None  # "tmpfs" or "overlay": EdgeVeil's folder or /etc lies in memory
    ledger: bool = False  # whether it counts what it tells already
    devices: tuple[str, ...] = ()  # accelerators that the installed interpreters can use, as words of --device
    edgeveil: Installed | None = None
    services: tuple[OnBoard, ...] = ()  # all of EdgeVeil's there, whatever their folders

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Facts:
        """From the JSON that a board printed. Raises ``BadInput`` if it is invalid."""
        try:
            known = {name: document[name] for name in cls.__dataclass_fields__ if name in document}
            known["devices"] = tuple(known.get("devices", ()))
            known["services"] = tuple(
                OnBoard(**{**one, "users": tuple(one.get("users", ()))}) for one in known.get("services", ())
            )
            there = known.get("edgeveil")
            if there is not None:
                lists = {name: tuple(value) for name, value in there.items() if isinstance(value, list)}
                known["edgeveil"] = Installed(**{**there, **lists})
            return cls(**known)
        except (TypeError, KeyError, AttributeError) as error:
            raise BadInput(
                f"The board's answer is not its facts ({error}). Check that it has Python 3.6 or later."
            ) from None

    def text(self) -> str:
        """For people, a line each. What a board says of itself may hold no control characters of the terminal."""
        there = self.edgeveil
        release = "none" if there is None else f"{there.committed or 'no release'}, floor {there.floor}"
        system = f"{self.system or 'unknown'}, {self.architecture}, {self.bits} bits, glibc {self.glibc or 'none'}"
        space = f"{self.free_bytes / 1e6:.0f} MB free" + (", READ-ONLY" if self.read_only else "")
        space += f", IN MEMORY ({self.volatile}): gone at the next boot" if self.volatile else ""
        broken = [f"{name} does NOT load ({why})" for name, why in self.failed.items()]
        loaded = [f"{name} {version}" for name, version in self.interpreters.items()]
        lines = {
            "board": self.board or "does not say",
            "system": system,
            "python": self.python,
            "space": space,
            "interpreters": ", ".join(loaded + broken) or "none",
            "accelerators": ", ".join(self.devices) or "none that they can use",
            "rights": f"{'may' if self.sudo else 'may NOT'} sudo, systemd {'runs' if self.systemd else 'does not run'}",
            "edgeveil": release + (", its service is installed" if there is not None and there.service else ""),
        }
        made = "\n".join(f"{name:14} {value}" for name, value in lines.items())
        return "".join(one if one.isprintable() or one == "\n" else "?" for one in made)


@dataclass(frozen=True)
class BundleFacts:
    """A sealed bundle, verified on the workstation. ``artefacts`` is empty for a pipeline without models."""

    sha: str
    name: str
    size: int
    security_version: int
    key: str
    audience: str = ""
    development: bool = False
    artefacts: tuple[str, ...] = ()
    spends: bool = False  # whether it promises an epsilon, which a ledger counts
    data: bytes = field(default=b"", repr=False)
    runtime: bytes = field(default=b"", repr=False)  # this toolkit's zipapp, for a board that has none


@dataclass(frozen=True)
class TrustFacts:
    """The owner's trust folder, for a first flash: its root key's hash, and the files that are sent to a board."""

    root_key: str
    version: int
    keys: tuple[str, ...]
    revoked: tuple[str, ...] = ()
    security_version: int = 0
    audience: str = ""
    files: Mapping[str, bytes] = field(default_factory=dict, repr=False)  # root.pub, trust.json, policy.json


@dataclass(frozen=True)
class Wheels:
    """Unpacked wheels of ``edgeveil wheels``, for boards that cannot install packages."""

    name: str  # site-<hash>
    size: int
    architecture: str
    python: str  # "3.11"
    interpreters: Mapping[str, str] = field(default_factory=dict)
    glibc: str | None = None
    archive: bytes = field(default=b"", repr=False)


@dataclass(frozen=True)
class Wanted:
    """What the user asked for. ``trusted_channel``: whether the other end was authenticated;
    ``device``: what runs the model there, None for the profile's accelerator where it can be had, else the processor.
    """

    source: str | None = None
    sinks: tuple[str, ...] = ()
    service: bool = True
    frames: int = TRIAL_FRAMES
    again: bool = False
    trusted_channel: bool = True
    update_from: str | None = None
    device: str | None = None
    accept_raw_on_network: bool = False

    @property
    def mqtt(self) -> bool:
        """Whether a sink needs a broker's client there."""
        return any(fact_of(SINKS, sink, "client") for sink in self.sinks)

    @property
    def notes(self) -> tuple[str, ...]:
        """What the plan says next to its steps."""
        raw = "raw pictures reach the board over a network, where others can read them; its pages say so"
        return (raw,) if self.accept_raw_on_network else ()

    @property
    def trial_source(self) -> str | None:
        """What the trial on the board perturbs; None: synthetic frames.

        So it is where the service has a process of its own for the camera, and this one's credentials.
        """
        by_another = self.source is not None and by_another_process(self.source)
        return None if self.service and by_another else self.source

    def keeps_settings(self, facts: Facts) -> bool:
        """Whether a board in use keeps the settings of its service: no others were asked for."""
        in_use = facts.edgeveil is not None and facts.edgeveil.service
        return self.service and in_use and not (self.source or self.sinks)


# The steps of a flash: eight kinds, each a record with all that it takes. ``kind`` is its word in JSON.


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
