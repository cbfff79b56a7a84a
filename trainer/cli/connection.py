"""The options of commands for a board: which one, and how to log in."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from edgeveil.edge_runtime.errors import BadInput

On = Annotated[
    str, typer.Option("--on", metavar="TARGET", help="ssh://user@host[:port] or serial:///dev/ttyUSB0?baud=115200.")
]
OptionalOn = Annotated[
    str | None, typer.Option("--on", metavar="TARGET", help="A board: ssh://user@host[:port] or serial:///dev/ttyUSB0.")
]
Root = Annotated[str, typer.Option(help="EdgeVeil's folder on the board.")]
Identity = Annotated[Path | None, typer.Option(help="Private key file for SSH; else the agent and your own keys.")]
Hosts = Annotated[Path | None, typer.Option(help="File of host keys; else your own known_hosts.")]
PasswordFile = Annotated[Path | None, typer.Option(help="File that holds the board user's password.")]

_TARGET = re.compile(r"(ssh|serial)://.*|(image|dir):.*", re.DOTALL)


class BoardCommand(TyperCommand):
    """A command that takes its board as ``--on TARGET``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Refuse the spellings of before 0.2 in a sentence that has the new one."""
        refuse_old_spelling(ctx.command_path, args)
        return super().parse_args(ctx, args)


def refuse_old_spelling(command: str, arguments: Sequence[str]) -> None:
    """Raise ``BadInput`` for ``--to TARGET``, and for a target that no option names."""
    for before, word in zip(["", *arguments], arguments, strict=False):
        if word == "--to" or word.startswith("--to="):
            raise BadInput(f"--to is now spelled --on, as in every command for a board: {command} ... --on TARGET.")
        if _TARGET.fullmatch(word) and not before.startswith("--"):
            raise BadInput(f"A board is named by --on, as in every command for a board: {command} --on {word}.")
