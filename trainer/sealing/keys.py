"""Signing keys: made once, kept by the person responsible for what runs on the boards."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.formats import strict_json
from edgeveil.edge_runtime.signing.envelope import message, wrap
from edgeveil.edge_runtime.signing.keys import Key, public_key_line, read_public_key
from edgeveil.edge_runtime.storage.atomic import write_atomic
from edgeveil.trainer import secret_file
from edgeveil.trainer.sealing.pkcs11_key import Address, is_address, open_token

KEY_FILE, PUBLIC_FILE = "signing.key", "signing.pub"


def keygen(folder: Path, *, passphrase: str | None = None, development: bool = False) -> Path:
    """Make ``signing.key`` (PEM, PKCS 8, mode 600) and ``signing.pub`` in ``folder``; returns the path of the latter.

    ``passphrase`` encrypts the key. ``development`` marks the public key as a throw-away one: every runtime warns of
    the bundles that it signs. Raises ``BadInput`` where there is a key already; it is never overwritten.
    """
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import (
        BestAvailableEncryption,
        Encoding,
        KeySerializationEncryption,
        NoEncryption,
        PrivateFormat,
    )

    if passphrase == "":
        raise BadInput("A passphrase of at least one character was expected; got an empty one.")
    folder = Path(folder)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(f"The folder {folder} cannot be made: {error.strerror}. Give another one.") from None
    for name in (KEY_FILE, PUBLIC_FILE):
        if os.path.lexists(folder / name):
            raise BadInput(
                f"{folder / name} is there already, and bundles that it signed cannot be updated without it. Give "
                "another folder."
            )
    private = Ed25519PrivateKey.generate()
    encryption: KeySerializationEncryption = NoEncryption()
    if passphrase is not None:
        encryption = BestAvailableEncryption(passphrase.encode())
    write_atomic(folder / KEY_FILE, private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption), mode=0o600)
    public = _public_hex(private)
    line = public_key_line(Key(public, f"key-{public[:8]}", development))
    write_atomic(folder / PUBLIC_FILE, line.encode("ascii"))
    return folder / PUBLIC_FILE


def write_public(folder: Path, key: str, *, passphrase: str | None = None) -> Path:
    """Write ``signing.pub`` of a key on a token into ``folder``; returns its path. Raises ``BadInput``."""
    public = Path(folder) / PUBLIC_FILE
    signer = Signer.open(key, passphrase=passphrase)
    if os.path.lexists(public):
        raise BadInput(f"{public} is there already. Give another folder.")
    public.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_atomic(public, public_key_line(signer.key).encode("ascii"))
    return public


def is_encrypted(key_path: str | Path) -> bool:
    """Whether the key needs a passphrase, or its token a PIN. Raises ``BadInput`` where a file cannot be read."""
    if is_address(key_path):
        return Address.parse(str(key_path)).needs_pin
    return b"ENCRYPTED PRIVATE KEY" in _read(Path(key_path))


@dataclass(frozen=True)
class Signer:
    """An opened private key, and its public key from the ``.pub`` file."""

    key: Key
    _private: Any

    @classmethod
    def open(cls, key_path: str | Path, *, passphrase: str | None = None) -> Signer:
        """Open a key file and the ``.pub`` next to it, or a key on a token by its ``pkcs11:`` address.

        ``passphrase`` is the token's PIN there. Raises ``BadInput`` where they or the passphrase do not fit.
        """
        if is_address(key_path):
            return cls(*open_token(str(key_path), passphrase))
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        key_path = Path(key_path)
        data = _read(key_path)
        if b"PRIVATE KEY" not in data:
            cure = f"Name {key_path.with_suffix('.key')}." if key_path.suffix == ".pub" else "Make one with keygen."
            raise BadInput(f"{key_path} could not be opened as a signing key: it holds no private key. {cure}")
        secret_file.refuse_shared(key_path, what="The signing key")
        encrypted = b"ENCRYPTED PRIVATE KEY" in data
        if encrypted != (passphrase is not None):
            came = "none was given" if encrypted else "one was given"
            raise BadInput(f"The signing key {key_path} {'needs a' if encrypted else 'has no'} passphrase, and {came}.")
        try:
            private = load_pem_private_key(data, None if passphrase is None else passphrase.encode())
        except (ValueError, TypeError, UnsupportedAlgorithm):
            problem = (
                "The passphrase is not the right one, or the file is damaged." if encrypted else "Make one with keygen."
            )
            raise BadInput(f"{key_path} could not be opened as a signing key. {problem}") from None
        if not isinstance(private, Ed25519PrivateKey):
            raise BadInput(f"{key_path} holds a key, but not one for Ed25519. Make one with edgeveil keygen.")
        public_path = key_path.with_suffix(".pub")
        key = read_public_key(public_path)
        if key.key != _public_hex(private):
            raise BadInput(f"{public_path} is not the public half of {key_path}. Put the right one next to it.")
        return cls(key, private)

    def sign(self, data: bytes) -> bytes:
        """The 64 bytes of the signature."""
        signature: bytes = self._private.sign(data)
        return signature

    def envelope(self, kind: str, document: Mapping[str, Any]) -> bytes:
        """``document`` as JSON in a signed envelope of that ``kind``."""
        payload = strict_json.dumps(document)
        return wrap(payload, self.key.key, self.sign(message(kind, payload)))


def _read(path: Path) -> bytes:
    return secret_file.read(path, what="The signing key", cure="Give the signing.key that edgeveil keygen wrote.")


def _public_hex(private: Any) -> str:
    return str(private.public_key().public_bytes_raw().hex())
