"""The key that a board signs its reports with: Ed25519 (RFC 8032, section 5.1), in pure Python.

Python's numbers take a time that depends on their value, so who can time many signatures on this very board could learn
of the key. It signs a few reports a day, and speaks for the board's health alone: no board trusts it for a bundle.
"""

import hashlib
from typing import Tuple

from edgeveil.edge_runtime.signing.ed25519 import L, base_product

SEED_BYTES = 32


class DeviceKey(object):
    """The key of a ``seed`` of 32 secret bytes; ``public`` is its public half, 64 hexadecimal digits."""

    def __init__(self, seed: bytes) -> None:
        if len(seed) != SEED_BYTES:
            raise ValueError("a seed has 32 bytes")
        self._scalar, self._prefix = _expanded(seed)
        self._public = base_product(self._scalar)
        self.public = self._public.hex()

    def sign(self, message: bytes) -> bytes:
        """The 64 bytes of the signature."""
        r = _number(self._prefix + message)
        first = base_product(r)
        s = (r + _number(first + self._public + message) * self._scalar) % L
        return first + s.to_bytes(32, "little")


def _expanded(seed: bytes) -> Tuple[int, bytes]:
    digest = hashlib.sha512(seed).digest()
    scalar = int.from_bytes(digest[:32], "little")
    return scalar & ((1 << 254) - 8) | 1 << 254, digest[32:]


def _number(data: bytes) -> int:
    return int.from_bytes(hashlib.sha512(data).digest(), "little") % L
