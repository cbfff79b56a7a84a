"""X25519 and ChaCha20-Poly1305 without a library are those of the RFCs and of the package cryptography."""

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import aead

from edgeveil.edge_runtime.signing import ciphers, ed25519


def test_the_example_of_rfc_7748():
    for seed in (bytes(range(32)), b"\xff" * 32):
        own = X25519PrivateKey.from_private_bytes(seed)
        assert ciphers.x25519(seed, ciphers.BASE) == own.public_key().public_bytes_raw()
    scalar = bytes.fromhex("a546e36bf0527c9d3b16154b82465edd62144c0ac1fc5a18506a2244ba449ac4")
    share = bytes.fromhex("e6db6867583030db3594c1a424b15f7c726624ec26b3353b10a903a6d0ab1c4c")
    assert ciphers.x25519(scalar, share).hex() == "c3da55379de9c6908e94ea4df28d084f32eccf03491c71f754b4075577a28552"


def test_a_share_whose_top_bit_is_set_is_read_as_the_library_does():
    secret, share = bytes(range(1, 33)), b"\x05" * 31 + b"\x85"
    wanted = X25519PrivateKey.from_private_bytes(secret).exchange(X25519PublicKey.from_public_bytes(share))
    assert ciphers.x25519(secret, share) == wanted


def test_a_share_of_small_order_is_refused():
    for share in (bytes(32), (1).to_bytes(32, "little"), ed25519.P.to_bytes(32, "little")):
        with pytest.raises(ValueError, match="small order"):
            ciphers.x25519(bytes(range(32)), share)


@pytest.mark.parametrize("size", [0, 1, 15, 16, 63, 64, 65, 1000, 65536])
def test_what_the_library_encrypted_is_decrypted(size):
    rng = np.random.default_rng(size)
    key, nonce, data = rng.bytes(32), rng.bytes(12), rng.bytes(size)
    sealed = aead.ChaCha20Poly1305(key).encrypt(nonce, data, None)
    assert ciphers.ChaCha20Poly1305(key).decrypt(nonce, sealed, None) == data
    for at in {0, size // 2, len(sealed) - 1}:
        changed = sealed[:at] + bytes([sealed[at] ^ 1]) + sealed[at + 1 :]
        with pytest.raises(ValueError, match="changed"):
            ciphers.ChaCha20Poly1305(key).decrypt(nonce, changed, None)
    with pytest.raises(ValueError, match="changed"):
        ciphers.ChaCha20Poly1305(key).decrypt(nonce, sealed[:15], None)


def test_the_public_half_of_a_key():
    for seed in (bytes(32), bytes(range(32)), b"\xff" * 32):
        assert ed25519.public_of(seed) == Ed25519PrivateKey.from_private_bytes(seed).public_key().public_bytes_raw()
