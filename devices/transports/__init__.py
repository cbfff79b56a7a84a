"""Ways to reach a board: ``open_transport("ssh://pi@host")``. Each runs a command there and puts a file there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from edgeveil.devices.transports.base import Transport
from edgeveil.edge_runtime.errors import BadInput


def open_transport(
    target: str,
    *,
    identity: Path | None = None,
    known_hosts: Path | None = None,
    password: str | None = None,
    ask: Callable[[str], str] | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> Transport:
    """Connect to a board. ``identity`` is a private key file, ``known_hosts`` a file of host keys (the user's own).

    ``ask`` shows a prompt and returns the passphrase or password that was typed. ``say`` takes lines about a lost
    console. Raises ``BadInput`` for an invalid target, an unknown host key or a wrong password; ``DeviceFailed`` if
    there is no answer.
    """
    url = split_target(target)
    if url.scheme == "ssh" and url.hostname:
        from edgeveil.devices.transports.ssh import SshTransport
        from edgeveil.devices.transports.ssh_login import host_of

        if url.password:
            raise BadInput(
                "A password must not be part of a target, where others can read it: name a file by password_file in "
                "boards.toml."
            )
        return SshTransport(
            host_of(url),
            port=url.port,
            user=url.username,
            identity=identity,
            known_hosts=known_hosts,
            password=password,
            ask=ask,
        )
    if url.scheme == "serial" and url.path:
        from edgeveil.devices.transports.serial import SerialTransport

        return SerialTransport.from_url(url, password=password, say=say)
    if target.startswith(("image:", "dir:")):
        raise BadInput(
            f"{target} is a card, on which nothing runs that could answer: edgeveil flash alone writes one. Name the "
            "board itself, as ssh://user@host[:port] or serial:///dev/ttyUSB0?baud=115200."
        )
    raise _no_target(target)


def split_target(target: str) -> SplitResult:
    """The parts of a target's address. Raises ``BadInput`` where it is none, or its port is none."""
    try:
        url = urlsplit(target)
        valid = url.port != 0  # it is parsed, and its range checked, when it is asked for
    except ValueError:
        valid = False
    if not valid:
        raise _no_target(target)
    return url


def _no_target(target: str) -> BadInput:
    return BadInput(
        f"Expected a target as ssh://user@host[:port] or serial:///dev/ttyUSB0?baud=115200 (edgeveil flash also takes "
        f"image:FILE and dir:FOLDER), with a port of 1 to 65535; got {target!r}."
    )
