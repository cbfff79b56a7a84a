"""``edgeveil audit --sign``: an auditor signs the audit in an export folder; sealing carries it into the bundle."""

from __future__ import annotations

from pathlib import Path

from edgeveil.edge_runtime.backends.model_lint import check_all
from edgeveil.edge_runtime.bundle.countersignature import KIND, statement
from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.signing.envelope import parse, verify
from edgeveil.edge_runtime.signing.keys import Key
from edgeveil.trainer.export.folder import ExportFolder
from edgeveil.trainer.sealing.keys import Signer
from edgeveil.trainer.sealing.pending import Pending
from edgeveil.trainer.sealing.seal import COUNTERSIGNATURE_FILE, audit_of, spoken_of


def countersign(export_dir: Path, key: str | Path, *, passphrase: str | None = None) -> tuple[Path, Key]:
    """Sign ``audit.json`` of an export folder; returns the file with the signatures, and the key that signed.

    The signature is of the audit's bytes and of the hashes of what it audited. Signatures of the same audit by other
    keys are kept, those of an earlier audit are replaced. Raises ``BadInput`` where the audit is not of what is in the
    folder.
    """
    folder = ExportFolder.open(Path(export_dir))
    check_all(folder.manifest, folder.members)
    audit = audit_of(folder, allow_unaudited=False)
    if audit is None:
        raise BadInput(f"An audit was expected in {export_dir}. Run edgeveil audit {export_dir}.")
    data, document = audit
    path = folder.folder / COUNTERSIGNATURE_FILE
    fresh = Pending(path, KIND, 2, statement(data, **spoken_of(document)))
    signer = Signer.open(key, passphrase=passphrase)
    if path.exists():
        envelope = parse(KIND, path.read_bytes())
        if envelope.payload == fresh.payload:
            verify(KIND, envelope)
            fresh.signatures.update(envelope.signatures)
    fresh.with_signature(signer).write()
    return path, signer.key
