"""``edgeveil-edge update --from https://...|dir:...``: a board behind a router fetches its own new releases.

The index (``releases.index``) only says what to fetch: the bundle is verified, tried and undone as any other. The part
fetched so far is kept in ``ROOT/incoming`` and continued by a range request. What is fetched depends on no clock.
"""

import hashlib
import os
from typing import Any, Callable, Optional

from edgeveil.edge_runtime.bundle.index_seen import count_up
from edgeveil.edge_runtime.bundle.reader import unverified_manifest
from edgeveil.edge_runtime.bundle.trust import Trust
from edgeveil.edge_runtime.errors import BundleRefused, DeviceFailed
from edgeveil.edge_runtime.formats import strict_json
from edgeveil.edge_runtime.releases.index import Entry, check_index, read_index, record_seen
from edgeveil.edge_runtime.releases.origin import open_origin
from edgeveil.edge_runtime.storage import root_lock
from edgeveil.edge_runtime.storage.filesystem import names

INDEX_FILE, INCOMING, LOCK_FILE = "index.json", "incoming", "update.lock"
_BLOCK = 1 << 20


def update(
    root: str,
    place: str,
    trust: Trust,
    install: Callable[[str], bool],
    *,
    committed: Optional[str],
    say: Callable[[str], None] = lambda _: None,
) -> bool:
    """Fetch the newest release of the index at ``place`` and ``install`` its file; whether anything new runs.

    ``trust`` is the device's, with its floor; ``committed`` the manifest hash of what runs. Raises ``BadInput`` for a
    ``place`` that is no URL or folder, ``DeviceFailed`` where the connection broke (the next call resumes),
    ``BundleRefused`` for anything but what was signed, and what ``install`` raises.
    """
    source = open_origin(place)
    # A lock of its own: other commands need not wait for a slow server.
    with root_lock.held(root, "update", name=LOCK_FILE):
        seen = count_up(root)
        index = read_index(source.read_small(INDEX_FILE), trust)
        check_index(index, seen, trust)
        entry = index.releases[0]  # the newest; the others are for readers
        if entry.security_version < trust.floor:
            raise BundleRefused(
                "rolled-back",
                "The index offers security version {}; this board takes {} or later.".format(
                    entry.security_version, trust.floor
                ),
            )
        if entry.manifest_sha256 == committed:
            record_seen(root, index, seen)
            return False
        incoming = os.path.join(root, INCOMING)
        path = _fetch(incoming, source, entry, say)
        _check_is(entry, unverified_manifest(path))
        record_seen(root, index, seen)
        changed = install(path)
        _clear_folder(incoming, keep="")
        return changed


def count_up_unless_updating(root: str) -> None:
    """Add up the time that the board was up (``bundle.index_seen``). An update that runs has done it."""
    try:
        with root_lock.held(root, "count", name=LOCK_FILE, wait_s=0):
            count_up(root)
    except DeviceFailed:
        pass  # whatever is wrong with the record: update and status say it


def _check_is(entry: Entry, manifest: bytes) -> None:
    """Raise ``BundleRefused`` unless the index says of the bundle what its manifest says, whose signature is next."""
    try:
        said = strict_json.loads(manifest)
        same = (said["name"], said["security_version"]) == (entry.name, entry.security_version)
    except (strict_json.BadJson, LookupError, TypeError):
        same = False
    if not same or hashlib.sha256(manifest).hexdigest() != entry.manifest_sha256:
        raise BundleRefused(
            "other-bundle",
            "The index offers {}, and {} is another bundle. Nothing was changed. Make the index again (edgeveil "
            "index).".format(entry.name, entry.url),
        )


def _fetch(folder: str, source: Any, entry: Entry, say: Callable[[str], None]) -> str:
    """The path of the bundle, a part file that is kept when the connection breaks."""
    if not os.path.isdir(folder):
        os.mkdir(folder, 0o700)
    part = os.path.join(folder, entry.sha256 + ".part")
    _clear_folder(folder, keep=os.path.basename(part))
    size = os.path.getsize(part) if os.path.exists(part) else 0
    if size > entry.size:
        os.unlink(part)
        size = 0
    if size < entry.size:
        say("fetching {} ({} of {} bytes are there)".format(entry.name, size, entry.size))
        with open(part, "r+b" if size else "wb") as file:
            source.copy(entry.url, file, size, entry.size)
        size = os.path.getsize(part)
    if size < entry.size:
        raise DeviceFailed(
            "{} broke off after {} of {} bytes; what came is kept, and the next update resumes.".format(
                source.shown, size, entry.size
            )
        )
    if _sha256(part) != entry.sha256:
        os.unlink(part)
        raise BundleRefused(
            "hash-mismatch",
            "What {} sent as {} is not what the index says; it was deleted. The next update fetches it again.".format(
                source.shown, entry.url
            ),
        )
    return part


def _sha256(path: str) -> str:
    found = hashlib.sha256()
    with open(path, "rb") as file:
        for block in iter(lambda: file.read(_BLOCK), b""):
            found.update(block)
    return found.hexdigest()


def _clear_folder(folder: str, *, keep: str) -> None:
    for name in names(folder):
        if name != keep:
            os.unlink(os.path.join(folder, name))
