"""The host key of a board that takes another one's place: its line of ``known_hosts``."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

from edgeveil.edge_runtime.errors import BadInput, reason
from edgeveil.edge_runtime.storage.atomic import write_atomic


def read_host_key(path: Path) -> str:
    """Kind and key of a public host key file, such as a board's /etc/ssh/ssh_host_ed25519_key.pub.

    Raises ``BadInput``.
    """
    from paramiko.hostkeys import HostKeyEntry, InvalidHostKey

    try:
        words = path.read_text().split()
        entry = HostKeyEntry.from_line(f"board {' '.join(words[:2])}")
    except (OSError, ValueError, InvalidHostKey) as error:
        raise BadInput(
            f"A public host key was expected in {path} ({reason(error)}): one line of the board's .pub."
        ) from None
    if entry is None:
        raise BadInput(f"A public host key was expected in {path}; it has none. Copy the board's .pub of /etc/ssh.")
    return " ".join(words[:2])


def known(path: Path) -> str:
    """The text of a file of host keys; nothing where there is none. Raises ``BadInput``."""
    try:
        return path.read_text()
    except FileNotFoundError:
        return ""
    except (OSError, ValueError) as error:
        raise BadInput(f"The host keys in {path} cannot be read: {reason(error)}.") from None


def exchanged(text: str, target: str, key: str) -> str:
    """The same file with ``key`` as the only one of ``ssh://user@host[:port]``; lines of other hosts stay."""
    url, kept = urlsplit(target), []
    host = url.hostname or ""
    host = host if url.port in (None, 22) else f"[{host}]:{url.port}"
    for line in text.splitlines():
        names, _, rest = line.strip().partition(" ")
        left = [name for name in names.split(",") if not _same(name, host)]
        if left == names.split(","):
            kept.append(line)
        elif left:
            kept.append(f"{','.join(left)} {rest}")
    return "".join(line + "\n" for line in [*kept, f"{host} {key}"])


def write(path: Path, text: str) -> None:
    """Replace the file, whole. Raises ``BadInput``."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_atomic(str(path), text.encode())
    except OSError as error:
        raise BadInput(f"{path} cannot be written: {reason(error)}.") from None


def _same(name: str, host: str) -> bool:
    """Whether a name in ``known_hosts``, which may be hashed, is that host's."""
    from paramiko.hostkeys import HostKeys

    if name.startswith("|1|"):
        return HostKeys.hash_host(host, name) == name
    return name == host
