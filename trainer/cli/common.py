"""What the commands share: options, output, and the passphrase of a key."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from edgeveil.edge_runtime.errors import BadInput

Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]


Passphrase = Annotated[
    Path | None, typer.Option(help="File that holds the key's passphrase; else EDGEVEIL_PASSPHRASE, else asked for.")
]


def _print_json(document: Any) -> None:
    sys.stdout.write(json.dumps(document, indent=1, sort_keys=True, allow_nan=False) + "\n")


def _say(text: str) -> None:
    print(text, file=sys.stderr)


def read_passphrase(file: Path | None, *, confirm: bool = False) -> str:
    """The passphrase of a key: from a file, the environment, or whoever sits there."""
    if file is not None:
        try:
            return file.read_text().rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            raise BadInput(f"The passphrase was expected in {file}, which cannot be read: {error}.") from None
    if "EDGEVEIL_PASSPHRASE" in os.environ:
        return os.environ["EDGEVEIL_PASSPHRASE"]
    if not sys.stdin.isatty():
        raise BadInput(
            "A passphrase was expected and there is no terminal to ask on. "
            "Name a file with --passphrase-file or set EDGEVEIL_PASSPHRASE (keygen also takes --no-passphrase)."
        )
    return typer.prompt("Passphrase", hide_input=True, confirmation_prompt=confirm, err=True)
