"""Measures a trained release as JSON: certificate, attacks on its codes, what it keeps.

    edgeveil train mnist-release --out runs/mnist-release
    python scripts/measure_release.py runs/mnist-release
    edgeveil export runs/mnist-release --for workstation --out exports/mnist-release
    python scripts/measure_release.py runs/mnist-release --export exports/mnist-release --artefact tflite-int8

Of a release that is held, the code is drawn from P(c | y-hat): what is counted there is y-hat, each reading standing
for a whole track.

With ``--export`` the codes are those of that artefact through the edge runtime, else those of Keras. Strata of the null
and the number of configurations tried are those of the recipe's ``[certificate]``. ``scripts/reproduce_release.py``
does all of this for several seeds.
"""

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.edge_runtime.manifest.manifest import parse
from edgeveil.edge_runtime.pipeline.pipeline import Pipeline, load_pipeline
from edgeveil.trainer.audit.sections.certificate_section import strata_of
from edgeveil.trainer.audit.sections.codebook_summary import measure
from edgeveil.trainer.audit.subject import in_chunks
from edgeveil.trainer.export.folder import ExportFolder
from edgeveil.trainer.recipe.schema import Certificate
from edgeveil.trainer.runs.fitted import KerasRunner
from edgeveil.trainer.runs.run import Run

KERAS = "keras"


def holds(run: Run) -> bool:
    """Whether all that leaves of x is y-hat, of a track or as it is: codes are drawn from P(c | y-hat), x or no x."""
    stream = run.perturber().stream
    return stream is not None and stream["hold"] != "frame"


def told(run: Run, outputs: Mapping[str, np.ndarray]) -> np.ndarray:
    """What of ``outputs`` depends on x and nothing else does: the code c', or where it is held, y-hat."""
    return outputs["label" if holds(run) else "code"]


def pipeline(run: Run, export: ExportFolder | None, artefact: str) -> Pipeline:
    """The release of a run, on Keras or as one artefact of its export; an output ``sent`` says c."""
    fitted = run.perturber()
    label = next(output["tensor"] for output in fitted.outputs if output["kind"] == "label")
    tensor = label if holds(run) else "code"  # before any channel
    sent = {"name": "sent", "kind": "code", "tensor": tensor, "shape": [], "dtype": "int64"}
    if export is not None and artefact != KERAS:
        manifest = {**export.manifest, "outputs": [*export.manifest["outputs"], sent]}
        return load_pipeline(parse(manifest), export.members, artefact)
    description: dict[str, Any] = {**fitted.description(), "outputs": [*fitted.outputs, sent]}
    runners = {name: KerasRunner(model) for name, model in fitted.models.items()}
    return Pipeline(parse(description), tables=dict(fitted.tables), runners=runners)


def measured(run: Run, through: Pipeline, *, tried: int | None = None) -> tuple[dict[str, Any], Mapping[str, Any]]:
    """What ``edgeveil.trainer.audit.sections.codebook_summary`` says of it, and its outputs on the test slice."""
    dataset, asked = run.dataset(), run.recipe.certificate or Certificate()
    outputs: list[Mapping[str, np.ndarray]] = []

    def perturb(x: np.ndarray) -> Mapping[str, np.ndarray]:
        outputs.append(in_chunks(through.run, x))
        return {**outputs[-1], "code": told(run, outputs[-1])}

    found = measure(
        dataset,
        perturb,
        codes=len(dataset.y_names) * (1 if holds(run) else run.recipe.perturber.codes),
        channel=None if holds(run) else run.perturber().tables.get("channel"),
        strata=strata_of(dataset, asked.strata),
        tried=asked.tried if tried is None else tried,
    )
    return found, outputs[0]


def main() -> None:
    """Measure and print one JSON document."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path, help="folder that `edgeveil train` made of a release recipe")
    parser.add_argument("--export", type=Path, help="folder that `edgeveil export` made of it")
    parser.add_argument("--artefact", default="tflite-int8", help="of the export: tflite-int8, onnx-float32, ...")
    parser.add_argument("--tried", type=int, help="configurations ever compared on these test rows")
    asked = parser.parse_args()
    run = Run.open(asked.run)
    artefact = asked.artefact if asked.export else KERAS
    export = ExportFolder.open(asked.export) if asked.export else None
    found, _ = measured(run, pipeline(run, export, artefact), tried=asked.tried)
    print(json.dumps({"recipe": run.recipe.name, "artefact": artefact, **found}))


if __name__ == "__main__":
    main()
