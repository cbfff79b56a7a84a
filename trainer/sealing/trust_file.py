"""The owner's side of a device's trust: the root key and the versioned ``trust.json`` that it signs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgeveil.edge_runtime.bundle.policy import POLICY_FILE, read_policy
from edgeveil.edge_runtime.bundle.trust_store import (
    KIND,
    POLICY_KIND,
    ROOT_KEY,
    SIGNED_POLICY_FILE,
    TRUST_FILE,
    TrustFile,
    read_signed_policy,
    read_trust_file,
)
from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.formats import strict_json
from edgeveil.edge_runtime.signing.keys import Key, public_key_line, read_public_key
from edgeveil.edge_runtime.storage.atomic import write_atomic
from edgeveil.trainer.sealing.keys import KEY_FILE, PUBLIC_FILE, Signer, keygen


@dataclass(frozen=True)
class TrustFolder:
    """``signing.key`` (the root key: keep it offline), ``root.pub`` and ``trust.json`` in one folder."""

    folder: Path
    root: Key
    file: TrustFile

    @classmethod
    def init(cls, folder: Path, keys: list[Path], *, audience: str = "", passphrase: str | None = None) -> TrustFolder:
        """Make a root key and a first trust file that names ``keys`` (``signing.pub`` files). Raises ``BadInput``."""
        named = [read_public_key(path) for path in keys]
        if not named:
            raise BadInput("At least one key that may sign bundles was expected: give signing.pub files.")
        keygen(folder, passphrase=passphrase)
        signer = Signer.open(folder / KEY_FILE, passphrase=passphrase)
        root = Key(signer.key.key, f"root-{signer.key.key[:8]}", False)
        write_atomic(folder / ROOT_KEY, public_key_line(root).encode("ascii"))
        write_atomic(folder / PUBLIC_FILE, public_key_line(root).encode("ascii"))
        made = cls(folder, root, TrustFile(1, named, [], 0, audience))
        made._sign(signer)
        return made

    @classmethod
    def open(cls, folder: Path) -> TrustFolder:
        """Read a trust folder. Raises ``BadInput`` where it is none, ``BundleRefused`` where it is not signed."""
        root = read_public_key(folder / ROOT_KEY)
        try:
            data = (folder / TRUST_FILE).read_bytes()
        except OSError as error:
            raise BadInput(
                f"Expected {TRUST_FILE} in {folder}: {error.strerror}. Make one with `edgeveil trust init`."
            ) from None
        return cls(folder, root, read_trust_file(data, root))

    def add(self, key: Path, *, passphrase: str | None = None) -> TrustFolder:
        """Add a key that may sign. Raises ``BadInput`` for one that is there or was revoked."""
        new = read_public_key(key)
        if new.key in self.file.revoked:
            raise BadInput(f"The key {new.name} was revoked, and a revoked key cannot be added again. Make a new one.")
        if any(new.key == there.key for there in self.file.keys):
            raise BadInput(f"The key {new.name} may sign already. Give another one.")
        return self._next(passphrase, keys=[*self.file.keys, new])

    def revoke(self, key: str, *, passphrase: str | None = None) -> TrustFolder:
        """Revoke a key, by its name or its first digits (8 or more). Raises ``BadInput``."""
        found = [
            there for there in self.file.keys if there.name == key or (len(key) >= 8 and there.key.startswith(key))
        ]
        if len(found) != 1:
            names = ", ".join(f"{there.name} ({there.key[:16]}...)" for there in self.file.keys) or "none"
            raise BadInput(f"Expected one key that may sign, by name or first digits; got {key!r}. There are: {names}.")
        keys = [there for there in self.file.keys if there is not found[0]]
        return self._next(passphrase, keys=keys, revoked=[*self.file.revoked, found[0].key])

    def require(self, security_version: int, *, passphrase: str | None = None) -> TrustFolder:
        """Raise the least security version that devices accept. Raises ``BadInput`` where it would fall."""
        if security_version <= self.file.security_version:
            raise BadInput(
                f"The least security version is {self.file.security_version} and only rises; got {security_version}."
            )
        return self._next(passphrase, security_version=security_version)

    def sign_policy(self, policy: Path, *, passphrase: str | None = None) -> int:
        """Sign a ``policy.json`` for boards in use, as ``policy-signed.json`` here; returns its version, the next one.

        Boards that are flashed for the first time get it from ``policy.json`` here. Raises ``BadInput``.
        """
        try:
            wanted = policy.read_bytes()
        except OSError as error:
            raise BadInput(f"Expected a policy.json at {policy}: {error.strerror}.") from None
        read_policy(wanted, str(policy))
        place = self.folder / SIGNED_POLICY_FILE
        version = 1 + (read_signed_policy(place.read_bytes(), self.root)[0] if place.exists() else 0)
        signer = Signer.open(self.folder / KEY_FILE, passphrase=passphrase)
        document = {"schema": 1, "version": version, "policy": strict_json.loads(wanted)}
        data = signer.envelope(POLICY_KIND, document)
        read_signed_policy(data, self.root)
        write_atomic(self.folder / POLICY_FILE, wanted)
        write_atomic(place, data)
        return version

    def text(self) -> str:
        """The trust file for a terminal, with the fingerprints that a board shows too."""
        file = self.file
        lines = [
            f"root key {self.root.key}",
            f"version {file.version}, least security version {file.security_version}, "
            f"for {file.audience or 'any audience'}",
        ]
        lines += [f"may sign: {key.key} {key.name}{' (development)' if key.development else ''}" for key in file.keys]
        lines += [f"revoked:  {key}" for key in file.revoked]
        return "\n".join(lines)

    def document(self) -> dict[str, Any]:
        """The content of ``text``, for JSON."""
        return {"schema": 1, "root": self.root.key, **_payload(self.file)}

    def _next(self, passphrase: str | None, **changes: Any) -> TrustFolder:
        made = TrustFolder(self.folder, self.root, self.file._replace(version=self.file.version + 1, **changes))
        made._sign(Signer.open(self.folder / KEY_FILE, passphrase=passphrase))
        return made

    def _sign(self, signer: Signer) -> None:
        data = signer.envelope(KIND, _payload(self.file))
        read_trust_file(data, self.root)  # never write what a device would refuse
        write_atomic(self.folder / TRUST_FILE, data)


def _payload(file: TrustFile) -> dict[str, Any]:
    return {
        "schema": 1,
        "version": file.version,
        "keys": [{"key": key.key, "name": key.name, "development": key.development} for key in file.keys],
        "revoked": file.revoked,
        "security_version": file.security_version,
        "audience": file.audience,
    }
