"""Root on a board by ``sudo``: without a password where the board asks for none, else with the user's own.

The password goes over the authenticated channel to sudo's standard input, in one line before what the command reads:
it is in no command line, no environment and no file. A line of random letters ends it. Where sudo asks for no password
after all, ``_SKIP`` reads up to that line, so that a command never gets the password.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence

from edgeveil.devices.transports.base import Completed, Transport
from edgeveil.edge_runtime.errors import BadInput

TRIES = 2
# One byte at a time: what follows the line is the command's.
_SKIP = """
import os, sys
line = b""
while line != sys.argv[1].encode():
    line = b""
    byte = os.read(0, 1)
    while byte not in (b"", b"\\n"):
        line, byte = line + byte, os.read(0, 1)
    if not byte:
        sys.exit("the end of the password did not come")
os.execvp(sys.argv[2], sys.argv[2:])
"""
_WRONG = ("try again", "incorrect password", "no password was provided", "incorrect authentication")


class Sudo:
    """Runs commands as root on the board at ``transport``.

    ``password`` is the user's there; without one, ``ask`` is called for it where sudo wants one, twice at most.
    """

    def __init__(self, transport: Transport, password: str | None = None, ask: Callable[[], str] | None = None) -> None:
        self._transport, self._password, self._ask = transport, password, ask
        self._is_root: bool | None = None
        self._allowed: bool | None = None
        self._with_password = False

    def is_root(self) -> bool:
        """Whether the user is root already."""
        if self._is_root is None:
            self._is_root = self._transport.run(["id", "-u"]).out.strip() == b"0"
        return self._is_root

    def allowed(self) -> bool:
        """Whether the user may become root. Raises ``BadInput`` for a wrong password."""
        if self._allowed is None:
            self._allowed = (
                self.is_root() or self._transport.run(["sudo", "-n", "true"]).code == 0 or self._by_password()
            )
        return self._allowed

    @property
    def has_password(self) -> bool:
        """Whether a password was given, or asked for and found right."""
        return self._password is not None

    def run(self, command: Sequence[str], *, data: bytes = b"", timeout_s: float = 120) -> Completed:
        """Run a command as root; where that is not allowed, its answer is sudo's own. Raises ``BadInput``."""
        if self.is_root():
            return self._transport.run(command, data=data, timeout_s=timeout_s)
        if self._password is not None and self.allowed() and self._with_password:
            return self._run_with(self._password, command, data, timeout_s)
        return self._transport.run(["sudo", "-n", *command], data=data, timeout_s=timeout_s)

    def _run_with(self, password: str, command: Sequence[str], data: bytes, timeout_s: float) -> Completed:
        mark = secrets.token_hex(16)
        # -k: sudo asks each time, so the line is always its own; in English, for the answers are read.
        sudo = ["env", "LC_ALL=C", "sudo", "-k", "-S", "-p", "", self._transport.python, "-c", _SKIP, mark]
        return self._transport.run([*sudo, *command], data=f"{password}\n{mark}\n".encode() + data, timeout_s=timeout_s)

    def _by_password(self) -> bool:
        for _ in range(TRIES if self._password is None else 1):
            password = self._password if self._password is not None else self._ask() if self._ask else None
            if password is None:
                return False
            if "\n" in password or "\r" in password or "\0" in password:
                raise BadInput("A password in one line was expected; there are several lines.")
            done = self._run_with(password, ["true"], b"", 60)
            if done.code == 0:
                self._password, self._with_password = password, True
                return True
            answer = done.err.decode("utf-8", "replace").lower()
            if not any(word in answer for word in _WRONG):
                return False  # not a user who may sudo, or there is no sudo
        raise BadInput(
            f"The password that sudo expects on {self._transport.name} was not the one given. Nothing was changed: "
            "give the right one by password_file in boards.toml."
        )
