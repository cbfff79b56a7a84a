"""``edgeveil train``, ``export``, ``seal`` and ``demo``: from a recipe to a signed bundle."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.exceptions import TyperException

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.cli.common import (
    Budget,
    Json,
    Replace,
    free_path,
    passphrase_of,
    print_done,
    print_either,
    print_json,
)
from edgeveil.trainer.cli.recipes import Sensitive, Target
from edgeveil.trainer.cli.tree import HERE, MAKE, SHIP, Verb, app
from edgeveil.trainer.progress import say


class _Train(Verb):
    """A command that names the key of a recipe which an unknown option stands for."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """As usual. Raises ``BadInput`` with the line to run where an option is a key of the recipe."""
        words = list(args)  # which click's parser empties
        try:
            return super().parse_args(ctx, args)
        except TyperException as error:
            option = getattr(error, "option_name", "")
            at = next((at for at, word in enumerate(words) if option and word.partition("=")[0] == option), 0)
            key = _key_of(words[0], option.lstrip("-")) if at else None
            if key is None:
                raise
            value = words[at].partition("=")[2] or next(iter(words[at + 1 :]), "VALUE")
            line = f"edgeveil train {words[0]} --set {key}={value}"
            raise BadInput(f"{option} is a key of the recipe, which --set changes: {line}") from None


def _key_of(recipe: str, word: str) -> str | None:
    """The key of a recipe, the outermost, that an option's word names; None where it names none, or there is none."""
    from edgeveil.trainer.ext.sweep.axes import keys
    from edgeveil.trainer.recipe.schema import Recipe

    try:
        known = keys(Recipe.find(recipe))
    except BadInput:
        return None
    name = word.replace("-", "_").replace(".", "_")
    fitting = [key for key in known if key.replace(".", "_") == name or key.rpartition(".")[2] == name]
    return min(fitting, key=lambda key: key.count("."), default=None)


@app.command(cls=_Train, rich_help_panel=MAKE, epilog="Example: edgeveil train mnist --set budget.epochs=3")
def train(
    recipe: Annotated[str, typer.Argument(help="A recipe's name (edgeveil recipe list) or a TOML file.")],
    out: Annotated[
        Path | None, typer.Option(help="Folder of the run [default: runs/RECIPE, then runs/RECIPE-2].")
    ] = None,
    change: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="A key of the recipe: budget.epochs=3; may be repeated."),
    ] = None,
    budget: Budget = "full",
    resume: Annotated[bool, typer.Option("--resume", help="Continue from the last checkpoint in --out.")] = False,
    replace: Replace = False,
    classifiers: Annotated[
        Path | None, typer.Option(help="Folder of a run whose classifiers to reuse: same data, slices and seed.")
    ] = None,
    distribute: Annotated[
        bool, typer.Option("--distribute", help="Train classifiers, PR-GAN and label-only on all GPUs of this machine.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Train the classifiers and the perturber that a recipe describes.

    EDGEVEIL_TRACK=mlflow:URI, mlflow:FOLDER or wandb:PROJECT in the environment: the run is followed there too, each
    epoch as it ends (extras mlflow, wandb).
    """
    from edgeveil.trainer.ext.sweep.axes import settings, with_settings
    from edgeveil.trainer.recipe.schema import Recipe
    from edgeveil.trainer.runs.tracking import NAME, tracker
    from edgeveil.trainer.train import train as train_recipe

    if resume and replace:
        raise BadInput("--resume continues the run in --out and --replace puts it aside: give one of them.")
    chosen_recipe = with_settings(Recipe.find(recipe), settings(change or ()))
    if out is None:
        out = Path("runs", Path(recipe).stem if recipe.endswith(".toml") else recipe)
        out = out if resume or replace else free_path(out)
        say(f"The run goes to {out}.")
    follower = tracker(os.environ.get(NAME))  # refused before training starts
    run = train_recipe(
        chosen_recipe,
        out,
        budget=budget,
        resume=resume,
        replace=replace,
        classifiers=classifiers,
        distribute=distribute,
        follower=follower,
    )
    if follower is not None:
        say(f"{follower.title} has it as {follower.id}.")
    if as_json:
        print_json(run.summary())
    else:
        say(f"The run is in {run.folder}. Next: edgeveil export {run.folder} --for raspberry-pi-cpu")


@app.command(rich_help_panel=SHIP, epilog="Example: edgeveil export runs/mnist --for coral-dev-board --for jetson-nano")
def export(
    run: Annotated[Path, typer.Argument(help="Folder of a finished run.")],
    out: Annotated[Path | None, typer.Option(help="Folder to write [default: RUN-export, then RUN-export-2].")] = None,
    profiles: Annotated[
        list[str] | None,
        typer.Option(
            "--for", help="Board profile, by name or TOML file; may be repeated. all: every format, for boards or not."
        ),
    ] = None,
    emit: Annotated[
        str,
        typer.Option(
            metavar="frame|both|code|code:N",
            help="What is sent: frame; both, with the label of [head]; or a cleaner's or codebook's code. code:N, of a "
            "codebook of donors: the receiver draws from N samples of each code, any of them; without N, from the "
            "typical ones that x' would show.",
        ),
    ] = "frame",
    keep_float: Annotated[
        list[str] | None,
        typer.Option(metavar="LAYER", help="A layer of export.json's int8 errors that stays float32; may be repeated."),
    ] = None,
    replace: Replace = False,
    as_json: Json = False,
) -> None:
    """Export a run as TFLite and ONNX for boards, checked for each and compared with Keras.

    A profile's converters make the files: tf.lite, tf2onnx, keras-litert, keras-onnx. EDGEVEIL_COMPILER_PYTHON names
    the Python that has a board's compiler: of rknn-toolkit2, for a Rockchip board.
    """
    from edgeveil.trainer.export.export import export as export_run
    from edgeveil.trainer.perturbers.codebook.synthesis import receiver_pool
    from edgeveil.trainer.runs.run import Run

    what, _, pool = emit.partition(":")
    if what not in ("frame", "both", "code") or not re.fullmatch(r"[1-9][0-9]*|", pool) or (pool and what != "code"):
        raise BadInput(f"--emit: expected frame, both, code or code:N; got {emit}.")
    samples = receiver_pool(Run.open(run), int(pool)) if pool else None
    if out is None:
        out = run.with_name(f"{run.name}-export") if run.name else Path("export")
        out = out if replace else free_path(out)
    folder = export_run(
        run,
        [name for name in profiles or () if name != "all"],
        out,
        all_formats="all" in (profiles or ()),
        emit=what,
        pool=samples,
        compiler_python=Path(compiler) if (compiler := os.environ.get("EDGEVEIL_COMPILER_PYTHON")) else None,
        replace=replace,
        keep_float=keep_float or (),
    )
    if as_json:
        print_json(folder.report)
    else:
        say(folder.text())
        first = next(iter(folder.manifest["preference"]), "numpy")
        say(f"The artefacts are in {out}. Next: edgeveil audit {out} --artefact {first}")


@app.command(
    rich_help_panel=SHIP, epilog="Example: edgeveil wrap blur:sigma=1 --data digits --for workstation --out blur-export"
)
def wrap(
    model: Annotated[
        str,
        typer.Argument(
            help="A .keras, .pt2, .onnx or .tflite file; or blur:sigma=6, mosaic:8, silhouette, for pictures."
        ),
    ],
    data: Annotated[
        str, typer.Option(metavar="SOURCE", help="Samples, as of recipe new, or a recipe, whose data are taken.")
    ],
    out: Annotated[Path, typer.Option(help="Export folder to write; the run goes next to it.")],
    profiles: Annotated[
        list[str] | None,
        typer.Option("--for", help="Board that must run it; may be repeated. Left out: every board that can."),
    ] = None,
    change: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="What a model expects, where it is not found: low=-1, high=1, gives=0:1 (range of its output), "
            "layout=first (of channels), colours=bgr, size=WIDTHxHEIGHT; or a key of the recipe: "
            "budget.classifier_epochs=3. May be repeated.",
        ),
    ] = None,
    target: Target = None,
    sensitive: Sensitive = None,
    classifiers: Annotated[
        Path | None, typer.Option(help="Folder of a run whose classifiers to reuse: same data, slices and seed.")
    ] = None,
    budget: Budget = "full",
    replace: Replace = False,
    as_json: Json = False,
) -> None:
    """Export a finished model, or a function such as a blur, as it is: checked, linted, ready to be audited."""
    from edgeveil.trainer.wrap import run_of, stated
    from edgeveil.trainer.wrap import wrap as wrap_model

    folder = wrap_model(
        model,
        data,
        out,
        profiles=profiles or (),
        settings=stated(change or ()),
        target=target,
        sensitive=sensitive,
        classifiers=classifiers,
        budget=budget,
        replace=replace,
    )
    if as_json:
        print_json(folder.report)
    else:
        say(folder.text())
        first = folder.manifest["preference"][0]
        say(f"The run is in {run_of(out)}, the artefacts are in {out}. Next: edgeveil audit {out} --artefact {first}")


@app.command(rich_help_panel=SHIP, epilog="Example: edgeveil seal runs/mnist-export --key keys/signing.key")
def seal(
    folder: Annotated[Path, typer.Argument(help="Export folder that was audited.")],
    key: Annotated[str, typer.Option(help="signing.key of edgeveil key new, or a pkcs11: address.")],
    out: Annotated[
        Path | None, typer.Option(help="The .veil file to write [default: NAME.veil, then NAME-2.veil].")
    ] = None,
    no_audit: Annotated[bool, typer.Option("--no-audit", help='Seal unaudited; the card says "not audited".')] = False,
    trust: Annotated[Path | None, typer.Option(help="Trust folder whose keys and policy must take it too.")] = None,
    replace: Replace = False,
    as_json: Json = False,
) -> None:
    """Sign artefacts, manifest and privacy card into one bundle."""
    from edgeveil.trainer.sealing.seal import seal as seal_folder

    if out is None:
        out = Path(f"{folder.resolve().name.removesuffix('-export')}.veil")
        out = out if replace else free_path(out)
    passphrase = passphrase_of(key)
    path = seal_folder(folder, key, out, passphrase=passphrase, allow_unaudited=no_audit, trust=trust, replace=replace)
    text = f"Sealed {path}. Next: edgeveil bundle verify {path} --trust DIR (a folder that holds signing.pub)"
    print_done(text, {"bundle": str(path)}, as_json=as_json)


@app.command(rich_help_panel=HERE, epilog="Example: edgeveil demo --quick")
def demo(
    out: Annotated[Path, typer.Option(help="Folder to write; the demo that is there goes.")] = Path("runs/demo"),
    quick: Annotated[
        bool, typer.Option("--quick", help="A small training budget: shows the way, not the numbers.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Train, attack, sign, run and time two perturbers of drawn digits, and write the report: two minutes."""
    from edgeveil.trainer.demo import demo as make

    text = make(out, quick=quick)
    document = {"schema": 1, "folder": str(out), "report": str(out / "report.html"), "bundle": str(out / "demo.veil")}
    print_either(document, text, as_json=as_json)
