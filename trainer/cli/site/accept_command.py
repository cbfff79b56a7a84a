"""``edgeveil accept``: is a sensor where it hangs as good as its audit? From taps of an operator, without footage."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from edgeveil.edge_runtime.errors import BadInput, LimitNotMet
from edgeveil.trainer.cli.common import Json, Trust, print_json, verified_bundle

app = typer.Typer()


@app.command(epilog="Example: edgeveil accept hall.veil --trust trust --tallies http://hall.local:8080 --out hall.json")
def accept(
    bundle: Annotated[Path, typer.Argument(help="The sealed .veil file that runs there.")],
    trust: Trust,
    tallies: Annotated[
        str, typer.Option(help="Where the preview runs with ?accept=30m, as http://HOST:PORT, or its acceptance.json.")
    ],
    token_file: Annotated[Path | None, typer.Option(help="File with the preview's token.")] = None,
    least_y: Annotated[
        float | None, typer.Option(min=0.0, max=1.0, help="Accuracy of y to show; left out: the audit's, less 0.05.")
    ] = None,
    least_counts: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Share of crossings counted right, to show.")
    ] = 0.9,
    most_shift: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Most that codes may differ from the audit's (total variation).")
    ] = 0.25,
    out: Annotated[Path | None, typer.Option(help="Write the document to this file, too.")] = None,
    as_json: Json = False,
) -> None:
    """Judge a sensor on site by an operator's taps: y, counts, and the shift of its codes from the audit.

    Ends with 3 where it is refused, or where the taps are too few to tell.
    """
    from edgeveil.edge_runtime.sinks.uri import secret
    from edgeveil.edge_runtime.storage.atomic import write_atomic
    from edgeveil.trainer.accept.judge import ACCEPTED, Demands, judge
    from edgeveil.trainer.accept.tallies_file import read_tallies
    from edgeveil.trainer.accept.verdict_text import lines

    if token_file is not None and not tallies.startswith(("http://", "https://")):
        raise BadInput("--token-file is for a preview at http://...; these tallies are a file: leave it out.")
    opened = verified_bundle(bundle, trust)
    token = None if token_file is None else secret(str(token_file), None, "the token of the preview")
    document: dict[str, Any] = judge(read_tallies(tallies, token), opened, Demands(least_y, least_counts, most_shift))
    if out is not None:
        import json

        write_atomic(str(out), (json.dumps(document, indent=1, sort_keys=True) + "\n").encode())
    if as_json:
        print_json(document)
    else:
        print("\n".join(lines(document)))
    if document["verdict"] != ACCEPTED:
        raise LimitNotMet(f"{document['bundle']['name']} is not accepted here: {document['verdict']}.")
