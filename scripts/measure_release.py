"""Measures a trained release as JSON: certificate, attacks on its codes, what it keeps.

    edgeveil train mnist-release --out runs/mnist-release
    python scripts/measure_release.py runs/mnist-release --tried 1
    edgeveil export runs/mnist-release --for workstation --out exports/mnist-release
    python scripts/measure_release.py runs/mnist-release --export exports/mnist-release --artefact tflite-int8 --tried 1

With ``--export`` the codes are those of that artefact through the edge runtime, else those of Keras.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from edge_runtime.pipeline import Pipeline, load_pipeline
from trainer.audit.perturbing import in_chunks
from trainer.audit.releases import measure
from trainer.export.folder import ExportFolder
from trainer.perturbers.base import KerasRunner
from trainer.run import Run


def main() -> None:
    """Measure and print one JSON document."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path, help="folder that `edgeveil train` made of a release recipe")
    parser.add_argument("--export", type=Path, help="folder that `edgeveil export` made of it")
    parser.add_argument("--artefact", default="tflite-int8", help="of the export: tflite-int8, onnx-float32, ...")
    parser.add_argument("--strata", nargs="*", default=[], help="attributes within which z is balanced by design")
    parser.add_argument(
        "--tried",
        type=int,
        required=True,
        help="configurations ever compared on these test rows: they share the confidence",
    )
    asked = parser.parse_args()
    run = Run.open(asked.run)
    dataset, section, fitted = run.dataset(), run.recipe.perturber, run.perturber()
    table = fitted.tables.get("channel")
    before = {"name": "sent", "kind": "code", "tensor": "code", "shape": [], "dtype": "int64"}
    if asked.export:
        folder = ExportFolder.open(asked.export)
        manifest = {**folder.manifest, "outputs": [*folder.manifest["outputs"], before]}
        pipeline = load_pipeline(manifest, folder.members, asked.artefact)
    else:
        description: dict[str, Any] = {**fitted.description(), "outputs": [*fitted.outputs, before]}
        runners = {name: KerasRunner(model) for name, model in fitted.models.items()}
        pipeline = Pipeline(description, tables=dict(fitted.tables), runners=runners)
    strata = None
    if asked.strata:
        values = np.stack([dataset.attributes[name] for name in asked.strata], axis=1)
        strata = np.unique(values, axis=0, return_inverse=True)[1].reshape(-1)
    found = measure(
        dataset,
        lambda x: in_chunks(pipeline.run, x),
        codes=len(dataset.y_names) * section.codes,
        channel=table,
        strata=strata,
        tried=asked.tried,
    )
    print(json.dumps({"recipe": run.recipe.name, "artefact": asked.artefact if asked.export else "keras", **found}))


if __name__ == "__main__":
    main()
