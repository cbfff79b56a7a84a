"""``edgeveil runs``: what was trained, with its figures."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.cli.common import Json, print_either, print_json
from edgeveil.trainer.progress import say

runs = typer.Typer(help="The runs of a folder, with their figures.", no_args_is_help=True)


@runs.command("list", epilog="Example: edgeveil runs list runs")
def list_runs(
    folder: Annotated[Path, typer.Argument(help="Folder to look below.")] = Path("runs"), as_json: Json = False
) -> None:
    """List the runs below a folder: what each is, what it keeps and what the best attack found reads."""
    from edgeveil.trainer.runs import listing

    found = listing.find(folder)
    if as_json:
        print_json({"schema": 1, "runs": [one.document() for one in found]})
    elif found:
        print(listing.table([listing.HEAD, *map(listing.cells, found)]))
    else:
        say(f"There are no runs below {folder}. Make one: edgeveil train RECIPE --out {folder / 'NAME'}")


@runs.command("compare", epilog="Example: edgeveil runs compare runs/mine runs/other")
def compare(
    folders: Annotated[list[Path], typer.Argument(help="Folders of two runs or more.")], as_json: Json = False
) -> None:
    """Show what differs between runs: their figures, and the keys of their recipes."""
    from edgeveil.trainer.runs import listing

    if len(folders) < 2:
        raise BadInput("Two runs or more were expected, to compare: name another one (edgeveil runs list).")
    found = [listing.summary(folder, listing.audits_beside(folder)) for folder in folders]
    differ = listing.differences(folders)
    figures = zip(listing.HEAD, *map(listing.cells, found), strict=True)
    shown = ([key, *("-" if value is None else str(value) for value in values)] for key, values in differ.items())
    document = {"schema": 1, "runs": [one.document() for one in found], "differences": differ}
    print_either(document, listing.table([*map(list, figures), *shown]), as_json=as_json)


@runs.command("show", epilog="Example: edgeveil runs show runs/mine")
def show(folder: Annotated[Path, typer.Argument(help="Folder of a run.")], as_json: Json = False) -> None:
    """Show one run: its figures, its audits and its recipe."""
    from edgeveil.trainer.runs import listing

    found, settings = listing.summary(folder, listing.audits_beside(folder)), listing.settings(folder)
    rows = [[name, cell] for name, cell in zip(listing.HEAD, listing.cells(found), strict=True)]
    rows += [[f"audit of {one.artefact}", f"{one.accuracy:.1%} (chance {one.chance:.1%})"] for one in found.audits]
    text = listing.table([*rows, *([key, str(value)] for key, value in settings.items())])
    print_either({"schema": 1, **found.document(), "recipe_keys": settings}, text, as_json=as_json)
