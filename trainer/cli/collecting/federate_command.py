"""``edgeveil federate``: a model from the private gradients of many devices."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Annotated, Any

import typer

from edgeveil.edge_runtime.formats.plurals import counted
from edgeveil.trainer.cli.common import Json, Trust, print_json, verified_bundle

app = typer.Typer()


@app.command(
    epilog="Example: edgeveil federate tally.veil --trust trust --to mqtt://localhost/tally --rounds 500 --devices 50 "
    "--lot 14 --step 2 --state tally.jsonl"
)
def federate(
    bundle: Annotated[Path, typer.Argument(help="The sealed .veil file that the devices run.")],
    trust: Trust,
    to: Annotated[
        str, typer.Option(help="mqtt://HOST/TOPIC: rounds to TOPIC/model, reports from TOPIC/DEVICE of each.")
    ],
    rounds: Annotated[int, typer.Option(min=1, max=2**31 - 1, help="Rounds of the training.")],
    devices: Annotated[int, typer.Option(min=0, max=2**16 - 1, help="How many devices take part.")],
    step: Annotated[float, typer.Option(help="Of round t, this divided by the root of t.")],
    state: Annotated[Path, typer.Option(help="The journal: each counted report; the same command goes on from it.")],
    lot: Annotated[
        int | None, typer.Option(help="Devices that a round asks, in turn by their --turn. Left out: all of them.")
    ] = None,
    wait: Annotated[float, typer.Option(min=0.1, help="Seconds after which a round does without the others.")] = 30.0,
    out: Annotated[Path | None, typer.Option(help="Write theta to this .npz, too.")] = None,
    as_json: Json = False,
) -> None:
    """Train a model on private gradients: each round, some devices report one, and theta takes a step."""
    from edgeveil.edge_runtime.errors import BadInput
    from edgeveil.trainer.collect.federation.exchange import Exchange
    from edgeveil.trainer.collect.federation.federate import checked, gradient_of
    from edgeveil.trainer.collect.federation.federate import federate as train
    from edgeveil.trainer.collect.federation.training_journal import Journal, Plan
    from edgeveil.trainer.collect.reporting import reporting
    from edgeveil.trainer.progress import progress, say

    plan = checked(Plan(rounds, devices, devices if lot is None else lot, step))
    if not 0 < step < float("inf"):
        raise BadInput(f"--step: expected a number above 0; got {step:g}.")
    if out is not None and out.suffix != ".npz":
        raise BadInput(f"--out: expected a name that ends with .npz; got {out.name}.")
    opened = verified_bundle(bundle, trust)
    gradient_of(opened)
    reading = reporting(opened)
    journal = Journal(state, opened.manifest_sha256, plan)
    try:
        exchange = Exchange(to, journal.run)
        try:
            with progress("rounds", total=rounds, done=len(journal.closed)) as steps:
                document = train(opened, reading, exchange, journal, plan, wait_s=wait, say=say, advance=steps)
        finally:
            exchange.close()
    finally:
        journal.close()
    if out is not None:
        _write(out, document)
    if as_json:
        print_json(document)
    else:
        print("\n".join(_lines(document)))


def _write(out: Path, document: dict[str, Any]) -> None:
    import numpy as np

    from edgeveil.edge_runtime.storage.atomic import write_atomic

    data = io.BytesIO()
    np.savez(data, theta=document["theta"], mean_of_later_half=document["mean_of_later_half"])
    write_atomic(out, data.getvalue())


def _lines(document: dict[str, Any]) -> list[str]:
    counts = document["reports"]
    refused = ", ".join(f"{count} {reason}" for reason, count in counts["refused"].items()) or "none"
    return [
        f"{document['bundle']['name']}: {document['rounds']} rounds, {counts['counted']} gradients of "
        f"{counted(document['devices_heard'], 'device')}, by {document['mechanism']} at epsilon "
        f"{document['epsilon']:g}; refused: "
        f"{refused}",
        *([f"  {document['rounds_short']} rounds did without some devices"] if document["rounds_short"] else []),
        "  theta: " + " ".join(f"{value:.6g}" for value in document["theta"]),
        "  mean of the later half: " + " ".join(f"{value:.6g}" for value in document["mean_of_later_half"]),
    ]
