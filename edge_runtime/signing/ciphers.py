"""X25519 (RFC 7748) and ChaCha20-Poly1305 (RFC 8439) without a library: what a board opens with where the package
cryptography is not there.

The time that it takes depends on the key. So it opens only what one of the device's own keys signed, and a few times a
year; what is sealed frame by frame needs the library.
"""

import hmac
from typing import Any, List, Optional

from edgeveil.edge_runtime.late_imports import np
from edgeveil.edge_runtime.signing.ed25519 import P

BASE = (9).to_bytes(32, "little")
_A24 = 121665
_ROUNDS = 10  # of a column round and a diagonal round each
_COLUMNS = ((0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15))
_DIAGONALS = ((0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14))
_CLAMP = 0x0FFFFFFC0FFFFFFC0FFFFFFC0FFFFFFF
_PRIME = 2**130 - 5


def x25519(secret: bytes, share: bytes) -> bytes:
    """The shared secret (32 bytes) of a secret and a public key. Raises ``ValueError`` for one of small order."""
    scalar = int.from_bytes(secret, "little") & ~7 & (2**255 - 1) | 2**254
    u = int.from_bytes(share, "little") & (2**255 - 1)
    x2, z2, x3, z3, swapped = 1, 0, u, 1, 0
    for at in range(254, -1, -1):
        bit = scalar >> at & 1
        if bit != swapped:
            x2, x3, z2, z3 = x3, x2, z3, z2
        swapped = bit
        a, b, c, d = x2 + z2, x2 - z2, x3 + z3, x3 - z3
        aa, bb, da, cb = a * a % P, b * b % P, d * a % P, c * b % P
        e = aa - bb
        x3, z3 = (da + cb) ** 2 % P, u * (da - cb) ** 2 % P
        x2, z2 = aa * bb % P, e * (aa + _A24 * e) % P
    if swapped:
        x2, z2 = x3, z3
    shared = x2 * pow(z2, P - 2, P) % P
    if not shared:
        raise ValueError("a public key of small order")
    return shared.to_bytes(32, "little")


class ChaCha20Poly1305(object):
    """As that of the package cryptography, without additional data. ``key``: 32 bytes."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def decrypt(self, nonce: bytes, data: bytes, _more: Optional[bytes]) -> bytes:
        """The plain text. Raises ``ValueError`` for what was not encrypted with this key and nonce (12 bytes)."""
        body, tag = data[:-16], data[-16:]
        stream = _stream(self._key, nonce, 1 + -(-len(body) // 64))
        if not hmac.compare_digest(_tag(stream[:32].tobytes(), body), tag):
            raise ValueError("another key, or changed")
        plain: bytes = (np.frombuffer(body, np.uint8) ^ stream[64 : 64 + len(body)]).tobytes()
        return plain


def _stream(key: bytes, nonce: bytes, blocks: int) -> Any:
    """The key stream from block 0 on: uint8 of shape (64 blocks,)."""
    words = np.frombuffer(b"expand 32-byte k" + key + bytes(4) + nonce, "<u4").astype(np.uint32)
    first = np.repeat(words[:, None], blocks, axis=1)
    first[12] = np.arange(blocks, dtype=np.uint32)
    rows: List[Any] = list(first.copy())
    for _ in range(_ROUNDS):
        for a, b, c, d in _COLUMNS + _DIAGONALS:
            for into, other, turned, bits in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
                rows[into] = rows[into] + rows[other]
                mixed = rows[turned] ^ rows[into]
                rows[turned] = mixed << np.uint32(bits) | mixed >> np.uint32(32 - bits)
    return np.ascontiguousarray((np.stack(rows) + first).T.astype("<u4")).view(np.uint8).reshape(-1)


def _tag(key: bytes, body: bytes) -> bytes:
    """Poly1305 of the text and its length, by the one-time ``key`` (32 bytes)."""
    r, s = int.from_bytes(key[:16], "little") & _CLAMP, int.from_bytes(key[16:], "little")
    text = body + bytes(-len(body) % 16) + bytes(8) + len(body).to_bytes(8, "little")
    total = 0
    for at in range(0, len(text), 16):
        total = (total + int.from_bytes(text[at : at + 16], "little") + 2**128) * r % _PRIME
    return ((total + s) % 2**128).to_bytes(16, "little")
