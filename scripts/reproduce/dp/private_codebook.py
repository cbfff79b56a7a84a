"""A codebook of MNIST under [private], and the same without: what noise leaves of y, of T, and of z.

Records docs/results/dp/codebook.json: parity, with ink, slant and stroke in 8 codes that hide less-than-five. On the
test slice: accuracy of the class; the share of T's variance within a class that the code tells, by means of its own
halves (one half gives each code's mean, the other is predicted); bits of the code about z given y, by counting, which
is above 0 for chance too. "none" trains by k-means and by T of the data, so it is another T that is learned, and the
same one that is scored. No D_y and D_z are trained, and no number is asked for.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.trainer.datasets.base import Dataset
from edgeveil.trainer.measures.certificate import count, information
from edgeveil.trainer.measures.intervals import rate
from edgeveil.trainer.perturbers.base import Goal
from edgeveil.trainer.perturbers.codebook import fit
from edgeveil.trainer.perturbers.codebook.private.fixed_targets import fixed_kept
from edgeveil.trainer.recipe.schema import Recipe
from edgeveil.trainer.runs.fitted import FittedPerturber
from edgeveil.trainer.runs.run import Run
from scripts.reproduce import record

RESULT = Path("docs/results/dp/codebook.json")
BUDGETS = ("none", "8,1e-5", "1,1e-5")
CODES = 8


def recipe(budget: str) -> Recipe:
    """MNIST's codebook with few codes and pictures of their means."""
    table = Recipe.find("mnist-codebook").model_dump(exclude_none=True)
    table["data"].pop("family")
    more = {"codes": CODES, "synthesis": "centroid", "steps": 1000, "price": 4.0}
    plain = {"weights": [5.0, 1.2, 1.0], "copies": 1, "shift": 0, "scale": 0.0, "dropout": 0.0}
    table["perturber"] = {**table["perturber"], **more, **plain, "donors": 16, "public_data": False}
    table.pop("certificate")
    found = Recipe.check(table)
    return found if budget == "none" else found.with_private(budget)


def measured(budget: str) -> dict[str, Any]:
    """One codebook, on rows of the test slice."""
    asked, began = recipe(budget), time.process_time()
    with tempfile.TemporaryDirectory() as name:
        run = Run.create(Path(name) / "run", asked)
        dataset = run.dataset()
        goal = Goal(asked.limits, asked.classifiers, private=asked.private)
        given = {"goal": goal, "rng": np.random.default_rng([asked.seed, 1]), "budget": asked.budget, "log": run}
        fitted = fit.fit(asked.perturber, dataset.for_training(), **given)
        paid = run.facts.get("private")
    spent = time.process_time() - began
    return {"budget": budget, **kept(fitted, dataset, asked), "spent": paid, "processor_s": spent}


def kept(fitted: FittedPerturber, dataset: Dataset, asked: Recipe) -> dict[str, Any]:
    """Figures of the test slice."""
    test = dataset.part("test")
    out = fitted.perturb(test.x)
    t = fixed_kept(asked.perturber, dataset.unit(test.x)).astype(np.float64)
    shape = (len(dataset.y_names), CODES * len(dataset.y_names), len(dataset.z_names))
    return {
        "rows": len(test),
        "accuracy": rate(out["label"] == test.y)._asdict(),
        "variance_kept": told(t, out["label"], out["code"]),
        "bits_about_z": float(information(count(out["label"], out["code"], test.z, shape=shape))),
        "codes_in_use": len(np.unique(out["code"])),
    }


def told(t: np.ndarray, label: np.ndarray, code: np.ndarray) -> float:
    """The share of the variance of t (n, d) within labels that means by code predict, from one half to the other."""
    half = np.arange(len(t)) < len(t) // 2
    errors = []
    for of in (code, label):
        off = 0.0
        for one in np.unique(of):
            learned, asked = t[half & (of == one)], t[~half & (of == one)]
            if len(learned):
                off += float(((asked - learned.mean(axis=0)) ** 2).sum())
        errors.append(off)
    return 1 - errors[0] / errors[1]


def main() -> None:
    """Measure and record."""
    script = record.Script(__file__, __doc__, "--budgets none 8,1e-5", out=RESULT)
    script.add_argument("--budgets", nargs="+", choices=BUDGETS, default=list(BUDGETS), help="default: all")
    kept = "codebooks that are done, from which a run that was ended goes on (default: runs/codebook)"
    script.add_argument("--work", type=Path, default=Path("runs/codebook"), help=kept)
    asked = script.parse_args()
    rows = []
    for budget in asked.budgets:
        rows.append(record.kept(asked.work / f"{budget}.json", lambda of=budget: measured(of)))  # type: ignore[misc]
    record.write(asked.out, script.made_by(asked), {**record.here(), "codes": CODES, "rows": rows})


if __name__ == "__main__":
    record.run(main)
