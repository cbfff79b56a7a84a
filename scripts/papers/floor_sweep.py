"""How much noise D_y bears: AP and the Laplace mechanism over their settings, on validation rows; no test row is read.

AP is trained once for each of ``--multiples`` of its recipe's distance (c of eq. 10), with the classifiers of Table 2.
Laplace noise needs no training: its eps goes down as in ``edgeveil train``, each over as many draws as make 2,000
samples. Writes docs/results/privacy/floors/DATA-KIND.json; run again, it goes on.

    EDGEVEIL_DATA=... python -m scripts.papers.floor_sweep --data depth
"""

import math
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np

from edgeveil.trainer.perturbers import laplace
from edgeveil.trainer.progress import say
from edgeveil.trainer.recipe.schema import Recipe
from edgeveil.trainer.runs.checkpoint_score import score_checkpoint
from edgeveil.trainer.runs.run import Run
from edgeveil.trainer.tensorflow_quiet import load_tensorflow
from scripts import record
from scripts.papers import floors
from scripts.papers.table_2 import DATA, complete, with_classifiers

MULTIPLES = (0.25, 0.5, 1.0, 1.5, 2.0, 3.0)
BELOW = 0.1  # of Acc(D_y) under the floor, where the curve of Laplace noise ends
SEED = 0
MEASURES = ("target_accuracy", "sensitive_accuracy", "distance")
Measured = Callable[[np.ndarray], dict[str, float]]


def main() -> None:
    """Sweep what is missing."""
    script = record.Script(__file__, __doc__, "--data wifi --kinds laplace")
    script.add_argument("--out", type=Path, default=Path("runs/table-2"), help="runs and exports, as of table_2")
    script.add_argument("--data", nargs="+", choices=DATA, default=list(DATA))
    script.add_argument("--kinds", nargs="+", choices=list(floors.SETTINGS), default=list(floors.SETTINGS))
    script.add_argument("--multiples", nargs="+", type=float, default=list(MULTIPLES), help="ap: of the distance")
    options = script.parse_args()
    load_tensorflow()
    for data in options.data:
        run = with_classifiers(data, SEED, options.out)
        measured = judge(run)
        raw = measured(run.validation().x)["target_accuracy"]
        least = floors.floor(data, raw)
        for kind in options.kinds:
            path = floors.RECORDS / f"{data}-{kind}.json"
            if path.is_file():
                continue
            say(f"{data}, {kind}: D_y is right in {raw:.3f} of raw validation rows; the floor is {least:.3f}")
            points = list(of_laplace(run, measured, least) if kind == "laplace" else of_ap(run, data, least, options))
            document = {
                "data": data,
                "kind": kind,
                "setting": floors.SETTINGS[kind],
                "seed": SEED,
                "rows": len(run.validation()),
                "raw": raw,
                "floor": least,
                "points": points,
                "chosen": floors.chosen(points, least),
                **record.here(),
            }
            words = ["--data", data, "--kinds", kind]
            if kind == "ap" and tuple(options.multiples) != MULTIPLES:
                words += ["--multiples", *(f"{one:g}" for one in options.multiples)]
            record.write(path, " ".join([script.path, *words]), document)


def of_laplace(run: Run, measured: Measured, least: float) -> Iterator[dict[str, float]]:
    """From little noise to much, until y is read far less often than the floor asks for."""
    spec, x = run.dataset().input, run.validation().x
    levels = laplace.grid(spec, 255)
    x = np.concatenate([x] * math.ceil(laplace.FEWEST_JUDGED / len(x)))
    for eps in map(float, laplace.SWEPT):
        mechanism = laplace.perturber(spec, laplace.scale_for(eps, levels), levels)
        point = measured(mechanism.perturb(x)["frame"])
        yield {"setting": eps, **point}
        if point["target_accuracy"] < least - BELOW:
            return


def of_ap(run: Run, data: str, least: float, asked: Any) -> Iterator[dict[str, float]]:
    """One training for each distance; the checkpoint is chosen as always, with the floor as its limit."""
    recipe = Recipe.find(f"{data}-ap").model_copy(update={"seed": SEED})
    for multiple in asked.multiples:
        value = multiple * recipe.perturber.distance
        folder = asked.out / "floors" / data / f"ap-{value:g}"
        trained = complete(floors.set_to(recipe, value, least), folder, run.folder)
        yield {"setting": value, **{name: trained.facts["validation"][name] for name in MEASURES}}


def judge(run: Run) -> Measured:
    """What measures validation rows as they are sent, any number of times over: ``MEASURES``, the mean over all."""
    dataset, part, classifiers = run.dataset(), run.validation(), run.classifiers()

    def measured(sent: np.ndarray) -> dict[str, float]:
        times = len(sent) // len(part)
        u, y, z = (np.concatenate([values] * times) for values in (dataset.unit(part.x), part.y, part.z))
        score = score_checkpoint(u, dataset.unit(sent), y, z, theta=dataset.theta, **classifiers).as_dict()
        return {name: score[name] for name in MEASURES}

    return measured


if __name__ == "__main__":
    record.run(main)
