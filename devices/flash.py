"""``edgeveil flash``: a sealed bundle to a board, by way of its facts and a plan."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from devices import first_boot, media, profiles, service
from devices.execute import Board, Payload, Say
from devices.facts import BundleFacts, TrustFacts, Wanted
from devices.plan import Plan, Refused, Step, plan
from devices.sites import open_site
from devices.transports.base import digest
from edge_runtime.bundle import read_bundle, read_file
from edge_runtime.device_trust import ROOT_KEY, TRUST_FILE, open_device_trust, read_trust_file
from edge_runtime.disk import read
from edge_runtime.errors import BadInput
from edge_runtime.manifest import NO_MODEL, RUNTIME_MEMBER
from edge_runtime.policy import POLICY_FILE, open_policy
from edge_runtime.trust import Trust, read_public_key


@dataclass(frozen=True)
class Flashed:
    """What was done: the plan, whether anything changed, and the root key's fingerprint to compare on a first flash."""

    plan: Plan
    sha: str
    root_key: str | None = None


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
    data = read_file(str(bundle))
    known, files = owners_trust(trust)
    opened = read_bundle(data, open_device_trust(str(trust)) if TRUST_FILE in files else Trust.open(str(trust)))
    manifest = opened.manifest
    variants = {name for model in manifest["models"].values() for name in model["artefacts"]}
    facts_of_bundle = BundleFacts(
        sha=opened.manifest_sha256,
        name=manifest["name"],
        size=len(data),
        security_version=manifest["security_version"],
        key=opened.key,
        audience=manifest["audience"],
        development=opened.development,
        artefacts=tuple(name for name in manifest["preference"] if name in variants),
        profiles=manifest["profiles"],
    )
    chosen = profiles.load(profile)
    site, archive = (None, b"") if wheels is None else open_site(wheels)
    facts = board.facts(chosen.accelerator_path)
    made = plan(facts, facts_of_bundle, chosen, wanted, trust=known, site=site)
    units: dict[str, bytes] = {}
    # A board in use keeps its configuration where no other is asked for.
    kept = bool(facts.edgeveil and facts.edgeveil.service) and not (wanted.source or wanted.sinks)
    if wanted.service and facts.systemd and not kept:
        units = service.files(board.root, wanted.source, wanted.sinks, chosen.accelerator_path)
        wanted = replace(wanted, service_files={path: digest(content) for path, content in units.items()})
        made = plan(facts, facts_of_bundle, chosen, wanted, trust=known, site=site)
    policy = open_policy(str(trust / POLICY_FILE))
    if policy is not None:
        policy.check(manifest, opened.members, made.artefact)
    show(made.text())
    if not dry_run:
        payload = Payload(data, opened.members[RUNTIME_MEMBER], files, site, archive, units)
        board.carry_out(made, payload, wanted, progress)
    first = any(step.kind == "trust" for step in made.steps)
    return Flashed(made, opened.manifest_sha256, known.root_key if first and known else None)


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
    data = read_file(str(bundle))
    known, files = owners_trust(trust)
    if known is None:
        raise Refused("no-trust", "A card brings the board's trust along: give the folder of edgeveil trust init.")
    opened = read_bundle(data, open_device_trust(str(trust)))
    chosen = profiles.load(profile)
    variants = opened.manifest["preference"]
    possible = [name for name in chosen.artefacts if name in variants] or ([] if variants else [NO_MODEL])
    if not possible:
        raise Refused(
            "no-artefact",
            f"The profile {chosen.name} runs {', '.join(chosen.artefacts)}; the bundle has {', '.join(variants)}.",
        )
    site, archive = (None, b"") if wheels is None else open_site(wheels)
    if site is not None and site.architecture != chosen.architecture:
        raise Refused(
            "architecture", f"The wheels given are for {site.architecture}, and {chosen.name} is {chosen.architecture}."
        )
    units: dict[str, bytes] = {}
    if wanted.service:
        units = service.files(root, wanted.source, wanted.sinks, chosen.accelerator_path)
    payload = Payload(data, opened.members[RUNTIME_MEMBER], files, site, archive, units)
    tree = first_boot.tree(payload, root, wanted)
    card = media.open_media(target)
    size = sum(map(len, tree.values()))
    step = Step("card", f"write {len(tree)} files for the first boot into {card.name}, and read them back", size)
    made = Plan((step,), possible[0], "found out at first boot")
    show(made.text())
    if not dry_run:
        for said in media.write_card(card, tree):
            show(said)
    return Flashed(made, opened.manifest_sha256, known.root_key)


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
