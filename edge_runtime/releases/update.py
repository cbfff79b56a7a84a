"""``edgeveil-edge update --from https://...|dir:...``: a board behind a router fetches its own new releases.

That folder holds an *index*, an envelope (``signing.envelope``) of kind ``index`` by the role ``release``:

::

    {"schema":1,"name":...,"version":7,"releases":[
      {"name":...,"manifest_sha256":...,"sha256":...,"size":...,"security_version":...,"url":"mnist-7.veil"}]}

The index only says what to fetch: the bundle is verified, tried and undone as any other. ``version`` only rises, and
the last one accepted is stored, so that an old index cannot be served for ever. The part fetched so far is kept in
``ROOT/incoming`` and continued by a range request. No clock is used.
"""

import hashlib
import os
import re
from typing import Any, Callable, Dict, List, NamedTuple, Optional

from edgeveil.edge_runtime.bundle.trust import Trust
from edgeveil.edge_runtime.bundle.trust_file import RELEASE
from edgeveil.edge_runtime.errors import BadInput, BundleRefused, DeviceFailed
from edgeveil.edge_runtime.formats import strict_json
from edgeveil.edge_runtime.formats.validate import each, fields, identifier, record, sha256, text, whole
from edgeveil.edge_runtime.manifest.names import MAX_BUNDLE_BYTES
from edgeveil.edge_runtime.signing.envelope import MAX_BYTES
from edgeveil.edge_runtime.storage.atomic import write_atomic
from edgeveil.edge_runtime.storage.filesystem import names, read

INDEX_FILE, KIND, INCOMING, SEEN_FILE = "index.json", "index", "incoming", "index-seen.json"
TIMEOUT_S = 30.0
BLOCK = 64 * 1024
_FILE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,119}")


class Entry(NamedTuple):
    """One release of an index. ``url`` is a file name in the folder of the index."""

    name: str
    manifest_sha256: str
    sha256: str
    size: int
    security_version: int
    url: str


class Index(NamedTuple):
    """A verified index, newest release first."""

    name: str
    version: int
    releases: List[Entry]


def read_index(data: bytes, trust: Trust) -> Index:
    """The content of an index, signed by the role ``release``. Raises ``BundleRefused``."""
    payload: Dict[str, Any] = record(
        trust.unwrap(KIND, data, RELEASE), "index", ("name", "releases", "schema", "version")
    )
    whole(payload["schema"], "schema", 1, 1)
    releases = each(payload["releases"], "releases", _entry, 1, 256)
    return Index(identifier(payload["name"], "name"), whole(payload["version"], "version", 1, 2**31 - 1), releases)


def update(
    root: str,
    place: str,
    trust: Trust,
    install: Callable[[bytes], bool],
    *,
    committed: Optional[str],
    say: Callable[[str], None] = lambda _: None,
) -> bool:
    """Fetch the newest release of the index at ``place`` and ``install`` it; whether anything new runs.

    ``trust`` is the device's, with its floor; ``committed`` the manifest hash of what runs. Raises ``BadInput`` for a
    ``place`` that is no URL or folder, ``DeviceFailed`` where the connection broke (the next call resumes),
    ``BundleRefused`` for anything but what was signed, and what ``install`` raises.
    """
    source = _open_origin(place)
    index = read_index(source.read_small(INDEX_FILE), trust)
    versions_path = os.path.join(root, SEEN_FILE)
    seen = _read_versions(versions_path).get(index.name, 0)
    if index.version < seen:
        raise BundleRefused(
            "rolled-back",
            "The index at {} has version {}, and this board has seen {} already: an old one is served.".format(
                source.shown, index.version, seen
            ),
        )
    entry = index.releases[0]  # the newest; the others are for readers
    if entry.security_version < trust.floor:
        raise BundleRefused(
            "rolled-back",
            "The index offers security version {}; this board takes {} or later.".format(
                entry.security_version, trust.floor
            ),
        )
    if entry.manifest_sha256 == committed:
        _record_version(versions_path, index)
        return False
    data = _fetch(os.path.join(root, INCOMING), source, entry, say)
    _record_version(versions_path, index)
    changed = install(data)
    _clear_folder(os.path.join(root, INCOMING), keep="")
    return changed


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


def _fetch(folder: str, source: Any, entry: Entry, say: Callable[[str], None]) -> bytes:
    """The bundle's bytes, through a part file that is kept when the connection breaks."""
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
    data = read(part) or b""
    if hashlib.sha256(data).hexdigest() != entry.sha256:
        os.unlink(part)
        raise BundleRefused(
            "hash-mismatch",
            "What {} sent as {} is not what the index says; it was deleted. The next update fetches it again.".format(
                source.shown, entry.url
            ),
        )
    return data


def _read_versions(path: str) -> Dict[str, int]:
    data = read(path)
    if data is None:
        return {}
    try:
        document = strict_json.loads(data)
        return {str(name): int(version) for name, version in document.items()}
    except (ValueError, AttributeError, TypeError):
        raise DeviceFailed("{} is damaged: remove it, and check what this board runs.".format(path)) from None


def _record_version(path: str, index: Index) -> None:
    seen = _read_versions(path)
    if seen.get(index.name) != index.version:
        seen[index.name] = index.version
        write_atomic(path, strict_json.dumps(seen), mode=0o644)


def _clear_folder(folder: str, *, keep: str) -> None:
    for name in names(folder):
        if name != keep:
            os.unlink(os.path.join(folder, name))


def _open_origin(place: str) -> Any:
    kind, _, rest = place.partition(":")
    if kind == "dir" and rest:
        return _Folder(rest)
    if kind in ("https", "http") and rest.startswith("//"):
        return _Server(place)
    raise BadInput("Expected --from https://HOST/FOLDER or dir:FOLDER; got {!a}.".format(place[:80]))


class _Folder(object):
    """A folder, such as that of a USB stick."""

    def __init__(self, folder: str) -> None:
        self._folder, self.shown = folder, folder

    def read_small(self, name: str) -> bytes:
        """The whole of a small file."""
        data = read(os.path.join(self._folder, name))
        if data is None:
            raise BadInput("Expected {} in {}; it cannot be read.".format(name, self._folder))
        return data[: MAX_BYTES + 1]

    def copy(self, name: str, file: Any, begin: int, size: int) -> None:
        """Append the bytes from ``begin`` on, up to ``size`` bytes in all."""
        try:
            with open(os.path.join(self._folder, name), "rb") as source:
                source.seek(begin)
                _copy_bytes(source, file, begin, size)
        except OSError as error:
            raise DeviceFailed("{} in {} cannot be read: {}.".format(name, self._folder, error.strerror)) from None


class _Server(object):
    """A folder on a web server. Plain http is for a private network: the files are signed either way."""

    def __init__(self, url: str) -> None:
        import urllib.parse

        parts = urllib.parse.urlsplit(url)
        self._url = url.rstrip("/") + "/"
        self.shown = "{}://{}".format(parts.scheme, parts.hostname)

    def read_small(self, name: str) -> bytes:
        """The whole of a small file."""
        with self._ask(name, 0) as answer:
            try:
                return answer.read(MAX_BYTES + 1)
            except Exception as error:
                raise self._line_failed(error) from None

    def copy(self, name: str, file: Any, begin: int, size: int) -> None:
        """Append the bytes from ``begin`` on by a range request; from 0 where the server does not support it."""
        with self._ask(name, begin) as answer:
            if begin and not _is_continuation(answer, begin):
                begin = 0
                file.truncate(0)
            file.seek(begin)
            try:
                _copy_bytes(answer, file, begin, size)
            except Exception as error:
                raise self._line_failed(error) from None

    def _ask(self, name: str, begin: int) -> Any:
        import urllib.error
        import urllib.request

        # With compression by a proxy the byte counts would differ.
        headers = {"Accept-Encoding": "identity"}
        if begin:
            headers["Range"] = "bytes={}-".format(begin)
        try:
            request = urllib.request.Request(self._url + name, headers=headers)  # noqa: S310 - http and https alone
            return urllib.request.urlopen(request, timeout=TIMEOUT_S)  # noqa: S310
        except urllib.error.HTTPError as error:
            raise DeviceFailed("{} answers {} when asked for {}.".format(self.shown, error.code, name)) from None
        except Exception as error:
            raise self._line_failed(error) from None

    def _line_failed(self, error: BaseException) -> DeviceFailed:
        reason = getattr(error, "reason", None) or error
        return DeviceFailed(
            "The connection to {} broke ({}); what came is kept, and the next update resumes.".format(
                self.shown, str(reason)[:120] or type(error).__name__
            )
        )


def _is_continuation(answer: Any, begin: int) -> bool:
    """Whether an answer is the requested part, not the whole file or another part."""
    return answer.status == 206 and str(answer.headers.get("Content-Range", "")).startswith("bytes {}-".format(begin))


def _copy_bytes(source: Any, file: Any, begin: int, size: int) -> None:
    """Copy until there are ``size`` bytes or no more come, so that no server can fill the disk."""
    left = size - begin
    while left:
        block = source.read(min(BLOCK, left))
        if not block:
            return
        file.write(block)
        left -= len(block)
