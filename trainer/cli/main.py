"""The ``edgeveil`` command: parse, call, print.

Progress and prose go to stderr; ``--json`` puts exactly one document on stdout.
"""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from typer.core import TyperGroup
from typer.exceptions import TyperException

from edgeveil.edge_runtime import __version__
from edgeveil.edge_runtime.errors import BadInput, EdgeVeilError, LimitNotMet
from edgeveil.edge_runtime.util.atomic import flush_output
from edgeveil.trainer.cli import (
    audit_command,
    bench_command,
    boards,
    card_command,
    collect_command,
    cost_command,
    doctor,
)
from edgeveil.trainer.cli.common import (
    Bundle,
    Json,
    NoPassphrase,
    PassphraseFile,
    RunOf,
    Trust,
    TrustForBundle,
    new_passphrase,
    passphrase_of,
    print_json,
    print_view,
)
from edgeveil.trainer.cli.fleet import fleet
from edgeveil.trainer.cli.pseudonym_command import pseudonym
from edgeveil.trainer.cli.publish_command import publish
from edgeveil.trainer.cli.recipes import data, recipes
from edgeveil.trainer.cli.runs_command import runs
from edgeveil.trainer.cli.trust import trust
from edgeveil.trainer.progress import say
from edgeveil.trainer.tensorflow_quiet import quiet_process

# Commands and options of earlier versions that were deleted: each is refused with one sentence, which names what
# replaces it. A key is a command (``fleet replace``) or an option of one (``recipe new --of``).
_ROUNDS = (
    "training by rounds over MQTT was deleted: estimate from private reports with edgeveil collect, or train on "
    "recorded or simulated private gradients with edgeveil.trainer.ext.local.lpsgd; commit baecb1ef has it"
)
GONE = {
    "accept": "taps of an operator were deleted: a service compares what it sends with its audit by itself (shift in "
    "/healthz, on_shift of a policy); commit baecb1ef has them",
    "federate": _ROUNDS,
    "recipe new --of": _ROUNDS,
    "fleet accept": "boards' reports were deleted: an MQTT sink publishes TOPIC/status; commit baecb1ef has them",
    "fleet replace": "set the new board up as docs/how-to/replace-a-board.md describes, then run edgeveil fleet FILE "
    "flash; commit baecb1ef has it",
    "fleet trust": "run edgeveil-edge trust trust-chain.json on each board, see docs/how-to/rotate-root-keys.md; "
    "commit baecb1ef has it",
    "fleet status --reports": "edgeveil fleet FILE status asks each board, and an MQTT sink publishes TOPIC/status; "
    "commit baecb1ef has it",
    "fleet status --silent-after": "watch the age of TOPIC/status at your broker; commit baecb1ef has it",
    "estimate --reference": "edgeveil estimate shows the nearest published rows; commit baecb1ef has it",
    "flash --report-to": "an MQTT sink publishes TOPIC/status, and Mender and RAUC report updates; "
    "commit baecb1ef has it",
    "flash --report-logs": "edgeveil logs --on TARGET prints the log; commit baecb1ef has it",
}


class Commands(TyperGroup):
    """A group of commands that refuses the deleted ones."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """As usual. Raises ``BadInput`` for a deleted command, or a deleted option of one."""
        path = f"{_path(ctx)} {args[0]}".strip()
        options = [f"{path} {word.partition('=')[0]}" for word in args[1:] if word.startswith("--")]
        for word in (path, *options):
            if word in GONE:
                raise BadInput(f"edgeveil {word}: {GONE[word]}.")
        return super().resolve_command(ctx, args)


def _path(ctx: Any) -> str:
    """The commands that lead to this group, without arguments between them."""
    return "" if ctx.parent is None else f"{_path(ctx.parent)} {ctx.info_name}".strip()


class _Commands(Commands):
    """The commands of ``edgeveil``, which knows those that are the runtime's."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """As usual; a command of ``edgeveil-edge`` alone is refused with its name. Raises ``BadInput``."""
        if args and args[0] in RUNTIME and args[0] not in self.commands:
            words = " ".join(["edgeveil-edge", *args])
            raise BadInput(
                f"`edgeveil {args[0]}` is a command of the edge runtime: that is edgeveil-edge. Run: {words}"
            )
        return super().resolve_command(ctx, args)


app = typer.Typer(
    name="edgeveil",
    cls=_Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
bundles = typer.Typer(help="Look at a sealed bundle, or check one.", no_args_is_help=True)
plain = (audit_command.app, card_command.app, boards.app, cost_command.app, bench_command.app)
for one in (*plain, cost_command.estimates, doctor.app, collect_command.app):
    app.add_typer(one)
app.add_typer(data, name="data", cls=Commands)
app.add_typer(recipes, name="recipe", cls=Commands)
app.add_typer(runs, name="runs", cls=Commands)
app.add_typer(bundles, name="bundle", cls=Commands)
app.add_typer(boards.devices, name="devices", cls=Commands)
app.add_typer(trust, name="trust", cls=Commands)
app.add_typer(fleet, name="fleet", cls=Commands)
app.add_typer(publish, name="publish", cls=Commands)
app.add_typer(pseudonym, name="pseudonym", cls=Commands)

# Commands of edgeveil-edge alone.
RUNTIME = (
    *("run", "verify", "ledger", "inside", "camera", "install", "update", "recover", "try", "policy"),
    *("mender", "rauc"),
)
Budget = Annotated[Literal["quick", "full"], typer.Option(help="quick cuts the recipe's epochs to a trial.")]
Replace = Annotated[bool, typer.Option("--replace", help="Keep what is at --out under a dated name, and write anew.")]


def _version(asked: bool) -> None:
    if asked:
        print(f"edgeveil {__version__}")
        raise typer.Exit


@app.callback()
def _edgeveil(
    _: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and end.")
    ] = False,
) -> None:
    """Train, audit, sign and run perturbers that keep the answer and hide the person."""


@app.command(epilog="Example: edgeveil train mnist --out runs/mnist")
def train(
    recipe: Annotated[str, typer.Argument(help="A recipe's name (edgeveil recipe list) or a TOML file.")],
    out: Annotated[Path, typer.Option(help="Folder of the run; must not exist unless --resume.")],
    budget: Budget = "full",
    resume: Annotated[bool, typer.Option("--resume", help="Continue from the last checkpoint in --out.")] = False,
    replace: Replace = False,
    classifiers: Annotated[
        Path | None, typer.Option(help="Folder of a run whose classifiers to reuse: same data, slices and seed.")
    ] = None,
    private: Annotated[
        str | None,
        typer.Option(
            metavar="EPSILON,DELTA", help="Guard the people behind the training data, as 8,1e-5: short for [private]."
        ),
    ] = None,
    track: Annotated[
        str | None, typer.Option(help="Also write the ended run for MLflow: mlflow:DIR (edgeveil[mlflow]).")
    ] = None,
    as_json: Json = False,
) -> None:
    """Train the classifiers and the perturber that a recipe describes."""
    from edgeveil.trainer.recipe.schema import Recipe
    from edgeveil.trainer.train import train as train_recipe

    if resume and replace:
        raise BadInput("--resume continues the run in --out and --replace puts it aside: give one of them.")
    found = Recipe.find(recipe)
    if private is not None:
        found = found.with_private(private)
    store = None
    if track is not None:
        from edgeveil.trainer.runs.listing import store_of

        store = store_of(track)  # fail before training starts
    try:
        run = train_recipe(found, out, budget=budget, resume=resume, replace=replace, classifiers=classifiers)
    except LimitNotMet:  # the run is complete, and its figures say why
        if store is not None:
            store.add(out)
        raise
    if store is not None:
        say(f"MLflow has it as {store.add(out)} in {store.folder}.")
    if as_json:
        print_json(run.summary())
    else:
        say(f"The run is in {run.folder}. Next: edgeveil export {run.folder} --for raspberry-pi-cpu --out DIR")


@app.command(
    epilog="Example: edgeveil sweep mnist-codebook mnist-prgan --axis perturber.price=1,4,16 "
    "--axis perturber.distance=3,5 --out sweeps/mnist --jobs 2"
)
def sweep(
    recipe: Annotated[list[str], typer.Argument(help="Recipes, by name or TOML file.")],
    out: Annotated[Path, typer.Option(help="Folder of the sweep; points already there are not computed again.")],
    axis: Annotated[
        list[str] | None,
        typer.Option(help="Key of the recipes and its values: perturber.price=1,4. May be repeated."),
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Points computed at a time.")] = 1,
    engine: Annotated[
        Literal["processes", "ray"], typer.Option(help="Local processes, or a Ray cluster (RAY_ADDRESS).")
    ] = "processes",
    budget: Budget = "full",
    attacks: Annotated[
        Literal["auto", "codes", "quick", "all"],
        typer.Option(help="Adversaries for each point; auto: counts of codes where these are few, else quick."),
    ] = "auto",
    kept: Annotated[
        list[str] | None, typer.Option(help="Property of x to show; default: all that were measured. May be repeated.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Train and attack many settings of many recipes, and plot leakage against what x' keeps, next to label-only."""
    from edgeveil.trainer.ext.sweep.axes import parse
    from edgeveil.trainer.ext.sweep.axes import sweep as run_sweep
    from edgeveil.trainer.recipe.schema import Recipe
    from edgeveil.trainer.report.frontier import as_text, draw

    frontier = run_sweep(
        [Recipe.find(name) for name in recipe],
        [parse(text) for text in axis or ()],
        out,
        jobs=jobs,
        engine=engine,
        budget=budget,
        attacks=attacks,
    )
    pictures = draw(frontier, out, kept=kept or ())
    if as_json:
        print_json(frontier)
    else:
        print(as_text(frontier, kept=kept or ()))
    say(f"All figures are in {out / 'frontier.json'}. Open {' or '.join(map(str, pictures))}")


@app.command(
    epilog="Example: edgeveil export runs/mnist --for coral-dev-board --for jetson-nano --out runs/mnist-export"
)
def export(
    run: Annotated[Path, typer.Argument(help="Folder of a finished run.")],
    out: Annotated[Path, typer.Option(help="Folder to write.")],
    profiles: Annotated[
        list[str] | None, typer.Option("--for", help="Board profile, by name or TOML file; may be repeated.")
    ] = None,
    all_formats: Annotated[
        bool, typer.Option("--all-formats", help="Every format, not only those that the boards need.")
    ] = False,
    emit: Annotated[
        Literal["frame", "both", "code"],
        typer.Option(help="What is sent: frame; both, with the label of [head]; or a cleaner's or codebook's code."),
    ] = "frame",
    pool: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="With --emit code of a codebook of donors: samples of each code that the receiver draws from, any of "
            "them; left out, the typical ones that x' would show.",
        ),
    ] = None,
    compiler_python: Annotated[
        Path | None,
        typer.Option(help="Python that has the board's compiler: of rknn-toolkit2, for a Rockchip board."),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue an export that was broken off.")] = False,
    replace: Replace = False,
    as_json: Json = False,
) -> None:
    """Export a run as TFLite and ONNX for boards, checked for each and compared with Keras."""
    from edgeveil.trainer.export.export import export as export_run
    from edgeveil.trainer.perturbers.codebook.synthesis import receiver_pool
    from edgeveil.trainer.runs.run import Run

    samples = None if pool is None else receiver_pool(Run.open(run), pool)
    folder = export_run(
        run,
        profiles or [],
        out,
        all_formats=all_formats,
        emit=emit,
        pool=samples,
        compiler_python=compiler_python,
        resume=resume,
        replace=replace,
    )
    if as_json:
        print_json(folder.report)
    else:
        say(folder.text())
        first = next(iter(folder.manifest["preference"]), "numpy")
        say(f"The artefacts are in {out}. Next: edgeveil audit {out} --artefact {first}")


@app.command(epilog="Example: edgeveil freeze runs/mnist-export --out mnist-frozen.npz")
def freeze(
    target: Annotated[Path, typer.Argument(help="Export folder, or a sealed .veil bundle with --run and --trust.")],
    out: Annotated[Path, typer.Option(help="The .npz file to write; must not exist.")],
    artefact: Annotated[str, typer.Option(help="Artefact that perturbs: the one that ships.")] = "tflite-int8",
    run: RunOf = None,
    trust: TrustForBundle = None,
) -> None:
    """Write what an artefact sends as a fixed benchmark set, for others to attack."""
    from edgeveil.trainer.audit.frozen import open_target, write_frozen

    write_frozen(open_target(target, run=run, trust=trust, artefact=artefact), out)
    say(f"Wrote {out}: perturbed samples with y, z and their slices.")
    say("Next: docs/explanation/adversaries.md says how to attack them.")


@app.command(epilog="Example: edgeveil keygen keys")
def keygen(
    folder: Annotated[Path, typer.Argument(help="Folder to write signing.key and signing.pub to.")],
    development: Annotated[
        bool, typer.Option("--development", help="A throw-away key; every runtime warns about it.")
    ] = False,
    token: Annotated[
        str | None, typer.Option(help="Write signing.pub alone, of the key at a pkcs11: address (edgeveil[pkcs11]).")
    ] = None,
    passphrase_file: PassphraseFile = None,
    no_passphrase: NoPassphrase = False,
) -> None:
    """Make a signing key. Keep signing.key off the boards; put signing.pub into their trust folder."""
    from edgeveil.trainer.sealing.keys import keygen as make_keys
    from edgeveil.trainer.sealing.keys import write_public

    if token is not None:
        if development or no_passphrase:
            raise BadInput("--token names a key that is there already: leave out --development and --no-passphrase.")
        say(f"Wrote {write_public(folder, token, passphrase=passphrase_of(token, passphrase_file))}.")
        return
    passphrase = None if development else new_passphrase(passphrase_file, none=no_passphrase)
    public = make_keys(folder, passphrase=passphrase, development=development)
    private = folder / "signing.key"
    say(f"Wrote {private} (mode 600: keep it secret) and {public}.")
    say(f"Next: edgeveil seal EXPORT --key {private} --out FILE.veil")


@app.command(epilog="Example: edgeveil seal runs/mnist-export --key keys/signing.key --out mnist.veil")
def seal(
    folder: Annotated[Path, typer.Argument(help="Export folder that was audited.")],
    key: Annotated[str, typer.Option(help="signing.key of edgeveil keygen, or a pkcs11: address.")],
    out: Annotated[Path, typer.Option(help="The .veil file to write.")],
    no_audit: Annotated[bool, typer.Option("--no-audit", help='Seal unaudited; the card says "not audited".')] = False,
    trust: Annotated[Path | None, typer.Option(help="Trust folder whose keys and policy must take it too.")] = None,
    replace: Replace = False,
    passphrase_file: PassphraseFile = None,
) -> None:
    """Sign artefacts, manifest and privacy card into one bundle."""
    from edgeveil.trainer.sealing.seal import seal as seal_folder

    passphrase = passphrase_of(key, passphrase_file)
    path = seal_folder(folder, key, out, passphrase=passphrase, allow_unaudited=no_audit, trust=trust, replace=replace)
    say(f"Sealed {path}. Next: edgeveil bundle verify {path} --trust DIR (a folder that holds signing.pub)")


@bundles.command("inspect", epilog="Example: edgeveil bundle inspect mnist.veil --trust trust")
def bundle_inspect(
    bundle: Bundle,
    trust: Trust,
    full: Annotated[bool, typer.Option("--full", help="Every member, board and measurement of its card.")] = False,
    as_json: Json = False,
) -> None:
    """Verify a bundle and show what it is, what is sent and what its privacy card says first."""
    from edgeveil.trainer.sealing.inspect import inspect

    print_view(inspect(bundle, trust, full=full), as_json=as_json)


@bundles.command("verify", epilog="Example: edgeveil bundle verify mnist.veil --trust trust")
def bundle_verify(bundle: Bundle, trust: Trust, as_json: Json = False) -> None:
    """Check signature, hashes and manifest of a bundle. Exit code 0: all are valid."""
    from edgeveil.trainer.sealing.inspect import verify

    print_view(verify(bundle, trust), as_json=as_json)


@app.command(
    epilog="Examples: edgeveil report runs/demo/run --export runs/demo/export --out report.html; "
    "edgeveil report bench --out docs/results/bench/report"
)
def report(
    run: Annotated[Path, typer.Argument(help='Folder of a finished run, or the word "bench".')],
    out: Annotated[Path, typer.Option(help="The HTML page to write; with bench, a folder.")],
    export: Annotated[Path | None, typer.Option(help="Its audited export folder.")] = None,
    bundle: Annotated[Path | None, typer.Option(help="The sealed bundle, for its hash.")] = None,
    bench: Annotated[Path | None, typer.Option(help="bench.json of edgeveil-edge bench --json.")] = None,
    pictures: Annotated[
        bool, typer.Option("--pictures", help="Show raw samples next to perturbed ones: they are personal data.")
    ] = False,
    results: Annotated[Path, typer.Option(help="With bench: folder of recorded results.")] = Path("docs/results/bench"),
    privacy: Annotated[Path | None, typer.Option(help="With bench: folder of recorded audits, for the cost.")] = None,
) -> None:
    """Write one page that shows a run: numbers, curves and, if asked for, pictures; or tables of benchmarks."""
    if run == Path("bench"):
        from edgeveil.trainer.report.bench import write_bench_report

        written = write_bench_report(results, out, privacy=privacy)
        say(f"Wrote {', '.join(map(str, written))}.")
        return
    if export is None:
        raise BadInput("The run's audited export folder was expected: give it with --export.")
    from edgeveil.trainer.report.frontier import write_report

    write_report(run=run, export=export, bundle=bundle, bench=bench, out=out, pictures=pictures)
    say(f"Wrote the report. Open {out}")


def main() -> None:
    """Run the command line; every expected failure is one line on stderr and its exit code."""
    quiet_process()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a path need not be text in its encoding
    try:
        code = app(standalone_mode=False)
    except EdgeVeilError as error:
        say(f"error: {error}")
        code = error.exit_code
    except typer.Abort:
        say("Interrupted.")
        code = 130
    except KeyboardInterrupt:
        say("Interrupted.")
        code = 130
    except BrokenPipeError:
        code = 0
    except TyperException as error:  # a wrong option or argument: usage, what was wrong, how to get help
        error.show()  # type: ignore[attr-defined]
        code = error.exit_code
    sys.exit(flush_output(code or 0))


if __name__ == "__main__":
    main()
