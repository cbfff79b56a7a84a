"""The index of releases that a board follows, and which one it is: what it saw first, or what its root key says.

The index is an envelope (``signing.envelope``) of kind ``index`` by the role ``release``:

::

    {"schema":2,"name":...,"audience":...,"version":7,"releases":[
      {"name":...,"manifest_sha256":...,"sha256":...,"size":...,"security_version":...,"url":"mnist-7.veil"}]}

``name`` is the product. The first index pins product and audience on the board: an index of another product or for
another audience is refused, whoever signed it, unless the trust file names that one. ``version`` only rises, and the
last one accepted is stored (``bundle.index_seen``), so that an old index cannot be served for ever. Schema 1 has no
audience.
"""

import hashlib
import re
import time
from typing import Any, List, NamedTuple, Optional

from edgeveil.edge_runtime.bundle.index_seen import Seen, write_seen
from edgeveil.edge_runtime.bundle.trust import Trust
from edgeveil.edge_runtime.bundle.trust_file import RELEASE
from edgeveil.edge_runtime.errors import BundleRefused
from edgeveil.edge_runtime.formats.validate import each, fields, identifier, reading, record, sha256, show, text, whole
from edgeveil.edge_runtime.manifest.names import MAX_BUNDLE_BYTES
from edgeveil.edge_runtime.uptime import uptime

KIND = "index"
_FILE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,119}")
_KEYS = ("name", "releases", "schema", "version")


class Entry(NamedTuple):
    """One release of an index. ``url`` is a file name in the folder of the index."""

    name: str
    manifest_sha256: str
    sha256: str
    size: int
    security_version: int
    url: str


class Index(NamedTuple):
    """A verified index, newest release first. ``sha256`` is that of its file."""

    name: str
    version: int
    releases: List[Entry]
    audience: str
    sha256: str


def read_index(data: bytes, trust: Trust) -> Index:
    """The content of an index, signed by the role ``release``. Raises ``BundleRefused``."""
    payload: Any = trust.unwrap(KIND, data, RELEASE)
    newer = type(payload) is dict and payload.get("schema") == 2
    with reading("index.json", "Make it again (edgeveil index)."):
        record(payload, "index", _KEYS + ("audience",) if newer else _KEYS)
        whole(payload["schema"], "schema", 1, 2)
        return Index(
            identifier(payload["name"], "name"),
            whole(payload["version"], "version", 1, 2**31 - 1),
            each(payload["releases"], "releases", _entry, 1, 256),
            text(payload["audience"], "audience") if newer else "",
            hashlib.sha256(data).hexdigest(),
        )


def check_index(index: Index, seen: Optional[Seen], trust: Trust) -> None:
    """Raise ``BundleRefused`` for an index that is not this board's, or older than the one it saw."""
    seen = seen if seen is not None and seen.name else None
    product = trust.product or (seen.name if seen else index.name)
    known = {} if seen is None else dict(seen.others, **{seen.name: seen.version})
    if index.name != product and (trust.product or index.name not in known):
        _refuse(
            "other-product",
            "the index is of the product {}, and this board follows {}".format(show(index.name), show(product)),
        )
    pinned = seen.audience if seen else ""
    if index.audience not in ("", trust.audience) or (
        pinned and index.audience not in (pinned, trust.audience or pinned)
    ):
        _refuse(
            "other-audience",
            "the index is for {}, and this board is {}".format(
                show(index.audience or "any audience"), show(trust.audience or pinned or "of no audience")
            ),
        )
    if seen is None:
        return
    if index.version < known.get(index.name, 0):
        _refuse(
            "rolled-back",
            "the index has version {}, and this board has seen {} already: an old one is served".format(
                index.version, known[index.name]
            ),
        )
    if (index.name, index.version) == (seen.name, seen.version) and seen.sha256 not in ("", index.sha256):
        _refuse("other-index", "there are two of version {}".format(index.version))


def record_seen(root: str, index: Index, before: Optional[Seen]) -> None:
    """Remember an index that was accepted."""
    now, (boot, up_s) = int(time.time()), uptime()
    new = Seen(index.name, index.audience, index.version, index.sha256, now, now, {}, 0, boot, up_s)
    if before is not None:
        if (before.name, before.version) == (index.name, index.version):
            known = before.counted()
            new = new._replace(changed_at=before.changed_at or now, up_s=known.up_s)
        others = dict(before.others, **{before.name: before.version})
        new = new._replace(others={name: others[name] for name in others if name not in ("", index.name)})
    write_seen(root, new)


def _entry(entry: Any, at: str) -> Entry:
    checked = fields(
        entry,
        at,
        name=identifier,
        manifest_sha256=sha256,
        sha256=sha256,
        size=lambda size, place: whole(size, place, 1, MAX_BUNDLE_BYTES),
        security_version=lambda version, place: whole(version, place, 0, 2**31 - 1),
        url=text,
    )
    if not _FILE.fullmatch(checked["url"]):
        raise BundleRefused(
            "bad-value",
            "The index names {!a}, which is no file in its folder. Make the index again.".format(checked["url"]),
        )
    return Entry(**checked)


def _refuse(reason: str, what: str) -> None:
    raise BundleRefused(
        reason,
        "The index is refused: {}. Nothing was changed. Check --from, and what is on the server; to follow another "
        "product, send a trust file that names it.".format(what),
    )
