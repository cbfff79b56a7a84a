"""Bad signatures: strangers, other texts, weak keys, second spellings of a good one, and development keys."""

from __future__ import annotations

import json

from edgeveil.edge_runtime.bundle.archive import pack
from edgeveil.edge_runtime.bundle.policy import Demand, Policy
from edgeveil.edge_runtime.bundle.reader import signature_member, signed_message
from edgeveil.edge_runtime.bundle.trust_file import Trust
from edgeveil.edge_runtime.signing import ed25519
from tests.hostile_bundles.museum import changed, exhibit, exhibits, good, key_named
from tests.support import bundles

NEUTRAL = (1).to_bytes(32, "little")  # the encoding of the point (0, 1), of order 1


def _with_signature(member: bytes, manifest: bytes | None = None) -> bytes:
    document, members = good()
    data = manifest or json.dumps(document).encode()
    return pack([("manifest.json", data), ("signature.json", member), *sorted(members.items())])


def _parts() -> tuple[bytes, str, bytes]:
    """A manifest as bytes, the public key, and the true signature."""
    data = json.dumps(good()[0]).encode()
    return data, bundles.public_hex(bundles.KEY), bundles.KEY.sign(signed_message(data))


exhibits(
    None,
    ("untrusted-key", "strangers_key", lambda: bundles.sealed(*good(), key=bundles.STRANGER)),
    # Revoked wins, even where somebody put the key among those that may sign.
    (
        "revoked-key",
        "key_that_was_revoked",
        lambda: (
            bundles.sealed(*good()),
            Trust([bundles.trusted()], revoked=frozenset([bundles.public_hex(bundles.KEY)])),
        ),
    ),
)


@exhibit("bad-signature")
def strangers_signature_under_a_trusted_name() -> bytes:
    data, key, _ = _parts()
    return _with_signature(signature_member(key, bundles.STRANGER.sign(signed_message(data))), data)


@exhibit("bad-signature")
def signature_of_another_manifest() -> bytes:
    data, key, signature = _parts()
    return _with_signature(signature_member(key, signature), data.replace(b"artefact-example", b"artefact-exemple"))


@exhibit("bad-signature")
def manifest_with_one_more_space() -> bytes:
    data, key, signature = _parts()
    return _with_signature(signature_member(key, signature), data + b" ")


@exhibit("bad-signature")
def signature_of_the_bare_manifest() -> bytes:
    """A signature made for another purpose, without the words in front, must not do here."""
    data, key, _ = _parts()
    return _with_signature(signature_member(key, bundles.KEY.sign(data)), data)


@exhibit("bad-signature")
def one_bit_of_the_signature() -> bytes:
    data, key, signature = _parts()
    return _with_signature(signature_member(key, bytes([signature[0] ^ 1]) + signature[1:]), data)


@exhibit("bad-signature")
def signature_of_zeros() -> bytes:
    data, key, _ = _parts()
    return _with_signature(signature_member(key, bytes(64)), data)


@exhibit("signature-encoding")
def non_canonical_s() -> bytes:
    """S + L satisfies the same equation: a second signature that nobody made."""
    data, key, signature = _parts()
    s = int.from_bytes(signature[32:], "little") + ed25519.L
    return _with_signature(signature_member(key, signature[:32] + s.to_bytes(32, "little")), data)


@exhibit("weak-key")
def key_of_small_order() -> tuple[bytes, Trust]:
    """With the neutral point as key, (R, S) = (0, 0) satisfies the equation for every manifest."""
    data = _parts()[0]
    signature = NEUTRAL + bytes(32)
    return _with_signature(signature_member(NEUTRAL.hex(), signature), data), key_named(NEUTRAL.hex())


@exhibit("weak-key")
def key_that_is_no_point() -> tuple[bytes, Trust]:
    key = (2).to_bytes(32, "little").hex()
    data, _, signature = _parts()
    return _with_signature(signature_member(key, signature), data), key_named(key)


@exhibit("weak-key")
def key_in_a_second_spelling() -> tuple[bytes, Trust]:
    """y + p stands for the same point, here (0, 1)."""
    key = (ed25519.P + 1).to_bytes(32, "little").hex()
    data, _, signature = _parts()
    return _with_signature(signature_member(key, signature), data), key_named(key)


@exhibit("signature-format")
def signature_member_empty() -> bytes:
    return _with_signature(b"")


@exhibit("signature-format")
def signature_member_with_a_space_more() -> bytes:
    data, key, signature = _parts()
    return _with_signature(signature_member(key, signature) + b" ", data)


@exhibit("signature-format")
def signature_in_capitals() -> bytes:
    data, key, signature = _parts()
    member = signature_member(key, signature)
    return _with_signature(member.replace(signature.hex().encode(), signature.hex().upper().encode()), data)


@exhibit("signature-format")
def signature_by_another_algorithm() -> bytes:
    data, key, signature = _parts()
    return _with_signature(signature_member(key, signature).replace(b'"ed25519"', b'"none"'), data)


@exhibit("signature-format")
def signature_of_another_schema() -> bytes:
    data, key, signature = _parts()
    return _with_signature(signature_member(key, signature).replace(b'"schema":1', b'"schema":2'), data)


@exhibit("signature-format")
def signature_too_short() -> bytes:
    data, key, signature = _parts()
    return _with_signature(signature_member(key, signature[:63]), data)


@exhibit("signature-format")
def two_keys_in_the_signature() -> bytes:
    data, key, signature = _parts()
    member = signature_member(key, signature)
    return _with_signature(member.replace(b'"schema"', b'"key":"' + key.encode() + b'","schema"'), data)


exhibits(
    None,
    (
        "development-mismatch",
        "development_key_that_does_not_say_so",
        lambda: (bundles.sealed(*good()), bundles.trust(development=True)),
    ),
)
exhibits(
    changed,
    (
        "development-mismatch",
        "development_bundle_by_an_ordinary_key",
        lambda manifest: manifest.update(development=True),
    ),
)
exhibits(
    None,
    ("rolled-back", "older_than_the_floor", lambda: (bundles.sealed(*good()), Trust([bundles.trusted()], floor=2))),
)


@exhibit("policy-not-met")
def hides_another_attribute() -> tuple[bytes, Trust]:
    policy = Policy([Demand("identity", 0.1, True)])
    return bundles.sealed(*good()), Trust([bundles.trusted()], policy=policy)


exhibits(
    None,
    (
        "other-product",
        "of_another_product",
        lambda: (bundles.sealed(*good()), Trust([bundles.trusted()], product="hall")),
    ),
)
exhibits(changed, ("other-audience", "made_out_to_another_device", lambda manifest: manifest.update(audience="ward-7")))
