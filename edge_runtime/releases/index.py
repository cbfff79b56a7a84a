"""The index of releases that a board follows, and which one it is: what it saw first, or what its root key says.

The index is an envelope (``signing.envelope``) of kind ``index`` by the role ``release``:

::

    {"schema":2,"name":...,"audience":...,"version":7,"releases":[
      {"name":...,"manifest_sha256":...,"sha256":...,"size":...,"security_version":...,"url":"mnist-7.veil"}]}

``name`` is the product. The first index pins product and audience on the board: an index of another product or for
another audience is refused, by any signer, unless the trust file names that one. ``version`` only rises, and the
last one accepted is stored (``bundle.index_seen``), so that an old index cannot be served for ever. Schema 1 has no
audience.
"""

import contextlib
import hashlib
import os
import re
import signal
import stat
from typing import Any, Callable, Iterable, Iterator, List, NamedTuple, Optional, Tuple

from edgeveil.edge_runtime.bundle.index_seen import Seen, clock_now, count_up, write_offered, write_seen
from edgeveil.edge_runtime.bundle.reader import unverified_manifest
from edgeveil.edge_runtime.bundle.trust_file import RELEASE, Trust
from edgeveil.edge_runtime.errors import BadInput, BundleRefused, DeviceFailed
from edgeveil.edge_runtime.machine import uptime
from edgeveil.edge_runtime.manifest.detector import MAX_BUNDLE_BYTES
from edgeveil.edge_runtime.signing.envelope import MAX_BYTES
from edgeveil.edge_runtime.util import root_lock, strict_json
from edgeveil.edge_runtime.util import validate as field
from edgeveil.edge_runtime.util.filesystem import names
from edgeveil.edge_runtime.util.validate import Problem, Table

KIND = "index"
_FILE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,119}")


class Entry(NamedTuple):
    """One release of an index. ``url`` is a file name in the folder of the index."""

    name: str
    manifest_sha256: str
    sha256: str
    size: int
    security_version: int
    url: str


def _file_name(url: str, _entry: Any, _index: Any) -> Iterable[Problem]:
    if not _FILE.fullmatch(url):
        message = "The index names {!a}, which is no file in its folder. Make the index again."
        raise BundleRefused("bad-value", message.format(url))
    return ()


_ENTRY = {
    "name": field.identifier(),
    "manifest_sha256": field.sha256(),
    "sha256": field.sha256(),
    "size": field.whole(1, MAX_BUNDLE_BYTES),
    "security_version": field.whole(0, 2**31 - 1),
    "url": field.text(rule=_file_name),
}
_INDEX = {
    "schema": field.whole(1, 2),
    "name": field.identifier(),
    "version": field.whole(1, 2**31 - 1),
    "releases": field.each(field.record(_ENTRY), 1, 256),
}


def _of_schema(index: Any, _: Any) -> Table:
    return dict(_INDEX, audience=field.text()) if index.get("schema") == 2 else _INDEX


class Index(NamedTuple):
    """A verified index, newest release first. ``sha256`` is that of its file, ``trust_version`` that of the trust."""

    name: str
    version: int
    releases: List[Entry]
    audience: str
    sha256: str
    trust_version: int = 0
    keys: Tuple[str, ...] = ()  # those that may sign an index today


def read_index(data: bytes, trust: Trust) -> Index:
    """The content of an index, signed by the role ``release``. Raises ``BundleRefused``."""
    payload: Any = trust.unwrap(KIND, data, RELEASE)
    field.check(
        payload, "index", field.record(_of_schema), file="index.json", cure="Make it again (edgeveil update index)."
    )
    releases = [Entry(**entry) for entry in payload["releases"]]
    audience = payload.get("audience", "")
    sha, keys = hashlib.sha256(data).hexdigest(), signers_of(trust)
    return Index(payload["name"], payload["version"], releases, audience, sha, trust.version, keys)


def signers_of(trust: Trust) -> Tuple[str, ...]:
    """The keys that may sign an index."""
    return tuple(sorted({key.key for key in trust.roles[RELEASE].keys} - trust.revoked))


def _counts(seen: Seen, index: Index) -> bool:
    """Whether the versions that were seen still bound those to come: each key that might sign them still may."""
    return set(seen.keys) <= set(index.keys)


def check_index(index: Index, seen: Optional[Seen], trust: Trust) -> None:
    """Raise ``BundleRefused`` for an index that is not this board's, or older than the one it saw."""
    seen = seen if seen is not None and seen.name else None
    product = trust.product or (seen.name if seen else index.name)
    known = {} if seen is None else dict(seen.others, **{seen.name: seen.version})
    if index.name != product and (trust.product or index.name not in known):
        _refuse(
            "other-product",
            "the index is of the product {}, and this board follows {}".format(
                field.show(index.name), field.show(product)
            ),
        )
    pinned = seen.audience if seen else ""
    if index.audience not in ("", trust.audience) or (
        pinned and index.audience not in (pinned, trust.audience or pinned)
    ):
        _refuse(
            "other-audience",
            "the index is for {}, and this board is {}".format(
                field.show(index.audience or "any audience"), field.show(trust.audience or pinned or "of no audience")
            ),
        )
    if seen is None or not _counts(seen, index):
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
    now, (boot, up_s) = clock_now(), uptime()
    new = Seen(index.name, index.audience, index.version, index.sha256, now, now, {}, 0, boot, up_s, *index[-2:])
    if before is not None and _counts(before, index):
        if (before.name, before.version) == (index.name, index.version):
            known = before.counted()
            new = new._replace(changed_at=known.changed_at, up_s=known.up_s)
        others = dict(before.others, **{before.name: before.version})
        new = new._replace(others={name: others[name] for name in others if name not in ("", index.name)})
    write_seen(root, new)


def _refuse(reason: str, what: str) -> None:
    raise BundleRefused(
        reason,
        "The index is refused: {}. Nothing was changed. Check --from, and what is on the server; to follow another "
        "product, send a trust file that names it.".format(what),
    )


# Where a board fetches releases from: a folder, or a folder on a web server that may be anybody's.
#
# A server gets a limited time in all, not for each byte, a limited number of bytes, and may send on to itself alone.


SILENCE_S = 30.0
INDEX_LIMIT_S, BUNDLE_LIMIT_S = 30.0, 3000.0  # the update unit is ended after an hour
BLOCK = 64 * 1024


class NotThere(DeviceFailed):
    """The server answers that it has no such file."""


class TooLate(Exception):
    """The time for an answer is over."""


def open_origin(place: str) -> Any:
    """The folder or server at ``place``. Raises ``BadInput`` where it is neither."""
    kind, _, rest = place.partition(":")
    if kind == "dir" and rest:
        return Folder(rest)
    if kind in ("https", "http") and rest.startswith("//"):
        return Server(place)
    raise BadInput("Expected --from https://HOST/FOLDER or dir:FOLDER; got {!a}.".format(place[:80]))


class Folder(object):
    """A folder, such as that of a USB stick."""

    def __init__(self, folder: str) -> None:
        self._folder, self.shown = folder, folder

    def read_small(self, name: str) -> bytes:
        """The whole of a small file."""
        try:
            with self._open(name) as file:
                return bytes(file.read(MAX_BYTES + 1))
        except OSError as error:
            raise BadInput(
                "Expected {} in {}; it cannot be read ({}).".format(name, self._folder, error.strerror)
            ) from None

    def read_if_there(self, name: str) -> Optional[bytes]:
        """The whole of a small file; None where there is none."""
        return self.read_small(name) if os.path.lexists(os.path.join(self._folder, name)) else None

    def copy(self, name: str, file: Any, begin: int, size: int) -> None:
        """Append the bytes from ``begin`` on, up to ``size`` bytes in all."""
        try:
            with self._open(name) as source:
                source.seek(begin)
                _copy_bytes(source.read, file, begin, size)
        except OSError as error:
            raise DeviceFailed("{} in {} cannot be read: {}.".format(name, self._folder, error.strerror)) from None

    def _open(self, name: str) -> Any:
        # Without O_NONBLOCK, a pipe of that name would hold this process for ever.
        handle = os.open(os.path.join(self._folder, name), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            os.close(handle)
            raise OSError(0, "it is no regular file")
        return os.fdopen(handle, "rb")


class Server(object):
    """A folder on a web server. Plain http is for a private network: the files are signed either way."""

    def __init__(self, url: str) -> None:
        import urllib.parse

        parts = urllib.parse.urlsplit(url)
        self._url = url.rstrip("/") + "/"
        self._origin = (parts.scheme, parts.netloc)
        self.shown = "{}://{}".format(parts.scheme, parts.hostname)

    def read_small(self, name: str) -> bytes:
        """The whole of a small file."""
        with self._within(INDEX_LIMIT_S), self._ask(name, 0) as answer:
            return bytes(answer.read(MAX_BYTES + 1))  # one more than an envelope may have

    def read_if_there(self, name: str) -> Optional[bytes]:
        """The whole of a small file; None where the server has none."""
        try:
            return self.read_small(name)
        except NotThere:
            return None

    def copy(self, name: str, file: Any, begin: int, size: int) -> None:
        """Append the bytes from ``begin`` on by a range request; from 0 where the server does not support it."""
        with self._within(BUNDLE_LIMIT_S), self._ask(name, begin) as answer:
            part = str(answer.headers.get("Content-Range", "")) if answer.status == 206 else ""
            if begin and not part.startswith("bytes {}-".format(begin)):
                begin = 0
                file.truncate(0)
            file.seek(begin)
            _copy_bytes(answer.read1, file, begin, size)

    @contextlib.contextmanager
    def _within(self, limit_s: float) -> Iterator[None]:
        """Any failure of the line in the block, and its end after ``limit_s``, as ``DeviceFailed``."""

        def late(*_: Any) -> None:
            raise TooLate("more than {:.0f} s".format(limit_s))

        # An alarm: it also ends a name that is looked up, a handshake and headers that come byte by byte.
        before = signal.signal(signal.SIGALRM, late)
        signal.setitimer(signal.ITIMER_REAL, limit_s)
        try:
            yield
        except DeviceFailed:
            raise
        except Exception as error:
            reason = getattr(error, "reason", None) or error
            raise DeviceFailed(
                "The connection to {} broke ({}); what came is kept, and the next update resumes.".format(
                    self.shown, str(reason)[:120] or type(error).__name__
                )
            ) from None
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)

    def _ask(self, name: str, begin: int) -> Any:
        import urllib.error
        import urllib.request

        # With compression by a proxy the byte counts would differ.
        headers = {"Accept-Encoding": "identity"}
        if begin:
            headers["Range"] = "bytes={}-".format(begin)
        request = urllib.request.Request(self._url + name, headers=headers)  # noqa: S310 - http and https alone
        try:
            return _opener(self._origin, self.shown).open(request, timeout=SILENCE_S)
        except urllib.error.HTTPError as error:
            kind = NotThere if error.code in (404, 410) else DeviceFailed
            raise kind("{} answers {} when asked for {}.".format(self.shown, error.code, name)) from None


def _opener(origin: Any, shown: str) -> Any:
    """What opens http and https alone, and follows a redirect to the same server alone."""
    import urllib.parse
    import urllib.request as request

    class SameOrigin(request.HTTPRedirectHandler):
        def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
            parts = urllib.parse.urlsplit(newurl)
            if (parts.scheme, parts.netloc) != origin:
                raise DeviceFailed(
                    "{} sends on to {!a}, and only the server itself may be asked. Give --from the place where the "
                    "files are.".format(shown, newurl[:80])
                )
            return request.HTTPRedirectHandler.redirect_request(self, req, fp, code, msg, headers, newurl)

    opener = request.OpenerDirector()
    handlers = (request.ProxyHandler, request.HTTPHandler, request.HTTPSHandler, request.HTTPDefaultErrorHandler)
    for handler in handlers + (SameOrigin, request.HTTPErrorProcessor):
        opener.add_handler(handler())
    return opener


def _copy_bytes(read: Any, file: Any, begin: int, size: int) -> None:
    """Copy until there are ``size`` bytes or no more come, so that no server can fill the disk."""
    left = size - begin
    while left:
        block = read(min(BLOCK, left))
        if not block:
            return
        file.write(block)
        left -= len(block)


# ``edgeveil-edge update --from https://...|dir:...``: a board behind a router fetches its own new releases.
#
# The index (``releases.index``) only says what to fetch: the bundle is verified, tried and undone as any other. The
# part fetched so far is kept in ``ROOT/incoming`` and continued by a range request. What is fetched depends on no
# clock.


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
        if seen.name and not seen.keys:  # of a runtime that did not write them
            seen = seen._replace(trust_version=trust.version, keys=signers_of(trust))
            write_seen(root, seen)
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
        write_offered(root, entry.manifest_sha256)
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
    """Raise ``BundleRefused`` unless the index says of the bundle what its manifest says; its signature is next."""
    try:
        document = strict_json.loads(manifest)
        same = (document["name"], document["security_version"]) == (entry.name, entry.security_version)
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
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        for block in iter(lambda: file.read(_BLOCK), b""):
            digest.update(block)
    return digest.hexdigest()


def _clear_folder(folder: str, *, keep: str) -> None:
    for name in names(folder):
        if name != keep:
            os.unlink(os.path.join(folder, name))
