"""What the planner knows of a board, of a bundle and of what else can be sent; plain records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from edgeveil.devices.transports.base import digest
from edgeveil.edge_runtime import camera_address, late_imports
from edgeveil.edge_runtime.bundle.policy import POLICY_FILE
from edgeveil.edge_runtime.bundle.trust_store import SIGNED_POLICY_FILE
from edgeveil.edge_runtime.config import TRIAL_FRAMES
from edgeveil.edge_runtime.errors import BadInput, shown
from edgeveil.edge_runtime.kinds import SOURCES, fact_of, needs_daemon
from edgeveil.edge_runtime.paths import FIRST, service_of

PAHO = "paho-mqtt"
# Of the board's packages, those that run no model.
_MODULES = [one.test.partition(":")[2].partition(".")[0] for one in late_imports.LIBRARIES.values()]
LIBRARIES = ("numpy", PAHO, *_MODULES)
FIRST_PORT = 9464  # of its pages, where no setting names another


class Refused(BadInput):
    """This bundle cannot be installed on this board. ``reason`` is the fixed name of the rule."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True)
class OnBoard:
    """A service that a board has: its folder, and what its settings say; ``health`` as in --health.

    ``users`` are those that its units run as, ``counts`` says whether it has a ledger.
    """

    name: str
    root: str
    source: str = ""
    health: str = ""
    users: tuple[str, ...] = ()
    counts: bool = False

    @property
    def port(self) -> int:
        """The port of its pages; 0 where it has none."""
        port = self.health.partition("?")[0].rpartition(":")[2] if self.health else str(FIRST_PORT)
        return int(port) if port.isdigit() else 0


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
    ledger: str = ""  # the identity of the ledger that it counts in, there or not
    spent: int = 0  # the 1e-6 epsilon in it at the last start
    development: bool = False  # whether its root key is marked as a throw-away one
    policy: bool = False  # whether it has the owner's policy
    unfinished: bool = False  # whether a flash ended before it had restarted the service

    def serves(self, files: Mapping[str, bytes]) -> bool:
        """Whether the service has these files and is active, with the release that was installed last."""
        same = all(self.service_files.get(path) == digest(content) for path, content in files.items())
        return self.service and self.service_active and same and not self.unfinished


def pages_at(root: str, services: tuple[OnBoard, ...]) -> str | None:
    """Where the pages of another service than the first are: as before, or the next free port. None for the first."""
    name = service_of(root)
    if name == FIRST:
        return None
    own = next((one.health for one in services if one.name == name), "")
    taken = {one.port for one in services if one.name != name} | {FIRST_PORT}
    free = next(port for port in range(FIRST_PORT, FIRST_PORT + len(taken) + 1) if port not in taken)
    return own or f"127.0.0.1:{free}"


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
    needs: Mapping[str, str] = field(default_factory=dict)  # test -> why it does not hold (flashing.needs)
    space: Mapping[str, Mapping[str, Any]] = field(
        default_factory=dict
    )  # "uploads", "temporary": folder, free_bytes, same
    writable: bool = True  # whether the login user may write EdgeVeil's folder, or make it

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Facts:
        """From the JSON that a board printed. Raises ``BadInput`` if it is invalid."""
        try:
            known = {name: document[name] for name in cls.__dataclass_fields__ if name in document}
            known["devices"] = tuple(known.get("devices", ()))
            known["services"] = tuple(
                OnBoard(**{**one, "users": tuple(one.get("users", ()))}) for one in known.get("services", ())
            )
            installed = known.get("edgeveil")
            if installed is not None:
                lists = {name: tuple(value) for name, value in installed.items() if isinstance(value, list)}
                known["edgeveil"] = Installed(**{**installed, **lists})
            return cls(**known)
        except (TypeError, KeyError, AttributeError) as error:
            raise BadInput(
                f"The board's answer is not its facts ({error}). Check that it has Python 3.6 or later."
            ) from None

    def text(self) -> str:
        """For people, a line each. What a board says of itself may hold no control characters of the terminal."""
        installed = self.edgeveil
        release = "none" if installed is None else f"{installed.committed or 'no release'}, floor {installed.floor}"
        system = f"{self.system or 'unknown'}, {self.architecture}, {self.bits} bits, glibc {self.glibc or 'none'}"
        space = f"{self.free_bytes / 1e6:.0f} MB free" + (", READ-ONLY" if self.read_only else "")
        space += f", IN MEMORY ({self.volatile}): gone at the next boot" if self.volatile else ""
        packages = {name: f"{name} {version}" for name, version in self.interpreters.items()}
        packages |= {name: f"{name} does NOT load ({why})" for name, why in self.failed.items()}
        lines = {
            "board": self.board or "does not say",
            "system": system,
            "python": self.python,
            "space": space,
            "interpreters": ", ".join(text for name, text in packages.items() if name not in LIBRARIES) or "none",
            "libraries": ", ".join(text for name, text in packages.items() if name in LIBRARIES) or "none",
            "accelerators": ", ".join(self.devices) or "none that they can use",
            "rights": f"{'may' if self.sudo else 'may NOT'} sudo, systemd {'runs' if self.systemd else 'does not run'}",
            "edgeveil": release + (", its service is installed" if installed is not None and installed.service else ""),
        }
        return shown("\n".join(f"{name:14} {value}" for name, value in lines.items()))


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
    leaks: bool = False  # whether that is its audit's verdict
    unheld: bool = False  # whether each reading has a code of its own (edge_runtime.manifest.stream_bound)
    stream_bound: str = ""  # for how many frames of a live source a bound holds
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
    development: bool = False  # whether its root key is marked as a throw-away one

    @property
    def policy(self) -> bool:
        """Whether the owner says what a bundle must hide."""
        return POLICY_FILE in self.files or SIGNED_POLICY_FILE in self.files


@dataclass(frozen=True)
class Wheels:
    """Unpacked wheels of ``edgeveil board wheels``, for boards that cannot install packages."""

    name: str  # site-<hash>
    size: int
    architecture: str
    python: str  # "3.11"
    interpreters: Mapping[str, str] = field(default_factory=dict)
    glibc: str | None = None
    archive: bytes = field(default=b"", repr=False)


def by_another_process(source: str) -> bool:
    """Whether the inside, which has no network and no socket, gets this source's frames from another process."""
    return camera_address.on_network(source) or needs_daemon(source)


def for_others(source: str) -> str:
    """The source as the inside and the sending process know it: without credentials, path and query."""
    return camera_address.parse(source).shown if camera_address.on_network(source) else source


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
    accept_leak: bool = False  # whether the owner knows that the bundle leaks
    new_ledger: bool = False  # whether the owner forgets what the board's ledger counted

    @property
    def live(self) -> bool:
        """Whether the source is a sensor, and no recording."""
        return bool(fact_of(SOURCES, self.source or "", "live"))

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
