"""PR-GAN on MNIST in ten seeds: y and z as D_y and D_z read them from the int8 file, the best attack, and the time.

What ships is attacked as its int8 file, by the families that read most on record and cost least. Each seed is kept in
``--runs`` when it is done, so that the script goes on. Records docs/results/prgan-seeds.json.

    EDGEVEIL_DATA=... python -m scripts.measure.prgan_seeds
"""

import time
from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.edge_runtime.errors import BadInput, LimitNotMet, PrivacyStop
from edgeveil.trainer.attacks.problem import BUDGETS
from edgeveil.trainer.attacks.registry import adversaries
from edgeveil.trainer.audit.floor import examine
from edgeveil.trainer.audit.subject import KERAS, Subject, perturb_rows
from edgeveil.trainer.export.export import export
from edgeveil.trainer.progress import say
from edgeveil.trainer.recipe.schema import Recipe
from edgeveil.trainer.runs.run import Run
from edgeveil.trainer.tensorflow_quiet import load_tensorflow
from edgeveil.trainer.train import train
from scripts import audit_rows, record

RESULT = Path("docs/results/prgan-seeds.json")
# What replaces [budget.quick]: all rows that there are, batch and epochs.
QUICK = {"rows": 70_000, "batch": 64, "classifier_epochs": 3, "epochs": 8}
FAMILIES = ("fixed D_z", "BatchNorm CNN")


def recipe(seed: int) -> Recipe:
    """That of the library, under ``QUICK``."""
    table = Recipe.find("mnist-prgan").model_dump(exclude_none=True) | {"seed": seed}
    epochs = {name: count for name, count in QUICK.items() if name != "rows"}
    return Recipe.of_table({**table, "budget": {**table["budget"], **epochs, "quick": QUICK}})


def trained(found: Recipe, folder: Path) -> tuple[Run, dict[str, float]]:
    """The run, and its seconds by the wall and of the processor, from an earlier call where that got as far; one that
    misses its limit counts too."""

    def make() -> dict[str, float]:
        began = time.perf_counter(), time.process_time()
        try:
            train(found, folder, budget="quick", replace=True)
        except LimitNotMet as missed:
            say(str(missed))
        return {"wall": time.perf_counter() - began[0], "processor": time.process_time() - began[1]}

    seconds = record.kept(folder.with_name(f"{folder.name}-seconds.json"), make)
    return Run.open(folder), seconds


def examined(run: Run, subject: Subject, seed: int) -> dict[str, Any]:
    """y and z read from what the file gives for every slice."""
    dataset = run.dataset()
    released = perturb_rows(subject, run, dataset, dataset.slices.rows()).released
    chosen = tuple(one for one in adversaries() if one.name in FAMILIES)
    found = examine(dataset, released, run.classifiers(), BUDGETS["quick"], seed, families=lambda _: chosen)
    part = audit_rows.part(found.findings("y", "z"), "y", "z")
    rows = {"rows": {"all": len(dataset.slices.rows()), "test": len(dataset.slices.test)}}
    return {**rows, **{name: part[name] for name in ("target", "chance", "adversaries", "worst_adaptive")}}


def measured(seed: int, out: Path) -> dict[str, Any]:
    """The time of one seed, what its file keeps and hides, and how far it is from the Keras model.

    Where export refuses it, as Table 2 has it: the perturber as it was trained, and the reason.
    """
    say(f"PR-GAN: seed {seed}")
    place = out / f"mnist-keras-{seed}"
    run, seconds = trained(recipe(seed), place)
    networks = {"D_y": run.classifiers()["target"], **run.perturber().models}
    facts = {"seconds": seconds, "parts": run.facts["wall_time_s"]}
    facts["parameters"] = {name: model.count_params() for name, model in networks.items()}
    try:
        made = export(run.folder, ["workstation"], place.with_name(f"{place.name}-export"), replace=True)
        subject = Subject(made.manifest, made.members, "tflite-int8")
        facts |= {"sha256": subject.sha256(), "parity": made.report["parity"]}
    except (BadInput, PrivacyStop) as error:
        subject = Subject({}, {}, KERAS)
        facts["not_exported"] = str(error)
    return {"data": "mnist", "framework": "keras", "seed": seed, **facts, "audit": examined(run, subject, seed)}


def main() -> None:
    """Make the seeds that are missing, and the record of all."""
    script = record.Script(__file__, __doc__, out=RESULT)
    script.add_argument("--runs", type=Path, default=Path("runs/frameworks"), help="runs, exports and pieces")
    script.add_argument("--seeds", nargs="+", type=int, default=list(range(10)))
    options = script.parse_args()
    load_tensorflow()
    runs = options.runs
    runs.mkdir(parents=True, exist_ok=True)
    rows = [
        record.kept(runs / f"mnist-keras-{seed}.json", lambda seed=seed: measured(seed, runs)) for seed in options.seeds
    ]
    fixed = [next(one for one in row["audit"]["adversaries"] if one["kind"] == "fixed")["accuracy"] for row in rows]
    y = [row["audit"]["target"]["accuracy"] for row in rows]
    summary = {"fixed": {"mean": float(np.mean(fixed)), "worst": max(fixed)}, "y": {"least": min(y)}}
    record.write(options.out, script.path, {"budget": QUICK, "rows": rows, "summary": summary, **record.here()})


if __name__ == "__main__":
    record.run(main)
