"""Blur, mosaic and silhouette by ``edgeveil wrap``, and the same rows by ``audit pairs``: is the verdict the same?

D_y and D_z are trained under the quick budget; few families attack, the same in both audits. Each mechanism is a piece
of its own in ``--runs``. Records docs/results/wraps.json.

    EDGEVEIL_DATA=... python -m scripts.measure.wraps
"""

import importlib
import os
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np

from edgeveil.edge_runtime.errors import LimitNotMet
from edgeveil.trainer.attacks.registry import adversaries
from edgeveil.trainer.audit.audit import audit
from edgeveil.trainer.audit.compare import audit_pairs
from edgeveil.trainer.audit.pair_files import read_pairs
from edgeveil.trainer.audit.subject import Subject, perturb_rows
from edgeveil.trainer.progress import say
from edgeveil.trainer.recipe.schema import Recipe
from edgeveil.trainer.runs.run import Run
from edgeveil.trainer.tensorflow_quiet import load_tensorflow
from edgeveil.trainer.wrap import wrap
from scripts import record

RESULT = Path("docs/results/wraps.json")
MECHANISMS = ("blur:sigma=2", "mosaic:6", "silhouette")
DATA = ("faces", "depth")
FAMILIES = ("fixed D_z", "shrinkage LDA on PCA", "random forest", "transfer")
ARTEFACT = "tflite-int8"


def few() -> None:
    """Have audits of this process ask ``FAMILIES`` alone."""
    chosen = tuple(one for one in adversaries() if one.name in FAMILIES)
    for name in ("audit.audit", "audit.floor", "audit.compare", "attacks.run_all"):
        module = importlib.import_module(f"edgeveil.trainer.{name}")
        module.adversaries = lambda: chosen  # type: ignore[attr-defined]


def both(data: str, mechanism: str, out: Path) -> dict[str, Any]:
    """Both verdicts about one mechanism on the slices that an audit learns and tests on."""
    say(f"{mechanism} on {data}")
    place = out / f"{data}-{mechanism.partition(':')[0]}-export"
    made = wrap(
        mechanism, Recipe.find(f"{data}-label-only"), place, profiles=["workstation"], budget="quick", replace=True
    )
    run = Run.open(made.run or place)
    dataset = run.dataset()
    rows = dataset.slices.rows()
    subject = Subject(made.manifest, made.members, ARTEFACT)
    left = perturb_rows(subject, run, dataset, rows).released
    of = {} if left.cluster is None else {"session": left.cluster}
    before, after = place.with_name(f"{place.name}-before.npz"), place.with_name(f"{place.name}-after.npz")
    np.savez(before, x=dataset.x[rows], y=left.y, z=left.z, **of)
    np.savez(after, x=left.x)
    found = {"audit": audit(place, artefact=ARTEFACT), "pairs": audit_pairs(read_pairs(before, after, order="matched"))}
    verdicts = {name: {key: one["verdict"][key] for key in ("word", "line")} for name, one in found.items()}
    same = verdicts["audit"]["word"] == verdicts["pairs"]["word"]
    facts = {"rows": len(rows), "sha256": subject.sha256(), "parity": made.report["parity"]}
    return {"data": data, "mechanism": mechanism, **facts, **verdicts, "equal": same}


def main() -> None:
    """Make the pieces that are missing, and the record; 3 where two verdicts differ."""
    script = record.Script(__file__, __doc__, out=RESULT)
    script.add_argument("--runs", type=Path, default=Path("runs/wraps"), help="runs, exports and pieces")
    script.add_argument("--data", nargs="+", choices=DATA, default=list(DATA))
    script.add_argument("--mechanisms", nargs="+", choices=MECHANISMS, default=list(MECHANISMS))
    options = script.parse_args()
    load_tensorflow()
    few()
    rows = [
        record.kept(
            options.runs / f"{data}-{one.partition(':')[0]}.json", lambda of=(data, one): both(*of, options.runs)
        )
        for data in options.data
        for one in options.mechanisms
    ]
    document = {**record.here(), "families": FAMILIES, "artefact": ARTEFACT, "rows": rows}
    record.write(options.out, script.made_by(options), document)
    if not all(row["equal"] for row in rows):
        raise LimitNotMet("two verdicts differ.")


if __name__ == "__main__":
    record.run(main)
