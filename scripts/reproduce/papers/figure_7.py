"""Figure 7 of paper 001, and beyond it: what leaks of a WiFi fingerprint for how much of the floor is given up.

    EDGEVEIL_DATA=... python -m scripts.reproduce.papers.figure_7 --out runs/fig-7

PR-GAN and its baselines are given the paper's five utility budgets: the floor under which Acc(D_y) may not fall. Where
a floor does not bind, the same checkpoint is chosen again, so they are trained along another axis too, which is that of
minimax as well: the distance that costs nothing. The axis of the codebook is the price of a bit about the region. Every
point lies in OUT/points when it is done: run again, the script goes on. Writes
docs/results/privacy/frontier-fig-7.json, of which pages/write_pages.py makes docs/results/figure-7.md and its
picture.
"""

from pathlib import Path
from typing import Any

from edgeveil.trainer.recipe.schema import Recipe
from edgeveil.trainer.sweep.axes import Axis
from edgeveil.trainer.sweep.sweep import sweep
from scripts.reproduce import record

RECORD = Path("docs/results/privacy/frontier-fig-7.json")
# Acc(D_y) that may be given up (section 6.5: five values between 0.03 and 0.12) of 0.95 on raw readings.
BUDGETS = (0.03, 0.0525, 0.075, 0.0975, 0.12)
RAW = 0.95
FLOORS = tuple(round(RAW - given, 4) for given in BUDGETS)
SWEEPS: dict[str, tuple[tuple[str, ...], Axis]] = {
    "paper": (("prgan", "ngp", "ap", "laplace"), Axis("limits.target_accuracy", FLOORS)),
    "distance": (("prgan", "ngp", "ap"), Axis("perturber.distance", (2.5, 5.0, 8.0, 12.0))),
    "minimax": (("minimax",), Axis("perturber.distance", (4.0, 8.0, 12.0))),
    "codebook": (("codebook",), Axis("perturber.price", (0.25, 0.5, 1.0))),
}


def main() -> None:
    """Work the points that are missing and write the record, sweep by sweep."""
    script = record.Script(__file__, __doc__, "--seeds 0 1")
    script.add_argument("--out", type=Path, default=Path("runs/fig-7"), help="points, runs and logs")
    script.add_argument("--data", default="wifi", help="recipes DATA-KIND; figure 7 is of wifi")
    script.add_argument("--sweeps", nargs="+", choices=list(SWEEPS), default=list(SWEEPS))
    script.add_argument("--seeds", nargs="+", type=int, default=[0])
    script.add_argument("--budget", choices=["full", "quick"], default="full", help="of the trainings")
    script.add_argument("--attacks", choices=["auto", "codes", "quick", "all"], default="auto")
    script.add_argument("--jobs", type=int, default=1, help="processes")
    script.add_argument("--record", type=Path, default=RECORD)
    asked = script.parse_args()
    found: dict[str, Any] = {}
    for name in asked.sweeps:
        kinds, axis = SWEEPS[name]
        recipes = [Recipe.find(f"{asked.data}-{kind}") for kind in kinds]
        axes = [axis, Axis("seed", tuple(asked.seeds))]
        one = sweep(recipes, axes, asked.out, jobs=asked.jobs, budget=asked.budget, attacks=asked.attacks)
        found = merged(found, one)
        record.write(asked.record, script.path, found)


def merged(before: dict[str, Any], one: dict[str, Any]) -> dict[str, Any]:
    """Two frontiers as one: the points of both, each once."""
    points = {row["point"]: row for row in [*before.get("points", []), *one["points"]]}
    return {**one, "compared": before.get("compared", 0) + one["compared"], "points": list(points.values())}


if __name__ == "__main__":
    record.run(main)
