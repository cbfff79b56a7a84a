"""Options, output, passphrases and logins that several commands share."""

from __future__ import annotations

import functools
import inspect
import json
import os
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from edgeveil.devices.flashing.connection import Connection
from edgeveil.edge_runtime.errors import BadInput, written_text
from edgeveil.edge_runtime.paths import ROOT
from edgeveil.trainer.progress import say

if TYPE_CHECKING:
    from edgeveil.devices.profiles import Profile
    from edgeveil.edge_runtime.bundle.reader import Bundle as ReadBundle

Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]
Trust = Annotated[Path, typer.Option(help="Folder of the public keys that may sign.")]
TrustForBundle = Annotated[
    Path | None, typer.Option("--trust", help="Folder of the public keys that may sign; for a bundle.")
]
PassphraseFile = Annotated[
    Path | None, typer.Option(help="File with the key's passphrase; default: EDGEVEIL_PASSPHRASE, then a prompt.")
]
NoPassphrase = Annotated[bool, typer.Option("--no-passphrase", help="Leave the key unencrypted.")]
Bundle = Annotated[Path, typer.Argument(help="The sealed .veil file.")]
RunOf = Annotated[Path | None, typer.Option("--run", help="Folder of the run; an export folder remembers its own.")]
On = Annotated[
    str, typer.Option("--on", metavar="TARGET", help="ssh://user@host[:port] or serial:///dev/ttyUSB0?baud=115200.")
]
OptionalOn = Annotated[
    str | None, typer.Option("--on", metavar="TARGET", help="A board: ssh://user@host[:port] or serial:///dev/ttyUSB0.")
]
AllowCommands = Annotated[
    bool, typer.Option("--allow-commands", help="Have the board run the commands that the TOML file of --for names.")
]
Device = Annotated[str, typer.Option(help="With --on: what runs it there: cpu, edgetpu, myriad, cuda, tensorrt, ...")]

Command = Callable[..., None]
_TARGET = re.compile(r"(ssh|serial)://.*|(image|dir):.*", re.DOTALL)


def print_json(document: Any) -> None:
    """Print a document to stdout, its keys sorted."""
    sys.stdout.write(json.dumps(document, indent=1, sort_keys=True, allow_nan=False) + "\n")


def board_profile(name: str, allow_commands: bool) -> Profile:
    """The profile that a board is reached with; what it runs there is named where that was allowed."""
    from edgeveil.devices import profiles

    found = profiles.load(name, commands=allow_commands)
    for command in found.commands() if allow_commands else ():
        say(f"The profile {found.name} runs on the board: {command}")
    return found


def print_either(document: Any, text: str, *, as_json: bool) -> None:
    """Print a document as JSON, or ``text``, which says the same for people."""
    if as_json:
        print_json(document)
    else:
        print(text, flush=True)


def print_view(view: Any, *, as_json: bool) -> None:
    """Print ``view.document()`` as JSON, or ``view.text()``."""
    print_either(view.document(), view.text(), as_json=as_json)


def verified_bundle(path: Path, trust: Path | None) -> ReadBundle:
    """The bundle at ``path``, verified. Raises ``BadInput`` without a trust folder, ``BundleRefused``."""
    if trust is None:
        raise BadInput("A bundle must be verified before it is read: give the folder of keys that may sign, --trust.")
    from edgeveil.edge_runtime.bundle.reader import read_bundle
    from edgeveil.edge_runtime.bundle.trust_store import open_trust

    return read_bundle(path, open_trust(trust))


def new_passphrase(file: Path | None, *, none: bool) -> str | None:
    """The passphrase of a new key, typed twice at a terminal; None if ``none``. Raises ``BadInput``."""
    if none and file is not None:
        raise BadInput("--passphrase-file and --no-passphrase exclude each other: give one of them.")
    return None if none else asked_passphrase(file, confirm=True)


def passphrase_of(key: str | Path, file: Path | None) -> str | None:
    """The passphrase of a key file, or the PIN of a key's token; None if none is needed. Raises ``BadInput``."""
    from edgeveil.trainer.sealing.keys import is_encrypted

    return asked_passphrase(file) if is_encrypted(key) else None


def asked_passphrase(file: Path | None, *, confirm: bool = False) -> str:
    """A passphrase from the file, the environment, or the terminal. Raises ``BadInput``."""
    if file is not None:
        return written_text(file, "The passphrase").rstrip("\r\n")
    if "EDGEVEIL_PASSPHRASE" in os.environ:
        return os.environ["EDGEVEIL_PASSPHRASE"]
    if not sys.stdin.isatty():
        raise BadInput(
            "A passphrase was expected and there is no terminal to ask on. Name a file with --passphrase-file, set "
            "EDGEVEIL_PASSPHRASE, or make a key without one (keygen and trust init: --no-passphrase)."
        )
    return typer.prompt("Passphrase", hide_input=True, confirmation_prompt=confirm, err=True)


def board_command(app: typer.Typer, epilog: str) -> Callable[[Command], Command]:
    """Add the decorated function to ``app``; its parameter ``connection`` becomes the options of a login."""

    def add(function: Command) -> Command:
        @functools.wraps(function)
        def command(**options: Any) -> None:
            login = {name: options.pop(name) for name in _LOGIN}
            function(connection=_connection(**login), **options)

        own = [p for p in inspect.signature(function, eval_str=True).parameters.values() if p.name != "connection"]
        # Typer reads it; mypy knows of no such attribute of a function.
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
