"""``edgeveil bundle``: what a sealed bundle is and says of itself, and what it sends."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.cli.common import Bundle, Json, RunOf, Trust, TrustForBundle, print_done, print_view
from edgeveil.trainer.cli.tree import bundles


@bundles.command("inspect", epilog="Example: edgeveil bundle inspect mnist.veil --trust trust")
def bundle_inspect(
    bundle: Bundle,
    trust: Trust,
    full: Annotated[bool, typer.Option("--full", help="Every member, board and measurement of its card.")] = False,
    as_json: Json = False,
) -> None:
    """Verify a bundle and show what it is, what it sends and what its privacy card says first."""
    from edgeveil.trainer.sealing.inspect import inspect

    print_view(inspect(bundle, trust, full=full), as_json=as_json)


@bundles.command("verify", epilog="Example: edgeveil bundle verify mnist.veil --trust trust")
def bundle_verify(bundle: Bundle, trust: Trust, as_json: Json = False) -> None:
    """Check signature, hashes and manifest of a bundle. Exit code 0: all are valid."""
    from edgeveil.trainer.sealing.inspect import verify

    print_view(verify(bundle, trust), as_json=as_json)


@bundles.command("card", epilog="Example: edgeveil bundle card mnist.veil mnist.cdx.json mnist-dpia.html --trust trust")
def bundle_card(
    bundle: Bundle,
    trust: Trust,
    files: Annotated[
        list[Path],
        typer.Argument(
            help="Files to write: FILE.json, CycloneDX 1.6 with the card as a model card; FILE.html, material for an "
            "assessment by Art. 35 GDPR."
        ),
    ],
    as_json: Json = False,
) -> None:
    """Write a bundle's privacy card as an ML-BOM, or as material for a data protection impact assessment."""
    from edgeveil.edge_runtime.bundle.reader import read_bundle
    from edgeveil.edge_runtime.bundle.trust_store import open_trust
    from edgeveil.edge_runtime.util.atomic import write_atomic
    from edgeveil.trainer.sealing.seal import checked_card

    if wrong := [path for path in files if path.suffix not in (".json", ".html")]:
        raise BadInput(f"A card is written as FILE.json (CycloneDX) or FILE.html (for Art. 35 GDPR); got {wrong[0]}.")
    trusted = open_trust(trust)
    opened = read_bundle(bundle, trusted)
    document = checked_card(opened)
    cards = {}
    for path in files:
        from edgeveil.trainer.report.ml_bom import ml_bom, render

        name = trusted.key_of(opened.key).name
        cards[path] = ml_bom(opened, document) if path.suffix == ".json" else render(opened, document, name).encode()
    for path, data in cards.items():
        write_atomic(path, data, keep_old=True)
    print_done("\n".join(f"Wrote {path}." for path in cards), {"wrote": [str(path) for path in cards]}, as_json=as_json)


@bundles.command("samples", epilog="Example: edgeveil bundle samples runs/mnist-export --out mnist-frozen.npz")
def bundle_samples(
    target: Annotated[Path, typer.Argument(help="Export folder, or a sealed .veil bundle with --run and --trust.")],
    out: Annotated[Path, typer.Option(help="The .npz file to write; must not exist.")],
    artefact: Annotated[str, typer.Option(help="Artefact that perturbs: the one that ships.")] = "tflite-int8",
    run: RunOf = None,
    trust: TrustForBundle = None,
    as_json: Json = False,
) -> None:
    """Write what an artefact sends as a fixed benchmark set, for others to attack."""
    from edgeveil.trainer.audit.frozen import open_target, write_frozen

    write_frozen(open_target(target, run=run, trust=trust, artefact=artefact), out)
    text = f"Wrote {out}: perturbed samples with y, z and their slices.\n"
    text += "Next: docs/explanation/adversaries.md says how to attack them."
    print_done(text, {"samples": str(out)}, as_json=as_json)
