"""Files sealed to an owner's public key: the format of age (age-encryption.org/v1) with one X25519 recipient.

The recipient is the X25519 form of the owner's Ed25519 key (RFC 7748, section 4.1), so the one key that signs bundles
opens what boards seal for it; one pair for both is as safe as two (Thormarker, "On using the same key pair for Ed25519
and an X25519 based KEM", 2021). age opens such a file too. The ciphers are those of the package cryptography, which is
loaded when a file is sealed or opened; without it, ``signing.ciphers`` opens one.
"""

import base64
import hashlib
import hmac
import importlib
import os
from typing import IO, Any, Callable, Iterator, Tuple

from edgeveil.edge_runtime.errors import BadInput, Missing
from edgeveil.edge_runtime.signing import ciphers, ed25519

CHUNK, TAG = 2**16, 16  # bytes of a chunk and of its authentication
_VERSION, _LABEL = b"age-encryption.org/v1\n", b"age-encryption.org/v1/X25519"
_HEADER_BYTES = len(_VERSION) + len(b"-> X25519 \n") + 43 + 44 + len(b"--- \n") + 43


class Sealer(object):
    """Seals what ``add`` gets to an Ed25519 ``public_key`` (32 bytes) and hands the sealed bytes to ``write``.

    Without ``close`` the file is none: its reader refuses one that was cut short. Raises ``Missing`` without the
    package cryptography.
    """

    def __init__(self, public_key: bytes, write: Callable[[bytes], Any]) -> None:
        x25519, cipher = _library()
        recipient, ephemeral = recipient_of(public_key), x25519.X25519PrivateKey.generate()
        share = _raw(ephemeral.public_key())
        shared = ephemeral.exchange(x25519.X25519PublicKey.from_public_bytes(recipient))
        file_key, nonce = os.urandom(16), os.urandom(16)
        body = cipher(_derived(shared, share + recipient, _LABEL)).encrypt(bytes(12), file_key, None)
        header = _VERSION + b"-> X25519 " + _encoded(share) + b"\n" + _encoded(body) + b"\n---"
        self._write, self._held, self._number = write, bytearray(), 0
        self._cipher = cipher(_derived(file_key, nonce, b"payload"))
        write(header + b" " + _encoded(_mac(file_key, header)) + b"\n" + nonce)

    def add(self, data: bytes) -> None:
        """The next bytes of the content. All but the last chunk are written at once."""
        self._held += data
        while len(self._held) > CHUNK:
            self._chunk(CHUNK, last=False)

    def close(self) -> None:
        """The last chunk, which says that the content is whole."""
        self._chunk(len(self._held), last=True)

    def _chunk(self, size: int, *, last: bool) -> None:
        sealed = self._cipher.encrypt(_nonce(self._number, last), bytes(self._held[:size]), None)
        del self._held[:size]
        self._number += 1
        self._write(sealed)


def opened(file: IO[bytes], secret: bytes, name: str) -> Iterator[bytes]:
    """The content of a sealed file, chunk by chunk, each authentic. ``secret`` is the X25519 key (32 bytes).

    Raises ``BadInput``, with ``name``, for a file that is none, sealed to another key, changed or cut short.
    """
    exchange, cipher = _opening()
    share, body, header, mac = _parsed(file.read(_HEADER_BYTES), name)
    try:
        wrap = cipher(_derived(exchange(secret, share), share + exchange(secret, ciphers.BASE), _LABEL))
        file_key = wrap.decrypt(bytes(12), body, None)
    except Exception:  # InvalidTag or ValueError; ValueError for a share of small order
        raise BadInput(
            "{} is sealed to another key: name the private half of the key it was recorded with".format(name)
        ) from None
    damaged = "{} is damaged or was cut short: nothing of it was kept. Copy it again from the board".format(name)
    if not hmac.compare_digest(_mac(file_key, header), mac):
        raise BadInput(damaged)
    cipher_of = cipher(_derived(file_key, file.read(16), b"payload"))
    number, piece = 0, file.read(CHUNK + TAG)
    while True:
        following = file.read(CHUNK + TAG)
        try:
            plain = cipher_of.decrypt(_nonce(number, not following), piece, None)
        except Exception:
            raise BadInput(damaged) from None
        yield plain
        if not following:
            return
        number, piece = number + 1, following


def recipient_of(public_key: bytes) -> bytes:
    """The X25519 public key (32 bytes) of the point of an Ed25519 key: u = (1 + y) / (1 - y)."""
    y = int.from_bytes(public_key, "little") & (2**255 - 1)
    u = (1 + y) * pow(1 - y, ed25519.P - 2, ed25519.P) % ed25519.P
    return u.to_bytes(32, "little")


def secret_of(seed: bytes) -> bytes:
    """The X25519 secret (32 bytes) that belongs to ``recipient_of`` the key with this Ed25519 seed."""
    return hashlib.sha512(seed).digest()[:32]


def _library() -> Tuple[Any, Any]:
    hazmat = "cryptography.hazmat.primitives."
    try:
        ciphers = importlib.import_module(hazmat + "ciphers.aead")
        return importlib.import_module(hazmat + "asymmetric.x25519"), ciphers.ChaCha20Poly1305
    except (ImportError, AttributeError):
        problem = "sealed files need the package cryptography, which is not installed: pip install cryptography"
    raise Missing(problem)


def _opening() -> Tuple[Callable[[bytes, bytes], bytes], Any]:
    """How a secret and a share become a shared secret, and the cipher."""
    try:
        x25519, cipher = _library()
    except Missing:
        return ciphers.x25519, ciphers.ChaCha20Poly1305

    def exchange(secret: bytes, share: bytes) -> bytes:
        own, other = x25519.X25519PrivateKey, x25519.X25519PublicKey
        shared: bytes = own.from_private_bytes(secret).exchange(other.from_public_bytes(share))
        return shared

    return exchange, cipher


def _raw(public: Any) -> bytes:
    forms = importlib.import_module("cryptography.hazmat.primitives.serialization")
    data: bytes = public.public_bytes(forms.Encoding.Raw, forms.PublicFormat.Raw)
    return data


def _parsed(header: bytes, name: str) -> Tuple[bytes, bytes, bytes, bytes]:
    """The share, the wrapped key, the header as far as its code covers it, and that code."""
    lines = header.split(b"\n")
    ours = len(header) == _HEADER_BYTES and header.startswith(_VERSION + b"-> X25519 ") and len(lines) == 5
    if ours and lines[3].startswith(b"--- "):
        try:
            share, body, mac = (_decoded(part) for part in (lines[1][10:], lines[2], lines[3][4:]))
            return share, body, header[: header.index(b"\n---") + 4], mac
        except ValueError:
            pass
    raise BadInput("{} is no recording of edgeveil-edge record. Name the file that it wrote".format(name))


def _encoded(data: bytes) -> bytes:
    return base64.b64encode(data).rstrip(b"=")


def _decoded(text: bytes) -> bytes:
    data = base64.b64decode(text + b"=", validate=True)
    if len(data) != 32 or _encoded(data) != text:  # one spelling alone
        raise ValueError
    return data


def _derived(secret: bytes, salt: bytes, info: bytes) -> bytes:
    """HKDF-SHA256 (RFC 5869) of 32 bytes, which is one block."""
    return hmac.new(hmac.new(salt, secret, hashlib.sha256).digest(), info + b"\x01", hashlib.sha256).digest()


def _mac(file_key: bytes, header: bytes) -> bytes:
    return hmac.new(_derived(file_key, bytes(32), b"header"), header, hashlib.sha256).digest()


def _nonce(number: int, last: bool) -> bytes:
    return number.to_bytes(11, "big") + bytes([last])
