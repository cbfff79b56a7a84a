"""Generators whose int8 files lose y, without and with [perturber.int8]: y and z on the test slice, by artefact.

Both trainings of a case have the same seed, so that they differ by the fine-tuning alone. Files are those of an export
for the workstation; y and z are what the recipe's own D_y and D_z read. Finished runs in --work are taken.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from edgeveil.edge_runtime.errors import LimitNotMet
from edgeveil.trainer.export.export import export
from edgeveil.trainer.export.folder import ExportFolder
from edgeveil.trainer.ext.sweep.axes import settings, with_settings
from edgeveil.trainer.graphs.prediction import predict
from edgeveil.trainer.recipe.schema import Recipe
from edgeveil.trainer.report.frontier import through
from edgeveil.trainer.runs.run import Run
from edgeveil.trainer.tensorflow_quiet import load_tensorflow
from edgeveil.trainer.train import train
from scripts import record

OUT = record.RESULTS / "fine-tuning.json"
# Name: recipe, budget, and what is set in it.
CASES: dict[str, tuple[str, str, list[str]]] = {"digits, as shipped": ("digits-prgan", "quick", [])}
TUNING = ["perturber.int8.epochs=20"]
ARTEFACTS = ("tflite-float32", "tflite-int8", "onnx-int8")


def figures(case: str, work: Path) -> dict[str, Any]:
    """y and z of each artefact without and with the fine-tuning."""
    name, budget, changes = CASES[case]
    found: dict[str, Any] = {"case": case, "recipe": name, "budget": budget, "settings": changes}
    for way, more in (("without", []), ("with", TUNING)):
        folder = work / f"{case.replace(',', '').replace(' ', '-')}-{way}"
        recipe = with_settings(Recipe.find(name), settings([*changes, *more]))
        if not (folder / "perturber" / "perturber.json").is_file():
            try:
                train(recipe, folder, budget=budget)
            except LimitNotMet as missed:  # the best that there is counts
                print(missed, file=sys.stderr)
        run = Run.open(folder)
        out = folder.with_name(f"{folder.name}-export")
        exported = ExportFolder.open(out) if out.is_dir() else export(folder, [], out, all_formats=True)
        found[way] = {"files": [read(run, exported, one) for one in ARTEFACTS], "training": run.facts.get("int8")}
    return found


def read(run: Run, exported: ExportFolder, artefact: str) -> dict[str, Any]:
    """What D_y and D_z read of the test slice from one artefact."""
    dataset, part = run.dataset(), run.dataset().part("test")
    unit = dataset.unit(through(exported, artefact, part.x))
    by = run.classifiers()
    right = {
        letter: float((predict(by[name], unit).argmax(axis=1) == truth).mean())
        for letter, name, truth in (("y", "target", part.y), ("z", "sensitive", part.z))
    }
    return {"artefact": artefact, "rows": len(part), **right}


def main() -> int:
    """Record the cases that were named, or all."""
    script = record.Script(__file__, __doc__, out=OUT)
    script.add_argument("cases", nargs="*", default=list(CASES), metavar="CASE", help=f"of {', '.join(CASES)}")
    script.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / "edgeveil-tuning", help="folder")
    asked = script.parse_args()
    if unknown := [name for name in asked.cases if name not in CASES]:
        script.error(f"expected names of {', '.join(CASES)}; got {', '.join(unknown)}")
    load_tensorflow()
    rows = [figures(case, asked.work) for case in asked.cases]
    record.write(asked.out, script.made_by(asked), {**record.here(), "tuning": TUNING, "cases": rows})
    return 0


if __name__ == "__main__":
    record.run(main)
