"""A worn motion sensor: what other settings of the codebook keep, and what attacks read of each.

    EDGEVEIL_DATA=... python -m scripts.reproduce.series.motion_frontier

One setting of the recipe motion-codebook is changed at a time, on the slices and classifiers of the run that
scripts/reproduce/series/motion.py made in --out (it is made where it is not there). Each is audited as that is, as its
int8 artefact. Recorded is docs/results/series/motion-frontier.json. A row is kept in --out: run again, the script goes
on.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from edgeveil.trainer.attacks.problem import BUDGETS
from edgeveil.trainer.recipe.schema import Recipe
from edgeveil.trainer.sweep.axes import with_settings
from scripts.reproduce import record
from scripts.reproduce.series import motion

RESULT = Path("docs/results/series/motion-frontier.json")
SETTINGS: dict[str, Mapping[str, Any]] = {
    "no price": {"perturber.price": 0.0},
    "price 8": {"perturber.price": 8.0},
    "2 codes": {"perturber.codes": 2},
    "16 codes": {"perturber.codes": 16},
    "duration too": {"perturber.keep": ["energy", "tempo", "duration"], "perturber.weights": [1.0, 2.0, 2.0]},
}


def row(name: str, seed: int, out: Path, budget: str, adversaries: str) -> dict[str, Any]:
    """The recipe with one setting changed: its audit, and the label that leaves."""
    base = motion.of_kind(motion.KINDS[0], seed, out, budget)
    recipe = with_settings(Recipe.find(f"motion-{motion.KINDS[0]}"), {**SETTINGS[name], "seed": seed})
    run = motion.trained(recipe, out / str(seed) / name.replace(" ", "-"), budget, classifiers=base.folder)
    found = motion.audited(run, out, adversaries, None)
    del found["floor"]  # that of the run whose classifiers these are
    return {**found, "label": motion.label_sent(run, out)}


def main() -> None:
    """Measure the settings that are asked for."""
    script = record.Script(__file__, __doc__, "--settings 'price 8'")
    script.add_argument("--out", type=Path, default=Path("runs/motion"), help="runs, exports and rows")
    script.add_argument("--settings", nargs="+", choices=list(SETTINGS), default=list(SETTINGS))
    script.add_argument("--seed", type=int, default=0)
    script.add_argument("--budget", choices=["full", "quick"], default="full", help="of the training")
    script.add_argument("--adversaries", choices=sorted(BUDGETS), default="quick", help="how hard they try")
    script.add_argument("--record", type=Path, default=RESULT)
    asked = script.parse_args()
    found: dict[str, Any] = {"seed": asked.seed, "rows": {}}
    for name in asked.settings:
        make = partial(row, name, asked.seed, asked.out, asked.budget, asked.adversaries)
        kept = asked.out / str(asked.seed) / f"{name.replace(' ', '-')}.json"
        found["rows"][name] = record.kept(kept, make)
        record.write(asked.record, script.made_by(asked), {**found, **record.here()})


if __name__ == "__main__":
    record.run(main)
