"""One token or two for as many codes: what recipes of both keep of the pixels, for what their int8 artefacts tell.

    EDGEVEIL_DATA=... python -m scripts.reproduce.codebooks.token_recipes mnist-codebook --out runs

Every setting is trained, exported and run through the edge runtime as int8. *Kept* is the share of the pixels' variance
within y that a linear receiver explains from the code, learned on the second slice. Bits about the priced class and
about z are counted, over their mean where these are shuffled. Both are of the test slice. Each point is recorded when
it is done.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.edge_runtime.errors import LimitNotMet
from edgeveil.trainer.audit.subject import in_chunks
from edgeveil.trainer.datasets.base import SliceName
from edgeveil.trainer.export.export import export
from edgeveil.trainer.export.folder import ExportFolder
from edgeveil.trainer.progress import say
from edgeveil.trainer.recipe.schema import Recipe
from edgeveil.trainer.runs.run import Run
from edgeveil.trainer.tensorflow_quiet import load_tensorflow
from edgeveil.trainer.train import train
from scripts.reproduce import record
from scripts.reproduce.codebooks.seeds import SHIPS, measured, pipeline
from scripts.reproduce.codebooks.tokens import share_kept

RECORD = Path("docs/results/privacy/token-recipes.json")
SHAPES = ((64, 1), (8, 2))  # codes of a token, tokens: 64 codes of a class either way
WAYS = {"keep": ["pixels"], "weights": None, "evenness": 0.02, "steps": 1400, "width_of_head": 128}
CLASSIFIER_EPOCHS = 3  # D_y and D_z judge a run and have no part in its codes
PARTS: tuple[SliceName, ...] = ("perturber", "test")


def point(recipe: Recipe, first: Path, folder: Path) -> dict[str, Any]:
    """Figures of one setting, in ``folder``; D_y and D_z are those of the run ``first``."""
    if not (folder / "out" / "manifest.json").is_file():
        try:
            train(recipe, folder / "run", replace=True, classifiers=None if first == folder / "run" else first)
        except LimitNotMet as error:
            say(str(error))
        export(folder / "run", ["workstation"], folder / "out")
    run = Run.open(folder / "run")
    through = pipeline(run, ExportFolder.open(folder / "out"), SHIPS)
    dataset, codes = run.dataset(), len(run.dataset().y_names) * recipe.perturber.codes_of_class
    found, _ = measured(run, through)
    parts = {name: dataset.part(name) for name in PARTS}
    sent = {name: np.eye(codes)[in_chunks(through.run, part.x)["code"]] for name, part in parts.items()}
    pixels = {name: dataset.unit(part.x).reshape(len(part), -1).astype(np.float64) for name, part in parts.items()}
    y = {name: part.y for name, part in parts.items()}
    return {
        "kept": share_kept(pixels, sent, y, "perturber", classes=len(dataset.y_names)),
        "priced_bits": found["priced_bits_over_null"],
        "bits": found["bits_over_null"],
        "label_accuracy": found["label_accuracy"],
        "codes_used": found["codes_used"],
        "training_s": run.facts["wall_time_s"],
    }


def main() -> None:
    """Measure every point that is not on record."""
    script = record.Script(__file__, __doc__, "mnist-codebook --out runs")
    script.add_argument("recipe")
    script.add_argument("--prices", type=float, nargs="+", default=[2.0, 4.0])
    script.add_argument("--out", type=Path, required=True, help="folder for runs and exports")
    script.add_argument("--record", type=Path, default=RECORD)
    asked = script.parse_args()
    load_tensorflow()
    recipe = Recipe.find(asked.recipe)
    budget = recipe.budget.model_copy(update={"classifier_epochs": CLASSIFIER_EPOCHS})
    limits = recipe.limits.model_copy(update={"target_accuracy": 0.9})
    found = record.read(asked.record) or {"kind": "edgeveil-token-recipes-record", "recipe": recipe.name, "points": []}
    for price in asked.prices:
        for codes, tokens in SHAPES:
            about = {"tokens": tokens, "codes": codes, "price": price}
            if any(about.items() <= one.items() for one in found["points"]):
                continue
            section = recipe.perturber.model_copy(update={**WAYS, **about})
            setting = recipe.model_copy(update={"perturber": section, "budget": budget, "limits": limits})
            folder = asked.out / f"{recipe.name}-{tokens}-of-{codes}-{price:g}"
            first = asked.out / f"{recipe.name}-{SHAPES[0][1]}-of-{SHAPES[0][0]}-{asked.prices[0]:g}"
            found["points"].append({**about, **point(setting, first / "run", folder)})
            say(str(found["points"][-1]))
            record.write(asked.record, script.made_by(asked), {**found, **record.here()})


if __name__ == "__main__":
    record.run(main)
