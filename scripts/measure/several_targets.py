"""Two targets kept at once, against each of them alone: y kept of each attribute, and z by the best attack on each.

WiFi (building and storey) and faces (where the light comes from, and how high) by the codebook and PR-GAN of their
recipes. The networks that were trained are attacked, with the budget of a quick audit and one setting: codes by
counting, other outputs by three families that learn on all rows. Where a recipe keeps one target, the other one is read
as an audit reads y. Records docs/results/several-targets.json; what an earlier run has measured is taken from --runs.

    EDGEVEIL_DATA=... python -m scripts.measure.several_targets
"""

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.edge_runtime.bundle.audit_figures import KEPT
from edgeveil.edge_runtime.errors import LimitNotMet
from edgeveil.trainer import datasets
from edgeveil.trainer.attacks.families.code_counts import CodeCounts
from edgeveil.trainer.attacks.families.forest import Forest
from edgeveil.trainer.attacks.families.lda import ShrinkageLDA
from edgeveil.trainer.attacks.families.mlp import BatchNormMLP
from edgeveil.trainer.attacks.findings import worst_adaptive
from edgeveil.trainer.attacks.problem import BUDGETS
from edgeveil.trainer.attacks.rows import question_of
from edgeveil.trainer.attacks.run_all import run
from edgeveil.trainer.audit import attributes, readers
from edgeveil.trainer.audit.attributes import Answers
from edgeveil.trainer.audit.findings import Finding
from edgeveil.trainer.audit.sections.other_attributes import COUNTING
from edgeveil.trainer.audit.subject import Perturbed, perturb_with
from edgeveil.trainer.datasets.base import Dataset, Known
from edgeveil.trainer.ext.sweep.axes import with_settings
from edgeveil.trainer.measures import intervals
from edgeveil.trainer.measures.attack_metrics import chance
from edgeveil.trainer.progress import say
from edgeveil.trainer.recipe.schema import Recipe
from edgeveil.trainer.runs.run import Run
from edgeveil.trainer.tensorflow_quiet import load_tensorflow
from edgeveil.trainer.train import train
from scripts import record

RESULT = Path("docs/results/several-targets.json")
TARGETS = {"wifi": ("building", "storey"), "faces": ("light", "height")}
HIDES = {"wifi": "region", "faces": "person"}
ALSO = {"wifi": (("storey",), ("building", "region"))}  # one target, and two attributes to hide
KINDS = ("codebook", "prgan")
LEARNERS = (ShrinkageLDA(), Forest(), BatchNormMLP())  # of what is no code; codes are counted


def cases(data: str) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    """What is kept and what is hidden: both targets, each alone, and where there is one the case of ``ALSO``."""
    kept = (TARGETS[data], *((one,) for one in TARGETS[data]))
    return [*((one, (HIDES[data],)) for one in kept), *([ALSO[data]] if data in ALSO else [])]


def recipe(data: str, kind: str, targets: Sequence[str], hides: Sequence[str], seed: int) -> Recipe:
    """The library's, with these targets and without a prior that names classes of another y."""
    keys = {"seed": seed, "data.target": list(targets), "data.sensitive": list(hides), "prior": {"kind": "uniform"}}
    return with_settings(Recipe.find(f"{data}-{kind}"), keys)


def interval(one: Finding) -> dict[str, Any]:
    """Estimate, ends and null of a figure, and who answered."""
    low, high = one.interval
    return {"by": one.name, "accuracy": one.value, "low": low, "high": high, "null": one.null}


def read_anyway(dataset: Dataset, sent: Perturbed, label: Known, seed: int) -> dict[str, Any]:
    """How well a target that the recipe does not keep is still read, by the reader that is best on validation."""
    rows = dataset.slices.rows()
    about = replace(dataset, y=label.values, y_names=label.names, theta=np.ones((len(label.names), 1)))
    released = replace(sent.released, y=label.values[rows])
    question = readers.question_of_y(about, released, BUDGETS["quick"], seed)
    families = (CodeCounts(),) if question.whole.few_values else readers.CHEAP
    answers = [Answers.of_attack(one) for one in run(question, seed=seed, families=families).kept]
    best = max(answers, key=lambda one: float(one.right("choose").mean()))
    right = intervals.rate(best.right("test"), best.rows["test"].cluster)
    null = float(question.whole.counted[0].max())
    return {"by": best.name, "accuracy": right.estimate, "low": right.low, "high": right.high, "null": null}


def measured(
    data: str, kind: str, targets: Sequence[str], hides: Sequence[str], seed: int, budget: str, folder: Path
) -> dict[str, Any]:
    """One perturber: each target kept, and z by the best attack, jointly and of each attribute."""
    asked = recipe(data, kind, targets, hides, seed)
    say(f"{data}: keeps {' and '.join(targets)}, hides {' and '.join(hides)}, {kind}, seed {seed}")
    try:
        train(asked, folder, budget=budget, replace=True)
    except LimitNotMet as missed:
        say(str(missed))
    trained, tries = Run.open(folder), BUDGETS["quick"]
    dataset, classifiers = trained.dataset(), trained.classifiers()
    sent = perturb_with(trained.perturber(), dataset, dataset.slices.rows())
    question = question_of(dataset, sent.released, tries, {"sensitive": None}, seed=seed)
    whole, families = question.whole, COUNTING if question.whole.few_values else LEARNERS
    ran = run(replace(question, settings=question.settings[-1:]), seed=seed, families=families)
    best = worst_adaptive([one.row for one in ran.kept])
    null = max(chance(whole.theta, whole.counted, whole.test.y, whole.test.z))
    of_y = readers.read(dataset, sent.released, sent.labels, classifiers["target"], tries, seed)
    both = datasets.load(recipe(data, kind, TARGETS[data], (HIDES[data],), seed)).known
    kept = {one.question: interval(one) for one in of_y if one.kind == KEPT} or {targets[0]: interval(of_y[0])}
    for one in TARGETS[data]:
        if one not in (*targets, *hides):
            kept[one] = read_anyway(dataset, sent, both[one], seed)
    hidden = [one for one in attributes.hidden(dataset, ran.kept, {}) if one.figure == "right"]
    return {
        **{"data": data, "kind": kind, "targets": list(targets), "hides": list(hides), "seed": seed},
        **{"budget": budget, "test_rows": len(whole.test), "classes": len(dataset.y_names)},
        **{"all": interval(of_y[0]), "kept": kept, "hidden": {one.question: interval(one) for one in hidden}},
        "z": {"by": best.label, **dict(zip(("accuracy", "low", "high"), best.right, strict=True)), "null": null},
        "seconds": trained.facts["wall_time_s"],
    }


def main() -> None:
    """Measure what --runs does not have yet, and record all."""
    script = record.Script(__file__, __doc__, out=RESULT)
    script.add_argument("--runs", type=Path, default=Path("runs/several"), help="runs, and what was measured of them")
    script.add_argument("--seeds", nargs="+", type=int, default=[0])
    script.add_argument("--data", nargs="+", default=list(TARGETS), choices=list(TARGETS))
    script.add_argument("--kinds", nargs="+", default=list(KINDS), choices=KINDS)
    script.add_argument("--budget", default="full", choices=("quick", "full"), help="of what is not measured yet")
    options = script.parse_args()
    load_tensorflow()
    rows = []
    for seed in options.seeds:
        for data in options.data:
            for kind in options.kinds:
                for targets, hides in cases(data):
                    folder = options.runs / f"{data}-{'-'.join((*targets, 'hides', *hides))}-{seed}-{kind}"
                    about = data, kind, targets, hides, seed, options.budget, folder
                    row = record.kept(folder.with_suffix(".json"), lambda about=about: measured(*about))
                    words = recipe(data, kind, targets, hides, seed).toml().encode()
                    rows.append({**row, "recipe_sha256": hashlib.sha256(words).hexdigest()})
                    facts = {"seeds": options.seeds, "rows": rows}
                    record.write(options.out, script.made_by(options), {**facts, **record.here()})


if __name__ == "__main__":
    record.run(main)
