"""Files that hold a secret: read by their owner alone."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import io
import os
import re
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, unquote_to_bytes

from edgeveil.devices.zipapp import zipapp_bytes
from edgeveil.edge_runtime.bundle.archive import pack, read_archive
from edgeveil.edge_runtime.bundle.reader import MANIFEST, read_bundle, read_file
from edgeveil.edge_runtime.bundle.trust_file import Trust
from edgeveil.edge_runtime.errors import BadInput, BundleRefused, reason, written_text
from edgeveil.edge_runtime.releases.index import KIND as index_KIND
from edgeveil.edge_runtime.releases.index import Index, read_index
from edgeveil.edge_runtime.releases.runtimes import FILE, KIND, NOTE, Update, read_update
from edgeveil.edge_runtime.releases.settings import EDGE, NAME, Content, file_name, filled, read_payload
from edgeveil.edge_runtime.releases.settings import KIND as settings_KIND
from edgeveil.edge_runtime.signing.envelope import message, wrap
from edgeveil.edge_runtime.signing.keys import Key, public_key_line, read_public_key
from edgeveil.edge_runtime.signing.roles import Role
from edgeveil.edge_runtime.signing.sealed import Sealer, secret_of
from edgeveil.edge_runtime.util import strict_json
from edgeveil.edge_runtime.util.atomic import write_atomic
from edgeveil.edge_runtime.util.filesystem import read


def read_secret(path: Path, *, what: str, cure: str) -> bytes:
    """The bytes of a secret's file; ``what`` names it in errors, ``cure`` says what to do where it cannot be read.

    Raises ``BadInput`` where it cannot be read.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        raise BadInput(f"{what} {path} cannot be read: {reason(error)}. {cure}") from None


def refuse_shared(path: Path, *, what: str) -> None:
    """Raises ``BadInput`` where others may read the file."""
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & 0o077:
        raise BadInput(
            f"{what} {path} can be read by others (mode {mode:o}; 600 was expected). Run chmod 600 on it, or make a "
            "new one if others may have it."
        )


# Signing keys: made once, kept by the person responsible for what runs on the boards.


# Private keys that never leave a token or HSM, named by a PKCS #11 address (RFC 7512).
#
# ``pkcs11:token=TOKEN;object=LABEL?module-path=/usr/lib/softhsm/libsofthsm2.so&pin-source=file:/home/me/pin``
#
# In the path ``token``, ``serial``, ``object`` and ``id`` choose a key, and the one Ed25519 key that fits is used. In
# the query ``module-path`` is the token's library (else ``PKCS11_MODULE_PATH`` in the environment) and ``pin-source``
# a file. Without it the PIN is asked for as a passphrase is. ``pin-value`` is refused: other users see a command's
# arguments.


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
        parts = _attributes(path, ";", _PATH), _attributes(query, "&", _QUERY)
        if not {"token", "serial"} & set(parts[0]) or not {"object", "id"} & set(parts[0]):
            raise BadInput(f"Expected the token and the key on it, as {_EXAMPLE}; got {text}.")
        return cls(text, *parts)

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
        with contextlib.suppress(OSError):  # what cannot be looked at cannot be read either
            refuse_shared(path, what="The PIN in")
        return written_text(path, "The PIN").rstrip("\r\n")

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
    objects = list(session.get_objects(wanted))
    if len(objects) != 1:
        what = kind.name.lower().replace("_", " ")
        raise BadInput(f"Expected one {what} at {_shown(address)}, found {len(objects)}. Name it by object and id.")
    return objects[0]


def _attributes(text: str, separator: str, known: tuple[str, ...]) -> dict[str, str]:
    attributes: dict[str, str] = {}
    for part in text.split(separator) if text else []:
        name, equals, value = part.partition("=")
        if name == "pin-value":
            raise BadInput(
                "A PIN in an address can be seen by others: name a file with pin-source=file:FILE, or type it."
            )
        if name not in known or not equals or name in attributes:
            raise BadInput(f"Expected {', '.join(known)} once each in {_EXAMPLE}; got {part!r}.")
        attributes[name] = unquote_to_bytes(value).decode("latin-1") if name == "id" else unquote(value)
    return attributes


def _shown(address: Address) -> str:
    return address.text.partition("?")[0]


KEY_FILE, PUBLIC_FILE = "signing.key", "signing.pub"


def keygen(folder: Path, *, passphrase: str | None = None, development: bool = False) -> Path:
    """Make ``signing.key`` (PEM, PKCS 8, mode 600) and ``signing.pub`` in ``folder``; returns the path of the latter.

    ``passphrase`` encrypts the key. ``development`` marks the public key as a throw-away one: every runtime warns of
    the bundles that it signs. Raises ``BadInput`` where there is a key already; it is never overwritten.
    """
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import (
        BestAvailableEncryption,
        Encoding,
        KeySerializationEncryption,
        NoEncryption,
        PrivateFormat,
    )

    if passphrase == "":
        raise BadInput("A passphrase of at least one character was expected; got an empty one.")
    folder = Path(folder)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(f"The folder {folder} cannot be made: {error.strerror}. Give another one.") from None
    for name in (KEY_FILE, PUBLIC_FILE):
        if os.path.lexists(folder / name):
            raise BadInput(
                f"{folder / name} is there already, and bundles that it signed cannot be updated without it. Give "
                "another folder."
            )
    private = Ed25519PrivateKey.generate()
    encryption: KeySerializationEncryption = NoEncryption()
    if passphrase is not None:
        encryption = BestAvailableEncryption(passphrase.encode())
    write_atomic(folder / KEY_FILE, private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption), mode=0o600)
    public = _public_hex(private)
    line = public_key_line(Key(public, f"key-{public[:8]}", development))
    write_atomic(folder / PUBLIC_FILE, line.encode("ascii"))
    return folder / PUBLIC_FILE


def write_public(folder: Path, key: str, *, passphrase: str | None = None) -> Path:
    """Write ``signing.pub`` of a key on a token into ``folder``; returns its path. Raises ``BadInput``."""
    public = Path(folder) / PUBLIC_FILE
    signer = Signer.open(key, passphrase=passphrase)
    if os.path.lexists(public):
        raise BadInput(f"{public} is there already. Give another folder.")
    public.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_atomic(public, public_key_line(signer.key).encode("ascii"))
    return public


def is_encrypted(key_path: str | Path) -> bool:
    """Whether the key needs a passphrase, or its token a PIN. Raises ``BadInput`` where a file cannot be read."""
    if is_address(key_path):
        return Address.parse(str(key_path)).needs_pin
    return b"ENCRYPTED PRIVATE KEY" in _read(Path(key_path))


@dataclass(frozen=True)
class Signer:
    """An opened private key, and its public key from the ``.pub`` file."""

    key: Key
    _private: Any

    def opening_secret(self) -> bytes:
        """What opens a file that was sealed to the public key (``signing.sealed``). Raises ``BadInput`` for a token."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        if not isinstance(self._private, Ed25519PrivateKey):
            raise BadInput(
                "A key on a token signs and opens nothing. Name the key file that the recording was sealed to."
            )
        return secret_of(self._private.private_bytes_raw())

    @classmethod
    def open(cls, key_path: str | Path, *, passphrase: str | None = None) -> Signer:
        """Open a key file and the ``.pub`` next to it, or a key on a token by its ``pkcs11:`` address.

        ``passphrase`` is the token's PIN there. Raises ``BadInput`` where they or the passphrase do not fit.
        """
        if is_address(key_path):
            return cls(*open_token(str(key_path), passphrase))
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        key_path = Path(key_path)
        data = _read(key_path)
        if b"PRIVATE KEY" not in data:
            cure = f"Name {key_path.with_suffix('.key')}." if key_path.suffix == ".pub" else "Make one with keygen."
            raise BadInput(f"{key_path} could not be opened as a signing key: it holds no private key. {cure}")
        refuse_shared(key_path, what="The signing key")
        encrypted = b"ENCRYPTED PRIVATE KEY" in data
        if encrypted != (passphrase is not None):
            came = "none was given" if encrypted else "one was given"
            raise BadInput(f"The signing key {key_path} {'needs a' if encrypted else 'has no'} passphrase, and {came}.")
        try:
            private = load_pem_private_key(data, None if passphrase is None else passphrase.encode())
        except (ValueError, TypeError, UnsupportedAlgorithm):
            problem = (
                "The passphrase is not the right one, or the file is damaged." if encrypted else "Make one with keygen."
            )
            raise BadInput(f"{key_path} could not be opened as a signing key. {problem}") from None
        if not isinstance(private, Ed25519PrivateKey):
            raise BadInput(f"{key_path} holds a key, but not one for Ed25519. Make one with edgeveil key new.")
        public_path = key_path.with_suffix(".pub")
        key = read_public_key(public_path)
        if key.key != _public_hex(private):
            raise BadInput(f"{public_path} is not the public half of {key_path}. Put the right one next to it.")
        return cls(key, private)

    def sign(self, data: bytes) -> bytes:
        """The 64 bytes of the signature."""
        signature: bytes = self._private.sign(data)
        return signature

    def envelope(self, kind: str, document: Mapping[str, Any]) -> bytes:
        """``document`` as JSON in a signed envelope of that ``kind``."""
        payload = strict_json.dumps(document)
        return wrap(payload, self.key.key, self.sign(message(kind, payload)))


def _read(path: Path) -> bytes:
    return read_secret(path, what="The signing key", cure="Give the signing.key that edgeveil key new wrote.")


def _public_hex(private: Any) -> str:
    return str(private.public_key().public_bytes_raw().hex())


# The owner's side of runtime updates: this toolkit's edge runtime, signed by a key of the role runtime, or of root.


def write_runtime(
    key: str | Path,
    out: Path,
    *,
    name: str = "edgeveil-edge",
    version: int | None = None,
    passphrase: str | None = None,
) -> Update:
    """Write ``out``, a runtime update signed with ``key``, of the role runtime or of root; its version is the next one
    after ``out``'s.

    ``version`` is another one. Raises ``BadInput`` or ``BundleRefused`` where another key signed what is at ``out``.
    """
    signer = Signer.open(key, passphrase=passphrase)
    previous = read(str(out))
    if version is None:
        version = 1 if previous is None else read_update(previous, Role((signer.key,))).version + 1
    data = zipapp_bytes()
    payload = {"schema": 1, "name": name, "version": version}
    payload |= {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    packed = pack([(NOTE, signer.envelope(KIND, payload)), (FILE, data)])
    update = read_update(packed, Role((signer.key,)))  # never write what a board would refuse
    write_atomic(str(out), packed)
    return update


# The owner's side of pull updates: the signed index that boards fetch (``edge_runtime/update.py``).


def write_index(
    bundles: list[Path], key: str | Path, out: Path, *, name: str, audience: str = "", passphrase: str | None = None
) -> Index:
    """Write ``out``, an index of ``bundles`` (the newest first) signed with ``key``; its version is the next one.

    ``name`` is the product and ``audience`` the fleet that it is for, empty for any; boards remember both.

    The same key must have signed the bundles, and the index at ``out`` if there is one. Raises ``BadInput`` where it
    has not, ``BundleRefused`` for a file that is damaged.
    """
    if not bundles:
        raise BadInput("At least one bundle was expected: give .veil files, the newest first.")
    signer = Signer.open(key, passphrase=passphrase)
    previous, version = read(str(out)), 1
    if previous is not None:
        with _signed_by(signer, out):
            before = read_index(previous, Trust([signer.key]))
        if before.name != name:
            raise BadInput(f"{out} is the index of {before.name}, and this one is of {name}. Give another file.")
        if before.audience not in ("", audience):
            raise BadInput(f"{out} is for {before.audience!r}, and this one is for {audience!r}. Give another file.")
        version = before.version + 1
    releases = [_entry(path, signer) for path in bundles]
    # Schema 1 as long as it says the same: boards of version 0.1 read it.
    fields = {"schema": 2, "audience": audience} if audience else {"schema": 1}
    data = signer.envelope(index_KIND, {**fields, "name": name, "version": version, "releases": releases})
    index = read_index(data, Trust([signer.key]))  # never write what a board would refuse
    write_atomic(str(out), data)
    return index


@contextmanager
def _signed_by(signer: Signer, path: Path) -> Iterator[None]:
    """Refuse a file of another key in words for its signer: no board and no trust folder is here."""
    try:
        yield
    except BundleRefused as error:
        if error.reason != "untrusted-key":
            raise
        raise BadInput(
            f"{path} was signed by another key than {signer.key.key[:16]}..., the one given. Give the key that signed "
            "it, or sign it anew with this one."
        ) from None


def write_settings(
    settings: Path,
    boards: list[Path],
    files: Mapping[str, Path],
    key: str | Path,
    out: Path,
    *,
    passphrase: str | None = None,
) -> dict[str, int]:
    """Write the ``settings``, a configuration, and ``files`` for each of the ``boards`` (``board.pub``) into the folder
    ``out``, sealed to that board and signed with ``key``; the number of each file there.

    A number is one more than that of the file before. Raises ``BadInput``, also where that is another key's.
    """
    try:
        document = strict_json.loads(written_text(settings, "The settings").encode())
        held = {name: read_secret(path, what="The file", cure="Give NAME=FILE.") for name, path in files.items()}
        content = Content(1, dict(document), held)
    except (strict_json.BadJson, ValueError, TypeError) as error:
        raise BadInput(f"Expected an object of settings, as in edge.json, in {settings}: {error}.") from None
    if wrong := [name for name in files if not NAME.fullmatch(name) or name == EDGE]:
        raise BadInput(f"Expected a name of letters, digits, '.', '_' and '-' before the =; got {wrong[0]!r}.")
    # What the boards have, and these may leave out.
    filled(content, {"bundle": "-", "trust": "-", "source": "camera:0", **content.settings}, "/")
    signer, numbers = Signer.open(key, passphrase=passphrase), {}
    coded = {name: base64.b64encode(data).decode() for name, data in held.items()}
    inner = strict_json.dumps({"schema": 1, "settings": content.settings, "files": coded})
    for board in boards:
        public, sealed = read_public_key(board).key, io.BytesIO()
        place = out / file_name(public)
        previous, role = read(str(place)), Role((signer.key,))
        with _signed_by(signer, place):
            number = 1 if previous is None else read_payload(previous, role)["number"] + 1
        sealer = Sealer(bytes.fromhex(public), sealed.write)
        sealer.add(inner)
        sealer.close()
        payload = {
            "schema": 1,
            "number": number,
            "board": public,
            "sealed": base64.b64encode(sealed.getvalue()).decode(),
        }
        data = signer.envelope(settings_KIND, payload)
        read_payload(data, role)  # never write what a board would refuse
        write_atomic(str(place), data)
        numbers[place.name] = number
    return numbers


def _entry(path: Path, signer: Signer) -> dict[str, object]:
    data = read_file(str(path))
    with _signed_by(signer, path):
        bundle = read_bundle(data, Trust([signer.key], audience=_audience(data)))
    return {
        "name": bundle.manifest.name,
        "manifest_sha256": bundle.manifest_sha256,
        "sha256": hashlib.sha256(data).hexdigest(),
        "size": len(data),
        "security_version": bundle.manifest.security_version,
        "url": path.name,
    }


def _audience(data: bytes) -> str:
    """The audience that a bundle names: an index may offer bundles for any. The signature is checked next."""
    try:
        return str(strict_json.loads(dict(read_archive(data))[MANIFEST])["audience"])
    except (strict_json.BadJson, LookupError, TypeError):
        return ""
