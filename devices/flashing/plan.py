"""From facts to steps: a pure function. What would fail half-way is refused here, before anything changes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from edgeveil.devices.agents import read_agent
from edgeveil.devices.flashing import service_files
from edgeveil.devices.flashing.placement import (
    OWN_INIT,
    check_board,
    check_failures,
    check_root,
    check_space,
    check_systemd,
    check_trust,
    check_updates,
    place,
    trust_in_force,
)
from edgeveil.devices.flashing.records import (
    BundleFacts,
    Facts,
    Installed,
    InstallRelease,
    MakeLedger,
    PushBundle,
    StartService,
    Step,
    StopService,
    TrustFacts,
    TrustKeys,
    UnpackWheels,
    Wanted,
    Wheels,
    WriteService,
    numbered,
    sent_bytes,
)
from edgeveil.devices.profiles import Profile
from edgeveil.devices.transports.base import digest
from edgeveil.edge_runtime.device import CPU
from edgeveil.edge_runtime.paths import LEDGER

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


# The files of an SD card whose board flashes itself at its first boot; a pure function of the plan's steps.
#
# The board then does what a flash over a connection does: the runtime on the card verifies the bundle, tries it and
# commits it. ``files.json`` has every file's SHA-256, so a damaged card is found before anything is changed.


TREE = "edgeveil-first-boot"
RUN = (
    f"systemd.run=/boot/firmware/{TREE}/run.sh systemd.run_success_action=reboot "
    "systemd.unit=kernel-command-line.target"
)
BEFORE = "before"  # in the tree: the program of another first run
_PROGRAM = re.compile(r"/boot/[A-Za-z0-9._/-]+")
_WITH_A_RUN = {"systemd.run_success_action=reboot", "systemd.unit=kernel-command-line.target"}


def tree(plan: Plan, root: str, environment: Mapping[str, str]) -> dict[str, bytes]:
    """The files of the tree by their names in it (``bundle.veil``, ``trust/root.pub``, ...).

    ``environment`` is what this board's libraries need, of its profile.
    """
    made: dict[str, bytes] = {}
    places: dict[str, str] = {}
    job: dict[str, Any] = {"root": root, "places": places, "site": None, "users": [], "enabling": []}
    job |= {"groups": {}, "removed": [], "ledger": None, "environment": dict(environment)}
    for step in plan.steps:
        match step:
            case TrustKeys(trust):
                for name, data in trust.files.items():
                    made[f"trust/{name}"], places[f"trust/{name}"] = data, f"{root}/trust/{name}"
            case UnpackWheels(wheels):
                made["site.zip"] = wheels.archive
                made["unpack_wheels.py"] = read_agent("unpack_wheels")
                job["site"] = {"sha256": digest(wheels.archive), "place": f"{root}/{wheels.name}"}
            case InstallRelease():
                made |= {"bundle.veil": step.bundle.data, "edgeveil-edge.pyz": step.bundle.runtime}
                job["trial"] = step.options
            case WriteService(files, owner):
                for path, data in files.items():
                    name = "system/" + path.rsplit("/", 1)[1]
                    made[name], places[name] = data, path
                job["users"] = [[user, command] for user, command in service_files.user_commands(owner, files).items()]
                job |= {
                    "enabling": service_files.enable_commands(files),
                    "groups": service_files.groups(owner),
                    "removed": service_files.left_over(files),
                }
            case MakeLedger(owner):
                job["ledger"] = {"place": LEDGER, "owner": owner.user}
                made["make_ledger.py"] = read_agent("make_ledger")
    made["job.json"] = json.dumps(job, indent=1, sort_keys=True).encode()
    made["first_boot.py"], made["run.sh"] = read_agent("boot_from_card"), _RUN_SH.encode()
    made["files.json"] = json.dumps({name: digest(data) for name, data in sorted(made.items())}, indent=1).encode()
    return made


def with_run(cmdline: bytes) -> tuple[bytes | None, str | None]:
    """The kernel's command line with the first run added, and the program of another first run that it replaces.

    Raspberry Pi Imager writes one for users, host name and Wi-Fi. ``run.sh`` runs it before EdgeVeil's. The program is
    "" where there is none, and None where the first run was added before. The line is None if it is not understood.
    """
    line = cmdline.decode("utf-8", "replace").strip()
    if RUN in line:
        return cmdline, None
    words = line.split(" ")
    runs = [word for word in words if word.startswith("systemd.run=")]
    others = {word for word in words if word.startswith("systemd.run_") or word.startswith("systemd.unit=")}
    if "\n" in line or not line or len(runs) > 1 or not others <= _WITH_A_RUN:
        return None, ""
    before = runs[0].partition("=")[2] if runs else ""
    if (runs and not _PROGRAM.fullmatch(before)) or (others and not runs):
        return None, ""
    kept = " ".join(word for word in words if word not in others and word not in runs)
    return f"{kept} {RUN}\n".encode(), before


_RUN_SH = f"""#!/bin/sh
# Run once by systemd.run= in cmdline.txt, which is restored in any case, so that the board boots as usual.
here=/boot/firmware/{TREE}
line=/boot/firmware/cmdline.txt
before=$(cat $here/{BEFORE} 2>/dev/null)
# Imager names /boot/firstrun.sh also where that lies in /boot/firmware. It takes its words out of the line.
[ -f "$before" ] || before="/boot/firmware/${{before##*/}}"
if [ -f "$before" ]; then
    /bin/bash "$before" < /dev/null > /boot/firmware/{TREE}-{BEFORE}.log 2>&1
    rm -f "$before" $here/{BEFORE}
    # A power cut from here on runs EdgeVeil's alone again.
    grep -q systemd.run= $line || sed -i 's|$| {RUN}|' $line
fi
/usr/bin/python3 $here/first_boot.py > /boot/firmware/{TREE}.log 2>&1
echo "ended with code $?" >> /boot/firmware/{TREE}.log
sed -i 's| systemd\\.run=.*||' $line
sync
exit 0
"""
