"""Where a board fetches releases from: a folder, or a folder on a web server that may be anybody's.

A server gets a limited time in all, not for each byte, a limited number of bytes, and may send on to itself alone.
"""

import contextlib
import os
import signal
import stat
from typing import Any, Iterator

from edgeveil.edge_runtime.errors import BadInput, DeviceFailed
from edgeveil.edge_runtime.signing.envelope import MAX_BYTES

SILENCE_S = 30.0
INDEX_LIMIT_S, BUNDLE_LIMIT_S = 30.0, 3000.0  # the update unit is ended after an hour
BLOCK = 64 * 1024


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

    def copy(self, name: str, file: Any, begin: int, size: int) -> None:
        """Append the bytes from ``begin`` on by a range request; from 0 where the server does not support it."""
        with self._within(BUNDLE_LIMIT_S), self._ask(name, begin) as answer:
            if begin and not _is_continuation(answer, begin):
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
            raise DeviceFailed("{} answers {} when asked for {}.".format(self.shown, error.code, name)) from None


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


def _is_continuation(answer: Any, begin: int) -> bool:
    """Whether an answer is the requested part, not the whole file or another part."""
    return answer.status == 206 and str(answer.headers.get("Content-Range", "")).startswith("bytes {}-".format(begin))


def _copy_bytes(read: Any, file: Any, begin: int, size: int) -> None:
    """Copy until there are ``size`` bytes or no more come, so that no server can fill the disk."""
    left = size - begin
    while left:
        block = read(min(BLOCK, left))
        if not block:
            return
        file.write(block)
        left -= len(block)
