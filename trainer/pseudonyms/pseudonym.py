"""A pseudonym is AES-SIV (RFC 5297) of a padded identifier, or of a subject's salt, as base64url.

Its key and its associated data are those of one recipient, field and epoch: what another one got does not decrypt, and
two recipients have no value in common. AES-SIV is deterministic, so equal identifiers stay equal and their frequencies
show; and it is authentic, so an altered pseudonym is refused.
"""

from __future__ import annotations

import base64
import binascii
from typing import NamedTuple

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.pseudonyms.master_key import MasterKey

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
                "decrypt. Check --recipient, --field and --epoch."
            ) from None


def padded(identifier: str) -> bytes:
    """An identifier as UTF-8, filled up to a whole number of ``BLOCK`` bytes."""
    data = identifier.encode()
    fill = BLOCK - len(data) % BLOCK
    return data + bytes([fill]) * fill


def unpadded(data: bytes) -> str:
    """The identifier of ``padded``."""
    return data[: -data[-1]].decode()
