"""``edgeveil key``: the keys that sign."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.cli.common import Json, NoPassphrase, new_passphrase, passphrase_of, print_done, print_either
from edgeveil.trainer.cli.tree import keys


@keys.command("new", epilog="Example: edgeveil key new keys")
def new(
    folder: Annotated[Path, typer.Argument(help="Folder to write signing.key and signing.pub to.")] = Path("keys"),
    token: Annotated[
        str | None,
        typer.Argument(help="The pkcs11: address of a key: its signing.pub alone is written (edgeveil[pkcs11])."),
    ] = None,
    development: Annotated[
        bool, typer.Option("--development", help="A throw-away key; every runtime warns about it.")
    ] = False,
    no_passphrase: NoPassphrase = False,
    as_json: Json = False,
) -> None:
    """Make a signing key. Keep signing.key off the boards; put signing.pub into their trust folder."""
    from edgeveil.trainer.sealing.keys import keygen as make_keys
    from edgeveil.trainer.sealing.keys import write_public

    if token is not None:
        if development or no_passphrase:
            raise BadInput("A token has its key already: leave out --development and --no-passphrase.")
        public = write_public(folder, token, passphrase=passphrase_of(token))
        print_done(f"Wrote {public}.", {"public": str(public)}, as_json=as_json)
        return
    passphrase = None if development else new_passphrase(none=no_passphrase)
    public = make_keys(folder, passphrase=passphrase, development=development)
    private = folder / "signing.key"
    text = f"Wrote {private} (mode 600: keep it secret) and {public}.\nNext: edgeveil seal EXPORT --key {private}"
    print_done(text, {"private": str(private), "public": str(public)}, as_json=as_json)


@keys.command("show", epilog="Example: edgeveil key show keys")
def show(
    place: Annotated[Path, typer.Argument(help="A signing.pub, or the folder that holds it.")] = Path("keys"),
    as_json: Json = False,
) -> None:
    """Show a public key, to compare it with that of a board, a bundle or another person."""
    from edgeveil.edge_runtime.signing.keys import read_public_key

    key = read_public_key(place / "signing.pub" if place.is_dir() else place)
    text = f"{key.name}: {key.key}{'  (development key)' if key.development else ''}"
    print_either({"schema": 1, **key._asdict()}, text, as_json=as_json)
