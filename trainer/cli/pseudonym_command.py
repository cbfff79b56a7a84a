"""``edgeveil pseudonym``: the key, and from a pseudonym to the person and back."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.cli.common import Json, NoPassphrase, asked_passphrase, new_passphrase, print_done, print_either
from edgeveil.trainer.cli.tree import Verb, pseudonym
from edgeveil.trainer.progress import say

if TYPE_CHECKING:
    from edgeveil.trainer.ext.publish.master_key import MasterKey
    from edgeveil.trainer.ext.publish.vault import Holding, Vault


# The master key and the vault that a command names.


def opened_key(path: Path) -> MasterKey:
    """The master key, its passphrase asked for where it needs one. Raises ``BadInput``."""
    from edgeveil.trainer.ext.publish.master_key import is_sealed, open_key

    return open_key(path, passphrase=asked_passphrase() if is_sealed(path) else None)


@contextmanager
def opened_vault(path: Path | None, key: MasterKey, *, new: bool = True) -> Iterator[Vault | None]:
    """The vault while the block runs, or None for no path; without ``new`` it must exist. Raises ``BadInput``."""
    if path is None:
        yield None
        return
    from edgeveil.trainer.ext.publish.vault import Vault

    if not new and not path.is_file():
        raise BadInput(f"There is no vault at {path}: name the one that edgeveil publish table was given.")
    with Vault(path, key) as vault:
        yield vault


Key = Annotated[Path, typer.Option(help="The master key.")]
TheVault = Annotated[Path, typer.Option(help="The vault of subjects.")]
MaybeVault = Annotated[Path | None, typer.Option(help='The vault; left out for mode = "stateless".')]
Scoped = Annotated[
    str,
    typer.Option(metavar="RECIPIENT/FIELD/EPOCH", help="Whom they were made for, and the field and epoch of the plan."),
]
Identifier = Annotated[
    str,
    typer.Argument(
        metavar="FIELD=IDENTIFIER",
        help="The plan's field, or its column, and the person's identifier there, in any spelling; FIELD=- reads it "
        "from stdin.",
    ),
]


class Dashed(Verb):
    """A command whose arguments may begin with a dash, as one pseudonym in 64 does, and have an h in it: -h is the
    whole word alone."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """As click's."""
        return super().parse_args(ctx, ["--help" if one == "-h" else one for one in args])


@pseudonym.command("keygen", epilog="Example: edgeveil pseudonym keygen pseudonyms.key")
def keygen(
    key: Annotated[Path, typer.Argument(help="The file to write; must not exist.")],
    no_passphrase: NoPassphrase = False,
    as_json: Json = False,
) -> None:
    """Make a master key. Without it nothing can be revealed; with it and the vault, everything."""
    from edgeveil.trainer.ext.publish.master_key import keygen as make_key

    make_key(key, passphrase=new_passphrase(none=no_passphrase))
    text = f"Wrote {key} (mode 600: keep it secret, and keep a copy)."
    print_done(text, {"key": str(key)}, as_json=as_json)


@pseudonym.command(
    "reveal",
    cls=Dashed,
    context_settings={"ignore_unknown_options": True, "help_option_names": ["--help"]},
    epilog="Example: edgeveil pseudonym reveal PSEUDONYM --key pseudonyms.key --vault vault --scope "
    "university/visitor/1",
)
def reveal(
    pseudonyms: Annotated[list[str], typer.Argument(help="Pseudonyms of one recipient, field and epoch.")],
    key: Key,
    scope: Scoped,
    vault: MaybeVault = None,
    as_json: Json = False,
) -> None:
    """Show whom pseudonyms stand for."""
    from edgeveil.trainer.ext.publish.master_key import Cipher, Scope, unpadded

    master = opened_key(key)
    cipher = Cipher(master, Scope(*scope_of(scope)))
    with opened_vault(vault, master, new=False) as held:
        opened = [cipher.open(one) for one in pseudonyms]
        people = [unpadded(value) if held is None else held.identifier(scope_of(scope)[1], value) for value in opened]
    print_either(dict(zip(pseudonyms, people, strict=True)), "\n".join(people), as_json=as_json)


@pseudonym.command(
    "subject", epilog="Example: edgeveil pseudonym subject visitor=ann --key pseudonyms.key --vault vault"
)
def subject(identifier: Identifier, key: Key, vault: TheVault, as_json: Json = False) -> None:
    """Show which publications hold a person: the right to know."""
    from edgeveil.trainer.ext.publish.vault import holdings

    master = opened_key(key)
    with opened_vault(vault, master, new=False) as held:
        assert held is not None  # noqa: S101 - a path was given
        records = holdings(held, master, *_given(identifier))
    text = "\n".join(f"{one.recipient}  {one.publication[:16]}  {one.pseudonym}" for one in records)
    print_either([one.document() for one in records], text, as_json=as_json)


@pseudonym.command(
    "rotate",
    epilog="Example: edgeveil pseudonym rotate publication/table.csv --column visitor --key pseudonyms.key "
    "--vault vault --scope university/visitor/1 --to 2 --out rotated.csv",
)
def rotate(
    table: Annotated[Path, typer.Argument(help="The published table: .csv or .parquet.")],
    column: Annotated[str, typer.Option(help="Its column of pseudonyms.")],
    key: Key,
    scope: Scoped,
    to: Annotated[int, typer.Option(min=1, help="The new epoch.")],
    out: Annotated[Path, typer.Option(help="The table to write; must not exist.")],
    vault: MaybeVault = None,
    as_json: Json = False,
) -> None:
    """Write a table with the pseudonyms of another epoch."""
    from edgeveil.trainer.ext.publish.master_key import Scope
    from edgeveil.trainer.ext.publish.table_files import rotate as rotate_table

    master = opened_key(key)
    with opened_vault(vault, master, new=False) as held:
        rotate_table(table, column, out, master, Scope(*scope_of(scope)), to=to, vault=held)
    text = f"Wrote {out}. New publications want epoch {to} in their plan."
    print_done(text, {"table": str(out), "epoch": to}, as_json=as_json)


@pseudonym.command("erase", epilog="Example: edgeveil pseudonym erase visitor=ann --key pseudonyms.key --vault vault")
def erase(identifier: Identifier, key: Key, vault: TheVault, as_json: Json = False) -> None:
    """Forget a person for good, and print what to ask of each recipient."""
    from edgeveil.trainer.ext.publish.vault import erase as erase_subject

    def first(found: list[Holding]) -> None:
        requests = [{**one.document(), "request": one.request()} for one in found]
        print_either(requests, "\n".join(one.request() for one in found), as_json=as_json)
        sys.stdout.flush()

    master = opened_key(key)
    with opened_vault(vault, master, new=False) as held:
        assert held is not None  # noqa: S101 - a path was given
        erase_subject(held, master, *_given(identifier), first=first)
    say("Erased. Backups of the vault still hold the person: delete them, or erase there too.")


def scope_of(text: str) -> tuple[str, str, int]:
    """Recipient, field and epoch of RECIPIENT/FIELD/EPOCH. Raises ``BadInput``."""
    match = re.fullmatch(r"(.+)/([^/]+)/([1-9][0-9]*)", text)
    if match is None:
        raise BadInput(f"--scope: expected RECIPIENT/FIELD/EPOCH, as in university/visitor/1; got {text}.")
    return match[1], match[2], int(match[3])


def _given(text: str) -> tuple[str, str]:
    field, _, identifier = text.partition("=")
    if not field or not identifier:
        raise BadInput(f"Expected FIELD=IDENTIFIER, as in visitor=ann; got {text}.")
    if identifier != "-":
        return field, identifier
    if line := sys.stdin.readline().rstrip("\n"):
        return field, line
    raise BadInput("An identifier was expected on stdin; it was empty.")
