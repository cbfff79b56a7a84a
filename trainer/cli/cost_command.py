"""``edgeveil cost``: count what networks cost to run, without running them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.cli.common import Json, TrustForBundle, print_json, verified_bundle

app = typer.Typer()


@app.command(epilog="Example: edgeveil cost runs/mnist-export")
def cost(
    what: Annotated[Path, typer.Argument(help="A .tflite, .onnx or .keras file, an export folder, or a .veil bundle.")],
    trust: TrustForBundle = None,
    as_json: Json = False,
) -> None:
    """Count what a network costs: MACs, parameters, bytes of weights and activations, operations by type."""
    costs = {name: one.document() for name, one in costs_of(what, trust).items()}
    if as_json:
        print_json({"schema": 1, "costs": costs})
        return
    for name, document in costs.items():
        print("\n".join(_lines(name, document)))


def costs_of(what: Path, trust: Path | None) -> dict[str, Any]:
    """``FullCost`` by name: the file's own name, or ``model/artefact`` for each of a bundle or an export folder."""
    from edgeveil.trainer.graphs.cost import model_file_cost

    if what.suffix == ".veil":
        bundle = verified_bundle(what, trust)
        return _of_manifest(bundle.manifest.document, lambda name: bundle.members[name])
    if what.is_dir():
        try:
            manifest = json.loads((what / "manifest.json").read_text())
        except (OSError, ValueError):
            raise BadInput(f"An export folder with a manifest.json was expected; {what} has none.") from None
        return _of_manifest(manifest, lambda name: (what / name).read_bytes())
    return {what.name: model_file_cost(what)}


def _of_manifest(manifest: Any, read: Any) -> dict[str, Any]:
    from edgeveil.trainer.graphs.cost import file_cost

    found = {}
    for model, entry in manifest["models"].items():
        for artefact, facts in entry["artefacts"].items():
            if "compiled" in facts:
                continue  # its operations are those of the artefact it was made of, which is counted
            found[f"{model}/{artefact}"] = file_cost(read(facts["file"]), facts["format"])
    if not found:
        raise BadInput("There is nothing to count: this pipeline has no models.")
    return found


def _lines(name: str, document: dict[str, Any]) -> list[str]:
    ops = ", ".join(f"{count} {kind}" for kind, count in document["ops"].items())
    return [
        f"{name}",
        f"  {document['macs']:,} MACs ({document['depthwise_macs']:,} depthwise), {document['flops']:,} FLOP",
        f"  {document['parameters']:,} parameters, {document['weight_bytes']:,} bytes of weights",
        f"  {document['peak_activation_bytes']:,} bytes of activations at once at least, "
        f"{document['input_bytes']:,} in and {document['output_bytes']:,} out a frame",
        f"  operations: {ops}",
    ]
