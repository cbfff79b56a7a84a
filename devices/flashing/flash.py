"""``edgeveil flash``: a sealed bundle to a board, by way of its facts and a plan."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from edgeveil.devices import profiles
from edgeveil.devices.flashing import first_boot, sd_card
from edgeveil.devices.flashing import service_files as service
from edgeveil.devices.flashing.board import Board, Payload, Say
from edgeveil.devices.flashing.connection import Connection
from edgeveil.devices.flashing.plan import Plan, Refused, Step, keeps_settings, plan
from edgeveil.devices.flashing.records import BundleFacts, Facts, Site, TrustFacts, Wanted
from edgeveil.devices.flashing.wheels import open_site
from edgeveil.devices.transports.base import digest
from edgeveil.edge_runtime.bundle.audit_scope import NOT_AUDITED_ON, is_audited
from edgeveil.edge_runtime.bundle.policy import POLICY_FILE, Policy, open_policy
from edgeveil.edge_runtime.bundle.reader import Bundle, read_bundle, read_file
from edgeveil.edge_runtime.bundle.trust_store import ROOT_KEY, TRUST_FILE, open_trust, read_trust_file
from edgeveil.edge_runtime.device import CPU, EDGETPU, check_device
from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.manifest.schema import NO_MODEL, RUNTIME_MEMBER
from edgeveil.edge_runtime.signing.keys import read_public_key
from edgeveil.edge_runtime.storage.filesystem import read


@dataclass(frozen=True)
class Flashed:
    """What was done: the plan, whether anything changed, and the root key's fingerprint to compare on a first flash."""

    plan: Plan
    sha: str
    root_key: str | None = None


@dataclass(frozen=True)
class _Opened:
    """A verified bundle, the profile it is for, and what may travel with it."""

    data: bytes
    bundle: Bundle
    profile: profiles.Profile
    trust: TrustFacts | None  # of the owner's folder, where it holds a trust file
    files: dict[str, bytes]
    policy: Policy | None
    site: Site | None
    archive: bytes

    @classmethod
    def of(cls, bundle: Path, profile: str, trust: Path, wheels: Path | None) -> _Opened:
        """Everything the user named, read once. Raises ``BadInput`` or ``BundleRefused``."""
        data = read_file(str(bundle))
        known, files = owners_trust(trust)
        opened = read_bundle(data, open_trust(trust))
        site, archive = (None, b"") if wheels is None else open_site(wheels)
        policy = open_policy(str(trust / POLICY_FILE))
        return cls(data, opened, profiles.load(profile), known, files, policy, site, archive)

    def check_policy(self, artefact: str | None, device: str | None) -> None:
        """Raise ``BundleRefused`` where the owner's policy is not met by the artefact, or by none where it is None."""
        if self.policy is not None:
            self.policy.check(self.bundle.manifest, self.bundle.members, artefact, device)

    def not_audited(self, artefact: str, device: str) -> list[str]:
        """What is to be said where an audit is there, and none of what this device lets out."""
        manifest, members = self.bundle.manifest, self.bundle.members
        if device == CPU or manifest["privacy"]["file"] is None or is_audited(manifest, members, artefact, device):
            return []
        return ["note: " + NOT_AUDITED_ON.format(artefact=artefact, device=device)]

    def payload(self, units: dict[str, bytes]) -> Payload:
        """What travels, with these files of a service."""
        runtime = self.bundle.members[RUNTIME_MEMBER]
        return Payload(self.data, runtime, self.files, self.site, self.archive, units, self.profile.service)

    def updates(self, root: str, place: str, device: str, facts: Facts | None = None) -> dict[str, bytes]:
        """What looks for newer releases at ``place``, for a board with these facts (None: one with systemd)."""
        return service.update_files(
            root,
            place,
            python=self.profile.service.python,
            systemd=facts is None or facts.systemd,
            starter=facts.starter if facts else None,
            device=device,
        )

    def service(self, root: str, wanted: Wanted, device: str, facts: Facts | None = None) -> dict[str, bytes]:
        """The files of the service that is wanted, for a board with these facts (None: one with systemd).

        Raises ``BadInput`` where no service can be made of them.
        """
        chosen = self.profile
        return service.files(
            root,
            wanted.source,
            wanted.sinks,
            chosen.accelerator_path,
            device=device,
            accelerator_devices=chosen.accelerator_devices,
            accelerator_group=chosen.accelerator_group,
            service=chosen.service,
            camera=chosen.camera,
            systemd=facts is None or facts.systemd,
            starter=facts.starter if facts else None,
        )


def flash_target(
    bundle: Path,
    target: str,
    connection: Connection,
    profile: str,
    *,
    trust: Path,
    wanted: Wanted,
    wheels: Path | None = None,
    dry_run: bool = False,
    show: Say = lambda _: None,
    progress: Callable[[int, int], None] = lambda *_: None,
) -> Flashed:
    """Bring ``bundle`` to whatever ``target`` names, a board or a card. Raises ``EdgeVeilError``."""
    if target.startswith(sd_card.KINDS):
        return flash_card(
            bundle,
            target,
            profile,
            trust=trust,
            wanted=wanted,
            root=connection.root,
            wheels=wheels,
            dry_run=dry_run,
            show=show,
        )
    with connection.open(target, say=show) as board:
        return flash(
            bundle,
            board,
            profile,
            trust=trust,
            wanted=replace(wanted, trusted_channel=board.transport.trusted),
            wheels=wheels,
            dry_run=dry_run,
            show=show,
            progress=progress,
        )


def flash(
    bundle: Path,
    board: Board,
    profile: str,
    *,
    trust: Path,
    wanted: Wanted,
    wheels: Path | None = None,
    dry_run: bool = False,
    show: Say = lambda _: None,
    progress: Callable[[int, int], None] = lambda *_: None,
) -> Flashed:
    """Bring ``bundle`` onto ``board``. ``trust`` is the folder of edgeveil trust init. Raises ``EdgeVeilError``."""
    opened = _Opened.of(bundle, profile, trust, wheels)
    facts = board.facts(opened.profile.accelerator_path)
    made = plan(facts, _facts(opened), opened.profile, wanted, trust=opened.trust, site=opened.site)
    units: dict[str, bytes] = {}
    # A board in use keeps its configuration where no other is asked for.
    kept = keeps_settings(facts, wanted)
    if wanted.service and not kept:
        units = opened.service(board.root, wanted, made.device, facts)
    if wanted.service and wanted.update_from:
        units |= opened.updates(board.root, wanted.update_from, made.device, facts)
    if units:
        wanted = replace(wanted, service_files={path: digest(content) for path, content in units.items()})
        made = plan(facts, _facts(opened), opened.profile, wanted, trust=opened.trust, site=opened.site)
    there = facts.edgeveil.device if facts.edgeveil else None
    # Where the service is left out, its settings stay, and with them what updates are tried on.
    news = wanted.service and made.device != CPU and there != made.device
    if news and not wanted.update_from and service.updates_itself(facts):
        raise BadInput(
            f"This board looks for newer releases by itself, and what does so may not open the {made.device} that it "
            "would try them on: say --update-from again, as it was said then, or --device cpu."
        )
    opened.check_policy(made.artefact, made.device)
    show("\n".join([made.text(), *opened.not_audited(made.artefact, made.device)]))
    if not dry_run:
        # Named only where that is news: a runtime of before there was a choice knows no such word.
        named = None if kept or (made.device == CPU and there in (None, CPU)) else made.device
        board.carry_out(made, opened.payload(units), replace(wanted, device=named), progress)
    first = any(step.kind == "trust" for step in made.steps)
    root_key = opened.trust.root_key if first and opened.trust else None
    return Flashed(made, opened.bundle.manifest_sha256, root_key)


def flash_card(
    bundle: Path,
    target: str,
    profile: str,
    *,
    trust: Path,
    wanted: Wanted,
    root: str,
    wheels: Path | None = None,
    dry_run: bool = False,
    show: Say = lambda _: None,
) -> Flashed:
    """Write ``bundle`` to a card (``image:FILE``, ``dir:FOLDER``) whose board flashes itself when it first comes up.

    What only the board knows, its interpreters among it, is found out there. Raises ``EdgeVeilError``.
    """
    opened = _Opened.of(bundle, profile, trust, wheels)
    if opened.trust is None:
        raise Refused("no-trust", "A card brings the board's trust along: give the folder of edgeveil trust init.")
    chosen, variants = opened.profile, opened.bundle.manifest["preference"]
    possible = [name for name in chosen.artefacts if name in variants] or ([] if variants else [NO_MODEL])
    if not possible:
        raise Refused(
            "no-artefact",
            f"The profile {chosen.name} runs {', '.join(chosen.artefacts)}; the bundle has {', '.join(variants)}.",
        )
    # What only the board knows is not asked here: its processor, unless its accelerator was named.
    device = check_device(wanted.device or CPU)
    if device == EDGETPU and f"{possible[0]}-{EDGETPU}" not in variants:
        raise Refused(
            "not-compiled",
            f"The Edge TPU runs what was compiled for it, and the bundle has {', '.join(variants)}. Export with "
            "edgetpu_compiler on PATH and seal it again, or choose --device cpu.",
        )
    opened.check_policy(None, None)
    if opened.site is not None and opened.site.architecture != chosen.architecture:
        raise Refused(
            "architecture",
            f"The wheels given are for {opened.site.architecture}, and {chosen.name} is {chosen.architecture}.",
        )
    units: dict[str, bytes] = {}
    if wanted.service:
        units = opened.service(root, wanted, device)
        if wanted.update_from:
            units |= opened.updates(root, wanted.update_from, device)
    tree = first_boot.tree(opened.payload(units), root, wanted)
    card = sd_card.open_media(target)
    size = sum(map(len, tree.values()))
    step = Step("card", f"write {len(tree)} files for the first boot into {card.name}, and read them back", size)
    made = Plan((step,), possible[0], "found out at first boot", device=device)
    show(made.text())
    if not dry_run:
        for said in sd_card.write_card(card, tree):
            show(said)
    return Flashed(made, opened.bundle.manifest_sha256, opened.trust.root_key)


def _facts(opened: _Opened) -> BundleFacts:
    manifest = opened.bundle.manifest
    variants = {name for model in manifest["models"].values() for name in model["artefacts"]}
    return BundleFacts(
        sha=opened.bundle.manifest_sha256,
        name=manifest["name"],
        size=len(opened.data),
        security_version=manifest["security_version"],
        key=opened.bundle.key,
        audience=manifest["audience"],
        development=opened.bundle.development,
        artefacts=tuple(name for name in manifest["preference"] if name in variants),
        profiles=manifest["profiles"],
    )


def owners_trust(folder: Path) -> tuple[TrustFacts | None, dict[str, bytes]]:
    """What ``edgeveil trust init`` made, and the files of it that go to a board; the root's private key never does.

    (None, {}) for a folder of public keys alone: it will do where the board knows its keys already.
    """
    data = read(str(folder / TRUST_FILE))
    if data is None:
        return None, {}
    root = read_public_key(folder / ROOT_KEY)
    file = read_trust_file(data, root)
    files = {ROOT_KEY: (folder / ROOT_KEY).read_bytes(), TRUST_FILE: data}
    policy = read(str(folder / POLICY_FILE))
    if policy is not None:
        files[POLICY_FILE] = policy
    keys = tuple(key.key for key in file.keys if key.key not in file.revoked)
    if not keys:
        raise BadInput(f"{folder / TRUST_FILE} names no key that may sign: add one first (edgeveil trust add).")
    return (
        TrustFacts(root.key, file.version, keys, tuple(file.revoked), file.security_version, file.audience),
        files,
    )
