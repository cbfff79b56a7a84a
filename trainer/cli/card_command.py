"""``edgeveil card``: a bundle's privacy card in the forms that others ask for."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.cli.common import Bundle, Trust
from edgeveil.trainer.progress import say

app = typer.Typer()


@app.command(epilog="Example: edgeveil card mnist.veil --trust trust --cyclonedx mnist.cdx.json --dpia mnist-dpia.html")
def card(
    bundle: Bundle,
    trust: Trust,
    cyclonedx: Annotated[
        Path | None, typer.Option(help="JSON file to write: CycloneDX 1.6, with the card as a model card.")
    ] = None,
    dpia: Annotated[
        Path | None, typer.Option(help="HTML file to write: material for an assessment by Art. 35 GDPR.")
    ] = None,
) -> None:
    """Write a bundle's privacy card as an ML-BOM, or as material for a data protection impact assessment."""
    from edgeveil.edge_runtime.bundle.reader import read_bundle
    from edgeveil.edge_runtime.bundle.trust_store import open_trust
    from edgeveil.edge_runtime.util.atomic import write_atomic
    from edgeveil.trainer.sealing.seal import checked_card

    if cyclonedx is None and dpia is None:
        raise BadInput("Nothing was asked for: name a file with --cyclonedx or --dpia, or see edgeveil bundle inspect.")
    if cyclonedx == dpia:
        raise BadInput(f"--cyclonedx and --dpia both name {dpia}: name two files.")
    trusted = open_trust(trust)
    opened = read_bundle(bundle, trusted)
    document = checked_card(opened)
    made = {}
    if cyclonedx is not None:
        from edgeveil.trainer.report.ml_bom import ml_bom

        made[cyclonedx] = ml_bom(opened, document)
    if dpia is not None:
        from edgeveil.trainer.report.ml_bom import render

        made[dpia] = render(opened, document, trusted.key_of(opened.key).name).encode()
    for path, data in made.items():
        write_atomic(str(path), data)
        say(f"Wrote {path}.")
