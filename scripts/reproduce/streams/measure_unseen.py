"""Section 6.6 of paper 001: a generator trained with some people, at work on people who were never seen.

    EDGEVEIL_DATA=... python -m scripts.reproduce.streams.measure_unseen --out runs/unseen --data depth --splits 4

The people of a data set are split into those who train PR-GAN and its classifiers, and those whom nobody has seen. As
in the paper, D_z is then trained on clean readings of the new people alone and tried on what the generator makes of
others of theirs. Beyond the paper, the adversaries of `edgeveil audit` learn on perturbed readings of the new people.
The same for label-only (with D_y of the people who were seen) and for the readings themselves. Networks are as they
were trained, not exported. Every split is recorded in docs/results/privacy/unseen.json when it is done: run again, the
script goes on. pages/write_pages.py makes docs/results/unseen-people.md of it.
"""

import argparse
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.edge_runtime.errors import LimitNotMet
from edgeveil.edge_runtime.storage.atomic import atomic_path
from edgeveil.trainer.attacks.problem import BUDGETS
from edgeveil.trainer.audit import subject
from edgeveil.trainer.audit.examined.examine import examine, raw_rates
from edgeveil.trainer.datasets.loaders import depth, faces
from edgeveil.trainer.datasets.readings import Readings
from edgeveil.trainer.progress import say
from edgeveil.trainer.recipe.schema import Recipe
from edgeveil.trainer.runs.run import Run
from edgeveil.trainer.sweep.axes import with_settings
from edgeveil.trainer.sweep.point import shared_classifiers
from edgeveil.trainer.tensorflow_quiet import load_tensorflow
from edgeveil.trainer.train import train
from scripts.reproduce import record
from scripts.reproduce.papers.baseline_comparison import ROWS
from scripts.reproduce.streams import people

RECORD = Path("docs/results/privacy/unseen.json")
UNSEEN = {"depth": 3, "faces": 18}  # of 8 and of 38 people
KEPT = ("target", "chance", "worst_adaptive", "most_bits")


def main() -> None:
    """Measure the splits that are not on record."""
    script = record.Script(__file__, __doc__, "--data depth --splits 4")
    script.add_argument("--out", type=Path, default=Path("runs/unseen"), help="arrays and runs")
    script.add_argument("--data", nargs="+", choices=list(UNSEEN), default=list(UNSEEN))
    script.add_argument("--splits", type=int, default=4)
    script.add_argument("--budget", choices=["full", "quick"], default="full", help="of the training")
    script.add_argument("--adversaries", choices=sorted(BUDGETS), default="quick", help="how hard they try")
    script.add_argument("--record", type=Path, default=RECORD)
    asked = script.parse_args()
    load_tensorflow()
    found = record.read(asked.record)
    for data in asked.data:
        settings = {"budget": asked.budget, "adversaries": asked.adversaries, "unseen": UNSEEN[data]}
        if found.get(data, {}).get("settings") != settings:
            found[data] = {"settings": settings, "splits": {}}
        readings = everybody(data)
        for number, unseen in enumerate(people.splits(len(readings.z_names), unseen=UNSEEN[data], count=asked.splits)):
            key = ", ".join(readings.z_names[one].removeprefix("person-") for one in unseen)
            if key in found[data]["splits"]:
                continue
            say(f"{data}: never seen {key}")
            found[data]["splits"][key] = split(data, readings, unseen, number, asked)
            record.write(asked.record, script.path, found)


def everybody(data: str) -> Readings:
    """All people of a data set."""
    if data == "depth":
        return depth.load(target="action", sensitive="person", people=depth.PEOPLE)
    return faces.load(target="light", sensitive="person")


def split(
    data: str, readings: Readings, unseen: tuple[int, ...], number: int, asked: argparse.Namespace
) -> dict[str, Any]:
    """Train with the others, attack what the generator makes of the unseen."""
    begun = time.monotonic()
    folder = asked.out / data / str(number)
    new = np.isin(readings.z, unseen)
    known, other = (
        recipe_of(data, readings, rows, folder / name, number) for rows, name in ((~new, "seen"), (new, "new"))
    )
    run = trained(known, folder / "run", asked.budget)
    stranger = shared_classifiers(other, folder, budget=asked.budget)
    dataset = stranger.dataset()
    two = {"target": run.classifiers()["target"], "sensitive": stranger.classifiers()["sensitive"]}
    rows = dataset.slices.rows()
    ways = {
        "prgan": run.perturber(),
        **{name: ROWS[name](run, np.random.default_rng(number)) for name in ("original", "label-only")},
    }
    found = {}
    for name, fitted in ways.items():
        outputs = subject.in_chunks(fitted.perturb, dataset.x[rows])
        left = subject.released_rows(fitted.outputs, outputs, dataset, rows)
        audited = examine(dataset, left, two, BUDGETS[asked.adversaries], number).as_dict()
        rates = {row["kind"]: row for row in audited["adversaries"] if row["kind"] in ("fixed", "transfer")}
        found[name] = {**{key: audited[key] for key in KEPT}, **rates}
    return {
        "rows": found,
        "raw": raw_rates(dataset, two),
        "people": {"seen": len(readings.z_names) - len(unseen), "new": len(unseen)},
        "test": len(dataset.slices.test),
        "limit_met": run.facts["limit_met"],
        "training_s": run.facts["wall_time_s"],
        "wall_time_s": round(time.monotonic() - begun, 1),
        **record.here(),
    }


def recipe_of(data: str, readings: Readings, rows: np.ndarray, stem: Path, seed: int) -> Recipe:
    """The recipe DATA-prgan for these rows alone, which it finds as arrays beside ``stem``."""
    file = stem.with_suffix(".npz")
    arrays: Mapping[str, np.ndarray] = {
        "x": readings.x[rows],
        "y": np.array(readings.y_names)[readings.y[rows]],
        "z": np.array(readings.z_names)[readings.z[rows]],
        **({} if readings.session is None else {"session": readings.session[rows]}),
    }
    file.parent.mkdir(parents=True, exist_ok=True)
    with atomic_path(str(file)) as temporary, Path(temporary).open("wb") as out:
        np.savez(out, **arrays)  # type: ignore[arg-type]
    settings = {"data.source": f"npz:{file.resolve()}", "data.low": 0.0, "data.high": 255.0, "seed": seed}
    return with_settings(Recipe.find(f"{data}-prgan"), settings)


def trained(recipe: Recipe, folder: Path, budget: str) -> Run:
    """The finished run, made now or earlier."""
    begun = (folder / "run.json").is_file()
    if begun and Run.open(folder).facts["state"] == "finished":
        return Run.open(folder)
    try:
        return train(recipe, folder, budget=budget, resume=begun)
    except LimitNotMet as error:
        say(str(error))  # the record says limit_met
        return Run.open(folder)


if __name__ == "__main__":
    record.run(main)
