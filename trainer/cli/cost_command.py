"""``edgeveil bundle cost`` and ``edgeveil board estimate``: what networks cost to run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from edgeveil.edge_runtime.errors import BadInput, LimitNotMet
from edgeveil.edge_runtime.util.validate import counted
from edgeveil.trainer.cli.common import Json, TrustForBundle, print_either, verified_bundle
from edgeveil.trainer.cli.tree import board_group, bundles

if TYPE_CHECKING:
    from edgeveil.devices.published import Nearest


@bundles.command(epilog="Example: edgeveil bundle cost runs/mnist-export")
def cost(
    what: Annotated[Path, typer.Argument(help="A .tflite, .onnx or .keras file, an export folder, or a .veil bundle.")],
    npu: Annotated[
        list[str] | None,
        typer.Option(help="Also what an Arm Ethos-U runs of each int8 TFLite file, by Vela: ethos-u55-128, ..."),
    ] = None,
    shape: Annotated[
        list[str] | None, typer.Option(help="Sizes of an input that a file leaves open: NAME=1,3,224,224. Repeat it.")
    ] = None,
    trust: TrustForBundle = None,
    as_json: Json = False,
) -> None:
    """Count what a network costs: MACs, parameters, bytes of weights and activations, operations by type.

    What cannot be counted is listed by operation; the figures are then lower bounds, and the exit code is 3.

    With --npu, which may be repeated, Vela compiles the file for that Ethos-U: how many operations the NPU takes, why
    it leaves the others, and how long Vela expects a frame to take. Exit code 3 where it leaves any.
    """
    costs = {name: one.document() for name, one in costs_of(what, trust, _shapes(shape or [])).items()}
    placed = _placed(what, trust, npu or [])
    for name, documents in placed.items():
        costs[name]["ethos_u"] = documents
    text = "\n".join(line for name, document in costs.items() for line in _lines(name, document))
    print_either({"schema": 1, "costs": costs}, text, as_json=as_json)
    left = sum(one["on_cpu"] for documents in placed.values() for one in documents)
    if left:
        raise LimitNotMet(f"{left} operations would run on the CPU and not on the NPU.")
    missing = sum(sum(document.get("uncounted", {}).values()) for document in costs.values())
    if missing:
        opened = {name: one for document in costs.values() for name, one in document.get("open_inputs", {}).items()}
        named = (f"{name}={','.join('?' if size < 0 else str(size) for size in one)}" for name, one in opened.items())
        cure = f" Give the sizes that are open: {' '.join(f'--shape {one}' for one in named)}." if opened else ""
        raise LimitNotMet(f"{counted(missing, 'operation')} could not be counted; the figures are lower bounds.{cure}")


def _shapes(given: list[str]) -> dict[str, tuple[int, ...]]:
    """The sizes of inputs by name. Raises ``BadInput`` for what is no NAME=1,3,224,224."""
    shapes = {}
    for one in given:
        name, _, sizes = one.rpartition("=")
        if not name or not all(size.strip().isdecimal() and int(size) > 0 for size in sizes.split(",")):
            raise BadInput(f"--shape: NAME=1,3,224,224 was expected, whole numbers above 0; got {one}.")
        shapes[name] = tuple(int(size) for size in sizes.split(","))
    return shapes


def costs_of(what: Path, trust: Path | None, shapes: Mapping[str, tuple[int, ...]] | None = None) -> dict[str, Any]:
    """``FullCost`` by name: the file's own name, or ``model/artefact`` for each of a bundle or an export folder.

    ``shapes`` are those of inputs that a single file leaves open.
    """
    from edgeveil.trainer.graphs.cost import file_cost, model_file_cost

    if what.suffix == ".veil" or what.is_dir():
        if shapes:
            raise BadInput("--shape is for a single file; an export and a bundle leave no size open.")
        return {name: file_cost(data, kind) for name, (data, kind) in _files(what, trust).items()}
    return {what.name: model_file_cost(what, shapes)}


def _placed(what: Path, trust: Path | None, npus: list[str]) -> dict[str, list[dict[str, Any]]]:
    """What each NPU takes of the int8 TFLite files, by their names. Raises ``BadInput`` where there are none."""
    from edgeveil.trainer.graphs.vela import place

    if not npus:
        return {}
    if what.suffix == ".tflite":
        files = {what.name: (what.read_bytes(), "tflite")}
    elif what.suffix == ".veil" or what.is_dir():
        files = {name: one for name, one in _files(what, trust).items() if name.endswith("/tflite-int8")}
    else:
        files = {}
    if not files:
        raise BadInput(f"An int8 TFLite file was expected for an Ethos-U; {what} has none. Export it for one.")
    return {name: [one.document() for one in place(data, npus)] for name, (data, _) in files.items()}


def _files(what: Path, trust: Path | None) -> dict[str, tuple[bytes, str]]:
    """The files of a bundle or an export folder and their formats, by ``model/artefact``."""
    if what.suffix == ".veil":
        bundle = verified_bundle(what, trust)
        return _of_manifest(bundle.manifest.document, lambda name: bundle.members[name])
    try:
        manifest = json.loads((what / "manifest.json").read_text())
    except (OSError, ValueError):
        raise BadInput(f"An export folder with a manifest.json was expected; {what} has none.") from None
    return _of_manifest(manifest, lambda name: (what / name).read_bytes())


def _of_manifest(manifest: Any, read: Any) -> dict[str, tuple[bytes, str]]:
    by_name = {}
    for model, entry in manifest["models"].items():
        for artefact, facts in entry["artefacts"].items():
            if "compiled" in facts:
                continue  # its operations are those of the artefact it was made of, which is counted
            by_name[f"{model}/{artefact}"] = read(facts["file"]), facts["format"]
    if not by_name:
        raise BadInput("There is nothing to count: this pipeline has no models.")
    return by_name


def _lines(name: str, document: dict[str, Any]) -> list[str]:
    ops = ", ".join(f"{count} {kind}" for kind, count in document["ops"].items())
    return [
        f"{name}",
        f"  {document['macs']:,} MACs ({document['depthwise_macs']:,} depthwise), {document['flops']:,} FLOP",
        f"  {document['parameters']:,} parameters, {document['weight_bytes']:,} bytes of weights",
        f"  {document['peak_activation_bytes']:,} bytes of activations at once at least, "
        f"{document['input_bytes']:,} in and {document['output_bytes']:,} out a frame",
        f"  operations: {ops}",
        *(f"  not counted: {what}{f', {n} times' * (n > 1)}" for what, n in document.get("uncounted", {}).items()),
        *(line for placed in document.get("ethos_u", ()) for line in _npu_lines(placed)),
    ]


def _npu_lines(placed: dict[str, Any]) -> list[str]:
    all_of_them = placed["on_npu"] + placed["on_cpu"]
    head = f"  {placed['npu']}: {placed['on_npu']} of {all_of_them} operations on the NPU"
    if placed["ms"] is not None:
        head += (
            f"; ESTIMATED by Vela: {placed['ms']:.3g} ms a frame at {placed['clock_mhz']:.0f} MHz, {placed['system']}, "
            f"{placed['sram_kib']:.4g} KiB of SRAM and {placed['other_kib']:.4g} KiB beyond"
        )
    return [head, *(f"    on the CPU: {one}" for one in placed["left"])]


# What others measured on a board that is not at hand, of networks of a bundle's size.


@board_group.command(epilog="Example: edgeveil board estimate mnist.veil --trust trust --for jetson-nano")
def estimate(
    what: Annotated[Path, typer.Argument(help="A .veil bundle, an export folder, or one .tflite or .onnx file.")],
    profile: Annotated[str, typer.Option("--for", help="Board profile, by name or TOML file.")],
    trust: TrustForBundle = None,
    as_json: Json = False,
) -> None:
    """Show the networks measured on a board that are nearest by MACs, each with its source. Nothing is run.

    A network of twice the MACs does not take twice as long. Exit code 3 where nothing was measured on any board.
    """
    from edgeveil.devices import profiles, published

    board = profiles.load(profile, commands=True)  # nothing of it runs
    estimates = published.for_profile(macs_of(what, trust), board, published.published())
    rows = [one.document() for one in estimates]
    head = f"{board.title}: measured by others, networks alone; those nearest by MACs"
    text = "\n".join([head, *(line for one in estimates for line in _near_lines(one))])
    print_either({"schema": 2, "kind": "estimate", "profile": board.name, "estimates": rows}, text, as_json=as_json)
    if not any(one.rows for one in estimates):
        raise LimitNotMet("nothing was measured on any of these boards; measure there with edgeveil bench --on.")


def macs_of(what: Path, trust: Path | None) -> dict[str, float]:
    """The MACs of each artefact by name: the sum over the models of a pipeline. Raises ``BadInput``."""
    by_artefact: dict[str, float] = {}
    for name, cost in costs_of(what, trust).items():
        if cost.uncounted:
            raise BadInput(f"{what}: {', '.join(cost.uncounted)} cannot be counted, so no network is near it.")
        artefact = name.partition("/")[2] or _artefact_of(name)
        by_artefact[artefact] = by_artefact.get(artefact, 0) + cost.macs
    if any(macs <= 0 for macs in by_artefact.values()):
        raise BadInput(f"{what} has no multiply-adds to count, so no network is near it.")
    return by_artefact


def _artefact_of(name: str) -> str:
    suffix = name.rpartition(".")[2]
    precision = next((p for p in ("int8", "int16x8", "float16", "float32") if p in name), None)
    if suffix not in ("tflite", "onnx") or precision is None:
        raise BadInput(
            f"An artefact such as generator-int8.tflite was expected, its precision in its name; got {name}."
        )
    return f"{suffix}-{precision}"


def _near_lines(one: Nearest) -> list[str]:
    head = f"  {one.group}, {one.artefact} as {one.precision}, {one.macs / 1e6:.3g} M MACs:"
    rows = [f"    {row.macs / 1e6:.3g} M MACs, {_times(row.macs / one.macs)}: {row.describe()}" for row in one.rows]
    return [head, *(rows or ["    nothing was measured there"])]


def _times(ratio: float) -> str:
    return f"{ratio:.3g} times as many" if ratio >= 1 else f"{1 / ratio:.3g} times fewer"
