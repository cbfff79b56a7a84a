"""Table 2 of paper 001, and beyond it: every perturber of every data set, trained, exported and attacked, seed by seed.

Each (data, perturber, seed) is one record in docs/results/privacy/table-2/, written when it is done: run again, the
script goes on with those that are missing. With ``--budget thorough`` it also audits anew what only a quick audit is on
record of. Classifiers are trained once per data set and seed, and shared. What ships is audited as its int8 artefact
through the edge runtime's backend (laplace, which has no model, as numpy); original, random, PASS and label-only never
ship and are attacked as they are made, and so is what export refuses: the record has its reason.

    EDGEVEIL_DATA=... python -m scripts.papers.table_2 --data mnist wifi --seeds 0 1 2
"""

import os
import shlex
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np

from edgeveil.edge_runtime.errors import BadInput, LimitNotMet
from edgeveil.trainer.attacks.problem import BUDGETS
from edgeveil.trainer.audit import subject
from edgeveil.trainer.audit.audit import audit
from edgeveil.trainer.audit.findings import about_label_only
from edgeveil.trainer.audit.floor import examine, raw_rates
from edgeveil.trainer.export.export import export
from edgeveil.trainer.export.folder import ExportFolder
from edgeveil.trainer.progress import say
from edgeveil.trainer.recipe.schema import Recipe
from edgeveil.trainer.runs.run import Run
from edgeveil.trainer.tensorflow_quiet import load_tensorflow
from edgeveil.trainer.train import train
from scripts import audit_rows, record
from scripts.papers import floors
from scripts.papers.baselines import ROWS, Mechanism

DATA = ("mnist", "wifi", "faces", "depth")
TRAINED = ("prgan", "ngp", "ap", "laplace", "minimax")
RECORDS = Path("docs/results/privacy/table-2")


def trained(data: str, kind: str, seed: int, out: Path) -> Run:
    """The finished run, made now or earlier, with the classifiers of a finished run of this data set and seed."""
    recipe = floors.at_floor(data, kind).model_copy(update={"seed": seed})
    return complete(recipe, out / data / str(seed) / kind, finished(data, seed, out))


def complete(recipe: Recipe, folder: Path, classifiers: Path | None) -> Run:
    """The finished run in ``folder``, made now or earlier, with the classifiers of another run if there is one."""
    if (folder / "perturber").is_dir():
        run = Run.open(folder)
        if run.recipe != recipe:
            raise BadInput(f"{folder} holds a run of another recipe than {recipe.name} of today: move it away first.")
        return run
    begun = (folder / "run.json").is_file()
    try:
        return train(recipe, folder, resume=begun, classifiers=None if begun else classifiers)
    except LimitNotMet as error:
        say(str(error))  # a row of the table all the same: the record says that the floor was missed
        return Run.open(folder)


def finished(data: str, seed: int, out: Path) -> Path | None:
    """The folder of a run of this data set and seed that is complete, if there is one."""
    folders = (out / data / str(seed) / kind for kind in (*TRAINED, "label-only"))
    return next((folder for folder in folders if (folder / "perturber").is_dir()), None)


def with_classifiers(data: str, seed: int, out: Path) -> Run:
    """A run for its data set and classifiers alone; the one that trains fastest where there is none."""
    folder = finished(data, seed, out)
    return trained(data, "label-only", seed, out) if folder is None else Run.open(folder)


def exported(run: Run, out: Path) -> Path:
    """The folder of its export, made now or earlier."""
    folder = out / "exports" / run.folder.relative_to(out)
    if not (folder / "manifest.json").is_file():
        export(run.folder, ["workstation"], folder)
    return folder


def of_what_ships(
    run: Run, out: Path, budget: str, seed: int, floor: Sequence[Mapping[str, Any]] | None
) -> dict[str, Any]:
    """The audit of the exported artefact, or, where export refuses it, of the perturber as it was trained."""
    try:
        folder = exported(run, out)
    except BadInput as error:
        say(str(error))
        return {**of_a_comparison(run, run.perturber(), budget, seed), "not_exported": str(error)}
    models = ExportFolder.open(folder).manifest["models"]
    artefact = "tflite-int8" if models else "numpy"
    return audit(folder, artefact=artefact, budget=budget, seed=seed, label_only=floor, resume=True)


def of_a_comparison(run: Run, fitted: Mechanism, budget: str, seed: int) -> dict[str, Any]:
    """The same attacks on a row that never ships."""
    load_tensorflow()
    dataset, classifiers = run.dataset(), run.classifiers()
    rows = dataset.slices.rows()
    outputs = subject.in_chunks(fitted.perturb, dataset.x[rows])
    left = subject.released_rows(fitted.outputs, outputs, dataset, rows)
    audited = examine(dataset, left, classifiers, BUDGETS[budget], seed)
    fields = audit_rows.part(audited.findings("y", "z"), "y", "z")
    return {**fields, "raw": raw_rates(dataset, classifiers), "budget": budget, "seed": seed}


def short(document: Mapping[str, Any]) -> dict[str, Any]:
    """What tables are made of; the certificate and what does not change from audit to audit are left out."""
    names = (
        "target", "chance", "adversaries", "not_run", "worst_adaptive", "most_bits", "raw", "budget", "seed",
        "speaks_of", "collateral", "wall_time_s", "label_only", "data", "learning_curve", "warnings", "probes",
        "diagnostic", "intervals", "not_exported",
    )  # fmt: skip
    fields = {**document, **audit_rows.fields(document)} if "findings" in document else document
    return {name: fields[name] for name in names if name in fields}


def recorded(path: Path, budget: str) -> bool:
    """Whether there is a record of an audit that tried at least as hard."""
    return path.is_file() and (budget == "quick" or record.read(path)["audit"]["budget"] == budget)


def main() -> None:
    """Make the records that are missing."""
    script = record.Script(__file__, __doc__, "--data wifi --seeds 0")
    script.add_argument("--out", type=Path, default=Path("runs/table-2"), help="runs and exports")
    script.add_argument("--data", nargs="+", choices=DATA, default=list(DATA))
    script.add_argument("--rows", nargs="+", choices=[*TRAINED, *ROWS], default=[*TRAINED, *ROWS])
    script.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    script.add_argument("--budget", choices=sorted(BUDGETS), default="quick", help="how hard the adversaries try")
    options = script.parse_args()
    for seed in options.seeds:
        for data in options.data:
            floor = None
            for row in options.rows:
                path = RECORDS / f"{data}-{row.replace(' ', '-')}-{seed}.json"
                if recorded(path, options.budget):
                    continue
                say(f"{data}, {row}, seed {seed}")
                started = time.monotonic()
                run = (
                    trained(data, row, seed, options.out)
                    if row in TRAINED
                    else with_classifiers(data, seed, options.out)
                )
                if row in TRAINED:
                    document = of_what_ships(run, options.out, options.budget, seed, floor)
                    floor = about_label_only(document) if "findings" in document else floor
                    facts = {name: run.facts[name] for name in ("validation", "wall_time_s", "limit_met", "recipe")}
                    facts |= floors.facts(run.recipe)
                else:
                    fitted = ROWS[row](run, np.random.default_rng([seed, 7]))
                    document, facts = of_a_comparison(run, fitted, options.budget, seed), {}
                result = {
                    "data": data,
                    "row": row,
                    "seed": seed,
                    "training": facts,
                    "audit": short(document),
                    **record.here(),
                    "wall_s": round(time.monotonic() - started, 1),
                }
                words = ["--data", data, "--rows", row, "--seeds", str(seed), "--budget", options.budget]
                record.write(path, shlex.join([script.path, *words]), result)


if __name__ == "__main__":
    record.run(main)
