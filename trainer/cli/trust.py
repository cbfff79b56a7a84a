"""``edgeveil trust``: who may sign for a fleet's boards."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from edgeveil.trainer.cli.common import Json, NoPassphrase, PassphraseFile, new_passphrase, passphrase_of, print_view
from edgeveil.trainer.sealing.keys import KEY_FILE
from edgeveil.trainer.sealing.trust_file import TrustFolder

trust = typer.Typer(
    help="Who may sign for your boards: a root key that stays offline, and the versioned list that it signs.",
    no_args_is_help=True,
)
Folder = Annotated[Path, typer.Argument(help="Folder of the root key and trust.json; keep it offline.")]


@trust.command(epilog="Example: edgeveil trust init root --key keys/signing.pub --audience ward-7")
def init(
    folder: Folder,
    key: Annotated[list[Path], typer.Option("--key", help="signing.pub of a key that may sign; may be repeated.")],
    audience: Annotated[str, typer.Option(help="Name of the board or fleet, for bundles made out to it alone.")] = "",
    passphrase_file: PassphraseFile = None,
    no_passphrase: NoPassphrase = False,
) -> None:
    """Make a root key and the first trust file. The first flash of a board puts both of them there."""
    passphrase = new_passphrase(passphrase_file, none=no_passphrase)
    print(TrustFolder.init(folder, key, audience=audience, passphrase=passphrase).text())


@trust.command(epilog="Example: edgeveil trust add root keys2/signing.pub")
def add(
    folder: Folder,
    key: Annotated[Path, typer.Argument(help="signing.pub of the key.")],
    passphrase_file: PassphraseFile = None,
) -> None:
    """Let one more key sign bundles."""
    print(TrustFolder.open(folder).add(key, passphrase=passphrase_of(folder / KEY_FILE, passphrase_file)).text())


@trust.command(epilog="Example: edgeveil trust revoke root key-1f2e3d4c")
def revoke(
    folder: Folder,
    key: Annotated[str, typer.Argument(help="Name of the key, or at least its first 8 digits.")],
    passphrase_file: PassphraseFile = None,
) -> None:
    """Revoke a key for ever. Boards refuse what it signed as soon as they have the new trust file."""
    print(TrustFolder.open(folder).revoke(key, passphrase=passphrase_of(folder / KEY_FILE, passphrase_file)).text())


@trust.command(epilog="Example: edgeveil trust require root 5")
def require(
    folder: Folder,
    security_version: Annotated[int, typer.Argument(help="The least security version that boards accept.")],
    passphrase_file: PassphraseFile = None,
) -> None:
    """Raise the least security version that boards accept."""
    print(
        TrustFolder.open(folder)
        .require(security_version, passphrase=passphrase_of(folder / KEY_FILE, passphrase_file))
        .text()
    )


@trust.command(epilog="Example: edgeveil trust policy root policy.json")
def policy(
    folder: Folder,
    file: Annotated[
        Path, typer.Argument(help="policy.json: what bundles must hide (docs/how-to/trust-and-policy.md).")
    ],
    passphrase_file: PassphraseFile = None,
) -> None:
    """Sign a policy for boards in use (edgeveil-edge policy installs it). New boards get it with their first flash."""
    version = TrustFolder.open(folder).sign_policy(file, passphrase=passphrase_of(folder / KEY_FILE, passphrase_file))
    print(f"Version {version} of the policy is {folder / 'policy-signed.json'}.")


@trust.command(epilog="Example: edgeveil trust show root")
def show(folder: Folder, as_json: Json = False) -> None:
    """Print which keys may sign, which are revoked, and the fingerprints to compare with those of a board."""
    print_view(TrustFolder.open(folder), as_json=as_json)
