"""The inputs of a flash: the bundle, verified here; the profile, the owner's trust and policy, and wheels."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from edgeveil.devices import profiles
from edgeveil.devices.flashing.records import BundleFacts, TrustFacts, Wheels
from edgeveil.devices.flashing.wheels import open_wheels
from edgeveil.devices.zipapp import zipapp_bytes
from edgeveil.edge_runtime.bundle.audit_scope import NOT_AUDITED_ON, is_audited
from edgeveil.edge_runtime.bundle.policy import POLICY_FILE, Policy, open_policy
from edgeveil.edge_runtime.bundle.reader import Bundle, read_bundle, read_file
from edgeveil.edge_runtime.bundle.trust_file import read_trust_file
from edgeveil.edge_runtime.bundle.trust_store import ROOT_KEY, SIGNED_POLICY_FILE, TRUST_FILE, open_trust, read_part
from edgeveil.edge_runtime.device import CPU
from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.signing.keys import read_public_key


@dataclass(frozen=True)
class Inputs:
    """Everything that the user named, read once and checked. ``trust`` is None for a folder of public keys alone."""

    bundle: BundleFacts
    profile: profiles.Profile
    trust: TrustFacts | None
    wheels: Wheels | None
    policy: Policy | None
    opened: Bundle

    def check_policy(self, artefact: str | None, device: str | None) -> None:
        """Raise ``BundleRefused`` if the artefact (any one, for None) does not meet the owner's policy."""
        if self.policy is not None:
            self.policy.check(self.opened.manifest, self.opened.members, artefact, device)

    def audit_notes(self, artefact: str, device: str) -> list[str]:
        """A line if the bundle was audited, but not as it runs on this device."""
        manifest, members = self.opened.manifest, self.opened.members
        if device == CPU or manifest.privacy.file is None or is_audited(manifest, members, artefact, device):
            return []
        return ["note: " + NOT_AUDITED_ON.format(artefact=artefact, device=device)]


def read_inputs(bundle: Path, profile: str, trust: Path, wheels: Path | None) -> Inputs:
    """Read and verify everything once. Raises ``BadInput`` or ``BundleRefused``."""
    data = read_file(str(bundle))
    known = owners_trust(trust)
    opened = read_bundle(data, open_trust(trust))
    return Inputs(
        _bundle_facts(data, opened),
        profiles.load(profile),
        known,
        None if wheels is None else open_wheels(wheels),
        open_policy(str(trust / POLICY_FILE)),
        opened,
    )


def _bundle_facts(data: bytes, opened: Bundle) -> BundleFacts:
    manifest = opened.manifest
    variants = {name for model in manifest.models.values() for name in model.artefacts}
    return BundleFacts(
        sha=opened.manifest_sha256,
        name=manifest.name,
        size=len(data),
        security_version=manifest.security_version,
        key=opened.key,
        audience=manifest.audience,
        development=opened.development,
        artefacts=tuple(name for name in manifest.preference if name in variants),
        data=data,
        spends=manifest.spending is not None or (manifest.counts is not None and manifest.counts.noise is not None),
        # Not the bundle's own: what runs as root is this toolkit's, which its owner chose, not a signing key's.
        runtime=zipapp_bytes(),
    )


def owners_trust(folder: Path) -> TrustFacts | None:
    """The folder of ``edgeveil trust init``, with its files that are sent to a board: never the root's private key.

    None for a folder that only has public keys, which is enough for a board that knows its keys already.
    """
    data = read_part(str(folder), TRUST_FILE)
    if data is None:
        return None
    root = read_public_key(folder / ROOT_KEY)
    file = read_trust_file(data, root)
    files = {ROOT_KEY: (folder / ROOT_KEY).read_bytes(), TRUST_FILE: data}
    for name in (POLICY_FILE, SIGNED_POLICY_FILE):
        part = read_part(str(folder), name)
        if part is not None:
            files[name] = part
    keys = tuple(key.key for key in file.keys if key.key not in file.revoked)
    if not keys:
        raise BadInput(f"{folder / TRUST_FILE} names no key that may sign: add one first (edgeveil trust add).")
    return TrustFacts(root.key, file.version, keys, tuple(file.revoked), file.security_version, file.audience, files)
