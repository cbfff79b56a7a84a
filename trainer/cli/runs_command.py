"""``edgeveil run``: what was trained, with its figures."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Literal

import typer

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.cli.common import SITE, Budget, Json, print_done, print_either, print_json, print_text, workers
from edgeveil.trainer.cli.tree import MAKE, app, runs
from edgeveil.trainer.progress import say


@runs.command("list", epilog="Example: edgeveil run list runs")
def list_runs(
    folder: Annotated[Path, typer.Argument(help="Folder to look below.")] = Path("runs"), as_json: Json = False
) -> None:
    """List the runs below a folder: what each is, what it keeps and what the best attack found reads."""
    from edgeveil.trainer.runs import listing

    listed = listing.find(folder)
    if as_json:
        print_json({"schema": 1, "runs": [one.document() for one in listed]})
    elif listed:
        print_text(listing.table([listing.HEAD, *map(listing.cells, listed)]))
    else:
        say(f"There are no runs below {folder}. Make one: edgeveil train RECIPE --out {folder / 'NAME'}")


@runs.command("compare", epilog="Example: edgeveil run compare runs/mine runs/other")
def compare(
    folders: Annotated[list[Path], typer.Argument(help="Folders of two runs or more.")], as_json: Json = False
) -> None:
    """Show what differs between runs: their figures, and the keys of their recipes."""
    from edgeveil.trainer.runs import listing

    if len(folders) < 2:
        raise BadInput("Two runs or more were expected, to compare: name another one (edgeveil run list).")
    summaries = [listing.summary(folder, listing.audits_beside(folder)) for folder in folders]
    differ = listing.differences(folders)
    figures = zip(listing.HEAD, *map(listing.cells, summaries), strict=True)
    shown = ([key, *("-" if value is None else str(value) for value in values)] for key, values in differ.items())
    document = {"schema": 1, "runs": [one.document() for one in summaries], "differences": differ}
    print_either(document, listing.table([*map(list, figures), *shown]), as_json=as_json)


@runs.command("show", epilog="Example: edgeveil run show runs/mine")
def show(folder: Annotated[Path, typer.Argument(help="Folder of a run.")], as_json: Json = False) -> None:
    """Show one run: its figures, its audits and its recipe."""
    from edgeveil.trainer.runs import listing

    overview, settings = listing.summary(folder, listing.audits_beside(folder)), listing.settings(folder)
    rows = [[name, cell] for name, cell in zip(listing.HEAD, listing.cells(overview), strict=True)]
    rows += [[f"audit of {one.artefact}", f"{one.accuracy:.1%} (chance {one.chance:.1%})"] for one in overview.audits]
    text = listing.table([*rows, *([key, str(value)] for key, value in settings.items())])
    print_either({"schema": 1, **overview.document(), "recipe_keys": settings}, text, as_json=as_json)


@runs.command(
    epilog="Example: edgeveil run sweep mnist-codebook mnist-prgan --axis perturber.price=1,4,16 "
    "--axis perturber.distance=3,5 --out sweeps/mnist"
)
def sweep(
    recipe: Annotated[list[str], typer.Argument(help="Recipes, by name or TOML file.")],
    out: Annotated[
        Path | None,
        typer.Option(help="Folder of the sweep; points there are not computed again [default: sweeps/RECIPE]."),
    ] = None,
    axis: Annotated[
        list[str] | None,
        typer.Option(
            help="Key of the recipes and its values: perturber.price=1,4, or of a search also their range: 1..16. May "
            "be repeated."
        ),
    ] = None,
    trials: Annotated[
        int | None,
        typer.Option(help="Search by so many trainings of each recipe; left out: every combination is trained."),
    ] = None,
    budget: Budget = "full",
    attacks: Annotated[
        Literal["auto", "codes", "quick", "all"],
        typer.Option(help="Adversaries for each point; auto: counts of codes where these are few, else quick."),
    ] = "auto",
    as_json: Json = False,
) -> None:
    """Train and attack many settings of many recipes, and plot leakage against what x' keeps, next to label-only.

    With --trials Optuna proposes settings by rows that are not of the test; the test slice is read for the best alone.
    """
    from edgeveil.trainer.ext.sweep.axes import parse
    from edgeveil.trainer.ext.sweep.axes import sweep as run_sweep
    from edgeveil.trainer.recipe.schema import Recipe
    from edgeveil.trainer.report.frontier import as_text, draw

    recipes = [Recipe.find(name) for name in recipe]
    out = out or Path("sweeps", recipes[0].name)
    frontier = run_sweep(
        recipes,
        [parse(text) for text in axis or ()],
        out,
        budget=budget,
        attacks=attacks,
        trials=trials,
        **workers(usual=1),
    )
    pictures = draw(frontier, out)
    print_either(frontier, as_text(frontier), as_json=as_json)
    say(f"All figures are in {out / 'frontier.json'}. Open {' or '.join(map(str, pictures))}")


@runs.command(epilog="Example: edgeveil run report runs/demo/run --export runs/demo/export --out report.html")
def report(
    run: Annotated[Path, typer.Argument(help="Folder of a finished run.")],
    out: Annotated[Path | None, typer.Option(help="The HTML page to write [default: RUN.html].")] = None,
    export: Annotated[Path | None, typer.Option(help="Its audited export folder [default: RUN-export].")] = None,
    bench: Annotated[Path | None, typer.Option(help="bench.json of edgeveil-edge bench --json.")] = None,
    pictures: Annotated[
        bool, typer.Option("--pictures", help="Show raw samples next to perturbed ones: they are personal data.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Write one page that shows a run: numbers, curves and, if asked for, pictures."""
    export = export or run.with_name(f"{run.name}-export")
    if not export.is_dir():
        raise BadInput(f"The run's audited export folder was expected in {export}: give it with --export.")
    from edgeveil.trainer.report.frontier import write_report

    out = out or run.with_name(f"{run.name}.html")
    write_report(run=run, export=export, bundle=None, bench=bench, out=out, pictures=pictures)
    print_done(f"Wrote the report. Open {out}", {"wrote": [str(out)]}, as_json=as_json)


@app.command(rich_help_panel=MAKE, epilog="Example: edgeveil ui runs")
def ui(folder: Annotated[Path, typer.Argument(help="Folder to look below.")] = Path()) -> None:
    """Show what is below a folder as pages of this machine, until Ctrl-C: runs with their curves, audits, sweeps,
    bundles, and the boards of boards.toml (or of the file EDGEVEIL_BOARDS).

    The pages read what is on disk and change nothing. The address has a token: it is for this machine alone.
    """
    from edgeveil.trainer.ext.ui.pages import serve

    serve(folder, Path(os.environ.get(SITE) or "boards.toml"), lambda address: say(f"Open {address} (Ctrl-C ends it)."))
