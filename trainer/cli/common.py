"""Options, output and passphrases that several commands share."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from edgeveil.edge_runtime.errors import BadInput, reason

if TYPE_CHECKING:
    from edgeveil.edge_runtime.bundle.reader import Bundle

Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]
Trust = Annotated[Path, typer.Option(help="Folder of the public keys that may sign.")]
TrustForBundle = Annotated[
    Path | None, typer.Option("--trust", help="Folder of the public keys that may sign; for a bundle.")
]
PassphraseFile = Annotated[
    Path | None, typer.Option(help="File with the key's passphrase; default: EDGEVEIL_PASSPHRASE, then a prompt.")
]
NoPassphrase = Annotated[bool, typer.Option("--no-passphrase", help="Leave the key unencrypted.")]


def print_json(document: Any) -> None:
    """Print a document to stdout, its keys sorted."""
    sys.stdout.write(json.dumps(document, indent=1, sort_keys=True, allow_nan=False) + "\n")


def print_view(view: Any, *, as_json: bool) -> None:
    """Print ``view.document()`` as JSON, or ``view.text()``."""
    if as_json:
        print_json(view.document())
    else:
        print(view.text())


def verified_bundle(path: Path, trust: Path | None) -> Bundle:
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
        try:
            return file.read_text().rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            raise BadInput(f"The passphrase was expected in {file}, which cannot be read: {reason(error)}.") from None
    if "EDGEVEIL_PASSPHRASE" in os.environ:
        return os.environ["EDGEVEIL_PASSPHRASE"]
    if not sys.stdin.isatty():
        raise BadInput(
            "A passphrase was expected and there is no terminal to ask on. Name a file with --passphrase-file, set "
            "EDGEVEIL_PASSPHRASE, or make a key without one (keygen and trust init: --no-passphrase)."
        )
    return typer.prompt("Passphrase", hide_input=True, confirmation_prompt=confirm, err=True)
