"""The owner's side of pull updates: the signed index that boards fetch (``edge_runtime/update.py``)."""

from __future__ import annotations

import hashlib
from pathlib import Path

from edgeveil.edge_runtime.bundle.archive import read_archive
from edgeveil.edge_runtime.bundle.reader import MANIFEST, read_bundle, read_file
from edgeveil.edge_runtime.bundle.trust import Trust
from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.formats import strict_json
from edgeveil.edge_runtime.releases.index import KIND, Index, read_index
from edgeveil.edge_runtime.storage.atomic import write_atomic
from edgeveil.edge_runtime.storage.filesystem import read
from edgeveil.trainer.sealing.keys import Signer


def write_index(
    bundles: list[Path], key: str | Path, out: Path, *, name: str, audience: str = "", passphrase: str | None = None
) -> Index:
    """Write ``out``, an index of ``bundles`` (the newest first) signed with ``key``; its version is the next one.

    ``name`` is the product and ``audience`` the fleet that it is for, empty for any; boards remember both.

    The same key must have signed the bundles, and the index at ``out`` if there is one. Raises ``BadInput`` or
    ``BundleRefused`` where it has not.
    """
    if not bundles:
        raise BadInput("At least one bundle was expected: give .veil files, the newest first.")
    signer = Signer.open(key, passphrase=passphrase)
    there, version = read(str(out)), 1
    if there is not None:
        before = read_index(there, Trust([signer.key]))
        if before.name != name:
            raise BadInput(f"{out} is the index of {before.name}, and this one is of {name}. Give another file.")
        if before.audience not in ("", audience):
            raise BadInput(f"{out} is for {before.audience!r}, and this one is for {audience!r}. Give another file.")
        version = before.version + 1
    releases = [_entry(path, signer) for path in bundles]
    # Schema 1 as long as it says the same: boards of version 0.1 read it.
    fields = {"schema": 2, "audience": audience} if audience else {"schema": 1}
    data = signer.envelope(KIND, {**fields, "name": name, "version": version, "releases": releases})
    index = read_index(data, Trust([signer.key]))  # never write what a board would refuse
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
    """The audience that a bundle names: an index may offer bundles for any. The signature is checked next."""
    try:
        return str(strict_json.loads(dict(read_archive(data))[MANIFEST])["audience"])
    except (strict_json.BadJson, LookupError, TypeError):
        return ""
