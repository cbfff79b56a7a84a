"""The owner's side of pull updates: the signed index that boards fetch (``edge_runtime/update.py``)."""

from __future__ import annotations

import hashlib
from pathlib import Path

from edgeveil.edge_runtime.bundle.archive import read_archive
from edgeveil.edge_runtime.bundle.reader import MANIFEST, read_bundle, read_file
from edgeveil.edge_runtime.bundle.trust import Trust
from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.formats import strict_json
from edgeveil.edge_runtime.releases.update import KIND, Index, read_index
from edgeveil.edge_runtime.signing.envelope import message, wrap
from edgeveil.edge_runtime.storage.atomic import write_atomic
from edgeveil.edge_runtime.storage.filesystem import read
from edgeveil.trainer.sealing.keys import Signer


def write_index(bundles: list[Path], key: Path, out: Path, *, name: str, passphrase: str | None = None) -> Index:
    """Write ``out``, an index of ``bundles`` (the newest first) signed with ``key``; its version is the next one.

    The same key must have signed the bundles and the index that lies at ``out``, if one does. Raises ``BadInput`` or
    ``BundleRefused`` where that is not so.
    """
    if not bundles:
        raise BadInput("An index names at least one bundle: give .veil files, the newest first.")
    signer = Signer.open(key, passphrase=passphrase)
    there, version = read(str(out)), 1
    if there is not None:
        before = read_index(there, Trust([signer.key]))
        if before.name != name:
            raise BadInput(f"{out} is the index of {before.name}, and this one is of {name}. Name another file.")
        version = before.version + 1
    payload = {"schema": 1, "name": name, "version": version, "releases": [_entry(path, signer) for path in bundles]}
    text = strict_json.dumps(payload)
    data = wrap(text, signer.key.key, signer.sign(message(KIND, text)))
    index = read_index(data, Trust([signer.key]))  # what no board would take is not written
    write_atomic(str(out), data)
    return index


def _entry(path: Path, signer: Signer) -> dict[str, object]:
    data = read_file(str(path))
    bundle = read_bundle(data, Trust([signer.key], audience=_audience(data)))
    return {
        "name": bundle.manifest.name,
        "manifest_sha256": bundle.manifest_sha256,
        "sha256": hashlib.sha256(data).hexdigest(),
        "size": len(data),
        "security_version": bundle.manifest.security_version,
        "url": path.name,
    }


def _audience(data: bytes) -> str:
    """Whom a bundle says it is made out to: an index may offer those of every board; the signature is checked next."""
    try:
        return str(strict_json.loads(dict(read_archive(data))[MANIFEST])["audience"])
    except (strict_json.BadJson, LookupError, TypeError):
        return ""
