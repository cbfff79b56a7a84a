"""``edgeveil publish``: a table for one recipient, that names nobody and singles nobody out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from edgeveil.trainer.cli.common import Json, PassphraseFile, print_json
from edgeveil.trainer.progress import say

publish = typer.Typer(help="Publish a table for one recipient.", no_args_is_help=True)
Table = Annotated[Path, typer.Option(help="The table: .csv or .parquet.")]


@publish.command("plan", epilog="Example: edgeveil publish plan --table visits.csv --out plan.toml")
def plan(
    table: Table,
    out: Annotated[Path, typer.Option(help="The plan to write; must not exist.")],
) -> None:
    """Write a plan to fill in: every column, its type and number of values, and no action yet."""
    from edgeveil.edge_runtime.storage.atomic import write_atomic
    from edgeveil.trainer.publish.draft import draft
    from edgeveil.trainer.publish.table_files import read
    from edgeveil.trainer.results import locked, require_free

    with locked(out, "publish plan"):
        require_free(out, replace=False)
        write_atomic(out, draft(table, read(table)).encode())
    say(f"Wrote {out}. Write an action for each column, then: edgeveil publish table --table {table} --plan {out}")


@publish.command(
    "table",
    epilog="Example: edgeveil publish table --table visits.csv --plan plan.toml --key pseudonyms.key --vault vault "
    "--recipient university --out publication",
)
def table_alone(
    table: Table,
    plan: Annotated[Path, typer.Option(help="The plan; every column has an action.")],
    key: Annotated[Path, typer.Option(help="The master key of edgeveil pseudonym keygen.")],
    recipient: Annotated[str, typer.Option(help="Who gets it; two recipients have no pseudonym in common.")],
    out: Annotated[Path, typer.Option(help="Folder to write; must be empty or not exist.")],
    vault: Annotated[Path | None, typer.Option(help="The vault of subjects; made where there is none.")] = None,
    passphrase_file: PassphraseFile = None,
    as_json: Json = False,
) -> None:
    """Publish a table: pseudonyms, generalised columns, checked k, l and t. Exit code 3: less than
    was asked for, or attacks may learn more than the plan allows."""
    from edgeveil.trainer.cli.publishing.key_and_vault import opened_key, opened_vault
    from edgeveil.trainer.publish.plan import Plan
    from edgeveil.trainer.publish.publication import publish as publish_table
    from edgeveil.trainer.report.publication.card_markdown import text

    asked, master = Plan.read(plan), opened_key(key, passphrase_file)
    with opened_vault(vault, master) as held:
        document = publish_table(table, asked, master, out, recipient=recipient, vault=held)
    if as_json:
        print_json(document)
    else:
        print(text(document), end="")
        say(f"The publication is in {out}. Keep {key}{f' and {vault}' if vault else ''} to yourself.")
