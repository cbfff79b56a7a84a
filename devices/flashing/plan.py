"""From facts to steps: a pure function. What would fail half-way is refused here, before anything changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from edgeveil.devices.flashing.checks import (
    OWN_INIT,
    check_board,
    check_failures,
    check_root,
    check_space,
    check_systemd,
    check_trust,
    check_updates,
    trust_in_force,
)
from edgeveil.devices.flashing.placement import place
from edgeveil.devices.flashing.records import BundleFacts, Facts, Installed, TrustFacts, Wanted, Wheels
from edgeveil.devices.flashing.steps import (
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
    sent_bytes,
)
from edgeveil.devices.profiles import Profile
from edgeveil.edge_runtime.device import CPU

ServiceFiles = Callable[[str], Mapping[str, bytes]]  # by the device that runs the model: path on the board -> content


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

    def text(self) -> str:
        """The plan for people, a line for each step."""
        lines = numbered(self.steps) or ["Nothing to do."]
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes)])


@dataclass(frozen=True)
class Flashed:
    """What was done: the plan, the bundle's manifest hash, and on a first flash the root key to compare."""

    plan: Plan
    sha: str

    @property
    def root_key(self) -> str | None:
        """The root key that the board trusts from now on; None where it trusted one before."""
        return next((step.trust.root_key for step in self.plan.steps if isinstance(step, TrustKeys)), None)


def plan(
    facts: Facts,
    bundle: BundleFacts,
    profile: Profile,
    wanted: Wanted | None = None,
    *,
    trust: TrustFacts | None = None,
    wheels: Wheels | None = None,
    service_files: ServiceFiles = lambda _device: {},
) -> Plan:
    """The steps that put ``bundle`` onto the board, or ``Refused``.

    ``trust`` is the owner's trust folder, which only a first flash sends to the board. ``wheels`` are sent where they
    are needed. ``service_files(device)`` are the files of the wanted service; none where the board keeps its own.
    Raises ``Refused`` with one sentence that says what was expected, what came and what to do.
    """
    wanted, there = wanted or Wanted(), facts.edgeveil
    kept = wanted.keeps_settings(facts)
    first = there is None or there.root_key is None or _only_its_trust(there, trust)
    check_board(facts, profile)
    check_systemd(facts, wanted)
    trusted = trust_in_force(there, trust, wanted, first)
    check_trust(bundle, trusted)
    runs = place(facts, bundle, profile, wanted, wheels, settings_kept=kept)
    steps: list[Step] = [TrustKeys(trusted)] if first else []
    if runs.needs_wheels and wheels is not None and not (there and wheels.name in there.wheels):
        steps.append(UnpackWheels(wheels))
    notes = list(wanted.notes)
    if there is None or there.committed != bundle.sha or not there.runtime:
        notes += check_failures(there, bundle, wanted)
        steps.append(PushBundle(bundle))
        # Only one program can open a camera.
        steps += [StopService()] if wanted.trial_source and there and there.service else []
        steps.append(
            InstallRelease(
                bundle,
                runs.artefact,
                runs.device,
                wanted.frames,
                source=wanted.trial_source,
                device=runs.device if runs.news else None,
                again=wanted.again,
                first=there is None or not there.runtime,
            )
        )
    files = service_files(runs.device) if wanted.service else {}
    ledger: list[Step] = [MakeLedger(profile.service)] if bundle.spends and not facts.ledger else []
    if wanted.service and (steps or ledger or there is None or not there.serves(files)):
        # Its owner is one of the users that come with the service.
        steps += [WriteService(files, profile.service)] if files else []
        steps += [*ledger, StartService()]
    elif StopService() in steps:
        steps.append(StartService())
    check_updates(facts, wanted, runs.device)
    check_root(facts, steps)
    check_space(facts, sent_bytes(steps))
    notes += [runs.note] if runs.note else []
    notes += [] if facts.systemd else [f"this board has no systemd: {OWN_INIT}"]
    return Plan(tuple(steps), runs.artefact, runs.backend, tuple(notes), runs.device)


def _only_its_trust(there: Installed, trust: TrustFacts | None) -> bool:
    """Whether a first flash ended before it sent a runtime, which takes newer versions of the trust."""
    if trust is None or there.committed is not None or there.runtime:
        return False
    return trust.root_key == there.root_key and trust.version > there.trust_version
