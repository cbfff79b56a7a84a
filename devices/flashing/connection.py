"""How to reach a board: EdgeVeil's folder on it, and the login. Commands name it without loading what flashes."""

from __future__ import annotations

import getpass
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from edgeveil.edge_runtime.errors import written_text
from edgeveil.edge_runtime.paths import ROOT

if TYPE_CHECKING:
    from edgeveil.devices.flashing.board import Board


@dataclass(frozen=True)
class Connection:
    """``identity`` is a private key file, ``known_hosts`` a file of host keys, ``password_file`` holds a password.

    ``ask``: whether passphrases and passwords may be asked for on a terminal; not for a fleet.
    """

    root: str = ROOT
    identity: Path | None = None
    known_hosts: Path | None = None
    password_file: Path | None = None
    ask: bool = False

    def open(self, target: str, *, say: Callable[[str], None] = lambda _: None) -> Board:
        """The board at ``target``; close it, or use it as a context manager.

        Raises ``BadInput`` for an invalid target or a refused login, ``DeviceFailed`` if there is no answer.
        """
        from edgeveil.devices.flashing.board import Board
        from edgeveil.devices.transports import open_transport
        from edgeveil.devices.transports.sudo import Sudo

        password = None
        if self.password_file is not None:
            password = written_text(self.password_file, "The password").rstrip("\r\n")

        def ask(prompt: str) -> str:
            return getpass.getpass(prompt, stream=sys.stderr)

        terminal = self.ask and sys.stdin.isatty() and sys.stderr.isatty()
        transport = open_transport(
            target,
            identity=self.identity,
            known_hosts=self.known_hosts,
            password=password,
            ask=ask if terminal else None,
            say=say,
        )
        prompt = f"Password of {transport.name} for sudo there: "
        sudo = Sudo(transport, password, (lambda: ask(prompt)) if terminal else None)
        return Board(transport, root=self.root, say=say, sudo=sudo)
