"""The master key: 64 bytes in a file of mode 600, sealed by a passphrase where one is given.

Every key in use is derived from it (HKDF-SHA256, RFC 5869), for one purpose and its names alone. A sealed file is
``edgeveil pseudonym key 1``, a line break, 16 bytes of salt, 12 of nonce, and the key under AES-256-GCM with a key that
scrypt makes of the passphrase (RFC 7914: n = 2^15, r = 8, p = 1).
"""

from __future__ import annotations

import base64
import binascii
import os
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import date, datetime
from pathlib import Path
from typing import Literal, NamedTuple

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.util.atomic import write_atomic
from edgeveil.trainer.sealing import keys

SIZE = 64
_SEALED = b"edgeveil pseudonym key 1\n"
_SALT, _NONCE, _TAG = 16, 12, 16


class MasterKey:
    """An opened master key; ``derive`` is all that is asked of it."""

    def __init__(self, secret: bytes) -> None:
        if len(secret) != SIZE:
            raise BadInput(f"A master key of {SIZE} bytes was expected; came {len(secret)}.")
        self._secret = secret

    def derive(self, purpose: str, *names: str, size: int = SIZE) -> bytes:
        """``size`` bytes for a purpose and its names, each written with its length, so that no two run together."""
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF

        parts = [part.encode() for part in ("edgeveil", purpose, *names)]
        info = b"".join(len(part).to_bytes(4, "big") + part for part in parts)
        return HKDF(SHA256(), size, None, info).derive(self._secret)


def keygen(path: Path, *, passphrase: str | None = None) -> None:
    """Write a new master key. Raises ``BadInput`` where there is a file already; a key is never overwritten."""
    if passphrase == "":
        raise BadInput("A passphrase of at least one character was expected; got an empty one.")
    if os.path.lexists(path):
        raise BadInput(
            f"{path} is there already, and what it made cannot be revealed without it. Give another file for the key."
        )
    secret = os.urandom(SIZE)
    if passphrase is not None:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        salt, nonce = os.urandom(_SALT), os.urandom(_NONCE)
        secret = _SEALED + salt + nonce + AESGCM(_stretched(passphrase, salt)).encrypt(nonce, secret, _SEALED)
    write_atomic(path, secret, mode=0o600)


def is_sealed(path: Path) -> bool:
    """Whether a passphrase is needed. Raises ``BadInput`` where the file cannot be read."""
    return _read(path).startswith(_SEALED)


def open_key(path: Path, *, passphrase: str | None = None) -> MasterKey:
    """Open a key file. Raises ``BadInput`` for a wrong length, mode or passphrase."""
    data = _read(path)
    keys.refuse_shared(path, what="The master key")
    if not data.startswith(_SEALED):
        if len(data) != SIZE:
            raise BadInput(
                f"The master key {path} has {len(data)} bytes and {SIZE} were expected. Make one with edgeveil "
                "pseudonym keygen."
            )
        return MasterKey(data)
    return MasterKey(_unsealed(path, data, passphrase))


def _unsealed(path: Path, data: bytes, passphrase: str | None) -> bytes:
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    if passphrase is None:
        raise BadInput(f"The master key {path} needs a passphrase, and none was given.")
    body = data[len(_SEALED) :]
    salt, nonce, sealed = body[:_SALT], body[_SALT : _SALT + _NONCE], body[_SALT + _NONCE :]
    if len(sealed) != SIZE + _TAG:
        raise BadInput(f"The master key {path} is damaged: it has {len(data)} bytes. Take the copy that you keep.")
    try:
        return AESGCM(_stretched(passphrase, salt)).decrypt(nonce, sealed, _SEALED)
    except InvalidTag:
        raise BadInput(f"{path}: the passphrase is not the right one, or the file is damaged.") from None


def _stretched(passphrase: str, salt: bytes) -> bytes:
    from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

    return Scrypt(salt=salt, length=32, n=2**15, r=8, p=1).derive(passphrase.encode())


def _read(path: Path) -> bytes:
    return keys.read_secret(path, what="The master key", cure="Give the file of edgeveil pseudonym keygen.")


# A pseudonym is AES-SIV (RFC 5297) of a padded identifier, or of a subject's salt, as base64url.
#
# Its key and its associated data are those of one recipient, field and epoch: what another one got does not decrypt,
# and two recipients have no value in common. AES-SIV is deterministic, so equal identifiers stay equal and their
# frequencies show; and it is authentic, so an altered pseudonym is refused.


_VERSION = "edgeveil pseudonym 1"
BLOCK = 32  # bytes that an identifier is padded to: its length would show


class Scope(NamedTuple):
    """Whom pseudonyms are for, of which column they are, and their epoch, from 1; a rotation is a new epoch."""

    recipient: str
    field: str
    epoch: int


class Cipher:
    """Makes and opens the pseudonyms of one scope. Raises ``BadInput`` for a scope without names."""

    def __init__(self, key: MasterKey, scope: Scope) -> None:
        from cryptography.hazmat.primitives.ciphers.aead import AESSIV

        if not scope.recipient or not scope.field or scope.epoch < 1:
            raise BadInput("A recipient, a field and an epoch of at least 1 were expected: name all of them.")
        names = (scope.recipient, scope.field, str(scope.epoch))
        self._siv = AESSIV(key.derive(_VERSION, *names))
        self._data = [name.encode() for name in (_VERSION, *names)]

    def seal(self, value: bytes) -> str:
        """The pseudonym of some bytes; of a salt of 16 bytes, 43 characters."""
        sealed = self._siv.encrypt(value, self._data)
        return base64.urlsafe_b64encode(sealed).rstrip(b"=").decode()

    def open(self, pseudonym: str) -> bytes:
        """What was sealed. Raises ``BadInput`` for a pseudonym of another key, recipient, field or epoch."""
        from cryptography.exceptions import InvalidTag

        try:
            sealed = base64.b64decode(pseudonym + "=" * (-len(pseudonym) % 4), altchars=b"-_", validate=True)
            return self._siv.decrypt(sealed, self._data)
        except (InvalidTag, ValueError, binascii.Error):
            raise BadInput(
                "A pseudonym was expected that this key made for this recipient, field and epoch; this one does not "
                "decrypt. Check --scope RECIPIENT/FIELD/EPOCH."
            ) from None


def padded(identifier: str) -> bytes:
    """An identifier as UTF-8, filled up to a whole number of ``BLOCK`` bytes."""
    data = identifier.encode()
    fill = BLOCK - len(data) % BLOCK
    return data + bytes([fill]) * fill


def unpadded(data: bytes) -> str:
    """The identifier of ``padded``."""
    return data[: -data[-1]].decode()


# One spelling of an identifier, so that two spellings of one person are one person.


Step = Literal["nfkc", "case", "spaces", "date"]
FORMATS = ("%d.%m.%Y", "%Y/%m/%d", "%Y.%m.%d", "%d-%m-%Y")  # whose day and month no reader confuses, after ISO


def normalised(text: str, steps: Sequence[Step]) -> str:
    """``text`` after the steps, in their order.

    ``nfkc`` is Unicode's compatibility form, ``case`` folds case, ``spaces`` leaves single ones within, ``date`` writes
    a date as ISO 8601 does. Raises ``ValueError`` for a text that is no date, or that nothing is left of.
    """
    for step in steps:
        text = _STEPS[step](text)
    if not text:
        raise ValueError("nothing is left")
    return text


def _date(text: str) -> str:
    for form in ("", *FORMATS):
        with suppress(ValueError):
            day = datetime.strptime(text, form).date() if form else date.fromisoformat(text)
            return day.isoformat()
    raise ValueError("no date")


_STEPS: Mapping[str, Callable[[str], str]] = {
    "nfkc": lambda text: unicodedata.normalize("NFKC", text),
    "case": str.casefold,
    "spaces": lambda text: " ".join(text.split()),
    "date": _date,
}
