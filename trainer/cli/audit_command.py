"""``edgeveil audit``: attack an artefact here, or as a board runs it, or samples before and after a mechanism."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from edgeveil.edge_runtime.device import CPU, check_device
from edgeveil.edge_runtime.errors import BadInput, LimitNotMet
from edgeveil.trainer.cli.common import (
    Device,
    Json,
    On,
    RunOf,
    SiteBoard,
    Trust,
    TrustForBundle,
    board_command,
    passphrase_of,
    print_done,
    print_either,
    print_text,
    workers,
)
from edgeveil.trainer.cli.tree import AUDIT, audits
from edgeveil.trainer.progress import say

USUAL = "tflite-int8"
Budget = Annotated[Literal["quick", "thorough"], typer.Option(help="How hard the adversaries try.")]
Seed = Annotated[int, typer.Option(min=0, help="Seed of the adversaries.")]
Tried = Annotated[
    int | None, typer.Option(min=1, help="Configurations ever compared on these test rows, for the certificate.")
]
Replace = Annotated[
    bool, typer.Option("--replace", help="Keep an earlier audit.json under a dated name, and audit anew.")
]
Full = Annotated[bool, typer.Option("--full", help="Print every table; of the audit that is there, if one is.")]
Bundle = Annotated[Path, typer.Argument(help="The sealed .veil file.")]


@audits.command(
    AUDIT,
    epilog="Examples: edgeveil audit runs/mnist-export --artefact tflite-int8; edgeveil audit runs/mnist-export --full",
)
def audit(
    target: Annotated[Path, typer.Argument(help="Export folder, or a sealed .veil bundle with --run and --trust.")],
    artefact: Annotated[
        str | None, typer.Option(help=f"Which artefact to attack: the one that ships ({USUAL}).")
    ] = None,
    run: RunOf = None,
    trust: Annotated[Path | None, typer.Option(help="Trust folder, for a bundle.")] = None,
    budget: Budget = "quick",
    seed: Seed = 0,
    tried: Tried = None,
    spending: Annotated[
        bool, typer.Option("--spending", help="Also run the mechanisms of a private training, against what it claims.")
    ] = False,
    simulate: Annotated[
        Path | None,
        typer.Option(
            help="Python that compiled --artefact (rknn-toolkit2): what its simulator computes, for the card."
        ),
    ] = None,
    replace: Replace = False,
    full: Full = False,
    as_json: Json = False,
) -> None:
    """Attack an artefact: how much does an adversary who retrains still learn?

    --jobs N trains N attacks at a time, and --engine ray on a cluster (EDGEVEIL_JOBS=N, ray or ray:N). Ends with 3 over
    the recipe's limits.
    """
    from edgeveil.trainer.audit.audit import audit as run_audit
    from edgeveil.trainer.audit.document import add_column, require_new, require_ships, save
    from edgeveil.trainer.audit.rerun import audit_on_simulator
    from edgeveil.trainer.audit.text import as_text, next_step
    from edgeveil.trainer.export.folder import ExportFolder

    settings: dict[str, Any] = {"budget": budget, "seed": seed, "tried": tried, **workers()}
    if simulate is not None:
        if spending or replace or artefact is None or not target.is_dir():
            raise BadInput(
                "--simulate computes one compiled artefact of an export folder: name that folder and --artefact, and "
                "leave out --spending and --replace."
            )
        export_folder = ExportFolder.open(target)
        document = audit_on_simulator(export_folder, simulate, artefact=artefact, **settings)
        say(f"Added the simulator's column to {add_column(document, target)}. Next: seal {target} for the new card.")
        _end(document, full=full, as_json=as_json)
        return
    if target.is_dir():
        shown = ExportFolder.open(target).audit if full and not (replace or as_json or spending) else None
        if shown is not None and artefact in (None, shown["artefact"]):
            print_text(as_text(shown))
            return
        require_new(target, replace=replace)
        require_ships(artefact or USUAL)
    settings["spending"] = spending
    document = run_audit(target, run=run, trust=trust, artefact=artefact or USUAL, **settings)

    def kept() -> str:
        done = f"Wrote {save(document, target)}. {next_step(document, target)}"
        return f"{done}\nEvery table: edgeveil audit {target} --full"

    _end(document, full=full, as_json=as_json, save=kept if target.is_dir() else None)


def _end(document: dict[str, Any], *, full: bool = False, as_json: bool, save: Any = None) -> None:
    """Print an audit, then save it (``save`` returns what to say of it). Raises ``LimitNotMet`` over a limit."""
    from edgeveil.trainer.audit.text import as_text, measured_spending, summary
    from edgeveil.trainer.audit.verdict import sentences

    print_either(document, as_text(document) if full else summary(document), as_json=as_json)
    if save is not None:  # shown first: where the disk is full, it is not lost
        say(save())
    if broken := measured_spending(document, broken=True):
        raise LimitNotMet(" ".join(broken))
    if document["limits"]["exceeded"]:
        raise LimitNotMet(" ".join(sentences(document["limits"])))


@board_command(
    audits,
    "Example: edgeveil audit board mnist.veil --on ssh://pi@edgepi --into runs/mnist-export --trust root",
    name="board",
    on=On,
)
def audit_board(
    at: SiteBoard,
    bundle: Bundle,
    trust: TrustForBundle = None,
    into: Annotated[
        Path | None, typer.Option(help="Audited export folder of the bundle; its card gets a column.")
    ] = None,
    run: RunOf = None,
    artefact: Annotated[str, typer.Option(help="Artefact to attack; auto: the first that runs there.")] = "auto",
    device: Device = CPU,
    budget: Budget = "quick",
    as_json: Json = False,
) -> None:
    """Attack a sealed bundle as a board runs it. Ends with 3 over the recipe's limits."""
    from edgeveil.trainer.audit.document import add_column
    from edgeveil.trainer.audit.frozen import audit_on_board, same_export
    from edgeveil.trainer.export.folder import ExportFolder

    if bundle.is_dir():
        raise BadInput("A board runs sealed bundles: seal this export, flash it, and name the .veil file.")
    folder = None if into is None else ExportFolder.open(into)
    run = run or (folder.run if folder else None)
    if run is None:
        raise BadInput("The run's data are needed: give --run (or --into).")
    trust = trust or at.require("trust")
    settings: dict[str, Any] = {"budget": budget, "seed": 0, "tried": None, **workers()}
    floor = None if folder is None else same_export(folder, bundle, trust, run, settings)
    settings |= {"artefact": artefact, "device": check_device(device)}
    with at.open(say) as board:
        document = audit_on_board(bundle, board, run=run, trust=trust, label_only=floor, **settings)
    if into is not None:
        say(f"Added the board's column to {add_column(document, into)}. Next: seal {into} again for the new card.")
    _end(document, as_json=as_json)


@audits.command("sign", epilog="Example: edgeveil audit sign runs/mnist-export --key auditor/signing.key")
def audit_sign(
    folder: Annotated[Path, typer.Argument(help="Export folder that was audited.")],
    key: Annotated[str, typer.Option(help="The auditor's signing.key, or its pkcs11: address.")],
    as_json: Json = False,
) -> None:
    """Sign the audit in an export folder, as its auditor."""
    from edgeveil.trainer.sealing.seal import countersign

    path, signed = countersign(folder, key, passphrase=passphrase_of(key))
    text = f"{signed.name} signed the audit: {path}. Next: edgeveil seal {folder} --key keys/signing.key"
    print_done(text, {"audit": str(path), "auditor": signed.name}, as_json=as_json)


@audits.command("verify", epilog="Example: edgeveil audit verify mnist.veil --run runs/mnist --trust root")
def audit_verify(
    bundle: Bundle,
    trust: Trust,
    run: Annotated[Path, typer.Option("--run", help="Folder of the run; an export folder remembers its own.")],
    artefact: Annotated[str | None, typer.Option(help="Artefact to attack: that of the card, left out.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed: another than the card's, left out.")] = None,
    as_json: Json = False,
) -> None:
    """Repeat the audit on a bundle's card with another seed, and compare. Ends with 3 where a figure differs."""
    from edgeveil.trainer.audit.rerun import as_text, missed, rerun

    document = rerun(bundle, run=run, trust=trust, artefact=artefact, seed=seed, **workers())
    print_either(document, as_text(document), as_json=as_json)
    if not document["reproduces"]:
        raise LimitNotMet(f"Of the card of {document['name']}, these do not reproduce: {', '.join(missed(document))}.")


@audits.command("training", epilog="Example: edgeveil audit training runs/digits-export")
def audit_training(
    export: Annotated[Path, typer.Argument(help="Export folder, whose run is there.")], as_json: Json = False
) -> None:
    """Attack the model that ships for what it gives away of its training people: membership, and model inversion.

    The model is the [head] where it was exported, else the network that decides y. Ends with 3 where members prove that
    more epsilon is spent than was promised.
    """
    from edgeveil.trainer.audit.text import measured_spending
    from edgeveil.trainer.audit.trained import as_text, audit_training

    document = audit_training(export)
    print_either(document, as_text(document), as_json=as_json)
    if broken := measured_spending(document, broken=True):
        raise LimitNotMet(" ".join(broken))


@audits.command("pairs", epilog="Example: edgeveil audit pairs raw.npz blurred.npz --out report")
def audit_pairs(
    before: Annotated[Path, typer.Argument(help="Samples as .npz, a folder of pictures, or a film.")],
    after: Annotated[Path, typer.Argument(help="What some mechanism made of them, row by row.")],
    labels: Annotated[
        Path | None, typer.Option(help="CSV with the columns y, z and, if known, subject, session.")
    ] = None,
    rows: Annotated[
        Literal["test", "matched", "shuffled"],
        typer.Option(help="test if rows match; they surely do; or they do not, and AFTER has labels."),
    ] = "test",
    out: Annotated[Path | None, typer.Option(help="Folder for audit.json and report.html.")] = None,
    budget: Budget = "quick",
    replace: Replace = False,
    as_json: Json = False,
) -> None:
    """Attack samples before and after a mechanism, of whatever make."""
    from edgeveil.trainer.audit.compare import audit_pairs as run_audit
    from edgeveil.trainer.audit.document import require_new
    from edgeveil.trainer.audit.pair_files import read_pairs
    from edgeveil.trainer.audit.text import summary
    from edgeveil.trainer.report.card_page import write_pairs_report

    if out is not None and out.exists() and not out.is_dir():
        raise BadInput(f"--out: a folder for the report was expected; {out} is a file. Name another.")
    if out is not None:
        require_new(out, replace=replace)
    elif replace:
        raise BadInput("--replace: an earlier audit of samples is in its --out: name that folder.")
    document = run_audit(
        read_pairs(before, after, labels=labels, order=rows),
        name=f"{before.name} to {after.name}",
        budget=budget,
        seed=0,
        keep=None if out is None else out / f"attacks-{budget}-0",
        **workers(),
    )
    print_either(document, summary(document), as_json=as_json)
    if out is not None:
        say(f"Wrote {' and '.join(map(str, write_pairs_report(document, out)))}.")
