"""Addresses of cameras on a network: taken apart once, shown without credentials, safe for raw pictures or not."""

import ipaddress
from typing import NamedTuple, Optional
from urllib.parse import unquote, urlsplit

from edgeveil.edge_runtime.errors import BadInput

PORTS = {"http": 80, "https": 443, "rtsp": 554}

Address = NamedTuple(
    "Address",
    [
        ("scheme", str),
        ("host", str),
        ("port", int),
        ("target", str),  # path and query
        ("user", Optional[str]),
        ("password", Optional[str]),
        ("shown", str),  # for people, logs and messages: no user, no password, no query
    ],
)


def parse(text: str) -> Address:
    """The ``Address`` of an http://, https:// or rtsp:// URL. Raises ``BadInput``, which shows none of it."""
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError:
        parts, host, port = None, None, None
    if parts is None or parts.scheme not in PORTS or not host or any(c <= " " or c > "~" for c in text):
        raise BadInput("expected an address as http://HOST:PORT/PATH, https:// or rtsp://; this is not one")
    port = port or PORTS[parts.scheme]
    name = "[{}]".format(host) if ":" in host else host
    return Address(
        parts.scheme,
        host,
        port,
        (parts.path or "/") + ("?" + parts.query if parts.query else ""),
        None if parts.username is None else unquote(parts.username),
        None if parts.password is None else unquote(parts.password),
        "{}://{}:{}{}".format(parts.scheme, name, port, parts.path),
    )


def is_private(text: str) -> bool:
    """Whether raw pictures from this address travel where no one else can read them: this machine, or checked TLS."""
    address = parse(text)
    if address.scheme == "https":
        return True
    if address.host == "localhost":
        return True
    try:
        return ipaddress.ip_address(address.host).is_loopback
    except ValueError:
        return False


ON_NETWORK = ("http", "https", "rtsp")


def on_network(text: str) -> bool:
    """Whether raw frames of the source that ``text`` names come over a network: another process fetches those."""
    return text.partition(":")[0] in ON_NETWORK
