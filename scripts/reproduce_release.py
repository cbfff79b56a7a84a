"""Trains, exports and measures a release on several seeds, and records what its int8 artefact leaks and keeps.

    python scripts/reproduce_release.py mnist-release --out runs --record docs/results/privacy/release-mnist.json

A seed is other slices, other first weights and another order. Each is recorded when it is done; run again, the script
goes on with those that are missing. Keras, float32 and int8 stand side by side, through the edge runtime; y-hat of int8
is compared with that of Keras on the same test rows (McNemar's test, and by how much it may be worse at most).
"""

import argparse
import hashlib
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from measure_release import KERAS, measured, pipeline
from scipy import stats

from edge_runtime.errors import LimitNotMet
from edge_runtime.files import write_atomic
from trainer.audit.auditing import raw_rates
from trainer.audit.document import environment
from trainer.export import export as export_run
from trainer.export.folder import ExportFolder
from trainer.export.quiet import load_tensorflow
from trainer.recipe import Recipe
from trainer.run import Run
from trainer.train import train

ARTEFACTS = (KERAS, "tflite-float32", "tflite-int8")
AGAIN = 16  # releases of the same x
AGAIN_ROWS = 300


def paired(right: np.ndarray, reference: np.ndarray) -> dict[str, float]:
    """Two answers to the same rows, right (n,) or not: McNemar's exact p that ``right`` is worse, and its margin.

    ``worse_by_at_most`` is the upper end of the one-sided 95 % interval for the difference of the two accuracies: the
    smallest margin at which this sample supports "not worse" (Wald, Agresti and Min's half rows added).
    """
    lost, gained = int((~right & reference).sum()), int((right & ~reference).sum())
    p = float(stats.binomtest(lost, lost + gained, alternative="greater").pvalue) if lost + gained else 1.0
    n, b, c = len(right) + 2.0, lost + 0.5, gained + 0.5
    error = np.sqrt(b + c - (b - c) ** 2 / n) / n
    return {
        "rows": len(right),
        "lost": lost,
        "gained": gained,
        "p_worse": p,
        "worse_by": (lost - gained) / len(right),
        "worse_by_at_most": float((b - c) / n + stats.norm.ppf(0.95) * error),
    }


def seed_record(recipe: Recipe, seed: int, out: Path) -> dict[str, Any]:
    """Train, export and measure one seed; what is there already is used."""
    recipe = recipe.model_copy(update={"seed": seed})
    folder, exported = out / f"{recipe.name}-{seed}", out / f"{recipe.name}-{seed}-export"
    started = time.monotonic()
    finished = (folder / "run.json").is_file() and Run.open(folder).facts["state"] == "finished"
    if not finished:
        try:
            train(recipe, folder, resume=(folder / "run.json").is_file())
        except LimitNotMet as error:
            print(error)  # the record says limit_met
    if not (exported / "manifest.json").is_file():
        export_run(folder, ["workstation"], exported, all_formats=True)
    run, export = Run.open(folder), ExportFolder.open(exported)
    dataset, test = run.dataset(), run.dataset().part("test")
    right, sent, found = {}, {}, {}
    for artefact in ARTEFACTS:
        through = pipeline(run, export, artefact)
        found[artefact], outputs = measured(run, through)
        right[artefact], sent[artefact] = outputs["label"] == test.y, outputs["sent"]
        if artefact == "tflite-int8":
            found[artefact]["same_x"] = same_x(through, test.x[:AGAIN_ROWS])
    artefacts = export.manifest["models"]["encoder"]["artefacts"]
    return {
        "seed": seed,
        "limit_met": run.facts["limit_met"],
        "raw": raw_rates(dataset, run.classifiers()),
        "artefacts": found,
        "int8_against_keras": {
            "label": paired(right["tflite-int8"], right[KERAS]),
            "codes_changed": float((sent["tflite-int8"] != sent[KERAS]).mean()),
        },
        "sha256": {
            name: hashlib.sha256(export.members[entry["file"]]).hexdigest()
            for name, entry in artefacts.items()
            if name in ARTEFACTS
        },
        "cost": export.manifest["models"]["encoder"].get("cost"),
        "training_s": run.facts["wall_time_s"],
        "wall_time_s": round(time.monotonic() - started, 1),
        **dict(zip(("versions", "machine"), environment(), strict=True)),
    }


def same_x(through: Any, x: np.ndarray) -> dict[str, Any]:
    """Whether readings released again and again ever send another code: if not, all releases tell what one tells."""
    codes = np.stack([through.run(x)["code"] for _ in range(AGAIN)])
    return {"releases": AGAIN, "rows": len(x), "rows_with_several_codes": int((codes != codes[0]).any(axis=0).sum())}


def over_seeds(seeds: list[dict[str, Any]]) -> dict[str, Any]:
    """Mean and worst over seeds of what the targets are about, of the int8 artefact."""
    rows = [record["artefacts"]["tflite-int8"] for record in seeds]
    attack = [max(row[name]["accuracy"] for name in ("code_counts", "code_counts_crossed")) for row in rows]
    figures = {
        "label_accuracy_of_raw": [
            row["label_accuracy"] / record["raw"]["target"]["accuracy"] for row, record in zip(rows, seeds, strict=True)
        ],
        "attack_over_chance_points": [
            100 * (value - row["chance"]["majority"]) for value, row in zip(attack, rows, strict=True)
        ],
        "attack": attack,
        "auc": [max(row[name]["auc"] for name in ("code_counts", "code_counts_crossed")) for row in rows],
        "bits_over_null": [row["bits_over_null"] for row in rows],
        **{f"kept.{name}": [row["kept"][name] for row in rows] for name in rows[0]["kept"]},
    }
    low = ("label", "kept")  # of these, less is worse
    return {
        name: {"mean": float(np.mean(v)), "worst": float(min(v) if name.startswith(low) else max(v)), "seeds": v}
        for name, v in figures.items()
    }


def main() -> None:
    """Record every seed that is missing."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("recipe")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--out", type=Path, required=True, help="folder for runs and exports")
    parser.add_argument("--record", type=Path, required=True)
    asked = parser.parse_args()
    load_tensorflow()
    recipe = Recipe.find(asked.recipe)
    settings: Mapping[str, Any] = recipe.model_dump(mode="json", exclude={"seed"}, exclude_none=True)
    record = json.loads(asked.record.read_text()) if asked.record.is_file() else {}
    if record.get("settings") != settings:
        record = {"kind": "edgeveil-release-record", "recipe": recipe.name, "settings": settings, "seeds": []}
    for seed in asked.seeds:
        if any(done["seed"] == seed for done in record["seeds"]):
            continue
        record["seeds"].append(seed_record(recipe, seed, asked.out))
        record["over_seeds"] = over_seeds(record["seeds"])
        write_atomic(str(asked.record), (json.dumps(record, indent=1, allow_nan=False) + "\n").encode())
        print(f"{recipe.name}, seed {seed}: recorded in {asked.record}")


if __name__ == "__main__":
    main()
