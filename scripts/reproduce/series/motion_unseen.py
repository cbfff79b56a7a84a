"""A worn motion sensor on people whom nobody saw in training: what of the action is kept, and are they told apart?

    EDGEVEIL_DATA=... python -m scripts.reproduce.series.motion_unseen --splits 3

The eight people are split into those who train the codebook and its classifiers, and three whom nobody has seen. The
attacks of an audit learn on the new people's own windows as they leave, of int8 artefacts; the same for label-only, by
D_y of the people who were seen, and for raw windows. Recorded is docs/results/series/motion-unseen.json, of which and
of the other records of motion pages/write_pages.py makes docs/results/motion.md. A split is kept in --out: run again,
the script goes on.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.trainer.attacks.problem import BUDGETS, Released
from edgeveil.trainer.audit.document import interval
from edgeveil.trainer.audit.examined.examine import examine, raw_rates
from edgeveil.trainer.audit.open import open_target
from edgeveil.trainer.audit.sections import retained
from edgeveil.trainer.audit.subject import perturb_rows, perturb_with
from edgeveil.trainer.datasets.base import Dataset
from edgeveil.trainer.datasets.series.utd_mhad import PEOPLE
from edgeveil.trainer.measures import intervals
from edgeveil.trainer.perturbers.label_only import from_classifier
from edgeveil.trainer.progress import say
from edgeveil.trainer.recipe.schema import Recipe
from edgeveil.trainer.runs.run import Run
from edgeveil.trainer.sweep.axes import with_settings
from edgeveil.trainer.sweep.point import shared_classifiers
from edgeveil.trainer.tensorflow_quiet import load_tensorflow
from scripts.reproduce import record
from scripts.reproduce.papers import baseline_original
from scripts.reproduce.papers.table_2 import exported
from scripts.reproduce.series.motion import trained
from scripts.reproduce.streams import people

RESULT = Path("docs/results/series/motion-unseen.json")
RECIPE = "motion-codebook"
NEW = 3  # of eight people
KEPT = ("target", "chance", "worst_adaptive")


def of_people(numbers: list[int], seed: int) -> Recipe:
    """The recipe for these people alone."""
    return with_settings(Recipe.find(RECIPE), {"data.series.people": numbers, "seed": seed})


def leaves(run: Run, out: Path, dataset: Dataset) -> Iterator[tuple[str, Released, np.ndarray | None]]:
    """What leaves of all rows of ``dataset``: its name, the rows, and the labels that were sent (None: none was)."""
    rows = dataset.slices.rows()
    shipped = open_target(exported(run, out), run=None, trust=None, artefact="tflite-int8").subject
    codes = perturb_rows(shipped, run, dataset, rows)
    yield "codebook", codes.released, codes.outputs["label"]
    floor = from_classifier(run.dataset().for_training(), run.classifiers()["target"])
    label = perturb_with(floor, dataset, rows)
    yield "label-only", label.released, label.outputs["label"]
    raw = perturb_with(baseline_original.perturber(dataset.for_training()), dataset, rows)
    yield "raw", raw.released, None


def split(new: list[int], seed: int, out: Path, budget: str, adversaries: str) -> dict[str, Any]:
    """Train with the others, attack what leaves of the ``new``."""
    folder = out / str(seed)
    run = trained(of_people([one for one in PEOPLE if one not in new], seed), folder / "run", budget)
    stranger = shared_classifiers(of_people(new, seed), folder, budget=budget)
    dataset = stranger.dataset()
    two = {"target": run.classifiers()["target"], "sensitive": stranger.classifiers()["sensitive"]}
    test, found = dataset.part("test"), {}
    for name, released, label in leaves(run, out, dataset):
        audited = examine(dataset, released, two, BUDGETS[adversaries], seed).as_dict()
        useful = retained.section(dataset, released.x, adversaries, seed, named=tuple(dataset.attributes))
        right = None if label is None else label[-len(test) :] == test.y
        found[name] = {
            **{key: audited[key] for key in KEPT},
            "label": None if right is None else interval(intervals.rate(right, test.cluster)),
            "read_from_it": useful["perturbed"]["read_from_it"],
        }
    return {"rows": found, "raw": raw_rates(dataset, two), "new": new, "test": len(test)}


def main() -> None:
    """Measure the splits."""
    script = record.Script(__file__, __doc__, "--splits 3")
    script.add_argument("--out", type=Path, default=Path("runs/motion-unseen"), help="runs, exports and splits")
    script.add_argument("--splits", type=int, default=3)
    script.add_argument("--budget", choices=["full", "quick"], default="full", help="of the training")
    script.add_argument("--adversaries", choices=sorted(BUDGETS), default="quick", help="how hard they try")
    script.add_argument("--record", type=Path, default=RESULT)
    asked = script.parse_args()
    load_tensorflow()
    found: dict[str, Any] = {"adversaries": asked.adversaries, "splits": []}
    for seed, chosen in enumerate(people.splits(len(PEOPLE), unseen=NEW, count=asked.splits)):
        new = [PEOPLE[one] for one in chosen]
        say(f"never seen: {new}")
        make = partial(split, new, seed, asked.out, asked.budget, asked.adversaries)
        found["splits"].append(record.kept(asked.out / f"{seed}.json", make))
        record.write(asked.record, script.made_by(asked), {**found, **record.here()})


if __name__ == "__main__":
    record.run(main)
