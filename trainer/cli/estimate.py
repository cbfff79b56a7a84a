"""``edgeveil estimate``: what others measured on a board that is not at hand, of networks of a bundle's size."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from edgeveil.edge_runtime.errors import BadInput, LimitNotMet
from edgeveil.trainer.cli.common import Json, TrustForBundle, print_json

if TYPE_CHECKING:
    from edgeveil.devices.published import Nearest


app = typer.Typer()


@app.command(epilog="Example: edgeveil estimate mnist.veil --trust trust --for jetson-nano")
def estimate(
    what: Annotated[Path, typer.Argument(help="A .veil bundle, an export folder, or one .tflite or .onnx file.")],
    profile: Annotated[str, typer.Option("--for", help="Board profile, by name or TOML file.")],
    trust: TrustForBundle = None,
    measured: Annotated[
        list[Path] | None, typer.Option(help="Your own results, of edgeveil-edge bench --json; may be repeated.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Show the networks measured on a board that are nearest by MACs, each with its source. Nothing is run.

    A network of twice the MACs does not take twice as long. Exit code 3 where nothing was measured on any board.
    """
    from edgeveil.devices import profiles, published

    board = profiles.load(profile)
    found = published.for_profile(
        macs_of(what, trust), board, published.published(), published.measured(measured or [])
    )
    if as_json:
        rows = [one.document() for one in found]
        print_json({"schema": 2, "kind": "estimate", "profile": board.name, "estimates": rows})
    else:
        print(f"{board.title}: measured by others, networks alone; those nearest by MACs")
        for one in found:
            print("\n".join(_lines(one)))
    if not any(one.rows for one in found):
        raise LimitNotMet("nothing was measured on any of these boards; measure there with edgeveil bench --on.")


def macs_of(what: Path, trust: Path | None) -> dict[str, float]:
    """The MACs of each artefact by name: the sum over the models of a pipeline. Raises ``BadInput``."""
    from edgeveil.trainer.cli.cost_command import costs_of

    found: dict[str, float] = {}
    for name, cost in costs_of(what, trust).items():
        artefact = name.partition("/")[2] or _artefact_of(name)
        found[artefact] = found.get(artefact, 0) + cost.macs
    if any(macs <= 0 for macs in found.values()):
        raise BadInput(f"{what} has no multiply-adds to count, so no network is near it.")
    return found


def _artefact_of(name: str) -> str:
    suffix = name.rpartition(".")[2]
    precision = next((p for p in ("int8", "float16", "float32") if p in name), None)
    if suffix not in ("tflite", "onnx") or precision is None:
        raise BadInput(
            f"An artefact such as generator-int8.tflite was expected, its precision in its name; got {name}."
        )
    return f"{suffix}-{precision}"


def _lines(one: Nearest) -> list[str]:
    head = f"  {one.group}, {one.artefact} as {one.precision}, {one.macs / 1e6:.3g} M MACs:"
    rows = [f"    {row.macs / 1e6:.3g} M MACs, {_times(row.macs / one.macs)}: {row.describe()}" for row in one.rows]
    return [head, *(rows or ["    nothing was measured there"])]


def _times(ratio: float) -> str:
    return f"{ratio:.3g} times as many" if ratio >= 1 else f"{1 / ratio:.3g} times fewer"
