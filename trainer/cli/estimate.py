"""``edgeveil estimate``: a bundle's frame rate on a board that is not at hand, as a range with its provenance."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from edgeveil.edge_runtime.errors import BadInput, LimitNotMet
from edgeveil.trainer.cli.common import Json, TrustForBundle, print_json

if TYPE_CHECKING:
    from edgeveil.devices.latency.estimate import Estimate, Network


app = typer.Typer()


@app.command(epilog="Example: edgeveil estimate mnist.veil --trust trust --for jetson-nano")
def estimate(
    what: Annotated[Path, typer.Argument(help="A .veil bundle, an export folder, or one .tflite or .onnx file.")],
    profile: Annotated[str, typer.Option("--for", help="Board profile, by name or TOML file.")],
    trust: TrustForBundle = None,
    measured: Annotated[
        list[Path] | None, typer.Option(help="Your own results, of edgeveil-edge bench --json; may be repeated.")
    ] = None,
    reference: Annotated[
        str | None, typer.Option(help="Also Table 4's way: BOARD/RUNTIME=MS, this network's time on one of the table.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Estimate frames a second on a board, as a range, from what others measured there. Nothing is run.

    Far outside what was measured there is no range. BOUND is what a network measured there that costs more in every
    respect allows. ESTIMATE, for small networks, is an overhead and a rate fitted there; ERROR, how far off that was on
    networks left out. Exit code 3 where there is none of them for any board.
    """
    from edgeveil.devices import profiles
    from edgeveil.devices.latency import calibration
    from edgeveil.devices.latency.estimate import FARTHEST, SHARE, for_profile, line_for

    board = profiles.load(profile)
    own = calibration.measured(measured or [])
    table = [*calibration.published(), *own]
    found = for_profile(networks_of(what, trust), board, calibration.published(), own)
    lines: list[dict[str, Any] | None] = [None] * len(found)
    if reference is not None:
        name, ms = _reference(reference)
        lines = [line_for(table, name, ms, one.group, one.precision) for one in found]
    if as_json:
        document = {"schema": 1, "kind": "estimate", "profile": board.name, "share": SHARE, "farthest": FARTHEST}
        rows = [one.document() | {"line": line} for one, line in zip(found, lines, strict=True)]
        print_json({**document, "estimates": rows})
    else:
        print(f"{board.title}: ESTIMATED, not measured; {SHARE:.0%} ranges of the networks alone, one thread")
        for one, line in zip(found, lines, strict=True):
            print("\n".join(_lines(one)))
            if line is not None:
                print(f"    Table 4's line from {reference}: {_line(line)}")
    if all(one.refused and one.fps_at_least is None and one.by_overhead is None for one in found):
        raise LimitNotMet("no estimate can be given for any of these boards; measure there with edgeveil bench --on.")


def _reference(text: str) -> tuple[str, float]:
    name, _, ms = text.rpartition("=")
    try:
        value = float(ms)
    except ValueError:
        value = 0.0
    if not name or not 0 < value < 1e9:
        raise BadInput(f"A reference such as coral-dev-board-cpu/tflite=120.5 (ms) was expected; got {text!r}.")
    return name, value


def _line(line: dict[str, Any]) -> str:
    if "refused" in line:
        return f"REFUSED, {line['refused']}"
    high = f"{line['fps_high']:.3g}" if line["fps_high"] is not None else "any number of"
    return f"{line['fps_low']:.3g} to {high} frames a second, through {line['networks']} networks"


def networks_of(what: Path, trust: Path | None) -> dict[str, Network]:
    """The size of each artefact by name: the sum over the models of a pipeline. Raises ``BadInput``."""
    from edgeveil.devices.latency.estimate import Network
    from edgeveil.trainer.cli.cost_command import costs_of

    costs: dict[str, list[Any]] = {}
    for name, cost in costs_of(what, trust).items():
        costs.setdefault(name.partition("/")[2] or _artefact_of(name), []).append(cost)
    found = {
        artefact: Network(
            what.stem,
            sum(cost.macs for cost in models),
            sum(cost.depthwise_macs for cost in models),
            sum(cost.parameters for cost in models),
            max(cost.input_values for cost in models),
        )
        for artefact, models in costs.items()
    }
    if any(network.macs <= 0 for network in found.values()):
        raise BadInput(f"{what} has no multiply-adds to count, so there is nothing to estimate from.")
    return found


def _artefact_of(name: str) -> str:
    suffix = name.rpartition(".")[2]
    precision = next((p for p in ("int8", "float16", "float32") if p in name), None)
    if suffix not in ("tflite", "onnx") or precision is None:
        raise BadInput(
            f"An artefact such as generator-int8.tflite was expected, its precision in its name; got {name}."
        )
    return f"{suffix}-{precision}"


def _small(one: Estimate) -> list[str]:
    found = one.by_overhead
    if found is None:
        return []
    off = found.error
    return [
        f"    ESTIMATE: about {found.fps:.3g} frames a second, likely too low: {found.overhead_ms:.3g} ms of overhead "
        f"and {found.ms_per_gmac:.3g} ms a GMAC, fitted to {found.networks} networks there",
        f"    ERROR of the estimate: {off.median:.3g} times in the median and {off.worst:.3g} at worst, on "
        f"{off.networks} of these predicted from larger ones; no farther than {off.far:.3g} times below them",
    ]


def _lines(one: Estimate) -> list[str]:
    head = f"  {one.group}, {one.artefact} as {one.precision}"
    if one.refused:
        lines = [f"{head}: no range, {one.refused}"]
        if one.fps_at_least is not None:
            lines.append(f"    BOUND: at least {one.fps_at_least:.3g} frames a second, 9 in 10: {one.because}")
        return lines + _small(one)
    middle = f", about {one.fps:.3g}" if one.fps is not None else ""
    far = "inside" if one.far == 1 else f"{one.far:.2g} times outside"
    low, high = one.macs_range or (0, 0)
    return [
        f"{head}: {one.fps_low:.3g} to {one.fps_high:.3g} frames a second{middle}",
        f"    {far} the {low / 1e6:.3g} to {high / 1e6:.3g} M MACs of {one.networks} networks ({one.rows} rows) there",
        *(f"    carried by {weight:+.2f} {row}" for row, weight in one.carried_by),
    ]
