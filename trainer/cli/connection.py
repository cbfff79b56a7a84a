"""The options by which commands reach a board, said once: ``connected`` adds them to a command."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from edgeveil.devices.flashing.connection import Connection

Target = Annotated[str, typer.Argument(help="ssh://user@host[:port] or serial:///dev/ttyUSB0?baud=115200.")]
PasswordFile = Annotated[Path | None, typer.Option(help="File that holds the board user's password.")]
_USUAL = Connection()
_OPTIONS = {
    "root": (Annotated[str, typer.Option(help="Where EdgeVeil lies on the board.")], _USUAL.root),
    "identity": (
        Annotated[Path | None, typer.Option(help="Private key file for SSH; else the agent and your own keys.")],
        None,
    ),
    "known_hosts": (
        Annotated[Path | None, typer.Option(help="File of host keys; else your own known_hosts.")],
        None,
    ),
    "password_file": (PasswordFile, None),
}


def connected(command: Callable[..., None]) -> Callable[..., None]:
    """``command(..., connection)`` with the options of a ``Connection`` in the place of that parameter."""

    @functools.wraps(command)
    def run(**given: Any) -> None:
        facts = {name: given.pop(name) for name in _OPTIONS}
        command(**given, connection=Connection(**facts))

    own = [p for p in inspect.signature(command, eval_str=True).parameters.values() if p.name != "connection"]
    added = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
        for name, (annotation, default) in _OPTIONS.items()
    ]
    whole = inspect.Signature([*own, *added])
    # Typer reads both.
    run.__signature__ = whole  # type: ignore[attr-defined]
    run.__annotations__ = {name: parameter.annotation for name, parameter in whole.parameters.items()}
    return run
