"""What a release is good for by how its x' is made: donors, centroids or a decoder, each beside label-only.

The codes are those of DATA-release whatever is drawn for them, so what leaks is the same up to training noise; what
differs is what x' can be used for. Each way is trained on the D_y and D_z of the recorded release's run, exported, and
its int8 artefact measured through the edge runtime: Table 5's networks, a fresh discriminator, what is kept, and the
counting attack again. Where a way is refused (a code of too few people), the record says why. Written row by row: run
again, the script goes on. The runs are those that scripts/reproduce_release.py left in --out, or are made there.

    EDGEVEIL_DATA=... .venv/bin/python scripts/measure_synthesis.py --out runs/release --data faces wifi --seeds 0
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from measure_release import measured, pipeline
from reproduce_release import SHIPS, hashes, made

from edge_runtime.errors import BadInput, LimitNotMet
from edge_runtime.files import write_atomic
from trainer.audit import collateral, perturbing
from trainer.audit.document import environment
from trainer.export import export as export_run
from trainer.export.folder import ExportFolder
from trainer.export.quiet import load_tensorflow
from trainer.progress import say
from trainer.recipe import Recipe
from trainer.run import Run
from trainer.train import train

RECORD = Path("docs/results/privacy/synthesis.json")
DATA = ("mnist", "wifi", "faces", "depth")
WAYS = ("donor", "centroid", "decoder")


def made_so(recipe: Recipe, way: str, seed: int, out: Path) -> tuple[Run, ExportFolder]:
    """Run and export of one way, made now or earlier; the recipe's own way is the recorded release itself."""
    own = made(recipe, seed, out)
    if way == recipe.perturber.synthesis:
        return own
    other = recipe.model_copy(
        update={"perturber": recipe.perturber.model_copy(update={"synthesis": way}), "seed": seed}
    )
    folder = out / f"{recipe.name}-{way}-{seed}"
    exported = folder.with_name(f"{folder.name}-export")
    begun = (folder / "run.json").is_file()
    if not (begun and Run.open(folder).facts["state"] == "finished"):
        try:
            train(other, folder, resume=begun, classifiers=None if begun else own[0].folder)
        except LimitNotMet as error:
            say(str(error))  # the row says how often y-hat is right
    if not (exported / "manifest.json").is_file():
        export_run(folder, ["workstation"], exported)
    return Run.open(folder), ExportFolder.open(exported)


def row(recipe: Recipe, way: str, seed: int, out: Path) -> dict[str, Any]:
    """Everything about one way of one seed."""
    run, export = made_so(recipe, way, seed, out)
    dataset = run.dataset()
    found, _ = measured(run, pipeline(run, export, SHIPS))
    rows = np.concatenate([dataset.slices.classifiers, dataset.slices.perturber, dataset.slices.test])
    left = perturbing.through(perturbing.Subject(export.manifest, export.members, SHIPS), run, dataset, rows).released
    useful = collateral.section(dataset, left.x, "quick", seed, named=tuple(recipe.perturber.keep))
    counted = {name: found[name] for name in ("code_counts", "code_counts_crossed")}
    return {
        "label_accuracy": found["label_accuracy"],
        "chance": found["chance"],
        "attack": max(counted.values(), key=lambda rate: rate["accuracy"]),
        "bits_over_null": found["bits_over_null"],
        "collateral": useful,
        "training_s": run.facts["wall_time_s"],
        "sha256": hashes(export)[SHIPS],
    }


def main() -> None:
    """Measure the rows that are missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder for runs and exports")
    parser.add_argument("--data", nargs="+", choices=DATA, default=list(DATA))
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--record", type=Path, default=RECORD)
    asked = parser.parse_args()
    load_tensorflow()
    rows = json.loads(asked.record.read_text())["rows"] if asked.record.is_file() else []
    known = {(one["data"], one["seed"], one["synthesis"]) for one in rows}
    for seed in asked.seeds:
        for data in asked.data:
            recipe = Recipe.find(f"{data}-release")
            for way in asked.ways:
                if (data, seed, way) in known:
                    continue
                say(f"{recipe.name}, seed {seed}: {way}")
                started = time.monotonic()
                try:
                    found = row(recipe, way, seed, asked.out)
                except BadInput as error:
                    found = {"refused": str(error)}
                    say(str(error))
                versions, machine = environment()
                wall = round(time.monotonic() - started, 1)
                about = {"data": data, "seed": seed, "synthesis": way, "wall_s": wall}
                rows.append({**about, **found, "versions": versions, "machine": machine})
                rows.sort(key=lambda one: (one["data"], one["seed"], WAYS.index(one["synthesis"])))
                document = {"kind": "edgeveil-synthesis-record", "rows": rows}
                write_atomic(str(asked.record), (json.dumps(document, indent=1) + "\n").encode())


if __name__ == "__main__":
    main()
