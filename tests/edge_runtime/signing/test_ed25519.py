"""The one verifier against the RFC, Wycheproof and another implementation, and where it is stricter than that one."""

from __future__ import annotations

import hashlib
import json
import time
from pathlib import Path

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given, settings
from hypothesis import strategies as st

from edgeveil.edge_runtime.signing import ed25519
from edgeveil.edge_runtime.signing.ed25519 import L, P, Rejected, verify

# RFC 8032, section 7.1: public key, message, signature of tests 1, 2, 3 and "SHA(abc)".
RFC_8032 = [
    (
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
        "",
        "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e06522490155"
        "5fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b",
    ),
    (
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
        "72",
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da"
        "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00",
    ),
    (
        "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
        "af82",
        "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac"
        "18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a",
    ),
    (
        "ec172b93ad5e563bf4932c70e1245034c35467ef2efd4d64ebf819683467e2bf",
        hashlib.sha512(b"abc").hexdigest(),
        "dc2a4459e7369633a52b1bf277839a00201009a3efbf3ecb69bea2186c26b589"
        "09351fc9ac90b3ecfdfbc7c66431e0303dca179c138ac17ad9bef1177331a704",
    ),
]

# All eight points of small order; that they are is tested below, not taken on trust.
SMALL_ORDER = [
    (1).to_bytes(32, "little"),
    (P - 1).to_bytes(32, "little"),
    bytes(32),
    bytes(31) + b"\x80",
    bytes.fromhex("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05"),
    bytes.fromhex("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85"),
    bytes.fromhex("c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a"),
    bytes.fromhex("c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa"),
]


def test_the_numbers_that_are_written_out_are_what_the_rfc_says_they_are():
    assert (121666 * ed25519.D + 121665) % P == 0
    assert pow(ed25519.ROOT_OF_MINUS_ONE, 2, P) == P - 1
    x, y, z, t = ed25519.BASE
    assert (5 * y - 4 * z) % P == 0
    assert x % 2 == 0  # of the two points with this y, the "positive" one
    assert (y * y - x * x - 1 - ed25519.D * t * t) % P == 0  # on the curve
    assert t == x * y % P


@pytest.mark.parametrize(("public", "message", "signature"), RFC_8032)
def test_vectors_of_the_rfc(public, message, signature):
    public, message, signature = bytes.fromhex(public), bytes.fromhex(message), bytes.fromhex(signature)
    verify(public, message, signature)
    for wrong in (message + b"\x00", b"x" + message):
        with pytest.raises(Rejected, match="equation"):
            verify(public, wrong, signature)


@pytest.mark.data
def test_wycheproof_every_valid_one_passes_and_every_invalid_one_is_refused(data_folder):
    document = json.loads((data_folder / "wycheproof" / "ed25519_test.json").read_text())
    count = {"valid": 0, "invalid": 0}
    for group in document["testGroups"]:
        public = bytes.fromhex(group["publicKey"]["pk"])
        for case in group["tests"]:
            arguments = public, bytes.fromhex(case["msg"]), bytes.fromhex(case["sig"])
            if case["result"] == "valid":
                verify(*arguments)
            else:
                with pytest.raises(Rejected):
                    verify(*arguments)
            count[case["result"]] += 1
    assert sum(count.values()) == document["numberOfTests"]
    assert count == {"valid": 88, "invalid": 63}


@settings(max_examples=25, deadline=None)
@given(st.binary(min_size=32, max_size=32), st.binary(max_size=300), st.integers(0, 511), st.integers(0, 255))
def test_it_agrees_with_another_implementation(seed, message, signature_bit, key_bit):
    private = Ed25519PrivateKey.from_private_bytes(seed)
    public = private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    signature = private.sign(message)
    verify(public, message, signature)
    flipped = bytearray(signature)
    flipped[signature_bit // 8] ^= 1 << signature_bit % 8
    other = bytearray(public)
    other[key_bit // 8] ^= 1 << key_bit % 8
    for wrong in (
        (public, message, bytes(flipped)),
        (public, message + b"\n", signature),
        (bytes(other), message, signature),
    ):
        assert not _other_says_yes(*wrong)
        with pytest.raises(Rejected):
            verify(*wrong)


@settings(max_examples=60, deadline=None)
@given(st.binary(min_size=32, max_size=32))
def test_any_32_bytes_are_a_sound_key_or_refused(data):
    try:
        ed25519.check_public_key(data)
    except Rejected:
        return
    point = ed25519._decode(data)
    x, y, _, _ = point
    assert (-x * x + y * y - 1 - ed25519.D * x * x * y * y) % P == 0
    assert ed25519._encode(point) == data


def test_second_spelling_of_a_signature_is_refused():
    private, public = _pair()
    signature = private.sign(b"m")
    s = int.from_bytes(signature[32:], "little")
    for multiple in range(1, 16):
        if s + multiple * L >= 2**256:
            break
        with pytest.raises(Rejected, match="s-range"):
            verify(public, b"m", signature[:32] + (s + multiple * L).to_bytes(32, "little"))


@pytest.mark.parametrize("length", [0, 1, 32, 63, 65, 128])
def test_signature_of_another_length_is_refused(length):
    private, public = _pair()
    with pytest.raises(Rejected, match="length"):
        verify(public, b"m", (private.sign(b"m") * 2)[:length])


@pytest.mark.parametrize("length", [0, 31, 33, 64])
def test_key_of_another_length_is_refused(length):
    private, public = _pair()
    with pytest.raises(Rejected, match="length"):
        verify((public * 2)[:length], b"m", private.sign(b"m"))


@pytest.mark.parametrize("public", SMALL_ORDER, ids=[data.hex()[:8] for data in SMALL_ORDER])
def test_key_of_small_order_is_refused(public):
    with pytest.raises(Rejected, match="key-small-order"):
        ed25519.check_public_key(public)
    assert ed25519._encode(ed25519._two_products(8, ed25519._decode(public), 0, ed25519.NEUTRAL)) == SMALL_ORDER[0]


def test_forgery_that_a_lenient_verifier_takes_is_refused():
    # With the neutral point as key, R = S B holds for every message; here S = 0 and R is neutral.
    with pytest.raises(Rejected, match="key-small-order"):
        verify(SMALL_ORDER[0], b"anything at all", SMALL_ORDER[0] + bytes(32))


@pytest.mark.parametrize("y", [P, P + 1, P + 18, 2**255 - 1])
@pytest.mark.parametrize("sign", [0, 1])
def test_key_that_is_not_reduced_is_refused(y, sign):
    with pytest.raises(Rejected, match="key-encoding"):
        ed25519.check_public_key((y | sign << 255).to_bytes(32, "little"))


@pytest.mark.parametrize("y", [1, P - 1])
def test_negative_zero_is_refused(y):
    with pytest.raises(Rejected, match="key-encoding"):
        ed25519.check_public_key((y | 1 << 255).to_bytes(32, "little"))


def test_r_of_small_order_is_refused_though_the_equation_holds():
    # A signer who knows the private scalar a can choose R neutral and S = h a: the equation holds, the nonce is none.
    seed = bytes(range(32))
    public = Ed25519PrivateKey.from_private_bytes(seed).public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    scalar = bytearray(hashlib.sha512(seed).digest()[:32])
    scalar[0] &= 248
    scalar[31] = scalar[31] & 127 | 64
    r = SMALL_ORDER[0]
    h = int.from_bytes(hashlib.sha512(r + public + b"m").digest(), "little") % L
    s = h * int.from_bytes(scalar, "little") % L
    assert _other_says_yes(public, b"m", r + s.to_bytes(32, "little"))
    with pytest.raises(Rejected, match="r-small-order"):
        verify(public, b"m", r + s.to_bytes(32, "little"))


def test_base_point_is_that_of_the_rfc():
    x, y, _, _ = ed25519.BASE
    assert x == 15112221349535400772501151409588531511454012693041857206046113283949847762202
    assert y == 46316835694926478169428394003475163141307993866256225615783033603165251855960
    assert ed25519._encode(ed25519._two_products(L, ed25519.BASE, 0, ed25519.NEUTRAL)) == SMALL_ORDER[0]


def test_it_is_fast_enough_for_a_small_board():
    private, public = _pair()
    signature = private.sign(bytes(4096))
    best = min(_timed(public, bytes(4096), signature) for _ in range(5))
    assert best < 0.05, f"one verification took {best:.3f} s; a board is some thirty times slower than a desktop"


def test_the_module_holds_no_way_to_sign():
    assert "sign(" not in Path(ed25519.__file__).read_text()


def _timed(*arguments: bytes) -> float:
    started = time.process_time()
    verify(*arguments)
    return time.process_time() - started


def _pair() -> tuple[Ed25519PrivateKey, bytes]:
    private = Ed25519PrivateKey.from_private_bytes(b"\x07" * 32)
    return private, private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)


def _other_says_yes(public: bytes, message: bytes, signature: bytes) -> bool:
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True
