"""Private keys that never leave a token or HSM, named by a PKCS #11 address (RFC 7512).

``pkcs11:token=TOKEN;object=LABEL?module-path=/usr/lib/softhsm/libsofthsm2.so&pin-source=file:/home/me/pin``

In the path ``token``, ``serial``, ``object`` and ``id`` choose a key, and the one Ed25519 key that fits is used. In the
query ``module-path`` is the token's library (else ``PKCS11_MODULE_PATH`` in the environment) and ``pin-source`` a file.
Without it the PIN is asked for as a passphrase is. ``pin-value`` is refused: other users see a command's arguments.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, unquote_to_bytes

from edgeveil.edge_runtime.errors import BadInput, reason
from edgeveil.edge_runtime.signing.keys import Key
from edgeveil.trainer import secret_file

SCHEME = "pkcs11:"
_PATH, _QUERY = ("token", "serial", "object", "id"), ("module-path", "pin-source")
_EXAMPLE = "pkcs11:token=NAME;object=LABEL?module-path=/usr/lib/softhsm/libsofthsm2.so"
# EC_PARAMS of Ed25519: its OID 1.3.101.112, or the name that PKCS #11 2.40 drafts gave it.
_ED25519 = (bytes.fromhex("06032b6570"), b"\x13\x0cedwards25519")


def is_address(key: str | Path) -> bool:
    """Whether ``key`` is an address of this kind and not a file."""
    return str(key).startswith(SCHEME)


@dataclass(frozen=True)
class Address:
    """The attributes of an address, decoded."""

    text: str
    path: Mapping[str, str]
    query: Mapping[str, str]

    @classmethod
    def parse(cls, text: str) -> Address:
        """Raises ``BadInput`` for anything but one token's one key, and for a PIN in the address."""
        path, _, query = text.removeprefix(SCHEME).partition("?")
        found = _attributes(path, ";", _PATH), _attributes(query, "&", _QUERY)
        if not {"token", "serial"} & set(found[0]) or not {"object", "id"} & set(found[0]):
            raise BadInput(f"Expected the token and the key on it, as {_EXAMPLE}; got {text}.")
        return cls(text, *found)

    @property
    def needs_pin(self) -> bool:
        """Whether somebody must give the PIN: the address names no file that has it."""
        return "pin-source" not in self.query

    def pin(self, given: str | None) -> str:
        """The PIN: the one given, or that in the file of ``pin-source``. Raises ``BadInput``."""
        if given is not None:
            return given
        if self.needs_pin:
            raise BadInput(f"{self.text} needs the token's PIN, and none was given.")
        path = Path(unquote(self.query["pin-source"].removeprefix("file:")))
        try:
            secret_file.refuse_shared(path, what="The PIN in")
            return path.read_text().rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            raise BadInput(f"The PIN was expected in {path}, which cannot be read: {reason(error)}.") from None

    def module(self) -> str:
        """The path of the token's library. Raises ``BadInput``."""
        path = self.query.get("module-path") or os.environ.get("PKCS11_MODULE_PATH")
        if not path:
            raise BadInput(f"The library of the token was expected: add ?module-path=FILE, as in {_EXAMPLE}.")
        return path


class TokenKey:
    """An Ed25519 private key on a token. A session is open while it signs: a token takes one login of a process."""

    def __init__(self, address: Address, pin: str) -> None:
        self._address, self._pin = address, pin

    def sign(self, data: bytes) -> bytes:
        """The 64 bytes of the signature (CKM_EDDSA without a context). Raises ``BadInput``."""
        pkcs11 = _library()
        with _session(self._address, self._pin) as session:
            key = _the_one(session, self._address, pkcs11.ObjectClass.PRIVATE_KEY)
            return bytes(key.sign(data, mechanism=pkcs11.Mechanism.EDDSA))

    def public(self) -> bytes:
        """The 32 bytes of the public key. Raises ``BadInput`` where there is not exactly one key for Ed25519."""
        pkcs11 = _library()
        with _session(self._address, self._pin) as session:
            _the_one(session, self._address, pkcs11.ObjectClass.PRIVATE_KEY)
            key = _the_one(session, self._address, pkcs11.ObjectClass.PUBLIC_KEY)
            params, point = (bytes(key[name]) for name in (pkcs11.Attribute.EC_PARAMS, pkcs11.Attribute.EC_POINT))
        if params not in _ED25519 or len(point) not in (32, 34):
            raise BadInput(f"{_shown(self._address)} is a key, but not one for Ed25519. Make one on the token.")
        return point[-32:]  # behind the tag and the length of an OCTET STRING


def open_token(text: str, pin: str | None) -> tuple[Key, TokenKey]:
    """The public and the private half of the key at an address. Raises ``BadInput`` where there is not exactly one."""
    address = Address.parse(text)
    private = TokenKey(address, address.pin(pin))
    key = private.public().hex()
    label = re.sub(r"[^A-Za-z0-9._@-]", "-", address.path.get("object", ""))[:64]
    return Key(key, label if label[:1].isalnum() else f"key-{key[:8]}", False), private


@contextmanager
def _session(address: Address, pin: str) -> Iterator[Any]:
    """A session of the user. What the token refuses is a ``BadInput``."""
    pkcs11 = _library()
    wanted: dict[str, Any] = {"token_label": address.path["token"]} if "token" in address.path else {}
    if "serial" in address.path:
        wanted["token_serial"] = address.path["serial"].encode()
    try:
        with pkcs11.lib(address.module()).get_token(**wanted).open(user_pin=pin) as session:
            yield session
    except pkcs11.PKCS11Error as error:
        problem = f"{type(error).__name__} {error}".strip()
        raise BadInput(f"The key {_shown(address)} cannot be used: {problem}. Check module, token and PIN.") from None


def _library() -> Any:
    try:
        import pkcs11
    except ImportError:
        raise BadInput("Keys on a token need the package python-pkcs11: pip install 'edgeveil[pkcs11]'.") from None
    return pkcs11


def _the_one(session: Any, address: Address, kind: Any) -> Any:
    attribute = _library().Attribute
    wanted = {attribute.CLASS: kind}
    if "object" in address.path:
        wanted[attribute.LABEL] = address.path["object"]
    if "id" in address.path:
        wanted[attribute.ID] = address.path["id"].encode("latin-1")
    found = list(session.get_objects(wanted))
    if len(found) != 1:
        what = kind.name.lower().replace("_", " ")
        raise BadInput(f"Expected one {what} at {_shown(address)}, found {len(found)}. Name it by object and id.")
    return found[0]


def _attributes(text: str, separator: str, known: tuple[str, ...]) -> dict[str, str]:
    found: dict[str, str] = {}
    for part in text.split(separator) if text else []:
        name, equals, value = part.partition("=")
        if name == "pin-value":
            raise BadInput(
                "A PIN in an address can be seen by others: name a file with pin-source=file:FILE, or type it."
            )
        if name not in known or not equals or name in found:
            raise BadInput(f"Expected {', '.join(known)} once each in {_EXAMPLE}; got {part!r}.")
        found[name] = unquote_to_bytes(value).decode("latin-1") if name == "id" else unquote(value)
    return found


def _shown(address: Address) -> str:
    return address.text.partition("?")[0]
