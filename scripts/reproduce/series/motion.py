"""A worn motion sensor: what is kept of the action, and what attacks read of the person, from raw windows to codes.

    EDGEVEIL_DATA=... python -m scripts.reproduce.series.motion --out runs/motion

Records docs/results/series/motion.json: for every perturber the audit of its int8 artefact (of raw windows: the same
attacks), what of energy, tempo and duration is kept, what could be, and what the codes of a recording add up to. A row
takes minutes on a quiet machine, and is kept in --out: run again, the script goes on.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from edgeveil.edge_runtime.errors import LimitNotMet
from edgeveil.trainer import datasets
from edgeveil.trainer.attacks.families.networks import logits
from edgeveil.trainer.attacks.problem import BUDGETS
from edgeveil.trainer.audit.document import interval
from edgeveil.trainer.audit.open import open_target
from edgeveil.trainer.audit.sections import retained
from edgeveil.trainer.audit.subject import perturb_rows
from edgeveil.trainer.measures import intervals
from edgeveil.trainer.progress import say
from edgeveil.trainer.recipe.schema import Recipe
from edgeveil.trainer.runs.run import Run
from edgeveil.trainer.tensorflow_quiet import load_tensorflow
from edgeveil.trainer.train import train
from edgeveil.trainer.training.classifiers import train_labels
from scripts.reproduce import record
from scripts.reproduce.papers import baseline_original
from scripts.reproduce.papers.table_2 import exported, of_a_comparison, of_what_ships
from scripts.reproduce.series.most_kept import most_kept

RESULT = Path("docs/results/series/motion.json")
KINDS = ("codebook", "codebook-bout", "label-only", "prgan")
RAW = "raw"
KEPT = ("target", "chance", "worst_adaptive", "most_bits", "raw", "collateral", "streams", "budget", "not_exported")


def trained(recipe: Recipe, folder: Path, budget: str, *, classifiers: Path | None = None) -> Run:
    """The finished run in ``folder``, made now or earlier; with the classifiers of another run, if one is given."""
    if (folder / "perturber").is_dir():
        return Run.open(folder)
    begun = (folder / "run.json").is_file()
    try:
        return train(recipe, folder, budget=budget, resume=begun, classifiers=None if begun else classifiers)
    except LimitNotMet as error:
        say(str(error))  # a row all the same, which says that the limit was missed
        return Run.open(folder)


def of_kind(kind: str, seed: int, out: Path, budget: str) -> Run:
    """The run of a recipe; all take the classifiers of the codebook, and raw windows its run."""
    name = KINDS[0] if kind == RAW else kind
    recipe = Recipe.find(f"motion-{name}").model_copy(update={"seed": seed})
    borrowed = None if name == KINDS[0] else out / str(seed) / KINDS[0]
    return trained(recipe, out / str(seed) / name, budget, classifiers=borrowed)


def audited(run: Run, out: Path, adversaries: str, floor: Mapping[str, Any] | None) -> dict[str, Any]:
    """What an audit finds of what ships, and label-only beside it, which is ``floor`` where that was measured."""
    audit = of_what_ships(run, out, adversaries, run.recipe.seed, floor)
    return {"limit_met": run.facts["limit_met"], **shortened(audit), "floor": audit["label_only"]}


def of_raw(run: Run, adversaries: str) -> dict[str, Any]:
    """The same attacks on raw windows, and what the same readers read from them."""
    original = baseline_original.perturber(run.dataset().for_training())
    found = shortened(of_a_comparison(run, original, adversaries, run.recipe.seed))
    dataset, seed = run.dataset(), run.recipe.seed
    return {**found, "collateral": retained.section(dataset, dataset.x[dataset.slices.rows()], adversaries, seed)}


def shortened(audit: Mapping[str, Any]) -> dict[str, Any]:
    """Of an audit what the page shows; of the other attacks the accuracy alone."""
    others = {one["name"]: one["accuracy"] for one in audit["adversaries"]}
    return {**{name: audit[name] for name in KEPT if name in audit}, "attacks": others}


def label_sent(run: Run, out: Path) -> dict[str, float] | None:
    """How often the label that leaves the int8 artefact is right on test rows; None where none leaves."""
    opened, dataset = open_target(exported(run, out), run=None, trust=None, artefact="tflite-int8"), run.dataset()
    test = dataset.part("test")
    label = perturb_rows(opened.subject, run, dataset, dataset.slices.rows()).outputs.get("label")
    return None if label is None else interval(intervals.rate(label[-len(test) :] == test.y, test.cluster))


def label_of_raw(seed: int, out: Path, budget: str) -> dict[str, float]:
    """How often a network is right on raw test rows that learned, as the codebook's label did, from two slices."""
    run = of_kind(RAW, seed, out, budget)
    dataset, recipe = run.dataset(), run.recipe

    def read() -> dict[str, float]:
        load_tensorflow()
        model = train_labels(dataset.for_training(), recipe.classifiers, recipe.budget, seed=seed, log=run)
        test = dataset.part("test")
        right = logits(model, dataset.unit(test.x)).argmax(axis=1) == test.y
        return interval(intervals.rate(right, test.cluster))

    found: dict[str, float] = record.kept(out / str(seed) / "raw-label.json", read)
    return found


def row(
    kind: str, seed: int, out: Path, budget: str, adversaries: str, floor: Mapping[str, Any] | None
) -> dict[str, Any]:
    """A perturber, or raw windows: its audit, and ``label``, what is known of y without reading a picture."""
    run, place = of_kind(kind, seed, out, budget), out / str(seed)
    make = partial(of_raw, run, adversaries) if kind == RAW else partial(audited, run, out, adversaries, floor)
    found: dict[str, Any] = record.kept(place / f"{kind}.json", make)
    if kind == RAW:
        return {**found, "label": label_of_raw(seed, out, budget)}
    sent = partial(label_sent, run, out)
    label = None if "not_exported" in found else record.kept(place / f"{kind}-label.json", sent)
    return {**found, "label": label}


def bounds() -> dict[str, float]:
    """Of every property of a window, the most that is kept where what leaves tells nothing of the person."""
    data = datasets.load(Recipe.find(f"motion-{KINDS[0]}"))
    if data.cluster is None:
        raise RuntimeError("windows of a recording have its number")
    return {name: most_kept(values, data.y, data.z, data.cluster) for name, values in data.attributes.items()}


def main() -> None:
    """Make the rows that are asked for."""
    script = record.Script(__file__, __doc__, "--seeds 0")
    script.add_argument("--out", type=Path, default=Path("runs/motion"), help="runs, exports and rows")
    script.add_argument("--rows", nargs="+", choices=[*KINDS, RAW], default=[*KINDS, RAW])
    script.add_argument("--seeds", nargs="+", type=int, default=[0])
    script.add_argument("--budget", choices=["full", "quick"], default="full", help="of the training")
    script.add_argument("--adversaries", choices=sorted(BUDGETS), default="quick", help="how hard they try")
    script.add_argument("--record", type=Path, default=RESULT)
    asked = script.parse_args()
    found = record.read(asked.record)
    found["most_kept"] = bounds()
    seeds, of_raw_windows = found.setdefault("seeds", {}), found.setdefault("label_of_raw", {})
    for seed in asked.seeds:
        rows = seeds.setdefault(str(seed), {})
        if str(seed) not in of_raw_windows:  # the rows of a seed are held against one network of raw windows
            of_raw_windows[str(seed)] = label_of_raw(seed, asked.out, asked.budget)
        for kind in asked.rows:
            floor = next((one["floor"] for one in rows.values() if "floor" in one), None)
            rows[kind] = row(kind, seed, asked.out, asked.budget, asked.adversaries, floor)
            best = rows[kind]["worst_adaptive"]
            print(f"{kind}: y {rows[kind]['target']['accuracy']:.3f}, person {best['accuracy']:.3f} by {best['name']}")
            record.write(asked.record, script.made_by(asked), {**found, **record.here()})


if __name__ == "__main__":
    record.run(main)
