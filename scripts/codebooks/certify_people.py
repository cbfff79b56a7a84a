"""Certifies a codebook on people never seen, over several splits of people, each with a training of its own.

    python -m scripts.codebooks.certify_people mine.toml --splits 4 --out runs/people --record people.json

Another seed cuts people into other slices, so each split trains, exports and counts anew, on people that its training
never saw. All bounds together hold with the recipe's confidence: the splits count as configurations tried. Needs data
with `subject` (or sessions, then recordings are split). Run again, it goes on with the splits that are missing.
"""

from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.edge_runtime.errors import BadInput, LimitNotMet
from edgeveil.trainer.audit import subject
from edgeveil.trainer.audit.frozen import open_target
from edgeveil.trainer.audit.sections import certificate_section
from edgeveil.trainer.export.export import export
from edgeveil.trainer.progress import say
from edgeveil.trainer.recipe.schema import Recipe
from edgeveil.trainer.recipe.training_sections import Certificate
from edgeveil.trainer.runs.run import Run
from edgeveil.trainer.tensorflow_quiet import load_tensorflow
from edgeveil.trainer.train import train
from scripts import record


def certify_split(
    recipe: Recipe, seed: int, out: Path, *, splits: int, artefact: str, budget: str = "full"
) -> dict[str, Any]:
    """Train, export and count one split. Raises ``BadInput`` where nothing can be counted, or no one is known."""
    recipe = recipe.model_copy(update={"seed": seed})
    folder, exported = out / f"{recipe.name}-{seed}", out / f"{recipe.name}-{seed}-export"
    begun = (folder / "run.json").is_file()
    if not (begun and Run.open(folder).facts["state"] == "finished"):
        try:
            train(recipe, folder, budget=budget, resume=begun)
        except LimitNotMet as error:
            say(str(error))  # the record says limit_met
    if not (exported / "manifest.json").is_file():
        export(folder, ["workstation"], exported)
    opened = open_target(exported, run=None, trust=None, artefact=artefact)
    dataset = opened.run.dataset()
    if dataset.cluster_kind is None:
        raise BadInput(
            f"{recipe.name}: the data do not say who is who, so people cannot be split. Give `subject` of each row."
        )
    terms = recipe.certificate or Certificate()
    rows = dataset.slices.rows()
    perturbed = subject.perturb_rows(opened.subject, opened.run, dataset, rows)
    if isinstance(perturbed.bottleneck, str):
        raise BadInput(f"No certificate: {perturbed.bottleneck}.")
    findings = certificate_section.section(
        dataset,
        perturbed.bottleneck,
        perturbed.outputs,
        table=perturbed.table,
        tried=terms.tried * splits,
        confidence=terms.confidence,
        strata=certificate_section.strata_of(dataset, terms.strata),
        seed=seed,
        stream=opened.subject.manifest.get("stream"),
        of=opened.subject.manifest["perturber"]["sensitive"],
    )
    one = next(one for one in findings if one.name == certificate_section.AVERAGE and one.kind == "certificate")
    if "plug_in" not in one.more:
        raise BadInput(one.not_run)
    figures = {name: one.more[name] for name in ("plug_in", "null", "units", "unit", "tried")}
    test = dataset.part("test")
    return {
        "seed": seed,
        "limit_met": opened.run.facts["limit_met"],
        "label_right": float((perturbed.outputs["label"][-len(test) :] == test.y).mean()),
        # Where too few were counted, there is no bound below 1.
        "certificate": {**figures, "given": one.bound, "bound": one.value if one.bound else 1.0},
    }


def over_splits(splits: list[dict[str, Any]]) -> dict[str, Any]:
    """The worst bound, and mean, lowest and highest of what was counted."""
    counted = [one["certificate"]["plug_in"] for one in splits]
    return {
        "splits": len(splits),
        "given": all(one["certificate"]["given"] for one in splits),
        "bound": max(one["certificate"]["bound"] for one in splits),
        "plug_in": {"mean": float(np.mean(counted)), "low": min(counted), "high": max(counted)},
        "null": float(np.mean([one["certificate"]["null"] for one in splits])),
    }


def sentence(summary: dict[str, Any], unit: str, confidence: float) -> str:
    """What all splits together say."""
    counted = summary["plug_in"]
    text = (
        f"Over {summary['splits']} splits, each with its own training, the best guess from y and the code was right "
        f"{100 * counted['low']:.1f} to {100 * counted['high']:.1f} % of the time on {unit} whom training never saw "
        f"({100 * summary['null']:.1f} % where z is shuffled)"
    )
    if not summary["given"]:
        return f"{text}; a split counted too few {unit} for a certificate."
    return (
        f"{text}. For one release, an adversary who knows y and nothing else that depends on x is right on average at "
        f"most {100 * summary['bound']:.1f} % of the time on each of them, with {100 * confidence:g} % confidence for "
        f"all splits together, for {unit} drawn like those counted."
    )


def main() -> None:
    """Certify every split that is missing, and say what all of them say."""
    script = record.Script(__file__, __doc__, "mine.toml --out runs/people --record people.json")
    script.add_argument("recipe", help="a codebook: name or file")
    script.add_argument("--splits", type=int, default=4)
    script.add_argument("--artefact", default="tflite-int8")
    script.add_argument("--budget", choices=["full", "quick"], default="full", help="of the training")
    script.add_argument("--out", type=Path, required=True, help="folder for runs and exports")
    script.add_argument("--record", type=Path, required=True)
    options = script.parse_args()
    load_tensorflow()
    recipe = Recipe.find(options.recipe)
    settings = {**recipe.model_dump(mode="json", exclude={"seed"}, exclude_none=True), "splits": options.splits}
    document = record.read(options.record)
    if document.get("settings") != settings:
        document = {"kind": "edgeveil-people-splits", "settings": settings, "artefact": options.artefact, "splits": []}
    for seed in range(recipe.seed, recipe.seed + options.splits):
        if not any(one["seed"] == seed for one in document["splits"]):
            how = {"splits": options.splits, "artefact": options.artefact, "budget": options.budget}
            document["splits"].append(certify_split(recipe, seed, options.out, **how))
        document["over_splits"] = over_splits(document["splits"])
        record.write(options.record, script.made_by(options), document | record.here())
    confidence = (recipe.certificate or Certificate()).confidence
    print(sentence(document["over_splits"], document["splits"][0]["certificate"]["unit"], confidence))


if __name__ == "__main__":
    record.run(main)
