"""``edgeveil trust``: who may sign for a fleet's boards."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

trust = typer.Typer(
    help="Who may sign for your boards: a root key that stays offline, and the versioned list that it signs.",
    no_args_is_help=True,
)
Folder = Annotated[Path, typer.Argument(help="Folder of the root key and trust.json; keep it offline.")]
Passphrase = Annotated[
    Path | None, typer.Option(help="File that holds the root key's passphrase; else EDGEVEIL_PASSPHRASE, else asked.")
]


def _passphrase(file: Path | None, *, confirm: bool = False) -> str:
    from edgeveil.trainer.cli.common import read_passphrase

    return read_passphrase(file, confirm=confirm)


@trust.command(epilog="Example: edgeveil trust init root --key keys/signing.pub --audience ward-7")
def init(
    folder: Folder,
    key: Annotated[list[Path], typer.Option("--key", help="signing.pub of a key that may sign; may be repeated.")],
    audience: Annotated[str, typer.Option(help="Name of the board or fleet, for bundles made out to it alone.")] = "",
    passphrase_file: Passphrase = None,
) -> None:
    """Make a root key and the first trust file. The first flash of a board puts both of them there."""
    from edgeveil.trainer.sealing.trust_file import TrustFolder

    made = TrustFolder.init(folder, key, audience=audience, passphrase=_passphrase(passphrase_file, confirm=True))
    print(made.text())


@trust.command(epilog="Example: edgeveil trust add root keys2/signing.pub")
def add(
    folder: Folder,
    key: Annotated[Path, typer.Argument(help="signing.pub of the key.")],
    passphrase_file: Passphrase = None,
) -> None:
    """One more key may sign bundles."""
    from edgeveil.trainer.sealing.trust_file import TrustFolder

    print(TrustFolder.open(folder).add(key, passphrase=_passphrase(passphrase_file)).text())


@trust.command(epilog="Example: edgeveil trust revoke root key-1f2e3d4c")
def revoke(
    folder: Folder,
    key: Annotated[str, typer.Argument(help="Its name or at least its first 8 digits.")],
    passphrase_file: Passphrase = None,
) -> None:
    """A key may sign no more, for ever; boards refuse what it signed as soon as they have the new trust file."""
    from edgeveil.trainer.sealing.trust_file import TrustFolder

    print(TrustFolder.open(folder).revoke(key, passphrase=_passphrase(passphrase_file)).text())


@trust.command(epilog="Example: edgeveil trust require root 5")
def require(
    folder: Folder,
    security_version: Annotated[int, typer.Argument(help="The least security version that boards take.")],
    passphrase_file: Passphrase = None,
) -> None:
    """Boards take nothing below this security version any more."""
    from edgeveil.trainer.sealing.trust_file import TrustFolder

    print(TrustFolder.open(folder).require(security_version, passphrase=_passphrase(passphrase_file)).text())


@trust.command(epilog="Example: edgeveil trust policy root policy.json")
def policy(
    folder: Folder,
    file: Annotated[
        Path, typer.Argument(help="policy.json: what bundles must hide (docs/how-to/trust-and-policy.md).")
    ],
    passphrase_file: Passphrase = None,
) -> None:
    """Sign a policy for boards in use (edgeveil-edge policy takes it); new ones get it with their first flash."""
    from edgeveil.trainer.sealing.trust_file import TrustFolder

    version = TrustFolder.open(folder).sign_policy(file, passphrase=_passphrase(passphrase_file))
    print(f"Version {version} of the policy is {folder / 'policy-signed.json'}.")


@trust.command(epilog="Example: edgeveil trust show root")
def show(
    folder: Folder, as_json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False
) -> None:
    """Print who may sign, who may no more, and the fingerprints to compare with a board's."""
    from edgeveil.trainer.sealing.trust_file import TrustFolder

    opened = TrustFolder.open(folder)
    if as_json:
        sys.stdout.write(json.dumps(opened.document(), indent=1, sort_keys=True) + "\n")
    else:
        print(opened.text())
