"""Options, output, passphrases and logins that several commands share."""

from __future__ import annotations

import argparse
import functools
import inspect
import json
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from edgeveil.edge_runtime.errors import BadInput, shown, written_text
from edgeveil.trainer.cli.tree import App, Verb
from edgeveil.trainer.progress import say

if TYPE_CHECKING:
    from edgeveil.devices.profiles import Profile
    from edgeveil.devices.site import SiteBoard
    from edgeveil.edge_runtime.bundle.reader import Bundle as ReadBundle
else:
    SiteBoard = Any  # commands are read when edgeveil starts, and most need no boards

Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]
Trust = Annotated[Path, typer.Option(help="Folder of the public keys that may sign.")]
TrustForBundle = Annotated[
    Path | None, typer.Option("--trust", help="Folder of the public keys that may sign; for a bundle.")
]
NoPassphrase = Annotated[
    bool,
    typer.Option(
        "--no-passphrase",
        help="Leave the key unencrypted; else EDGEVEIL_PASSPHRASE_FILE, EDGEVEIL_PASSPHRASE or a prompt.",
    ),
]
Budget = Annotated[Literal["quick", "full"], typer.Option(help="quick cuts the recipe's epochs to a trial.")]
Replace = Annotated[bool, typer.Option("--replace", help="Keep what is at --out under a dated name, and write anew.")]
Bundle = Annotated[Path, typer.Argument(help="The sealed .veil file.")]
RunOf = Annotated[Path | None, typer.Option("--run", help="Folder of the run; an export folder remembers its own.")]
_ADDRESS = "user@host, an alias of ~/.ssh/config, ssh:// or serial://"
On = Annotated[
    str,
    typer.Option("--on", metavar="BOARD", help=f"A name in boards.toml (or in the file EDGEVEIL_BOARDS), {_ADDRESS}."),
]
OptionalOn = Annotated[
    str | None,
    typer.Option(
        "--on", metavar="BOARD", help=f"A board: a name in boards.toml (or in the file EDGEVEIL_BOARDS), {_ADDRESS}."
    ),
]
OneBoard = Annotated[str, typer.Argument(metavar="BOARD", help=f"A name in boards.toml, {_ADDRESS}.")]
SITE = "EDGEVEIL_BOARDS"  # names the file of boards; of flash, bench and audit board, --boards is short for it
Boards = Annotated[
    Path | None,
    typer.Option("--boards", metavar="FILE", envvar=SITE, help="The site's boards; default: boards.toml here."),
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

    profile = profiles.load(name, commands=allow_commands)
    for command in profile.commands() if allow_commands else ():
        say(f"The profile {profile.name} runs on the board: {command}")
    return profile


def print_text(text: str, end: str = "\n") -> None:
    """Print what is for people: what others wrote in it cannot command the terminal. Nothing else here prints text."""
    print(shown(text), end=end)


def print_either(document: Any, text: str, *, as_json: bool) -> None:
    """Print a document as JSON, or ``text``, which says the same for people."""
    print_json(document) if as_json else print_text(text)


def print_done(text: str, document: Mapping[str, Any], *, as_json: bool) -> None:
    """Say what was done, in sentences on stderr; with ``as_json`` its facts are a document on stdout too."""
    if as_json:
        print_json({"schema": 1, **document})
    say(text)


def print_view(view: Any, *, as_json: bool) -> None:
    """Print ``view.document()`` as JSON, or ``view.text()``."""
    print_either(view.document(), view.text(), as_json=as_json)


def workers(usual: int | None = None) -> dict[str, Any]:
    """``jobs`` and ``engine`` from the variable EDGEVEIL_JOBS: 4, ray or ray:4, workers of about 1 GB each at a time.

    ``usual`` is how many where it is not set: one for each core. Raises ``BadInput``.
    """
    from edgeveil.trainer.attacks.ahead import cores

    text = os.environ.get("EDGEVEIL_JOBS", "")
    match = re.fullmatch(r"(ray)?:?([1-9][0-9]*)?", text)
    if match is None:
        raise BadInput(f"EDGEVEIL_JOBS: expected a number of 1 or more, ray or ray:N; got {text}.")
    jobs = match[2] or usual or cores()
    return {"jobs": None if jobs is None else int(jobs), "engine": match[1] or "processes"}


def seconds_of(option: str, text: str) -> float:
    """Seconds of a duration such as 30m, the value of ``option``. Raises ``BadInput``."""
    from edgeveil.edge_runtime.cli.bundles import duration

    try:
        return duration(text)
    except argparse.ArgumentTypeError as error:
        raise BadInput(f"{option}: {error}.") from None


def free_path(wanted: Path) -> Path:
    """``wanted``, or the first of NAME-2, NAME-3 and so on where nothing is: the default of ``--out``."""
    name, number = wanted, 2
    while os.path.lexists(name):
        name, number = wanted.with_name(f"{wanted.stem}-{number}{wanted.suffix}"), number + 1
    return name


def verified_bundle(path: Path, trust: Path | None) -> ReadBundle:
    """The bundle at ``path``, verified. Raises ``BadInput`` without a trust folder, ``BundleRefused``."""
    if trust is None:
        raise BadInput("A bundle must be verified before it is read: give the folder of keys that may sign, --trust.")
    from edgeveil.edge_runtime.bundle.reader import read_bundle
    from edgeveil.edge_runtime.bundle.trust_store import open_trust

    return read_bundle(path, open_trust(trust))


# Variables of the environment, and each with _FILE for a file: of a passphrase, and, where a command takes two keys, of
# the signing one.
PASSPHRASE, SIGNING = "EDGEVEIL_PASSPHRASE", "EDGEVEIL_SIGNING_PASSPHRASE"


def new_passphrase(*, none: bool) -> str | None:
    """The passphrase of a new key, typed twice at a terminal; None if ``none``. Raises ``BadInput``."""
    if none and f"{PASSPHRASE}_FILE" in os.environ:
        raise BadInput(f"{PASSPHRASE}_FILE and --no-passphrase exclude each other: give one of them.")
    return None if none else asked_passphrase(confirm=True)


def passphrase_of(key: str | Path, variable: str = PASSPHRASE) -> str | None:
    """The passphrase of a key file, or the PIN of a key's token; None if none is needed. Raises ``BadInput``."""
    from edgeveil.trainer.sealing.keys import is_encrypted

    return asked_passphrase(variable) if is_encrypted(key) else None


def asked_passphrase(variable: str = PASSPHRASE, *, confirm: bool = False) -> str:
    """A passphrase from the variable's file, the variable, or the terminal; of ``SIGNING``, then as of any other key.

    Raises ``BadInput``.
    """
    for name in dict.fromkeys((variable, PASSPHRASE)):
        if file := os.environ.get(f"{name}_FILE"):
            return written_text(Path(file), "The passphrase").rstrip("\r\n")
        if name in os.environ:
            return os.environ[name]
    if not sys.stdin.isatty():
        raise BadInput(
            f"A passphrase was expected and there is no terminal to ask on. Name its file in {PASSPHRASE}_FILE, set "
            f"{PASSPHRASE}, or make a key without one (key new and trust init: --no-passphrase)."
        )
    return typer.prompt("Passphrase", hide_input=True, confirmation_prompt=confirm, err=True)


def board_command(
    app: App, epilog: str, name: str | None = None, panel: str | None = None, on: Any = OneBoard, default: Any = ...
) -> Callable[[Command], Command]:
    """Add the decorated function to ``app``; its parameter ``at`` becomes the name or address of a board.

    ``on`` is that parameter, ``default`` its default. ``--boards`` is the group's, or short for ``SITE``.
    """
    kind, optional = inspect.Parameter.KEYWORD_ONLY, {} if default is ... else {"default": default}
    places = [inspect.Parameter("on", kind, annotation=on, **optional)]

    def add(function: Command) -> Command:
        @functools.wraps(function)
        def command(context: typer.Context, **options: Any) -> None:
            named, file = options.pop("on"), os.environ.get(SITE)
            if named is not None:
                from edgeveil.devices.site import find

                named = find(named, context.obj or (Path(file) if file else None), say)
            function(at=named, **options)

        own = [p.replace(kind=kind) for p in inspect.signature(function, eval_str=True).parameters.values()]
        own = [p for p in own if p.name != "at"]
        context = inspect.Parameter("context", kind, annotation=typer.Context)
        # Typer reads it; mypy knows of no such attribute of a function.
        command.__signature__ = inspect.Signature([context, *places, *own])  # type: ignore[attr-defined]
        app.command(name, cls=_BoardCommand, epilog=epilog, rich_help_panel=panel)(command)
        return function

    return add


# Options of earlier versions: the key of a board in boards.toml that each is now.
KEYS = {
    "--root": "root",
    "--identity": "identity",
    "--known-hosts": "known_hosts",
    "--password-file": "password_file",
    "--source-credentials": "source_credentials",
    "--accept-raw-on-network": "accept_raw_on_network",
    "--update-from": "update",
    "--frames": "frames",
}


class _BoardCommand(Verb):
    """A command that takes a board: as ``--on BOARD``, or, of ``edgeveil board``, as its word."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Refuse the spellings of earlier versions, and name the new one; ``board VERB --on BOARD`` is taken."""
        refuse_old_option(args)
        if any(one.name == "on" and one.param_type_name == "argument" for one in self.params):
            args = [word.removeprefix("--on=") for word in args if word != "--on"]
        else:
            refuse_old_spelling(ctx.command_path, args)
        return super().parse_args(ctx, args)


def refuse_old_option(arguments: Sequence[str]) -> None:
    """Raise ``BadInput`` for an option that is a key of ``boards.toml`` now."""
    for word in arguments:
        key = KEYS.get(word.partition("=")[0])
        if key is not None:
            raise BadInput(
                f"{word.partition('=')[0]} is now {key} in the board's table of boards.toml, whose name the command "
                "takes; ~/.ssh/config is followed, too. See docs/how-to/manage-a-fleet.md."
            )


def refuse_old_spelling(command: str, arguments: Sequence[str]) -> None:
    """Raise ``BadInput`` for ``--to TARGET``, and for a target that no option names."""
    for before, word in zip(["", *arguments], arguments, strict=False):
        if word == "--to" or word.startswith("--to="):
            raise BadInput(f"--to is now spelled --on: {command} ... --on BOARD.")
        if _TARGET.fullmatch(word) and not before.startswith("--"):
            raise BadInput(f"A board is named by --on here: {command} --on {word}.")
