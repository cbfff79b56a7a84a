"""A small signed text: a payload of strict JSON, its signatures, and the kind of text.

Schema 1 has one signature, schema 2 up to 16 by different keys::

    {"algorithm":"ed25519","key":HEX,"payload":"...","schema":1,"signature":HEX}
    {"algorithm":"ed25519","payload":"...","schema":2,"signatures":[{"key":HEX,"signature":HEX},...]}

This is the only spelling: no spaces, lower-case hexadecimal, signatures sorted by key and none twice. What is signed is
``edgeveil KIND SCHEMA``, a line break and the payload's bytes, so that a signature is valid for one kind of text and
one schema only.
"""

import re
from typing import Any, Callable, FrozenSet, Mapping, NamedTuple, Tuple

from edgeveil.edge_runtime.errors import BundleRefused
from edgeveil.edge_runtime.signing import ed25519
from edgeveil.edge_runtime.util import strict_json

MAX_BYTES = 2**20
MOST_SIGNATURES = 16
_KEYS = {1: ["algorithm", "key", "payload", "schema", "signature"], 2: ["algorithm", "payload", "schema", "signatures"]}
_KEY, _SIGNATURE = r"[0-9a-f]{64}", r"[0-9a-f]{128}"


class Envelope(NamedTuple):
    """An envelope in its one spelling; its signatures are not verified yet."""

    schema: int
    payload: bytes
    signatures: Tuple[Tuple[str, bytes], ...]  # of different keys, in order

    @property
    def signers(self) -> FrozenSet[str]:
        """The keys that are said to have signed."""
        return frozenset(key for key, _ in self.signatures)


def message(kind: str, payload: bytes, schema: int = 1) -> bytes:
    """What is signed."""
    return "edgeveil {} {}\n".format(kind, schema).encode("ascii") + payload


def wrap(payload: bytes, key: str, signature: bytes) -> bytes:
    """An envelope of schema 1. ``key``: 64 hexadecimal digits; ``signature``: 64 bytes, of ``message``."""
    document = {
        "algorithm": "ed25519",
        "key": key,
        "payload": payload.decode("ascii"),
        "schema": 1,
        "signature": signature.hex(),
    }
    return strict_json.dumps(document)


def wrap_all(payload: bytes, signatures: Mapping[str, bytes]) -> bytes:
    """An envelope of schema 2. ``signatures``: by key, of ``message(kind, payload, 2)``; none yet while it waits."""
    listed = [{"key": key, "signature": signatures[key].hex()} for key in sorted(signatures)]
    document = {"algorithm": "ed25519", "payload": payload.decode("ascii"), "schema": 2, "signatures": listed}
    return strict_json.dumps(document)


def parse(kind: str, data: bytes) -> Envelope:
    """The parts of an envelope. Raises ``BundleRefused`` for any other spelling; verifies no signature."""
    if len(data) > MAX_BYTES:
        raise _refused(kind, "too-large", "it has more than {} bytes".format(MAX_BYTES))
    try:
        document = strict_json.loads(data)
        schema = document["schema"] if type(document) is dict and type(document.get("schema")) is int else None
        if schema not in _KEYS:
            raise strict_json.BadJson("schema", "it is not an envelope of schema 1 or 2")
        if sorted(document) != _KEYS[schema] or strict_json.dumps(document) != data:
            raise strict_json.BadJson("signature-format", "it is not written as an envelope")
        if document["algorithm"] != "ed25519" or type(document["payload"]) is not str:
            raise strict_json.BadJson("wrong-type", "its algorithm is not ed25519, or its payload is no text")
        payload = document["payload"].encode("ascii")
        return Envelope(schema, payload, _signatures(document))
    except strict_json.BadJson as error:
        raise _refused(kind, error.reason, str(error)) from None
    except UnicodeEncodeError:
        raise _refused(kind, "json-encoding", "its payload is not ASCII") from None


def verify(kind: str, envelope: Envelope) -> Any:
    """The payload, once every signature in the envelope was verified. Raises ``BundleRefused``."""
    try:
        for key, signature in envelope.signatures:
            ed25519.verify(bytes.fromhex(key), message(kind, envelope.payload, envelope.schema), signature)
    except ed25519.Rejected:
        raise _refused(kind, "bad-signature", "its signature is not valid") from None
    return unverified(kind, envelope)


def unverified(kind: str, envelope: Envelope) -> Any:
    """The payload, by any signer: for one that waits for signatures, or that names the keys to verify it by."""
    try:
        return strict_json.loads(envelope.payload)
    except strict_json.BadJson as error:
        raise _refused(kind, error.reason, str(error)) from None


def unwrap(kind: str, data: bytes, trusted: Callable[[FrozenSet[str]], Any]) -> Any:
    """The payload of an envelope whose signatures are all valid. ``trusted(keys)`` raises unless these may sign it.

    Raises ``BundleRefused`` for anything that is not exactly one envelope of that kind.
    """
    envelope = parse(kind, data)
    trusted(envelope.signers)
    return verify(kind, envelope)


def _signatures(document: Any) -> Tuple[Tuple[str, bytes], ...]:
    listed = document["signatures"] if document["schema"] == 2 else [document]
    if type(listed) is not list or len(listed) > MOST_SIGNATURES:
        raise strict_json.BadJson("bad-count", "it has no list of at most {} signatures".format(MOST_SIGNATURES))
    signatures = []
    for entry in listed:
        if type(entry) is not dict or (document["schema"] == 2 and sorted(entry) != ["key", "signature"]):
            raise strict_json.BadJson("signature-format", "a signature in it has other fields than key and signature")
        for name, form in (("key", _KEY), ("signature", _SIGNATURE)):
            if type(entry[name]) is not str or not re.fullmatch(form, entry[name]):
                raise strict_json.BadJson(
                    "signature-format", "its {} is not in lower-case hexadecimal digits without spaces".format(name)
                )
        signatures.append((entry["key"], bytes.fromhex(entry["signature"])))
    keys = [key for key, _ in signatures]
    if keys != sorted(set(keys)):
        raise strict_json.BadJson("signature-format", "its signatures are not sorted by key, or a key signed twice")
    return tuple(signatures)


def _refused(kind: str, reason: str, what: str) -> BundleRefused:
    message = "This {} file is not valid: {}. Get it again from the owner of this device's keys."
    return BundleRefused(reason, message.format(kind, what))
