"""The part of a sink's URI after its kind: a path or an address, and options after a question mark."""

import re
from typing import Any, Callable, Dict, Optional, Tuple
from urllib.parse import unquote, urlsplit

from edgeveil.edge_runtime.errors import GONE, BadInput, written_text
from edgeveil.edge_runtime.kinds import SINKS, SOURCES, fact_of

Known = Dict[str, Callable[[str], Any]]

_SIZES = {"kB": 10**3, "MB": 10**6, "GB": 10**9}
_TIMES = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
LOOPBACK = ("127.0.0.1", "::1", "localhost")


def size_bytes(text: str) -> int:
    """``"100MB"`` as bytes; raises ``BadInput``."""
    match = re.fullmatch(r"([0-9]{1,9})(kB|MB|GB)", text)
    if not match or not int(match.group(1)):
        raise BadInput("expected a size as 500kB, 100MB or 2GB; got {!r}".format(text))
    return int(match.group(1)) * _SIZES[match.group(2)]


def duration_s(text: str) -> float:
    """``"1h"`` as seconds; raises ``BadInput``."""
    match = re.fullmatch(r"([0-9]{1,9})([smhd])", text)
    if not match or not int(match.group(1)):
        raise BadInput("expected a duration as 30s, 10m, 1h or 7d; got {!r}".format(text))
    return int(match.group(1)) * _TIMES[match.group(2)]


def rotation(text: str) -> Tuple[Optional[int], Optional[float]]:
    """``"100MB,1h"`` as bytes and seconds, either of them None if it is not given; raises ``BadInput``."""
    size, time = None, None
    for part in text.split(","):
        if part.endswith("B") and size is None:
            size = size_bytes(part)
        elif time is None:
            time = duration_s(part)
        else:
            raise BadInput("expected a size, a time or both, as rotate=100MB,1h; got {!r}".format(text))
    return size, time


def slot_of(text: str) -> int:
    """The number of a slot; raises ``BadInput``."""
    if not text.isdigit() or int(text) > 63:
        raise BadInput("expected the number of a slot as slot=0; got {!r}".format(text))
    return int(text)


def split(uri: str, known: Known) -> Tuple[str, Dict[str, Any]]:
    """``DIR?rotate=1h&fps=5`` as ``DIR`` and its options. A question mark without an option is part of the name."""
    path, mark, query = uri.rpartition("?")
    if not mark or not re.match(r"[a-z_]+=", query):
        return uri, {}
    return path, _options(query, known)


def address(text: str, port: int, known: Known) -> Tuple[str, int, str, Dict[str, Any]]:
    """Host, port, path and options of a URL. Never shows the text: it may hold a password."""
    try:
        parts = urlsplit(text)
        host, number = parts.hostname, parts.port
    except ValueError:
        raise BadInput("expected an address as KIND://HOST:PORT/...; this one cannot be parsed") from None
    if parts.username is not None or parts.password is not None:
        raise BadInput(
            "a password in an address shows up in process lists and logs: put it into a file that only you may read, "
            "or into the environment (docs/reference/sinks.md)"
        )
    if not host or parts.fragment:
        raise BadInput("expected an address as {}://HOST:PORT/...; no host is named".format(parts.scheme))
    return host, number or port, unquote(parts.path), _options(parts.query, known)


def without_secrets(uri: str) -> str:
    """A source or sink safe to print: no user, password or query, and no path of a
    camera or an HTTP server: each may be a secret."""
    if "://" not in uri:
        return uri.partition("?")[0] if fact_of(SINKS, uri, "hides") else uri
    shown = re.sub("//[^/]*@", "//", uri.partition("?")[0])
    secret_path = fact_of(SOURCES, uri, "port") is not None or fact_of(SINKS, uri, "secret_path")
    return re.sub("^([a-z]+://[^/]*/).+", r"\1...", shown) if secret_path else shown


def secret(path: Optional[str], environment: Optional[str], what: str) -> Optional[str]:
    """The content of a file without the line's end, else the value from the environment. Never in a message."""
    if path is None:
        return environment
    value = written_text(path, what[:1].upper() + what[1:], most=4096).rstrip("\r\n")
    if not value or any(ord(c) < 32 for c in value):
        raise BadInput("expected one line with {} in {}".format(what, path))
    return value


def _options(query: str, known: Known) -> Dict[str, Any]:
    options: Dict[str, Any] = {}
    for part in query.split("&") if query else []:
        name, equals, value = part.partition("=")
        if "?" + name in GONE and name not in known:
            raise BadInput("{}=: {}. Leave it out.".format(name, GONE["?" + name]))
        if name not in known or not equals or not value:
            raise BadInput("expected options of {}; got {!r}".format(", ".join(sorted(known)), name))
        if name in options:
            raise BadInput("the option {} is given twice".format(name))
        options[name] = known[name](unquote(value))
    return options
