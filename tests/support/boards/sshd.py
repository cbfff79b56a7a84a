"""A real sshd on loopback for tests: its own host key, one key that may log in, nothing of the system's touched."""

from __future__ import annotations

import contextlib
import getpass
import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.support import network_receivers, programs


@dataclass(frozen=True)
class Sshd:
    """Where it listens, and the files that whoever logs in needs."""

    port: int
    target: str
    identity: Path
    known_hosts: Path
    process: int = 0
    home: Path = Path()

    def options(self, **keys: object) -> list[str]:
        """For the command line: a file of boards with this one, its login and these ``keys``."""
        login = {"identity": self.identity, "known_hosts": self.known_hosts}
        return boards_file(self.identity.parent, {self.target: {**login, **keys}})


def boards_file(folder: Path, boards: Mapping[str, Mapping[str, object]]) -> list[str]:
    """The option that names a file with these boards: the keys of each, by its address."""
    tables = [{"address": address, **keys} for address, keys in boards.items()]
    lines = [f"[board.b{number}]\n" + _lines(table) for number, table in enumerate(tables)]
    (folder / "boards.toml").write_text("".join(lines))
    return ["--boards", str(folder / "boards.toml")]


def _lines(table: Mapping[str, object]) -> str:
    plain = (int, bool, list)
    return "".join(f"{key} = {json.dumps(one if isinstance(one, plain) else str(one))}\n" for key, one in table.items())


@contextlib.contextmanager
def running(folder: Path, *, within: Sequence[str] = (), first: Path | None = None) -> Iterator[Sshd]:
    """An sshd until the block ends. Skips the test where there is none. ``within``: a command that runs it in its own
    process; ``first``: a folder of programs that a login finds before all others.

    A login has the home ``folder / "home"``, with no shell's files in it, and this Python as ``python3``: a
    board of its own on one machine.
    """
    daemon = programs.need("sshd", "ssh-keygen")
    for name in ("host", "user"):
        subprocess.run([programs.need("ssh-keygen"), "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
    port = network_receivers.free_port()
    Path("/run/sshd").mkdir(exist_ok=True)
    (folder / "authorized").write_bytes((folder / "user.pub").read_bytes())
    (folder / "config").write_text(
        f"ListenAddress 127.0.0.1\nPort {port}\nHostKey {folder / 'host'}\nAuthorizedKeysFile {folder / 'authorized'}\n"
        "UsePAM no\nStrictModes no\nPidFile none\nPasswordAuthentication no\nSubsystem sftp internal-sftp\n"
        "PermitRootLogin yes\n"
    )
    before = "" if first is None else f"{first}:"
    home, path = folder / "home", f"{before}{Path(sys.executable).parent}:/usr/sbin:/usr/bin:/sbin:/bin"
    home.mkdir(exist_ok=True)
    with (folder / "config").open("a") as config:
        config.write(f"SetEnv HOME={home} PATH={path}\n")
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([*within, daemon, "-D", "-e", "-f", folder / "config"], stderr=log, stdout=log)
    try:
        for _ in range(600):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            time.sleep(0.05)
        key = (folder / "host.pub").read_text().split()[:2]
        (folder / "known_hosts").write_text(f"[127.0.0.1]:{port} {' '.join(key)}\n")
        yield Sshd(
            port,
            f"ssh://{getpass.getuser()}@127.0.0.1:{port}",
            folder / "user",
            folder / "known_hosts",
            process.pid,
            home,
        )
    finally:
        process.terminate()
        process.wait(10)
