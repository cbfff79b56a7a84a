"""Public keys as lines of text."""

import os
import re
from typing import NamedTuple, Union

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.signing import ed25519
from edgeveil.edge_runtime.util.filesystem import read_strict

_LINE = re.compile(r"edgeveil-ed25519 ([0-9a-f]{64}) ([A-Za-z0-9][A-Za-z0-9._@-]{0,63})( development)?\n?")


_MAX_FILE_BYTES = 4096


class Key(NamedTuple):
    """A public key as 64 hexadecimal digits, its owner's name for it, and whether it is a throw-away one."""

    key: str
    name: str
    development: bool


def read_public_key(path: Union[str, "os.PathLike[str]"]) -> Key:
    """The key in one ``.pub`` file. Raises ``BadInput`` for anything else, and for weak keys."""
    path = os.fspath(path)
    try:
        data = read_strict(path, _MAX_FILE_BYTES, links=True)
    except OSError as error:
        raise BadInput("The key file {} cannot be read: {}.".format(path, error.strerror)) from None
    if data is None:
        raise BadInput("The key file {} cannot be read: no such file.".format(path))
    return parse_public_key(data, path)


def parse_public_key(data: bytes, path: str) -> Key:
    """As ``read_public_key``, of the bytes of the file at ``path``."""
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
    """The content of a ``.pub`` file."""
    return "edgeveil-ed25519 {} {}{}\n".format(key.key, key.name, " development" if key.development else "")
