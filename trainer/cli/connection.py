"""Commands for a board, and their options: which board, and how to log in."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from edgeveil.devices.flashing.connection import Connection
from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.paths import ROOT

Command = Callable[..., None]

On = Annotated[
    str, typer.Option("--on", metavar="TARGET", help="ssh://user@host[:port] or serial:///dev/ttyUSB0?baud=115200.")
]
OptionalOn = Annotated[
    str | None, typer.Option("--on", metavar="TARGET", help="A board: ssh://user@host[:port] or serial:///dev/ttyUSB0.")
]
Device = Annotated[str, typer.Option(help="With --on: what runs it there: cpu, edgetpu, myriad, cuda, tensorrt, ...")]

_TARGET = re.compile(r"(ssh|serial)://.*|(image|dir):.*", re.DOTALL)


def board_command(app: typer.Typer, epilog: str) -> Callable[[Command], Command]:
    """Add the decorated function to ``app``; its parameter ``connection`` becomes the options of a login."""

    def add(function: Command) -> Command:
        @functools.wraps(function)
        def command(**options: Any) -> None:
            login = {name: options.pop(name) for name in _LOGIN}
            function(connection=_connection(**login), **options)

        own = [p for p in inspect.signature(function, eval_str=True).parameters.values() if p.name != "connection"]
        command.__signature__ = inspect.Signature([*own, *_LOGIN.values()])  # type: ignore[attr-defined]
        app.command(cls=_BoardCommand, epilog=epilog)(command)
        return function

    return add


def _connection(
    root: Annotated[
        str, typer.Option(help="EdgeVeil's folder on the board; /opt/edgeveil-NAME: another service.")
    ] = ROOT,
    identity: Annotated[
        Path | None, typer.Option(help="Private key file for SSH; default: the agent and your own keys.")
    ] = None,
    known_hosts: Annotated[Path | None, typer.Option(help="File of host keys; default: your known_hosts.")] = None,
    password_file: Annotated[Path | None, typer.Option(help="File that holds the board user's password.")] = None,
) -> Connection:
    return Connection(root, identity, known_hosts, password_file, ask=True)


_LOGIN = inspect.signature(_connection, eval_str=True).parameters


class _BoardCommand(TyperCommand):
    """A command that takes its board as ``--on TARGET``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Refuse the spellings from before 0.2, and name the new one."""
        refuse_old_spelling(ctx.command_path, args)
        return super().parse_args(ctx, args)


def refuse_old_spelling(command: str, arguments: Sequence[str]) -> None:
    """Raise ``BadInput`` for ``--to TARGET``, and for a target that no option names."""
    for before, word in zip(["", *arguments], arguments, strict=False):
        if word == "--to" or word.startswith("--to="):
            raise BadInput(f"--to is now spelled --on, as in every command for a board: {command} ... --on TARGET.")
        if _TARGET.fullmatch(word) and not before.startswith("--"):
            raise BadInput(f"A board is named by --on, as in every command for a board: {command} --on {word}.")
