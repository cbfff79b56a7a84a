"""What a device signs with, against the RFC and another implementation."""

import os

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from edgeveil.edge_runtime.signing import ed25519
from edgeveil.edge_runtime.signing.device_key import DeviceKey

# RFC 8032, section 7.1: secret key, public key, message, signature of tests 1 and 2.
RFC_8032 = [
    (
        "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
        "",
        "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e06522490155"
        "5fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b",
    ),
    (
        "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
        "72",
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da"
        "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00",
    ),
]


@pytest.mark.parametrize(("seed", "public", "message", "signature"), RFC_8032)
def test_the_vectors_of_the_rfc(seed, public, message, signature):
    key = DeviceKey(bytes.fromhex(seed))
    assert (key.public, key.sign(bytes.fromhex(message)).hex()) == (public, signature)


def test_another_implementation_signs_alike():
    for size in range(20):
        seed, message = os.urandom(32), os.urandom(size * 37)
        key, other = DeviceKey(seed), Ed25519PrivateKey.from_private_bytes(seed)
        assert key.public == other.public_key().public_bytes_raw().hex()
        assert key.sign(message) == other.sign(message)
        ed25519.verify(bytes.fromhex(key.public), message, key.sign(message))


def test_a_seed_of_another_length_is_none():
    with pytest.raises(ValueError, match="32 bytes"):
        DeviceKey(bytes(31))
