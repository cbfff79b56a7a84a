"""A small signed text: a payload of strict JSON, the key that signed it, and the kind of text.

Its only spelling is ``{"algorithm":"ed25519","key":HEX,"payload":"...","schema":1,"signature":HEX}``. What is signed is
``edgeveil KIND 1``, a line break and the payload's bytes, so that a signature is valid for one kind of text only.
"""

from typing import Any, Callable

from edgeveil.edge_runtime.errors import BundleRefused
from edgeveil.edge_runtime.formats import strict_json
from edgeveil.edge_runtime.signing import ed25519
from edgeveil.edge_runtime.signing.keys import Key

MAX_BYTES = 2**20
_KEYS = ["algorithm", "key", "payload", "schema", "signature"]


def message(kind: str, payload: bytes) -> bytes:
    """What is signed."""
    return "edgeveil {} 1\n".format(kind).encode("ascii") + payload


def wrap(payload: bytes, key: str, signature: bytes) -> bytes:
    """The envelope's bytes. ``key``: 64 hexadecimal digits; ``signature``: 64 bytes of ``message(kind, payload)``."""
    document = {
        "algorithm": "ed25519",
        "key": key,
        "payload": payload.decode("ascii"),
        "schema": 1,
        "signature": signature.hex(),
    }
    return strict_json.dumps(document)


def signed_by(key: Key, kind: str) -> Callable[[str], None]:
    """The ``trusted`` of ``unwrap`` that takes this one key and raises ``BundleRefused`` for all others."""

    def trusted(signer: str) -> None:
        if signer != key.key:
            raise BundleRefused(
                "untrusted-key",
                "This {} file is signed by {:.16}..., not by this device's root key {:.16}....".format(
                    kind, signer, key.key
                ),
            )

    return trusted


def unwrap(kind: str, data: bytes, trusted: Callable[[str], Any]) -> Any:
    """The payload of an envelope with a valid signature. ``trusted(key)`` raises unless that key may sign.

    Raises ``BundleRefused`` for anything that is not exactly one envelope of that kind.
    """
    problem = "This {} file is not valid: {{}}. Get it again from the owner of this device's keys.".format(kind)
    if len(data) > MAX_BYTES:
        raise BundleRefused("too-large", problem.format("it has more than {} bytes".format(MAX_BYTES)))
    try:
        document = strict_json.loads(data)
        if type(document) is not dict or sorted(document) != _KEYS or strict_json.dumps(document) != data:
            raise strict_json.BadJson("signature-format", "it is not written as an envelope")
        if document["algorithm"] != "ed25519" or document["schema"] != 1:
            raise strict_json.BadJson("schema", "it is of another schema")
        texts = (document["key"], document["signature"], document["payload"])
        if not all(type(text) is str for text in texts):
            raise strict_json.BadJson("wrong-type", "its fields are not all text")
        payload = document["payload"].encode("ascii", "strict")
        signature, public = bytes.fromhex(document["signature"]), bytes.fromhex(document["key"])
    except strict_json.BadJson as error:
        reason, what = error.reason, str(error)
    except ValueError:
        reason, what = "signature-format", "its key or signature is not hexadecimal"
    else:
        trusted(document["key"])
        try:
            ed25519.verify(public, message(kind, payload), signature)
            return strict_json.loads(payload)
        except ed25519.Rejected:
            reason, what = "bad-signature", "its signature is not valid"
        except strict_json.BadJson as error:
            reason, what = error.reason, str(error)
    raise BundleRefused(reason, problem.format(what))
