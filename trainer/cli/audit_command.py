"""``edgeveil audit``: attack an artefact here, or as a board runs it, or samples before and after a mechanism."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from edgeveil.devices.flashing.connection import Connection
from edgeveil.edge_runtime.device import CPU, check_device
from edgeveil.edge_runtime.errors import BadInput, LimitNotMet
from edgeveil.trainer.cli.common import (
    Device,
    Json,
    OptionalOn,
    PassphraseFile,
    RunOf,
    board_command,
    passphrase_of,
    print_either,
)
from edgeveil.trainer.progress import say

USUAL = "tflite-int8"
# Options that exclude each other; the first that was given is named.
_NOT_WITH_SIGN = """
verify artefact run trust on into before after labels out budget seed tried full spending resume replace simulate
jobs engine
"""
_NOT_WITH_VERIFY = "budget tried on into before resume replace full spending after simulate labels out device"
_NOT_WITH_SAMPLES = "target artefact run trust tried on into spending simulate"


app = typer.Typer()


@board_command(
    app,
    "Examples: edgeveil audit runs/mnist-export --artefact tflite-int8; "
    "edgeveil audit mnist.veil --on ssh://pi@edgepi --into runs/mnist-export --trust root; "
    "edgeveil audit runs/mnist-export --sign auditor/signing.key; "
    "edgeveil audit --verify mnist.veil --run runs/mnist --trust root; "
    "edgeveil audit --before raw.npz --after blurred.npz --out report",
)
def audit(
    connection: Connection,
    target: Annotated[
        Path | None, typer.Argument(help="Export folder, or a sealed .veil bundle with --run and --trust.")
    ] = None,
    artefact: Annotated[
        str | None, typer.Option(help=f"Which artefact to attack: the one that ships ({USUAL}; --on: what runs there).")
    ] = None,
    run: RunOf = None,
    trust: Annotated[Path | None, typer.Option(help="Trust folder, for a bundle.")] = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="Repeat the audit on a bundle's card with another seed, and compare.")
    ] = False,
    sign: Annotated[
        str | None,
        typer.Option(
            metavar="KEY", help="Sign the audit in an export folder, as its auditor: signing.key or pkcs11:..."
        ),
    ] = None,
    passphrase_file: PassphraseFile = None,
    budget: Annotated[
        Literal["quick", "thorough"] | None,
        typer.Option(help="How hard the adversaries try: quick, or what the card says with --verify."),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Seed of the adversaries: 0, or another than the card's with --verify.")
    ] = None,
    tried: Annotated[
        int | None, typer.Option(min=1, help="Configurations ever compared on these test rows, for the certificate.")
    ] = None,
    spending: Annotated[
        bool, typer.Option("--spending", help="Also run the mechanisms of a private training, against what it claims.")
    ] = False,
    on: OptionalOn = None,
    into: Annotated[
        Path | None, typer.Option(help="With --on: audited export folder of the bundle; its card gets a column.")
    ] = None,
    device: Device = CPU,
    simulate: Annotated[
        Path | None,
        typer.Option(
            help="Python that compiled --artefact (rknn-toolkit2): what its simulator computes, for the card."
        ),
    ] = None,
    before: Annotated[
        Path | None, typer.Option(help="In place of a target: samples as .npz, a folder of pictures, or a film.")
    ] = None,
    after: Annotated[Path | None, typer.Option(help="What some mechanism made of --before, row by row.")] = None,
    labels: Annotated[
        Path | None, typer.Option(help="With --before: CSV with the columns y, z and, if known, subject, session.")
    ] = None,
    rows: Annotated[
        Literal["test", "matched", "shuffled"],
        typer.Option(help="With --before: test if rows match; they surely do; or they do not, and after has labels."),
    ] = "test",
    out: Annotated[Path | None, typer.Option(help="With --before: folder for audit.json and report.html.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue an audit that was broken off.")] = False,
    replace: Annotated[
        bool, typer.Option("--replace", help="Keep an earlier audit.json under a dated name, and audit anew.")
    ] = False,
    jobs: Annotated[
        int | None,
        typer.Option(min=1, help="Families that learn at a time, of about 1 GB each (default: one for each core)."),
    ] = None,
    engine: Annotated[
        Literal["processes", "ray"] | None,
        typer.Option(help="Local processes (the default), or a Ray cluster (RAY_ADDRESS) on the same files."),
    ] = None,
    full: Annotated[
        bool, typer.Option("--full", help="Print every table; of the audit that is there, if one is.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Attack an artefact: how much does an adversary who retrains still learn?

    Ends with 3 over the recipe's limits; with --verify, where a figure of the card does not reproduce.
    """
    given = {name for name, value in locals().items() if value not in (None, CPU) and value is not False}
    from edgeveil.trainer.attacks.ahead import cores
    from edgeveil.trainer.audit.audit import audit as run_audit
    from edgeveil.trainer.audit.document import add_column, require_new, require_ships, save
    from edgeveil.trainer.audit.frozen import audit_on_board, same_export
    from edgeveil.trainer.audit.rerun import audit_on_simulator
    from edgeveil.trainer.audit.text import as_text, measured_spending, next_step, summary
    from edgeveil.trainer.audit.verdict import sentences
    from edgeveil.trainer.export.folder import ExportFolder

    if sign is not None or passphrase_file is not None:
        _sign(target, sign, passphrase_file, _first(given, _NOT_WITH_SIGN))
        return
    work: dict[str, Any] = {"jobs": jobs or cores(), "engine": engine or "processes"}
    if verify:
        if wrong := _first(given, _NOT_WITH_VERIFY):
            raise BadInput(f"--verify repeats the audit on a bundle's card as it was made: leave out {wrong}.")
        _verify(target, artefact=artefact, run=run, trust=trust, seed=seed, as_json=as_json, work=work)
        return
    budget, seed = budget or "quick", seed or 0
    if before is not None or after is not None:
        wrong = _first(given, _NOT_WITH_SAMPLES)
        if before is None or after is None or wrong:
            raise BadInput(
                "Samples are audited with --before and --after together, and without a bundle or export; "
                + (f"leave out {wrong}." if wrong else "give both.")
            )
        if out is not None and out.exists() and not out.is_dir():
            raise BadInput(f"--out: a folder for the report was expected; {out} is a file. Name another.")
        if out is not None:
            require_new(out, replace=replace)
        elif resume or replace:
            raise BadInput("What was finished of an audit of samples is kept in its --out: name that folder.")
        pairs = partial(_audit_pairs, before, after, labels=labels, rows=rows, out=out, as_json=as_json, full=full)
        pairs(budget=budget, seed=seed, resume=resume, work=work)
        return
    if target is None or labels is not None or out is not None or rows != "test":
        raise BadInput(
            "An export folder or a bundle was expected (edgeveil audit runs/mnist-export), or samples before and after "
            "a mechanism (edgeveil audit --before raw.npz --after out.npz). --labels, --rows and --out are for samples."
        )
    settings: dict[str, Any] = {"budget": budget, "seed": seed, "tried": tried, **work}
    if simulate is not None:
        if on is not None or into is not None or spending or replace or artefact is None or not target.is_dir():
            raise BadInput(
                "--simulate computes one compiled artefact of an export folder: name that folder and --artefact, and "
                "leave out --on, --into, --spending and --replace."
            )
        export_folder = ExportFolder.open(target)
        document = audit_on_simulator(export_folder, simulate, artefact=artefact, resume=resume, **settings)
        say(f"Added the simulator's column to {add_column(document, target)}. Next: seal {target} for the new card.")
    elif on is None:
        if device != CPU:
            raise BadInput("--device says what runs the artefact on a board: name the board with --on.")
        if into is not None:
            raise BadInput("--into adds the column of a board: name the board with --on.")
        if target.is_dir():
            shown = ExportFolder.open(target).audit if full and not (replace or as_json or spending) else None
            if shown is not None and artefact in (None, shown["artefact"]):
                print(as_text(shown), flush=True)
                return
            require_new(target, replace=replace)
            require_ships(artefact or USUAL)
        settings |= {"resume": resume, "spending": spending}
        document = run_audit(target, run=run, trust=trust, artefact=artefact or USUAL, **settings)
    else:
        if spending:
            raise BadInput("--spending runs the training's mechanisms here: leave it out with --on.")
        if target.is_dir():
            raise BadInput("A board runs sealed bundles: seal this export, flash it, and name the .veil file.")
        folder = None if into is None else ExportFolder.open(into)
        run = run or (folder.run if folder else None)
        if run is None or trust is None:
            raise BadInput("The run's data and the keys that may sign are needed: give --run (or --into) and --trust.")
        floor = None if folder is None else same_export(folder, target, trust, run, settings)
        settings |= {"artefact": artefact or "auto", "device": check_device(device)}
        with connection.open(on, say=say) as board:
            document = audit_on_board(target, board, run=run, trust=trust, label_only=floor, resume=resume, **settings)
        if into is not None:
            say(f"Added the board's column to {add_column(document, into)}. Next: seal {into} again for the new card.")
    print_either(document, as_text(document) if full else summary(document), as_json=as_json)
    if on is None and simulate is None and target.is_dir():  # shown first: where the disk is full, it is not lost
        say(f"Wrote {save(document, target)}. {next_step(document, target)}")
        say(f"Every table: edgeveil audit {target} --full")
    if broken := measured_spending(document, broken=True):
        raise LimitNotMet(" ".join(broken))
    if document["limits"]["exceeded"]:
        raise LimitNotMet(" ".join(sentences(document["limits"])))


def _first(given: set[str], names: str) -> str | None:
    """The first of these options that was given, as a user writes it."""
    name = next((name for name in names.split() if name in given), None)
    return "the target" if name == "target" else name and f"--{name}"


def _sign(target: Path | None, key: str | None, passphrase_file: Path | None, wrong: str | None) -> None:
    from edgeveil.trainer.sealing.seal import countersign

    if target is None or key is None or wrong:
        more = f"; leave out {wrong}" if wrong else ""
        raise BadInput(f"--sign signs the audit that is there: edgeveil audit EXPORT --sign signing.key{more}.")
    path, signed = countersign(target, key, passphrase=passphrase_of(key, passphrase_file))
    say(f"{signed.name} signed the audit: {path}. Next: edgeveil seal {target} --key keys/signing.key --out FILE.veil")


def _verify(
    bundle: Path | None,
    *,
    artefact: str | None,
    run: Path | None,
    trust: Path | None,
    seed: int | None,
    as_json: bool,
    work: Mapping[str, Any],
) -> None:
    from edgeveil.trainer.audit.rerun import as_text, missed, rerun

    if bundle is None or run is None or trust is None:
        raise BadInput(
            "--verify needs a sealed bundle, the run that it was made from and the keys that may sign: name the "
            ".veil file, and give --run and --trust."
        )
    document = rerun(bundle, run=run, trust=trust, artefact=artefact, seed=seed, **work)
    print_either(document, as_text(document), as_json=as_json)
    if not document["reproduces"]:
        raise LimitNotMet(f"Of the card of {document['name']}, these do not reproduce: {', '.join(missed(document))}.")


def _audit_pairs(
    before: Path,
    after: Path,
    *,
    labels: Path | None,
    rows: Literal["test", "matched", "shuffled"],
    out: Path | None,
    budget: str,
    seed: int,
    as_json: bool,
    full: bool,
    resume: bool,
    work: Mapping[str, Any],
) -> None:
    from edgeveil.trainer.audit.compare import audit_pairs
    from edgeveil.trainer.audit.pair_files import read_pairs
    from edgeveil.trainer.audit.text import as_text, summary
    from edgeveil.trainer.report.card_page import write_pairs_report

    document = audit_pairs(
        read_pairs(before, after, labels=labels, order=rows),
        name=f"{before.name} to {after.name}",
        budget=budget,
        seed=seed,
        keep=None if out is None else out / f"attacks-{budget}-{seed}",
        resume=resume,
        **work,
    )
    print_either(document, as_text(document) if full else summary(document), as_json=as_json)
    if out is not None:
        say(f"Wrote {' and '.join(map(str, write_pairs_report(document, out)))}.")
