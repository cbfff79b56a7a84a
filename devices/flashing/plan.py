"""From facts to steps: a pure function. What would fail half-way is refused here, before anything changes."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from edgeveil.devices.flashing.placement import SPARE_BYTES, TRIAL_BYTES, place
from edgeveil.devices.flashing.records import (
    BundleFacts,
    Facts,
    Installed,
    OnBoard,
    Refused,
    TrustFacts,
    Wanted,
    Wheels,
    for_others,
    pages_at,
)
from edgeveil.devices.flashing.steps import (
    InstallRelease,
    MakeLedger,
    Plan,
    PushBundle,
    StartService,
    Step,
    StopService,
    TrustKeys,
    UnpackWheels,
    WriteService,
    sent_bytes,
)
from edgeveil.devices.profiles import Profile, Service
from edgeveil.edge_runtime import camera_address
from edgeveil.edge_runtime.bundle.policy import LEAK
from edgeveil.edge_runtime.device import CPU
from edgeveil.edge_runtime.kinds import SOURCES, fact_of
from edgeveil.edge_runtime.manifest.stream_bound import UNHELD
from edgeveil.edge_runtime.paths import FIRST
from edgeveil.edge_runtime.releases.store import MOST_FAILURES

ServiceFiles = Callable[[str], Mapping[str, bytes]]  # by the device that runs the model: path on the board -> content
OWN_INIT = (
    "have its init run `python3 runtime/current/edgeveil-edge.pyz recover` in EdgeVeil's folder there (with `--root "
    "FOLDER`, unless it is /opt/edgeveil), then the same with `inside --inside-at DIR`, and with `run --inside-at DIR` "
    "as a user without rights"
)
UPDATE_UNIT = "-update.service"
_WRITTEN = re.compile(r"(/var/lib|/var/cache|/run|/var/run)/edgeveil")


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

    ``profile`` has the folder and users of the service (``Profile.at``). ``trust`` is the owner's trust folder, which
    only a first flash sends to the board. ``wheels`` are sent where they are needed. ``service_files(device)`` are the
    files of the wanted service; none where the board keeps its own.
    Raises ``Refused`` with one sentence that says what was expected, what came and what to do.
    """
    wanted, installed = wanted or Wanted(), facts.edgeveil
    beside = check_beside(profile.service, wanted, facts.services, spends=bundle.spends)
    first = installed is None or installed.root_key is None or _only_its_trust(installed, trust)
    check_board(facts, profile)
    check_systemd(facts, wanted)
    trusted = trust_in_force(installed, trust, wanted, first)
    check_trust(bundle, trusted)
    notes = [*wanted.notes, *check_leak(bundle, trusted if first or installed is None else installed, wanted)]
    new = installed is None or installed.committed != bundle.sha or not installed.runtime
    notes += check_failures(installed, bundle, wanted) if new else []
    notes += check_ledger(facts, bundle, wanted)
    runs = place(facts, bundle, profile, wanted, wheels, settings_kept=wanted.keeps_settings(facts))
    steps: list[Step] = [TrustKeys(trusted)] if first else []
    if runs.needs_wheels and wheels is not None and not (installed and wheels.name in installed.wheels):
        steps.append(UnpackWheels(wheels))
    if new:
        steps.append(PushBundle(bundle))
        # Only one program can open a camera.
        steps += [StopService()] if wanted.trial_source and installed and installed.service else []
        steps.append(
            InstallRelease(
                bundle,
                runs.artefact,
                runs.device,
                wanted.frames,
                source=wanted.trial_source,
                device=runs.device if runs.news else None,
                again=wanted.again,
                first=installed is None or not installed.runtime,
            )
        )
    files = service_files(runs.device) if wanted.service else {}
    missing = bundle.spends and (wanted.new_ledger or not facts.ledger)
    ledger: list[Step] = [MakeLedger(profile.service, wanted.new_ledger)] if missing else []
    if wanted.service and (steps or ledger or installed is None or not installed.serves(files)):
        # Its owner is one of the users that come with the service.
        steps += [WriteService(files, profile.service)] if files else []
        steps += [*ledger, StartService(back=bool(files) and installed is not None and installed.service)]
    elif StopService() in steps:
        steps.append(StartService())
    check_updates(facts, wanted, runs.device)
    check_root(facts, steps)
    check_space(facts, sent_bytes(steps))
    notes += [runs.note] if runs.note else []
    notes += [] if facts.systemd else [f"this board has no systemd: {OWN_INIT}"]
    return Plan(tuple(steps), runs.artefact, runs.backend, (*notes, *beside), runs.device)


def _only_its_trust(state: Installed, trust: TrustFacts | None) -> bool:
    """Whether a first flash ended before it sent a runtime, which takes newer versions of the trust."""
    if trust is None or state.committed is not None or state.runtime:
        return False
    return trust.root_key == state.root_key and trust.version > state.trust_version


# Checks of the board itself, its trust, its service and its space.


def check_board(facts: Facts, profile: Profile) -> None:
    """Check for the profile's processor and a writable file system."""
    if facts.architecture != profile.architecture:
        raise Refused(
            "architecture",
            f"The profile {profile.name} is for {profile.architecture}; this board is {facts.architecture}. "
            "Name the profile of this board (edgeveil board list).",
        )
    if facts.read_only:
        raise Refused("read-only", "The file system of EdgeVeil's folder on the board is read-only. Make it writable.")
    if facts.volatile:
        raise Refused(
            "volatile",
            f"EdgeVeil's folder and /etc were expected on a disk; they lie in memory there ({facts.volatile}), and a "
            "flash would be gone at the next boot. Turn the overlay off (sudo raspi-config nonint disable_overlayfs, "
            "reboot), flash, and leave it off: releases and floors must outlast a boot.",
        )


def trust_in_force(state: Installed | None, trust: TrustFacts | None, wanted: Wanted, first: bool) -> TrustFacts:
    """The trust that the bundle is checked against: the board's, or the owner's on a first flash."""
    if not first and state is not None:
        if trust is not None and trust.root_key != state.root_key:
            raise Refused(
                "other-root",
                f"This board's root key is {str(state.root_key)[:16]}..., that of --trust is {trust.root_key[:16]}.... "
                "A flash never changes it: name the right folder, or set the board up again from an image.",
            )
        return TrustFacts(
            str(state.root_key), state.trust_version, state.keys, state.revoked, state.floor, state.audience
        )
    if trust is None:
        raise Refused(
            "no-trust",
            "This board was never flashed and knows no keys. Give the folder of edgeveil trust init with --trust.",
        )
    if not wanted.trusted_channel:
        raise Refused(
            "untrusted-channel",
            "The first flash puts the root key there, and the other end of this channel was not authenticated. "
            "Use SSH with a known host key, the board's own console or an SD image.",
        )
    return trust


def check_trust(bundle: BundleFacts, trust: TrustFacts) -> None:
    """Check for a known key that was not revoked, the board's audience, and a security version the board accepts."""
    if bundle.key in trust.revoked:
        raise Refused("revoked-key", f"The bundle is signed by {bundle.key[:16]}..., which was revoked. Seal it again.")
    if bundle.key not in trust.keys:
        raise Refused(
            "untrusted-key",
            f"The bundle is signed by {bundle.key[:16]}..., which this board does not know. If it may sign, "
            "edgeveil trust add it and send the board the new trust file.",
        )
    if bundle.audience not in ("", trust.audience):
        own = repr(trust.audience) if trust.audience else "none"
        raise Refused(
            "other-audience",
            f"The bundle is for the audience {bundle.audience!r}; this board has {own}. Seal it for "
            "this board's audience.",
        )
    if bundle.security_version < trust.security_version:
        raise Refused(
            "rolled-back",
            f"The bundle has security version {bundle.security_version}; this board takes {trust.security_version} or "
            "later. Use a newer bundle.",
        )


def check_leak(bundle: BundleFacts, there: TrustFacts | Installed, wanted: Wanted) -> list[str]:
    """Notes on what the bundle reveals of the source.

    A bundle that leaks is taken on request, by an owner's policy that lets it pass, or on a throw-away root key. So is
    one whose codes nothing holds, from a live source; a policy speaks of single readings, and does not help.
    """
    if bundle.leaks and not (wanted.accept_leak or there.policy or there.development):
        raise Refused(
            "leaks",
            f"The audit of {bundle.name} found that it leaks (edgeveil bundle card shows what). Take another one; or, "
            "if you know what it leaks, give --accept leak (accept_leak in boards.toml), or a policy.json in the trust "
            "folder that says what bundles must hide.",
        )
    if bundle.unheld and wanted.live and not (wanted.accept_leak or there.development):
        raise Refused(
            "unheld-stream",
            f"From {wanted.source}, {UNHELD}. If you know what that reveals, give --accept leak "
            "(accept_leak in boards.toml).",
        )
    unheld = [UNHELD] if bundle.unheld and wanted.live else []
    frames = [f"{bundle.name}: {bundle.stream_bound}"] if bundle.stream_bound and wanted.live else []
    return [*([f"{bundle.name}: {LEAK}"] if bundle.leaks else []), *unheld, *frames]


def check_failures(state: Installed | None, bundle: BundleFacts, wanted: Wanted) -> list[str]:
    """A note on failed trials of this release there. After ``MOST_FAILURES`` the board takes it on request alone."""
    failed = 0 if state is None else state.failed.get(bundle.sha, 0)
    if failed >= MOST_FAILURES and not wanted.again:
        raise Refused(
            "failed-before",
            f"This release has failed its trial on this board {failed} times (edgeveil board status shows why). "
            "Remove the cause, then flash it with --accept again.",
        )
    return (
        [f"this release has failed its trial here before ({failed}): edgeveil board status shows why"] if failed else []
    )


def check_ledger(facts: Facts, bundle: BundleFacts, wanted: Wanted) -> list[str]:
    """A note on what is forgotten. A board that had a ledger gets another one on request alone."""
    state = facts.edgeveil
    had = state is not None and state.ledger != ""
    counted = f"epsilon {state.spent / 1e6:g} at its last start" if state is not None and had else "an unknown epsilon"
    if bundle.spends and had and not facts.ledger and not wanted.new_ledger:
        raise Refused(
            "ledger-lost",
            f"Expected the ledger of this board, which had counted {counted}; it is lost. Put it back, or forget what "
            "was spent with --accept new-ledger: each limit then begins anew.",
        )
    if wanted.new_ledger and not (bundle.spends and wanted.service):
        raise Refused(
            "no-ledger",
            "Expected a service and a bundle that promises an epsilon with --accept new-ledger. Leave it out.",
        )
    if wanted.new_ledger and (had or facts.ledger):
        return [
            f"--accept new-ledger forgets what this board counted: {counted}, and all since. Each limit begins anew"
        ]
    return []


def check_systemd(facts: Facts, wanted: Wanted) -> None:
    """Check for systemd if the service is wanted."""
    if wanted.service and not facts.systemd:
        raise Refused(
            "no-systemd",
            f"The service needs systemd, and this board has none: leave it out with --no-service, and {OWN_INIT}.",
        )


def check_root(facts: Facts, steps: Sequence[Step]) -> None:
    """Check for root if the service is written, stopped or started."""
    if not facts.sudo and steps and not facts.writable:
        raise Refused(
            "no-root",
            "EdgeVeil's folder on the board cannot be written by this user, who cannot sudo without a password either: "
            "give it with password_file in boards.toml, or name a folder of the user's own by root there, such as "
            "/home/NAME/edgeveil, with --no-service.",
        )
    if not facts.sudo and any(isinstance(step, WriteService | StopService | StartService) for step in steps):
        raise Refused(
            "no-root",
            "The service needs root on the board, and this user cannot sudo without a password: give it with "
            "password_file in boards.toml, log in as another user, or leave the service out with --no-service and "
            "without --source.",
        )


def check_updates(facts: Facts, wanted: Wanted, device: str) -> None:
    """The update unit on the board may only open the device that an earlier flash named."""
    installed = facts.edgeveil
    updates = installed is not None and any(path.endswith(UPDATE_UNIT) for path in installed.service_files)
    if installed is None or not updates or not wanted.service or wanted.update_from:
        return
    if device not in (CPU, installed.device):
        raise Refused(
            "updates-itself",
            f"This board updates itself, and its update unit may not open the {device} that it would try releases on. "
            "Repeat update in boards.toml with the same place as before, or use --device cpu.",
        )


def check_space(facts: Facts, size: int) -> None:
    """Check for space for ``size`` bytes that are sent."""
    # The bundle is there twice for a moment: as it was sent, and as a release with its runtime next to it.
    needed = 3 * size + SPARE_BYTES
    if size and facts.free_bytes < needed:
        raise Refused(
            "no-space",
            f"{needed // 2**20 + 1} MiB free were expected on the board; there are {facts.free_bytes // 2**20}. "
            "Remove old releases there (edgeveil board releases --keep 1), or make room.",
        )
    for name, least in (("uploads", size + TRIAL_BYTES), ("temporary", TRIAL_BYTES)):
        there = facts.space.get(name)
        if size and there is not None and not there["same"] and there["free_bytes"] < least:
            what = {"uploads": "to which files are sent", "temporary": "where the trial writes"}[name]
            raise Refused(
                "no-space",
                f"{least // 2**20 + 1} MiB free were expected on the board in {there['folder']}, {what}; there are "
                f"{there['free_bytes'] // 2**20}. Make room there.",
            )


# Several services on one board: what one may not take from the others.


def check_beside(owner: Service, wanted: Wanted, services: tuple[OnBoard, ...], *, spends: bool) -> list[str]:
    """Check that the wanted service takes nothing from another one; notes for the plan. Raises ``Refused``.

    ``owner`` has its folder and users (``Profile.at``); ``spends``: its bundle promises an epsilon. No releases and
    root key may lie where another service's users write, or in its folder.
    """
    root, name = owner.root, owner.name
    place = posixpath.normpath(root)
    inside = any(place.startswith(one.root + "/") for one in services)
    if {".", ".."} & set(root.split("/")) or inside or _WRITTEN.match(place):
        raise Refused(
            "another-folder",
            f"A folder outside those of the services was expected as root in boards.toml, written out; got {root}, "
            f"where a service could change what lies there. Name /opt/{FIRST} or /opt/{FIRST}-NAME.",
        )
    if not wanted.service:
        return []
    others = [one for one in services if one.name != name]
    for one in services:
        if one.name == name and one.root != root:
            raise Refused(
                "another-folder",
                f"The service {name} of this board has the folder {one.root}, and root in boards.toml names {root}. "
                f"Leave root out to flash that one; a service next to it has its own: root = /opt/{FIRST}-NAME.",
            )
    for one in others:
        if wanted.source and _same_camera(wanted.source, one.source):
            raise Refused(
                "camera-in-use",
                f"{wanted.source} is the camera of the service {one.name} of this board. Name another --source, or "
                f"flash that service: root = {one.root}.",
            )
        for user in (owner.user, owner.inside_user, owner.camera_user):
            if user in one.users:
                raise Refused(
                    "another-user",
                    f"The service {name} would run as {user}, as {one.name} of this board does, and could change its "
                    "ledger. Give one of them a profile with other users, or another name.",
                )
    return [*_pages_and_camera(owner, wanted.source, services), *_spending(others, spends)]


def _pages_and_camera(owner: Service, source: str | None, services: tuple[OnBoard, ...]) -> Iterator[str]:
    name = owner.name
    if name != FIRST:
        yield f"the pages of {name} are at {pages_at(owner.root, services)}"
    own = next((one.source for one in services if one.name == name), "")
    if source and own not in ("", for_others(source)):
        beside = f"a service next to it has its own: root = /opt/{FIRST}-NAME"
        yield f"{name} reads {for_others(own)} no more; {beside}"


def _spending(others: list[OnBoard], spends: bool) -> Iterator[str]:
    """Warnings about epsilon: each service reports the same person, and each ledger counts its own service only."""
    counted = [one.name for one in others if one.counts]
    without = [one.name for one in others if not one.counts]
    if spends and counted:
        yield (
            f"{', '.join(counted)} and this service count epsilon apart: a person before all their cameras pays in "
            "each ledger, and each limit holds alone; edgeveil board status shows the sum"
        )
    if spends and without:
        yield f"no ledger counts the reports of {', '.join(without)}: their epsilon adds to that of this service"
    if counted and not spends:
        yield f"no ledger counts the reports of this service: their epsilon adds to that of {', '.join(counted)}"


def _same_camera(source: str, other: str) -> bool:
    # A simulation, a network camera and the radio of wifi: have as many readers as one likes.
    alone = fact_of(SOURCES, source, "sensor") is not None and not fact_of(SOURCES, source, "shared")
    return alone and not camera_address.on_network(source) and _device(source) == _device(other)


def _device(source: str) -> tuple[str, str]:
    kind, _, place = source.partition(":")
    return kind, f"/dev/video{place}" if place.isdigit() else place
