"""Checks before anything is changed on a board: of the board itself, its trust, its service and its space."""

from __future__ import annotations

from collections.abc import Sequence

from edgeveil.devices.flashing.records import BundleFacts, Facts, Installed, TrustFacts, Wanted
from edgeveil.devices.flashing.steps import StartService, Step, StopService, WriteService
from edgeveil.devices.profiles import Profile
from edgeveil.edge_runtime.device import CPU
from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.releases.store import MOST_FAILURES

SPARE_BYTES = 16 * 2**20  # what must stay free: logs, a state file
OWN_INIT = (
    "have its init run `python3 runtime/current/edgeveil-edge.pyz recover` in EdgeVeil's folder there (with `--root "
    "FOLDER`, unless it is /opt/edgeveil), then the same with `run --config ...`"
)
UPDATE_UNIT = "-update.service"


class Refused(BadInput):
    """This bundle cannot be installed on this board. ``reason`` is the fixed name of the rule."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def check_board(facts: Facts, profile: Profile) -> None:
    """Check for the profile's processor and a writable file system."""
    if facts.architecture != profile.architecture:
        raise Refused(
            "architecture",
            f"The profile {profile.name} is for {profile.architecture}; this board is {facts.architecture}. "
            "Name the profile of this board (edgeveil devices list).",
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


def trust_in_force(there: Installed | None, trust: TrustFacts | None, wanted: Wanted, first: bool) -> TrustFacts:
    """The trust that the bundle is checked against: the board's, or the owner's on a first flash."""
    if not first and there is not None:
        if trust is not None and trust.root_key != there.root_key:
            raise Refused(
                "other-root",
                f"This board's root key is {str(there.root_key)[:16]}..., that of --trust is {trust.root_key[:16]}.... "
                "A flash never changes it: name the right folder, or set the board up again from an image.",
            )
        return TrustFacts(
            str(there.root_key), there.trust_version, there.keys, there.revoked, there.floor, there.audience
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


def check_failures(there: Installed | None, bundle: BundleFacts, wanted: Wanted) -> list[str]:
    """A note on failed trials of this release there. After ``MOST_FAILURES`` the board takes it on request alone."""
    failed = 0 if there is None else there.failed.get(bundle.sha, 0)
    if failed >= MOST_FAILURES and not wanted.again:
        raise Refused(
            "failed-before",
            f"This release has failed its trial on this board {failed} times (edgeveil status shows why). Remove the "
            "cause, then flash it with --again.",
        )
    return [f"this release has failed its trial here before ({failed}): edgeveil status shows why"] if failed else []


def check_systemd(facts: Facts, wanted: Wanted) -> None:
    """Check for systemd if the service is wanted."""
    if wanted.service and not facts.systemd:
        raise Refused(
            "no-systemd",
            f"The service needs systemd, and this board has none: leave it out with --no-service, and {OWN_INIT}.",
        )


def check_root(facts: Facts, steps: Sequence[Step]) -> None:
    """Check for root if the service is written, stopped or started."""
    if not facts.sudo and any(isinstance(step, WriteService | StopService | StartService) for step in steps):
        raise Refused(
            "no-root",
            "The service needs root on the board, and this user cannot sudo without a password: give it with "
            "--password-file, log in as another user, or leave the service out with --no-service and without --source.",
        )


def check_updates(facts: Facts, wanted: Wanted, device: str) -> None:
    """The update unit on the board may only open the device that an earlier flash named."""
    there = facts.edgeveil
    updates = there is not None and any(path.endswith(UPDATE_UNIT) for path in there.service_files)
    if there is None or not updates or not wanted.service or wanted.update_from:
        return
    if device not in (CPU, there.device):
        raise Refused(
            "updates-itself",
            f"This board updates itself, and its update unit may not open the {device} that it would try releases on. "
            "Repeat --update-from with the same place as before, or use --device cpu.",
        )


def check_space(facts: Facts, size: int) -> None:
    """Check for space for ``size`` bytes that are sent."""
    # The bundle is there twice for a moment: as it was sent, and as a release with its runtime next to it.
    needed = 3 * size + SPARE_BYTES
    if size and facts.free_bytes < needed:
        raise Refused(
            "no-space",
            f"{needed // 2**20 + 1} MiB free were expected on the board; there are {facts.free_bytes // 2**20}. "
            "Remove old releases there (edgeveil releases --keep 1), or make room.",
        )
