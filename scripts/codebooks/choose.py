"""Compares settings of a codebook on validation rows of its training slices, and records which one they speak for.

    python -m scripts.codebooks.choose mnist-codebook --axis perturber.price=2,4,8 --points 1.0 \\
        --bits 0.010 --auc 0.56 --kept ink slant stroke --folds 2 --out docs/results/privacy/choice-mnist.json

Chosen is, of the settings that stay within the limits on the mean of all folds, the one that keeps most: the largest
mean correlation of the named properties between x and x'. The test slice is never touched. What is in --out already,
fold by fold and setting by setting, is not done again.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.trainer import datasets
from edgeveil.trainer.audit.sections.certificate_section import strata_of
from edgeveil.trainer.ext.sweep.axes import Point, parse, points
from edgeveil.trainer.recipe.schema import Recipe
from edgeveil.trainer.tensorflow_quiet import load_tensorflow
from scripts import record
from scripts.codebooks.choosing import compare

EXAMPLE = "wifi-codebook --axis perturber.price=0.5,1 --points 0.3 --bits 0.06 --kept strongest --out choice.json"


def figures(found: dict[str, Any]) -> dict[str, float]:
    """What is recorded of one fold: the stronger of two attacks, bits over the null, what is kept."""
    attacks = found["code_counts"], found["code_counts_crossed"]
    return {
        "label_accuracy": found["label_accuracy"],
        "chance": found["chance"]["majority"],
        "attack": found["attack"]["accuracy"],
        "auc": max(attack["auc"] for attack in attacks),
        "bits_over_null": found["bits_over_null"],
        "priced_bits_over_null": found["priced_bits_over_null"],
        "auc_of_16": found["pooled"][-1].get("code", {}).get("auc", 0.0),
        "distance": found["distance"],
        **{f"kept.{name}": value for name, value in found["kept"].items()},
    }


def summary(folds: dict[str, dict[str, float]], asked: argparse.Namespace) -> dict[str, Any]:
    """Means over folds, whether they are within the limits, and by what settings are ranked."""
    mean = {name: float(np.mean([fold[name] for fold in folds.values()])) for name in next(iter(folds.values()))}
    within = (
        100 * (mean["attack"] - mean["chance"]) <= asked.points
        and mean["bits_over_null"] <= asked.bits
        and (asked.auc is None or mean["auc"] <= asked.auc)
        and (asked.priced_bits is None or mean["priced_bits_over_null"] <= asked.priced_bits)
    )
    return {"mean": mean, "within_limits": within, "rank": float(np.mean([mean[f"kept.{n}"] for n in asked.kept]))}


def main() -> None:
    """Compare, choose, write."""
    script = record.Script(__file__, __doc__, EXAMPLE)
    script.add_argument("recipe")
    script.add_argument("--axis", nargs="+", required=True, help="recipe key and values, as of edgeveil run sweep")
    script.add_argument("--kept", nargs="+", required=True, help="properties that should be kept")
    script.add_argument("--points", type=float, required=True, help="attack over chance, at most")
    script.add_argument("--bits", type=float, required=True, help="bits about z over the permutation null, at most")
    script.add_argument("--priced-bits", type=float, help="bits about the label that is priced over its null, at most")
    script.add_argument("--auc", type=float, help="area under the ROC curve within y, at most")
    script.add_argument("--strata", nargs="*", default=[], help="attributes within which z is balanced by design")
    script.add_argument("--folds", type=int, default=2)
    script.add_argument("--out", type=Path, required=True)
    options = script.parse_args()
    load_tensorflow()
    recipe = Recipe.find(options.recipe)
    compared = points([recipe], [parse(text) for text in options.axis])
    dataset = datasets.load(recipe)
    strata = strata_of(dataset, options.strata)
    before = record.read(options.out).get("settings", [])
    rows = {json.dumps(row["settings"], sort_keys=True): row for row in before}

    def row_of(point: Point) -> dict[str, Any]:
        key = json.dumps(dict(point.settings), sort_keys=True)
        return rows.setdefault(key, {"settings": dict(point.settings), "folds": {}})

    def write() -> None:
        done = [row for row in rows.values() if row["folds"]]
        for row in done:
            row |= summary(row["folds"], options)
        allowed = [row for row in done if row["within_limits"]]
        text = {
            "kind": "edgeveil-choice",
            "recipe": recipe.name,
            "seed": recipe.seed,
            "rows": "held out of the first two slices, a fifth of each; the test slice is not touched",
            "limits": {
                "points": options.points,
                "bits_over_null": options.bits,
                "auc": options.auc,
                "priced_bits": options.priced_bits,
            },
            "kept": options.kept,
            "compared": len(done),
            "chosen": max(allowed, key=lambda row: row["rank"])["settings"] if allowed else None,
            "settings": done,
            **record.here(),
        }
        record.write(options.out, f"{script.path} {recipe.name}", text)

    for number in range(options.folds):
        missing = [point for point in compared if str(number) not in row_of(point)["folds"]]

        def done(at: int, found: Any, missing: list[Point] = missing, number: int = number) -> None:
            row_of(missing[at])["folds"][str(number)] = figures(found)
            write()

        if missing:
            sections: Any = [point.recipe.perturber for point in missing]
            compare(dataset, recipe, sections, fold_number=number, strata=strata, done=done)
    write()


if __name__ == "__main__":
    record.run(main)
