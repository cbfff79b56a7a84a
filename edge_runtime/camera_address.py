"""Addresses of cameras on a network: their parts, a form without credentials, and whether raw pictures are safe."""

import ipaddress
from typing import NamedTuple, Optional
from urllib.parse import unquote, urlsplit

from edgeveil.edge_runtime.errors import BadInput

# The kinds of sources on a network, with their default ports.
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
    """The ``Address`` of an http://, https:// or rtsp:// URL. Raises ``BadInput``, which does not quote the URL."""
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
    """Whether others cannot read raw pictures from this address: it is on this machine, or uses checked TLS."""
    address = parse(text)
    if address.scheme == "https" or address.host == "localhost":
        return True
    try:
        return ipaddress.ip_address(address.host).is_loopback
    except ValueError:
        return False


def on_network(text: str) -> bool:
    """Whether raw frames of the source ``text`` come over a network; then another process fetches them."""
    return text.partition(":")[0] in PORTS
