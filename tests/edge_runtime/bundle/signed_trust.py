"""Trust files for tests, signed by keys that a name stands for: ``ann`` is always the same key."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from edgeveil.edge_runtime.bundle.board_state import statement
from edgeveil.edge_runtime.bundle.trust_file import ROLES, TrustFile, payload_of
from edgeveil.edge_runtime.manifest.schema import COUNTERSIGNATURE_MEMBER, PRIVACY_MEMBER
from edgeveil.edge_runtime.signing.envelope import message, wrap, wrap_all
from edgeveil.edge_runtime.signing.keys import Key, public_key_line
from edgeveil.edge_runtime.signing.roles import NOBODY, Role
from edgeveil.edge_runtime.util import strict_json
from tests.support import bundles


def private(name: str) -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(hashlib.sha256(name.encode()).digest())


def public(name: str) -> Key:
    return Key(bundles.public_hex(private(name)), name, False)


def role(names: Iterable[str], threshold: int = 1) -> Role:
    return Role(tuple(public(name) for name in names), threshold)


def envelope(kind: str, document: Any, signers: Iterable[str], schema: int = 2) -> bytes:
    """Signed by these names; in schema 1 by the one."""
    payload = strict_json.dumps(document)
    signed = {public(name).key: private(name).sign(message(kind, payload, schema)) for name in signers}
    return wrap_all(payload, signed) if schema == 2 else wrap(payload, *next(iter(signed.items())))


def trust_file(
    version: int,
    signers: Iterable[str] = ("root",),
    *,
    root: Iterable[str] = ("root",),
    threshold: int = 1,
    first: str = "root",
    schema: int = 2,
    change: Any = None,
    roles: dict[str, Role] | None = None,
    floor_reset: Any = None,
    **fields: Any,
) -> bytes:
    """One ``trust.json``. The maker is ``bundles.KEY``; ``change`` alters the payload before it is signed."""
    makers = Role((bundles.trusted(),))
    every = {**dict.fromkeys(ROLES, NOBODY), "maker": makers, "release": makers, **(roles or {})}
    said = TrustFile(version, public(first).key, role(root, threshold), every, schema=schema, **fields)
    payload = payload_of(said)
    if floor_reset is not None:
        payload["floor_reset"] = floor_reset
    if change:
        change(payload)
    return envelope("trust", payload, signers, schema)


def policy_file(version: int, policy: Any, signers: Iterable[str] = ("root",)) -> bytes:
    return envelope("policy", {"schema": 1, "version": version, "policy": policy}, signers)


def device(folder: Path, trust: bytes, *, first: str = "root") -> Path:
    """The trust folder of a board after its first flash."""
    folder.mkdir(parents=True)
    (folder / "root.pub").write_text(public_key_line(public(first)))
    (folder / "trust.json").write_bytes(trust)
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    """Every file, to see that a refusal changed none."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def countersignature(audit: bytes, privacy: Any, signers: Iterable[Ed25519PrivateKey]) -> bytes:
    """The auditors' signatures of an audit, as sealing puts them into a bundle."""
    payload = statement(audit, privacy["speaks_of"], privacy["pipeline"])
    return wrap_all(payload, {bundles.public_hex(key): key.sign(message("audit", payload, 2)) for key in signers})


def audited_bundle(
    folder: Path,
    signers: Iterable[Ed25519PrivateKey] | None = None,
    change: Any = None,
    name: str = "audited.veil",
    **head: Any,
) -> Path:
    """A numpy bundle that runs, with an audit that ``signers`` countersigned; None: nobody. ``head``: manifest keys."""

    def audited(manifest: Any, members: Any) -> None:
        manifest.update(head)
        audit = bundles.audit_document(manifest, "numpy", members)
        bundles.add_audit(manifest, members, audit)
        if signers is not None:
            signed = countersignature(members[PRIVACY_MEMBER], manifest["privacy"], signers)
            members[COUNTERSIGNATURE_MEMBER] = signed
            manifest["privacy"]["countersignature"] = COUNTERSIGNATURE_MEMBER
        if change is not None:
            change(manifest, members)

    return bundles.make_bundle(folder, change=audited, name=name).path
