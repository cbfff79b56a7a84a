"""Seal an export folder: artefacts, manifest, privacy card and runtime become one signed file, whole or not at all."""

from __future__ import annotations

import copy
import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from edgeveil.devices.zipapp import zipapp_bytes
from edgeveil.edge_runtime.bundle.archive import pack
from edgeveil.edge_runtime.bundle.audit_document import check_audit
from edgeveil.edge_runtime.bundle.board_state import KIND, statement
from edgeveil.edge_runtime.bundle.reader import (
    MANIFEST,
    SIGNATURE,
    Bundle,
    read_bundle,
    signature_member,
    signed_message,
)
from edgeveil.edge_runtime.bundle.trust_file import Trust, TrustFile, parse_trust_file
from edgeveil.edge_runtime.bundle.trust_store import open_trust
from edgeveil.edge_runtime.errors import BadInput, BundleRefused
from edgeveil.edge_runtime.manifest import stream_bound
from edgeveil.edge_runtime.manifest.schema import (
    CARD_MEMBER,
    COUNTERSIGNATURE_MEMBER,
    MAX_MANIFEST_BYTES,
    NO_MODEL,
    PAGE_MEMBER,
    PRIVACY_FILES,
    PRIVACY_MEMBER,
    RUNTIME_MEMBER,
    check_manifest,
    referenced_files,
)
from edgeveil.edge_runtime.signing.envelope import message, parse, verify, wrap, wrap_all
from edgeveil.edge_runtime.signing.keys import Key
from edgeveil.edge_runtime.util import strict_json
from edgeveil.edge_runtime.util.atomic import atomic_path, write_atomic, writing
from edgeveil.edge_runtime.util.filesystem import read_strict
from edgeveil.trainer.audit.subject import Subject
from edgeveil.trainer.export.folder import ExportFolder
from edgeveil.trainer.export.manifest import not_audited
from edgeveil.trainer.progress import say
from edgeveil.trainer.results import locked, require_free
from edgeveil.trainer.sealing.keys import Signer, is_encrypted, keygen

__all__ = ["audit_of", "is_encrypted", "keygen", "seal", "spoken_of"]

COUNTERSIGNATURE_FILE = "countersignature.json"  # in an export folder, next to audit.json

# A local path: at the beginning of a text, or after a space, a colon or the like.
_LOCAL_PATH = re.compile(r"(?:^|[\s:=('\"])(?:/|~/|\.{1,2}/|[A-Za-z]:[\\/])[\w.]")


def seal(
    export_dir: Path,
    key_path: str | Path,
    out: Path,
    *,
    passphrase: str | None = None,
    allow_unaudited: bool = False,
    trust: Path | None = None,
    replace: bool = False,
) -> Path:
    """Sign the export and the audit in ``export_dir`` as the bundle ``out``.

    The same folder and key give the same bytes. The written file is read again and verified before it gets its name.
    ``allow_unaudited``: without an audit of these artefacts, seal with a card that says "not audited". ``trust``: the
    owner's trust folder, whose keys and policy must take the bundle too. The auditors' signatures in the folder are
    carried. ``replace`` gives a file that is at ``out`` a dated name. Raises ``BadInput`` where there is no audit and
    that is not allowed, where folder or key are not valid, or where a member names a path of this machine;
    ``BundleRefused`` where a board would refuse the result.
    """
    out = Path(out)
    with writing(out):
        out.parent.stat()  # a folder that was mistyped is not made
    with locked(out, "seal"):
        require_free(out, replace=replace)
        folder = ExportFolder.open(Path(export_dir))
        signer = Signer.open(key_path, passphrase=passphrase)
        manifest = copy.deepcopy(dict(folder.manifest))
        manifest["development"] = signer.key.development
        manifest["privacy"] = not_audited()
        files = {**folder.members, RUNTIME_MEMBER: zipapp_bytes()}
        audit = audit_of(folder, allow_unaudited=allow_unaudited)
        if audit is not None:
            files[PRIVACY_MEMBER], document = audit
            manifest["privacy"] = {**PRIVACY_FILES, **spoken_of(document)}
            files[CARD_MEMBER], files[PAGE_MEMBER] = card_files(document, manifest)
            countersignature = _countersignature_of(folder, files[PRIVACY_MEMBER], manifest["privacy"])
            if countersignature is not None:
                manifest["privacy"]["countersignature"] = COUNTERSIGNATURE_MEMBER
                files[COUNTERSIGNATURE_MEMBER] = countersignature
        members = {name: files[name] for name in (*referenced_files(manifest), RUNTIME_MEMBER)}
        manifest["members"] = [
            {"name": name, "size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
            for name, data in sorted(members.items())
        ]
        _refuse_paths(manifest, "manifest.json")
        check_manifest(manifest)
        if manifest.get("capture") is not None and stream_bound.unheld(manifest["stages"], manifest.get("stream")):
            say(f"Note: {stream_bound.UNHELD}.")
        manifest_bytes = strict_json.dumps(manifest)
        if len(manifest_bytes) > MAX_MANIFEST_BYTES:
            raise BadInput(
                f"The manifest has {len(manifest_bytes)} bytes; at most {MAX_MANIFEST_BYTES} are allowed. Export fewer "
                "artefacts, or give one range for all features."
            )
        signature = signature_member(signer.key.key, signer.sign(signed_message(manifest_bytes)))
        bundle = pack([(MANIFEST, manifest_bytes), (SIGNATURE, signature), *sorted(members.items())])
        with atomic_path(out, keep_old=True) as temporary:
            Path(temporary).write_bytes(bundle)
            # Verify the written file itself, by the board's rules.
            read_bundle(temporary, Trust([signer.key], audience=manifest["audience"]))
            if trust is not None:
                read_bundle(temporary, open_trust(trust))
        return out


def checked_card(bundle: Bundle) -> dict[str, Any]:
    """The privacy card of a verified bundle, as ``card.of_bundle``; its page is held to the same."""
    from edgeveil.trainer.audit.card import check_sealed, of_bundle
    from edgeveil.trainer.report.card_page import render

    document = of_bundle(bundle)
    check_sealed(bundle, "page", render(document).encode())
    return document


def card_files(audit: Mapping[str, Any], manifest: Mapping[str, Any]) -> tuple[bytes, bytes]:
    """The privacy card as JSON and as a page. Raises ``BadInput`` where the audit lacks something a card needs."""
    from edgeveil.trainer.audit.card import card
    from edgeveil.trainer.report.card_page import render

    try:
        document = card(audit, manifest)
        return strict_json.dumps(document), render(document).encode()
    except (LookupError, TypeError, AttributeError, ValueError) as error:
        raise BadInput(
            f"The audit lacks what a privacy card must say ({error}): it is of another version. Audit again."
        ) from None


def audit_of(folder: ExportFolder, *, allow_unaudited: bool) -> tuple[bytes, dict[str, Any]] | None:
    """The audit of the exported artefacts, as bytes and as schema 2; None where there is none and that is allowed.

    Raises ``BadInput``, and ``BundleRefused`` for figures that no audit can have measured.
    """
    path = folder.folder / "audit.json"
    cure = f"Run edgeveil audit {folder.folder}, or seal with --no-audit to say on the card that there is none."
    if not path.is_file():
        if allow_unaudited:
            return None
        raise BadInput(f"An audit of these artefacts was expected at {path}, and there is none. {cure}")
    try:
        data = path.read_bytes()
        document = strict_json.loads(data)
        stale = _not_of(document, folder)
    except OSError as error:
        raise BadInput(f"The audit {path} cannot be read: {error.strerror}. {cure}") from None
    except (strict_json.BadJson, LookupError, TypeError, AttributeError) as error:
        raise BadInput(f"{path} is not an audit that edgeveil audit wrote ({error}). {cure}") from None
    if stale is not None:
        if allow_unaudited:
            return None
        raise BadInput(f"The audit in {path} {stale}. {cure}")
    _refuse_paths(document, "audit.json")
    of = folder.manifest["perturber"]
    return data, check_audit(document, target=of["target"], sensitive=of["sensitive"], **spoken_of(document))


def spoken_of(document: Mapping[str, Any]) -> dict[str, Any]:
    """``speaks_of`` and ``pipeline`` of an audit document, as the manifest has them."""
    return {key: _of(document, key) for key in ("speaks_of", "pipeline")}


def _countersignature_of(folder: ExportFolder, audit: bytes, privacy: Mapping[str, Any]) -> bytes | None:
    """The auditors' signatures in an export folder, None where there are none. Raises ``BadInput`` for old ones."""
    path = folder.folder / COUNTERSIGNATURE_FILE
    data = read_part(path)
    if data is None:
        return None
    if parse(KIND, data).payload != statement(audit, privacy["speaks_of"], privacy["pipeline"]):
        raise BadInput(f"{path} is of another audit. Have it signed again (edgeveil audit --sign), or remove it.")
    return data


def read_part(path: Path) -> bytes | None:
    """The bytes at ``path``, None where there is no file. Raises ``BadInput`` where it cannot be read."""
    try:
        return read_strict(str(path), links=True)
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror}. Make it readable, or remove it.") from None


def _of(document: Mapping[str, Any], key: str) -> dict[str, Any]:
    """``speaks_of`` or ``pipeline`` by artefact, of the document and of those inside it."""
    parts = (part for part in (document, *document.get("others", [])) if part["speaks_of"])
    return {name: value for part in parts for name, value in part[key].items()}


def _not_of(document: Mapping[str, Any], folder: ExportFolder) -> str | None:
    """Why the audit is not of the artefacts in this folder, as the end of a sentence; None where it is."""
    speaks_of, pipeline = _of(document, "speaks_of"), _of(document, "pipeline")
    if not speaks_of:
        return "speaks of no artefact that ships"
    models = folder.manifest["models"]
    for artefact, hashes in speaks_of.items():
        if artefact not in {variant for model in models.values() for variant in model["artefacts"]} | {NO_MODEL}:
            return f"speaks of an artefact {artefact}, which was not exported"
        if {name: model["artefacts"][artefact]["sha256"] for name, model in models.items()} != hashes:
            return f"is of another {artefact} than the one that was exported"
        if pipeline[artefact] != Subject(folder.manifest, folder.members, artefact).pipeline_sha256():
            return f"is of another pipeline around {artefact}: its stages or tables have changed since"
    return None


def _refuse_paths(value: Any, where: str) -> None:
    """Paths reveal names of people and machines, and a bundle goes to many recipients."""
    for text in _texts(value):
        if _LOCAL_PATH.search(text):
            raise BadInput(
                f"{where} names a path of this machine ({text[:60]!r}), and a bundle must not contain any. Replace it "
                "by a plain name, then export and audit again."
            )


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner)
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield key
            if key != "tensor":  # an interpreter's names of tensors may look like paths
                yield from _texts(inner)


# What waits in a trust folder until enough root keys have signed it: an envelope that is not complete.

Checked = TypeVar("Checked")


@dataclass(frozen=True)
class Pending:
    """A payload of one kind and its signatures so far, by key, in ``<kind>-pending.json`` of a trust folder."""

    path: Path
    kind: str
    schema: int
    payload: bytes
    signatures: dict[str, bytes] = field(default_factory=dict)

    @classmethod
    def from_payload(cls, folder: Path, kind: str, schema: int, payload: bytes) -> Pending:
        """One that no one has signed yet. It is not written."""
        return cls(folder / f"{kind}-pending.json", kind, schema, payload)

    @classmethod
    def read(cls, folder: Path, kind: str) -> Pending | None:
        """The one in ``folder``, every signature in it valid; None where nothing waits. Raises ``BundleRefused``."""
        path = folder / f"{kind}-pending.json"
        data = read_part(path)
        if data is None:
            return None
        envelope = parse(kind, data)
        verify(kind, envelope)
        return cls(path, kind, envelope.schema, envelope.payload, dict(envelope.signatures))

    def with_signature(self, signer: Signer) -> Pending:
        """The same with one more signature; a key that signs again counts once."""
        signature = signer.sign(message(self.kind, self.payload, self.schema))
        return replace(self, signatures={**self.signatures, signer.key.key: signature})

    def data(self) -> bytes:
        """The envelope as a device reads it."""
        if self.schema == 1:
            key, signature = next(iter(self.signatures.items()), ("0" * 64, bytes(64)))  # this schema always has one
            return wrap(self.payload, key, signature)
        return wrap_all(self.payload, self.signatures)

    def trust_file(self, first: Key) -> TrustFile:
        """What it says, of the kind ``trust``. Raises ``BundleRefused`` for what a device would refuse."""
        return parse_trust_file(self.data(), first)

    def unless_missing(self, check: Callable[[], Checked]) -> Checked | None:
        """What ``check()`` returns, None where it refused for want of signatures."""
        try:
            return check()
        except BundleRefused as error:
            if error.reason in ("below-threshold", "untrusted-key"):
                return None
            raise

    def write(self) -> None:
        """Keep it in its folder."""
        write_atomic(self.path, self.data())

    def remove(self) -> None:
        """Take it away: it is complete."""
        self.path.unlink(missing_ok=True)


# ``edgeveil audit --sign``: an auditor signs the audit in an export folder; sealing carries it into the bundle.


def countersign(export_dir: Path, key: str | Path, *, passphrase: str | None = None) -> tuple[Path, Key]:
    """Sign ``audit.json`` of an export folder; returns the file with the signatures, and the key that signed.

    The signature is of the audit's bytes and of the hashes of what it audited. Signatures of the same audit by other
    keys are kept, those of an earlier audit are replaced. Raises ``BadInput`` where the audit is not of what is in the
    folder.
    """
    folder = ExportFolder.open(Path(export_dir))
    audit = audit_of(folder, allow_unaudited=False)
    if audit is None:
        raise BadInput(f"An audit was expected in {export_dir}. Run edgeveil audit {export_dir}.")
    data, document = audit
    path = folder.folder / COUNTERSIGNATURE_FILE
    fresh = Pending(path, KIND, 2, statement(data, **spoken_of(document)))
    signer = Signer.open(key, passphrase=passphrase)
    if (previous := read_part(path)) is not None:
        envelope = parse(KIND, previous)
        if envelope.payload == fresh.payload:
            verify(KIND, envelope)
            fresh.signatures.update(envelope.signatures)
    fresh.with_signature(signer).write()
    return path, signer.key
