"""The owner's side of runtime updates: this toolkit's edge runtime, signed by a key of the role runtime, or of root."""

from __future__ import annotations

import hashlib
from pathlib import Path

from edgeveil.devices.zipapp import zipapp_bytes
from edgeveil.edge_runtime.bundle.archive import pack
from edgeveil.edge_runtime.releases.runtimes import FILE, KIND, NOTE, Update, read_update
from edgeveil.edge_runtime.signing.roles import Role
from edgeveil.edge_runtime.storage.atomic import write_atomic
from edgeveil.edge_runtime.storage.filesystem import read
from edgeveil.trainer.sealing.keys import Signer


def write_runtime(
    key: str | Path,
    out: Path,
    *,
    name: str = "edgeveil-edge",
    version: int | None = None,
    passphrase: str | None = None,
) -> Update:
    """Write ``out``, a runtime update signed with ``key``, of the role runtime or of root; its version is the next one
    after ``out``'s.

    ``version`` is another one. Raises ``BadInput`` or ``BundleRefused`` where another key signed what is at ``out``.
    """
    signer = Signer.open(key, passphrase=passphrase)
    there = read(str(out))
    if version is None:
        version = 1 if there is None else read_update(there, Role((signer.key,))).version + 1
    data = zipapp_bytes()
    payload = {"schema": 1, "name": name, "version": version}
    payload |= {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    made = pack([(NOTE, signer.envelope(KIND, payload)), (FILE, data)])
    update = read_update(made, Role((signer.key,)))  # never write what a board would refuse
    write_atomic(str(out), made)
    return update
