"""``run sweep --trials`` next to the grid: how many trainings until the front of all combinations is had.

Each combination is trained and judged once, on validation rows, as a search judges it. Searches and
random orders then go over these same figures, with many seeds of their own. The front's worth is the area that it
has over the worst leak and the least kept of the grid, as a share of the grid's own. Records docs/results/search.json:

    EDGEVEIL_DATA=... .venv/bin/python -m scripts.measure.search
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.trainer.ext.sweep import axes, search
from edgeveil.trainer.progress import progress
from edgeveil.trainer.recipe.schema import Recipe
from scripts import record

RESULT = Path("docs/results/search.json")
GRIDS = {
    "mnist-codebook": ["perturber.price=1,3,9,27", "perturber.codes=8,16,32,64"],
    "wifi-codebook": ["perturber.price=0.5,1,2,4,8", "perturber.codes=2,3,4,6"],
}
SEEDS = 40  # of searches, and of random orders
SHARES = (0.95, 0.98)  # of the grid's area
Pair = tuple[float, float]  # leak, kept


def area(pairs: Sequence[Pair], worst: Pair) -> float:
    """What is at most as good as some of these and better than ``worst``: the hypervolume of two objectives."""
    total, best = 0.0, worst[1]
    for leak, kept in sorted(pairs, key=lambda pair: (pair[0], -pair[1])):
        if leak < worst[0] and kept > best:
            total += (worst[0] - leak) * (kept - best)
            best = kept
    return total


def trainings(pairs: Sequence[Pair | None], every: Sequence[Pair]) -> dict[str, int]:
    """How many of ``pairs``, in their order, have each share of the area of ``every``; None has no figures."""
    worst = max(leak for leak, _ in every), min(kept for _, kept in every)
    whole = area(every, worst)
    shares = [area([pair for pair in pairs[:number] if pair], worst) / whole for number in range(1, len(pairs) + 1)]
    return {str(share): next(number for number, had in enumerate(shares, 1) if had >= share) for share in SHARES}


def documents(recipe: Recipe, parsed: Sequence[axes.Axis], out: Path) -> list[tuple[axes.Point, dict[str, Any]]]:
    """Each combination with its document, from ``out`` where an earlier run of this script made it."""
    grid = {one.name: one for one in axes.points([recipe], parsed)}
    there = record.read(out / "documents.json")
    tasks = [axes.Task(name, one.recipe.toml(), False, "quick", "auto", True) for name, one in grid.items()]
    missing = [task for task in tasks if task.name not in there]
    with progress(recipe.name, total=len(grid), done=len(there)) as advance:
        for task, document in axes.measured(missing, out, jobs=1):
            there[task.name] = document
            record.write(out / "documents.json", "", there)
            advance()
    return [(one, there[name]) for name, one in grid.items()]


def compared(name: str, out: Path) -> dict[str, Any]:
    """The grid's figures, and how many trainings searches and random orders need."""
    recipe, parsed = Recipe.find(name), [axes.parse(text) for text in GRIDS[name]]
    had = documents(recipe, parsed, out / name)
    by_settings = {search.name_of(one.settings): document for one, document in had}
    figures = {settings: search.objectives(document) for settings, document in by_settings.items()}
    pairs = {settings: _pair(line) for settings, line in figures.items()}
    every = [pair for pair in pairs.values() if pair]

    def measure(points: Sequence[axes.Point]) -> list[dict[str, Any]]:
        return [by_settings[search.name_of(one.settings)] for one in points]

    needed: dict[str, list[dict[str, int]]] = {"search": [], "random": []}
    for seed in range(SEEDS):
        seeded = recipe.model_copy(update={"seed": seed})
        _, lines = search.search([seeded], parsed, len(had), measure, at_once=1)
        needed["search"].append(trainings([_pair(line) for line in lines], every))
        order = np.random.default_rng(seed).permutation(len(had))
        needed["random"].append(trainings([[*pairs.values()][number] for number in order], every))
    return {
        "recipe": name,
        "axes": GRIDS[name],
        "grid": [{"settings": json.loads(settings), **line} for settings, line in figures.items()],
        "training_s": sum(document.get("training_s", 0.0) for _, document in had),
        "needed": {
            way: {
                str(share): dict(
                    zip(("median", "low", "high"), np.quantile([one[str(share)] for one in ones], (0.5, 0.05, 0.95)))
                )
                for share in SHARES
            }
            for way, ones in needed.items()
        },
    }


def _pair(line: Mapping[str, Any]) -> Pair | None:
    return (line["leak"], line["kept"]) if "leak" in line else None


def main() -> None:
    """Train what is missing, and write the record."""
    script = record.Script(__file__, __doc__, out=RESULT)
    script.add_argument("--work", type=Path, default=Path("runs/search"), help="trained runs and their figures")
    script.add_argument("--recipes", nargs="+", choices=list(GRIDS), default=list(GRIDS))
    options = script.parse_args()
    document = record.read(options.out)
    rows = {row["recipe"]: row for row in document.get("rows", [])}
    rows |= {name: compared(name, options.work) for name in options.recipes}
    document |= {"seeds": SEEDS, "rows": list(rows.values()), **record.here()}
    record.write(options.out, script.made_by(options), document)


if __name__ == "__main__":
    record.run(main)
