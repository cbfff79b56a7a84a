"""``edgeveil recipe`` and ``edgeveil data``: what to train, and what there is to train on."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.cli.common import (
    Json,
    free_path,
    passphrase_of,
    print_done,
    print_either,
    print_json,
    print_text,
    print_view,
)
from edgeveil.trainer.cli.tree import data, recipes
from edgeveil.trainer.progress import say

Source = Annotated[
    str,
    typer.Argument(
        help="A file (.npz, .csv, .parquet, .h5, .tar, .mcap, ...), a film, a folder of pictures or recordings; "
        "walk.mcap#/camera names the topic or field of x, where there are several."
    ),
]
Target = Annotated[
    str | None, typer.Option(help="Column of y, which is kept (or a,b). Left out: an image's folder; of an .npz y.")
]
Sensitive = Annotated[str | None, typer.Option(help="Column of z, which is hidden (or a,b); of an .npz z.")]
Subject = Annotated[str | None, typer.Option(help="Column that says whose sample it is.")]
Session = Annotated[str | None, typer.Option(help="Column that says which recording it is from.")]
Labels = Annotated[
    Path | None, typer.Option(help="images, video, csv:FOLDER, mcap: CSV with a column file and those named.")
]
LeaveOut = Annotated[
    list[str] | None, typer.Option(help="csv, parquet: a column that is no part of x. May be repeated.")
]
Missing = Annotated[
    list[str] | None, typer.Option(help='csv, parquet: a word for an empty cell, such as "NA". May be repeated.')
]
Series = Annotated[
    list[str] | None,
    typer.Option(
        metavar="KEY=VALUE",
        help="Of a series, repeated: rate=50, steps a second (an .npz has x (N, steps, channels), csv:FOLDER is cut); "
        "channels=ax:g,ay:g,az:g, names and units; hop=25, steps from window to window (of an .npz left out, no live "
        "sensor is taken); of csv:FOLDER window=100, steps of a window, and time=seconds, its column.",
    ),
]


@recipes.command("new", epilog="Example: edgeveil recipe new mine.npz --out mine.toml")
def new(
    source: Source,
    out: Annotated[
        Path | None, typer.Option(help="TOML file to write [default: that of the data, then NAME-2.toml].")
    ] = None,
    kind: Annotated[
        str | None,
        typer.Option(
            help="Perturber: codebook or label-only, whichever the data allow; local, for a collector of many devices; "
            "to compare with, prgan, ngp, ap, minimax, laplace; for vectors also cleaner, noise."
        ),
    ] = None,
    target: Target = None,
    sensitive: Sensitive = None,
    subject: Subject = None,
    session: Session = None,
    labels: Labels = None,
    leave_out: LeaveOut = None,
    missing: Missing = None,
    camera: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUE",
            help="Of a camera, repeated: frame=640x480x3, what it gives, width, height and channels; size=32x32, what "
            "the network gets, or 32x32x1 for gray; crop=480x480, the part that is used (the middle), 480x480+80+0, or "
            "people: a patch around each person under a depth camera that looks straight down; fit=letterbox, "
            "pictures of any size are brought to the frame, with black around; or crop, their middle, or stretch.",
        ),
    ] = None,
    series: Series = None,
    trial: Annotated[bool, typer.Option(help="Try small classifiers for up to a minute and take the best.")] = True,
    as_json: Json = False,
) -> None:
    """Look at your data and write a commented recipe that trains on it."""
    from edgeveil.trainer.recipe.data_section import field_at
    from edgeveil.trainer.scaffold.given import Given, Steps, camera_of
    from edgeveil.trainer.scaffold.look import unnamed_subjects
    from edgeveil.trainer.scaffold.new import write_recipe

    words = (target, sensitive, subject, session, labels, tuple(leave_out or ()), *camera_of(camera or ()))
    at, x = field_at(source)
    given = Given(at, *words, Steps.parse(series or ()), tuple(missing or ()), x)
    out = out or free_path(Path(f"{given.path.stem}.toml"))
    notes = [*write_recipe(given, out, kind=kind, trial=trial), *unnamed_subjects(given)]
    notes.append(f"Wrote {out}. Read it, then: {shlex.join(['edgeveil', 'train', str(out)])}")
    print_done("\n".join(notes), {"recipe": str(out)}, as_json=as_json)


@recipes.command("list", epilog="Example: edgeveil recipe list")
def list_recipes(
    everything: Annotated[bool, typer.Option("--all", help="Those to compare with too: PR-GAN and its like.")] = False,
    as_json: Json = False,
) -> None:
    """Name the recipes that come with EdgeVeil."""
    from edgeveil.trainer.recipe.schema import Recipe

    shipped = [(name, Recipe.find(name)) for name in Recipe.names()]
    shown = [(name, one) for name, one in shipped if everything or one.perturber.holds]
    if as_json:
        rows = [{"name": name, "kind": one.perturber.kind, "description": one.description} for name, one in shown]
        print_json({"schema": 1, "recipes": rows})
        return
    for name, one in shown:
        print_text(f"{name:24} {one.description}")
    if len(shown) < len(shipped):
        say(f"{len(shipped) - len(shown)} more, to compare with: edgeveil recipe list --all")


@recipes.command("show", epilog="Example: edgeveil recipe show mnist > mine.toml")
def show(recipe: Annotated[str, typer.Argument(help="A recipe's name or a TOML file.")], as_json: Json = False) -> None:
    """Print a recipe, ready to be changed and trained."""
    from edgeveil.trainer.recipe.schema import Recipe

    if as_json:
        print_json({"schema": 1, **Recipe.find(recipe).model_dump(mode="json", exclude_none=True)})
    else:
        sys.stdout.write(Recipe.text(recipe))


@data.command("open", epilog="Example: edgeveil data open hall.age --key keys/signing.key --out hall.npz")
def open_(
    recording: Annotated[Path, typer.Argument(help="What edgeveil-edge record sealed.")],
    key: Annotated[Path, typer.Option(help="Private key whose public half it was sealed to.")],
    out: Annotated[
        Path | None, typer.Option(help="The .npz or .mcap to write [default: that name, with .npz].")
    ] = None,
    as_json: Json = False,
) -> None:
    """Open a board's sealed recording into a data set of raw samples and labels."""
    from edgeveil.trainer.datasets.recording import open_recording
    from edgeveil.trainer.sealing.keys import Signer

    signer = Signer.open(key, passphrase=passphrase_of(key))
    out = free_path(recording.with_suffix(".npz")) if out is None else out
    notes = list(open_recording(recording, signer.opening_secret(), out))
    print_either({"schema": 1, "data": str(out), "notes": notes}, "\n".join(notes), as_json=as_json)


@data.command("inspect", epilog="Example: edgeveil data inspect pictures")
def look(
    source: Source,
    target: Target = None,
    sensitive: Sensitive = None,
    subject: Subject = None,
    session: Session = None,
    labels: Labels = None,
    leave_out: LeaveOut = None,
    missing: Missing = None,
    series: Series = None,
    as_json: Json = False,
) -> None:
    """Say what your data hold, what could be y and z, and what is wrong with them."""
    from edgeveil.trainer.recipe.data_section import field_at
    from edgeveil.trainer.scaffold.given import Given, Steps
    from edgeveil.trainer.scaffold.look import look as look_at
    from edgeveil.trainer.scaffold.look import next_command

    steps = Steps.parse(series or ())
    words = (target, sensitive, subject, session, labels, tuple(leave_out or ()))
    at, x = field_at(source)
    given = Given(at, *words, steps=steps, missing=tuple(missing or ()), x=x)
    view = look_at(given)
    print_view(view, as_json=as_json)
    if view.wrong:
        raise BadInput(f"{view.wrong[0]} Then look again.")
    say(f"Next: {next_command(given, view)}")
