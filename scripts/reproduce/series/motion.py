"""A worn motion sensor: what is kept of the action, and what attacks read of the person, from raw windows to codes.

    EDGEVEIL_DATA=... python -m scripts.reproduce.series.motion --out runs/motion

Records docs/results/series/motion.json: for every perturber the audit of its int8 artefact (of raw windows: the same
attacks), what of energy, tempo and duration is kept, what could be, and what the codes of a recording add up to. One
seed takes minutes on a quiet machine. Rows on record are kept; run again, the script goes on.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from edgeveil.edge_runtime.errors import LimitNotMet
from edgeveil.trainer import datasets
from edgeveil.trainer.attacks.problem import BUDGETS
from edgeveil.trainer.progress import say
from edgeveil.trainer.recipe.schema import Recipe
from edgeveil.trainer.runs.run import Run
from edgeveil.trainer.train import train
from scripts.reproduce import record
from scripts.reproduce.papers import baseline_original
from scripts.reproduce.papers.table_2 import of_a_comparison, of_what_ships
from scripts.reproduce.series.most_kept import most_kept

RESULT = Path("docs/results/series/motion.json")
KINDS = ("codebook", "codebook-bout", "label-only")
RAW = "raw"
KEPT = ("target", "chance", "worst_adaptive", "most_bits", "raw", "collateral", "streams", "budget", "not_exported")


def trained(kind: str, seed: int, out: Path, budget: str) -> Run:
    """The finished run, made now or earlier; all take the classifiers of the codebook."""
    recipe = Recipe.find(f"motion-{kind}").model_copy(update={"seed": seed})
    folder = out / str(seed) / kind
    if (folder / "perturber").is_dir():
        return Run.open(folder)
    begun = (folder / "run.json").is_file()
    borrowed = None if begun or kind == KINDS[0] else out / str(seed) / KINDS[0]
    try:
        return train(recipe, folder, budget=budget, resume=begun, classifiers=borrowed)
    except LimitNotMet as error:
        say(str(error))  # a row all the same, which says that the limit was missed
        return Run.open(folder)


def row(
    kind: str, seed: int, out: Path, budget: str, adversaries: str, floor: Mapping[str, Any] | None
) -> dict[str, Any]:
    """What an audit finds of one perturber, or of raw windows."""
    run = trained(KINDS[0] if kind == RAW else kind, seed, out, budget)
    if kind == RAW:
        original = baseline_original.perturber(run.dataset().for_training())
        return shortened(of_a_comparison(run, original, adversaries, seed))
    audit = of_what_ships(run, out, adversaries, seed, floor)
    return {"limit_met": run.facts["limit_met"], **shortened(audit), "floor": audit["label_only"]}


def shortened(audit: Mapping[str, Any]) -> dict[str, Any]:
    """Of an audit what the page shows; of the other attacks the accuracy alone."""
    others = {one["name"]: one["accuracy"] for one in audit["adversaries"]}
    return {**{name: audit[name] for name in KEPT if name in audit}, "attacks": others}


def bounds() -> dict[str, float]:
    """Of every property of a window, the most that is kept where what leaves tells nothing of the person."""
    data = datasets.load(Recipe.find(f"motion-{KINDS[0]}"))
    if data.cluster is None:
        raise RuntimeError("windows of a recording have its number")
    return {name: most_kept(values, data.y, data.z, data.cluster) for name, values in data.attributes.items()}


def main() -> None:
    """Make the rows that are not on record."""
    script = record.Script(__file__, __doc__, "--seeds 0")
    script.add_argument("--out", type=Path, default=Path("runs/motion"), help="runs and exports")
    script.add_argument("--rows", nargs="+", choices=[*KINDS, RAW], default=[*KINDS, RAW])
    script.add_argument("--seeds", nargs="+", type=int, default=[0])
    script.add_argument("--budget", choices=["full", "quick"], default="full", help="of the training")
    script.add_argument("--adversaries", choices=sorted(BUDGETS), default="quick", help="how hard they try")
    script.add_argument("--record", type=Path, default=RESULT)
    asked = script.parse_args()
    found = record.read(asked.record)
    found["most_kept"] = bounds()
    seeds = found.setdefault("seeds", {})
    for seed in asked.seeds:
        rows = seeds.setdefault(str(seed), {})
        for kind in asked.rows:
            if kind in rows:
                continue
            floor = next((one["floor"] for one in rows.values() if "floor" in one), None)
            rows[kind] = row(kind, seed, asked.out, asked.budget, asked.adversaries, floor)
            best = rows[kind]["worst_adaptive"]
            print(f"{kind}: y {rows[kind]['target']['accuracy']:.3f}, person {best['accuracy']:.3f} by {best['name']}")
            record.write(asked.record, script.made_by(asked), {**found, **record.here()})
    record.write(asked.record, script.made_by(asked), {**found, **record.here()})


if __name__ == "__main__":
    record.run(main)
