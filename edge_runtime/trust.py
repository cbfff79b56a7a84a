"""Whom this device believes: a folder of public keys, and the policy that goes with them.

A key file ends in ``.pub`` and has one line, ``edgeveil-ed25519 <64 hex> <name>``, with `` development`` behind it for
a throw-away key. What is in the folder was put there by the device's owner; nothing in a bundle can add to it.
"""

import os
import re
from typing import Any, Dict, FrozenSet, Iterable, NamedTuple, Optional, Union

from edge_runtime import ed25519
from edge_runtime.checks import show
from edge_runtime.errors import BadInput, BundleRefused
from edge_runtime.policy import Policy

_LINE = re.compile(r"edgeveil-ed25519 ([0-9a-f]{64}) ([A-Za-z0-9][A-Za-z0-9._@-]{0,63})( development)?\n?")
_MAX_FILE_BYTES = 4096


class Key(NamedTuple):
    """A public key as 64 hexadecimal digits, the name its owner gave it, and whether it is a throw-away one."""

    key: str
    name: str
    development: bool


class Trust(object):
    """The keys that may sign, and what a bundle by one of them must say to be taken.

    ``floor``: the smallest ``security_version`` that is still taken. ``audience``: the name that bundles for this
    device alone are made out to; bundles made out to nobody in particular are always taken. ``revoked``: keys that may
    not sign any more, whatever else is said of them. ``policy``: what its owner demands of bundles besides, or None.
    """

    def __init__(
        self,
        keys: Iterable[Key],
        *,
        floor: int = 0,
        audience: str = "",
        revoked: FrozenSet[str] = frozenset(),
        policy: Optional[Policy] = None,
    ) -> None:
        self.revoked, self.policy = revoked, policy
        self.keys: Dict[str, Key] = {}
        for key in keys:
            known = self.keys.setdefault(key.key, key)
            if known.development != key.development:
                problem = "The keys {} and {} are the same, but one is called a development key. Remove one of them."
                raise BadInput(problem.format(known.name, key.name))
        self.floor = floor
        self.audience = audience

    @classmethod
    def open(cls, folder: Union[str, "os.PathLike[str]"], *, floor: int = 0, audience: str = "") -> "Trust":
        """Read every ``*.pub`` of a folder, or a device's own trust where the folder holds one (``device_trust``).

        Raises ``BadInput`` for a folder without keys or a file that is no key.
        """
        folder = os.fspath(folder)
        from edge_runtime.device_trust import is_device_trust, open_device_trust

        if is_device_trust(folder):
            return open_device_trust(folder, floor=floor)
        advice = "Name the folder that holds the signing.pub of those who may sign (edgeveil keygen makes one)."
        if not os.path.isdir(folder):
            came = "a file" if os.path.exists(folder) else "nothing"
            raise BadInput("Expected a trust folder at {}, found {} there. {}".format(folder, came, advice))
        try:
            names = sorted(name for name in os.listdir(folder) if name.endswith(".pub"))
        except OSError as error:
            raise BadInput("The trust folder {} cannot be read: {}.".format(folder, error.strerror)) from None
        if not names:
            raise BadInput("The trust folder {} holds no .pub file. {}".format(folder, advice))
        return cls([read_public_key(os.path.join(folder, name)) for name in names], floor=floor, audience=audience)

    def key_of(self, public_key: str) -> Key:
        """The trusted key of these 64 hexadecimal digits; raises ``BundleRefused`` where there is none."""
        if public_key in self.revoked:
            message = "This bundle is signed by the key {}..., which was revoked. Ask for one by a key that was not."
            raise BundleRefused("revoked-key", message.format(public_key[:16]))
        if public_key not in self.keys:
            message = (
                "This bundle is signed by the key {}..., which is not in the trust folder. If you know whose it is and "
                "trust them, put their signing.pub there; else do not use the bundle."
            )
            raise BundleRefused("untrusted-key", message.format(public_key[:16]))
        return self.keys[public_key]

    def check_policy(self, manifest: Dict[str, Any], key: Key) -> None:
        """Raise ``BundleRefused`` where a checked manifest says what this signer or this device does not allow."""
        if key.development and not manifest["development"]:
            message = "It is signed by the development key {} and does not call itself one. Seal it again."
            raise BundleRefused("development-mismatch", message.format(key.name))
        if manifest["development"] and not key.development:
            message = (
                "It calls itself a development bundle, but the trust folder does not call {} a development key. "
                "Seal it with another key, or correct the .pub file."
            )
            raise BundleRefused("development-mismatch", message.format(key.name))
        if manifest["audience"] not in ("", self.audience):
            message = (
                "This bundle is made out to {}, not to this device. Ask for one that is for this device or for all."
            )
            raise BundleRefused("other-audience", message.format(show(manifest["audience"])))
        if manifest["security_version"] < self.floor:
            message = "This bundle has security version {}; this device takes {} or later. Use a newer bundle."
            raise BundleRefused("rolled-back", message.format(manifest["security_version"], self.floor))


def read_public_key(path: Union[str, "os.PathLike[str]"]) -> Key:
    """The key in one ``.pub`` file. Raises ``BadInput`` for anything else, weak keys among it."""
    path = os.fspath(path)
    try:
        with open(path, "rb") as file:
            data = file.read(_MAX_FILE_BYTES)
    except OSError as error:
        raise BadInput("The key file {} cannot be read: {}.".format(path, error.strerror)) from None
    match = _LINE.fullmatch(data.decode("utf-8", "replace"))
    if not match:
        expected = "one line 'edgeveil-ed25519 <64 hexadecimal digits> <name>', as edgeveil keygen writes it"
        raise BadInput("{} is no public key: expected {}. Replace or remove it.".format(path, expected))
    key = Key(match.group(1), match.group(2), match.group(3) is not None)
    try:
        ed25519.check_public_key(bytes.fromhex(key.key))
    except ed25519.Rejected as rejected:
        message = "The key in {} is not a safe Ed25519 key ({}): anyone could sign for it. Remove it."
        raise BadInput(message.format(path, rejected.reason)) from None
    return key


def public_key_line(key: Key) -> str:
    """What a ``.pub`` file says."""
    return "edgeveil-ed25519 {} {}{}\n".format(key.key, key.name, " development" if key.development else "")
