"""``edgeveil publish``: a table for one recipient, that names no one and singles no one out."""

from __future__ import annotations

import enum
import os
from pathlib import Path
from typing import Annotated

import typer

from edgeveil.edge_runtime.util.validate import counted
from edgeveil.trainer.cli.common import (
    SIGNING,
    Json,
    Trust,
    passphrase_of,
    print_done,
    print_either,
    print_json,
    print_text,
    workers,
)
from edgeveil.trainer.cli.tree import publish
from edgeveil.trainer.progress import say

RECORDINGS = "The recordings: a folder of pictures, npz:FILE or FILE.parquet with x."
Table = Annotated[Path, typer.Option(help="The table: .csv or .parquet.")]


@publish.command(
    "plan", epilog="Example: edgeveil publish plan --in npz:recordings.npz --table visits.csv --out plan.toml"
)
def plan(
    table: Table,
    out: Annotated[Path, typer.Option(help="The plan to write; must not exist.")],
    recordings: Annotated[str | None, typer.Option("--in", help=f"{RECORDINGS} Left out: a table alone.")] = None,
    as_json: Json = False,
) -> None:
    """Write a plan to fill in: every column, its type and number of values, no action yet, and which column names the
    frames of recordings."""
    from edgeveil.edge_runtime.util.atomic import write_atomic
    from edgeveil.trainer.ext.publish.publication import draft, frame_columns, names_of
    from edgeveil.trainer.ext.publish.recordings import uri_of
    from edgeveil.trainer.ext.publish.table_files import read
    from edgeveil.trainer.results import locked, require_free

    with locked(out, "publish plan"):
        require_free(out, replace=False)
        cells = read(table)
        frames = [] if recordings is None else frame_columns(table, cells, names_of(uri_of(recordings)))
        write_atomic(out, draft(table, cells, frame_columns=frames).encode())
    then = "table" if recordings is None else f"archive BUNDLE --trust DIR --sign SIGNING_KEY --in {recordings}"
    text = (
        f"Wrote {out}. Write an action for each column, then: edgeveil publish {then} --table {table} --plan {out} "
        "--key KEY --vault VAULT --recipient NAME --out DIR"
    )
    print_done(text, {"plan": str(out)}, as_json=as_json)


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
    as_json: Json = False,
) -> None:
    """Publish a table: pseudonyms, generalised columns, checked k, l and t. Exit code 3: less than
    was asked for, or attacks may learn more than the plan allows."""
    from edgeveil.trainer.cli.pseudonym_command import opened_key, opened_vault
    from edgeveil.trainer.ext.publish.plan import Plan
    from edgeveil.trainer.ext.publish.publication import publish as publish_table
    from edgeveil.trainer.report.card_markdown import text

    publication_plan, master = Plan.read(plan), opened_key(key)
    with opened_vault(vault, master) as held:
        document = publish_table(table, publication_plan, master, out, recipient=recipient, vault=held)
    if as_json:
        print_json(document)
    else:
        print_text(text(document), end="")
        say(f"The publication is in {out}. Keep {key}{f' and {vault}' if vault else ''} to yourself.")


class Accepted(str, enum.Enum):
    """What a publication is made in spite of, where it is named."""

    again = "again"
    unaudited = "unaudited"


@publish.command(
    "archive",
    epilog="Example: edgeveil publish archive mnist.veil --trust trust --in npz:recordings.npz --table visits.csv "
    "--plan plan.toml --key pseudonyms.key --vault vault --sign keys/signing.key --recipient university --out study",
)
def archive(
    bundle: Annotated[Path, typer.Argument(help="The sealed .veil file that perturbs each frame.")],
    trust: Trust,
    recordings: Annotated[str, typer.Option("--in", help=RECORDINGS)],
    table: Table,
    plan: Annotated[Path, typer.Option(help="The plan; it has [frames], and every column an action.")],
    key: Annotated[Path, typer.Option(help="The master key of edgeveil pseudonym keygen.")],
    sign: Annotated[str, typer.Option(help="Signing key: a file or a pkcs11: URI.")],
    recipient: Annotated[str, typer.Option(help="Who gets it; two recipients have no pseudonym in common.")],
    out: Annotated[Path, typer.Option(help="Folder to write; empty, new, or of the same publication, interrupted.")],
    vault: Annotated[Path | None, typer.Option(help="The vault of subjects; made where there is none.")] = None,
    ledger: Annotated[
        Path | None, typer.Option(help="Ledger to charge, for a bundle that counts what it tells.")
    ] = None,
    accept: Annotated[
        list[Accepted] | None,
        typer.Option(
            help="again: recordings that were published before, by a bundle that draws; unaudited: a bundle without an "
            "audit, which the publication states. May be repeated."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Publish recordings and their table: every frame perturbed, attacked as the plan asks, signed as a whole. Exit
    code 3: a limit is not met, or attacks may learn more than the plan allows."""
    from edgeveil.trainer.cli.pseudonym_command import opened_key, opened_vault
    from edgeveil.trainer.ext.publish.plan import Plan
    from edgeveil.trainer.ext.publish.publishing import Wanted, publish_archive
    from edgeveil.trainer.sealing.keys import Signer

    publication_plan, master = Plan.read(plan), opened_key(key)
    # Two keys: the signing key has variables of its own, or those of the master key.
    signer = Signer.open(sign, passphrase=passphrase_of(sign, SIGNING))
    work = workers(usual=1)
    wanted = Wanted(
        bundle=bundle,
        trust=trust,
        recordings=recordings,
        table=table,
        plan=publication_plan,
        key=key,
        recipient=recipient,
        out=out,
        engine="ray" if work["engine"] == "ray" else "local",
        jobs=work["jobs"],
        ledger=ledger,
        chunk_rows=int(os.environ.get("EDGEVEIL_CHUNK_ROWS", 0)) or None,
        again=Accepted.again in (accept or ()),
        unaudited=Accepted.unaudited in (accept or ()),
    )
    try:
        with opened_vault(vault, master) as held:
            document = publish_archive(wanted, master, signer, held)
    except KeyboardInterrupt:
        say("Interrupted. The same command continues from here.")
        raise
    if as_json:
        print_json(document)
    else:
        parts, anonymity, attack = len(document["parts"]), document["anonymity"]["found"], document["attack"]
        print_text(
            f"{counted(document['rows'], 'row')} in {counted(parts, 'part')}; "
            f"{counted(document['dropped'], 'frame')} dropped; k = {anonymity['k']:.0f}; "
            f"{'not attacked' if attack is None else 'attack on it: ' + attack['verdict']}"
        )
        say(
            f"The publication is in {out}, and its card, publication.md. Its recipient checks it: edgeveil publish "
            f"verify {out} --trust DIR"
        )


@publish.command("verify", epilog="Example: edgeveil publish verify study --trust trust")
def verify(
    folder: Annotated[Path, typer.Argument(help="The folder that edgeveil publish archive wrote.")],
    trust: Trust,
    as_json: Json = False,
) -> None:
    """Check a publication without key or vault: who signed it, every part, its cards, and k. Exit code 0: all is as
    signed."""
    from edgeveil.trainer.ext.publish.verify_publication import verify_publication

    facts = verify_publication(folder, trust)
    text = (
        f"A publication for {facts['recipient']}, as it was signed: {facts['rows']:,} rows in {facts['parts']} parts; "
        f"k = {facts['k']}, counted over {facts['counted']}. Its card, as it was signed: {' and '.join(facts['cards'])}"
    )
    print_either(facts, text, as_json=as_json)
