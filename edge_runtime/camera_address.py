"""Addresses of cameras on a network: their parts, a form without credentials, and whether raw pictures are safe."""

import ipaddress
from typing import NamedTuple, Optional
from urllib.parse import quote, unquote, urlsplit

from edgeveil.edge_runtime.errors import BadInput, written_text
from edgeveil.edge_runtime.kinds import SOURCES, fact_of, with_fact

Address = NamedTuple(
    "Address",
    [
        ("scheme", str),
        ("host", str),
        ("port", int),
        ("target", str),  # path and query
        ("user", Optional[str]),
        ("password", Optional[str]),
        ("shown", str),  # for people, logs and messages: no user, password, path or query, all of which may be secret
    ],
)


def parse(text: str) -> Address:
    """The ``Address`` of the URL of a source on a network. Raises ``BadInput``, which does not quote the URL."""
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError:
        parts, host, port = None, None, None
    default = None if parts is None else fact_of(SOURCES, parts.scheme, "port")
    # In "http://ann:12/34@HOST" the password has a slash, and its beginning would be taken for a port.
    cut = parts is not None and (parts.fragment or (parts.username is None and "@" in parts.path + parts.query))
    if parts is None or default is None or not host or cut or any(c <= " " or c > "~" for c in text):
        first, *others = (kind + "//" for kind in with_fact("port"))
        problem = (
            "expected an address as {}HOST:PORT/PATH, {}; this is not one. Write / ? # @ of a name, password or path "
            "as %2F %3F %23 %40, or put USER:PASSWORD into a file (--source-credentials)"
        )
        raise BadInput(problem.format(first, " or ".join([", ".join(others[:-1]), *others[-1:]])))
    port = port or default
    name = "[{}]".format(host) if ":" in host else host
    return Address(
        parts.scheme,
        host,
        port,
        (parts.path or "/") + ("?" + parts.query if parts.query else ""),
        None if parts.username is None else unquote(parts.username),
        None if parts.password is None else unquote(parts.password),
        "{}://{}:{}{}".format(parts.scheme, name, port, "/..." if parts.path not in ("", "/") else parts.path),
    )


def with_credentials(text: str, path: str) -> str:
    """The address with the name and password of a file, one line ``USER:PASSWORD``. Raises ``BadInput``, which quotes
    neither."""
    address = parse(text)
    if address.user is not None:
        raise BadInput("expected name and password in the address of the camera or in {}, not in both".format(path))
    line = written_text(path, "USER:PASSWORD of the camera", most=4096).rstrip("\r\n")
    user, colon, password = line.partition(":")
    if not user or not colon or any(ord(c) < 32 for c in line):
        raise BadInput("expected one line, USER:PASSWORD of the camera, in {}".format(path))
    scheme, _, rest = text.partition("://")
    return "{}://{}:{}@{}".format(scheme, quote(user, safe=""), quote(password, safe=""), rest)


def is_private(text: str) -> bool:
    """Whether others cannot read raw pictures from this address: it is on this machine, or uses checked TLS."""
    address = parse(text)
    if fact_of(SOURCES, address.scheme, "tls") or address.host == "localhost":
        return True
    try:
        return ipaddress.ip_address(address.host).is_loopback
    except ValueError:
        return False


def check_private(text: str, accepted: bool) -> None:
    """Raise ``BadInput`` where raw pictures would cross a network unencrypted and no one ``accepted`` that."""
    if not (accepted or is_private(text)):
        raise BadInput(
            "raw pictures from {} would cross a network where others can read them: use a camera on this device, "
            "https:// or rtsps://, or add --accept-raw-on-network (accept_raw_on_network in boards.toml)".format(
                parse(text).shown
            )
        )


def to_fetch(text: str, credentials: Optional[str], *, accepted: bool) -> str:
    """The address by which a camera on a network is fetched, with its ``credentials`` file's name and password.

    Raises as ``check_private`` and ``with_credentials``.
    """
    check_private(text, accepted)
    return text if credentials is None else with_credentials(text, credentials)


def on_network(text: str) -> bool:
    """Whether raw frames of the source ``text`` come over a network; then another process fetches them."""
    return fact_of(SOURCES, text, "port") is not None
