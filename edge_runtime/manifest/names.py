"""Names and limits of the members of a bundle."""

import re
from typing import NoReturn

from edgeveil.edge_runtime.errors import BundleRefused

MAX_BUNDLE_BYTES = 256 * 2**20  # far below the 4 GiB where ZIP64 begins

MAX_MEMBERS = 1024
MAX_NAME = 120
NAME = re.compile(r"[a-z0-9][a-z0-9._-]*(?:/[a-z0-9][a-z0-9._-]*)*")


def checked_name(raw: bytes) -> str:
    """The name of a member as text. Raises ``BundleRefused`` unless it is short, lower-case ASCII without ``..``."""
    shown = ascii(raw[:MAX_NAME].decode("latin-1"))
    if len(raw) > MAX_NAME:
        _refuse("bad-name", "a member's name is longer than {} characters: {}...".format(MAX_NAME, shown))
    if raw.startswith(b"/"):
        _refuse("absolute-path", "the member {} has an absolute path".format(shown))
    if b"\\" in raw:
        _refuse("backslash", "the name of the member {} has a backslash".format(shown))
    if b".." in raw.split(b"/"):
        _refuse("parent-path", "the member {} leads out of its folder".format(shown))
    if raw.endswith(b"/"):
        _refuse("directory", "{} is a folder, and only files may be members".format(shown))
    try:
        name = raw.decode("ascii")
    except UnicodeDecodeError:
        _refuse("bad-name", "the name of the member {} is not plain ASCII".format(shown))
    if not NAME.fullmatch(name):
        _refuse("bad-name", "the name of the member {} is not of lower-case letters, digits and . _ -".format(shown))
    return name


def _refuse(reason: str, what: str) -> NoReturn:
    raise BundleRefused(
        reason, "This is no bundle that EdgeVeil made: {}. Copy it again, or seal it again.".format(what)
    )
