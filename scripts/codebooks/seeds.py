"""Trains, exports and measures a codebook on several seeds, and records what its int8 artefact leaks and keeps.

    python -m scripts.codebooks.seeds mnist-codebook --out runs \\
        --record docs/results/privacy/codebook-mnist.json
    python -m scripts.codebooks.seeds --run runs/mnist-codebook --export exports/mnist-codebook

A seed is other slices, other first weights and another order. Each is recorded when it is done; run again, the script
goes on with those that are missing. Keras, float32 and int8 stand side by side, through the edge runtime; y-hat of int8
is compared with that of Keras on the same test rows (McNemar's test, and by how much it may be worse at most).

With ``--networks quick`` or ``thorough`` the networks of `edgeveil audit` attack the int8 x' as well, though counting
codes is exact: they confirm it. That is added to seeds on record too, from the runs in --out.
With ``--again`` what is counted is counted anew, after a change to the measure.

With ``--run`` one run that is there is measured and printed as JSON, nothing recorded: certificate, attacks on its
codes, what it keeps. With ``--export`` the codes are those of that artefact through the edge runtime, else those of
Keras. Strata of the null and the number of configurations tried are those of the recipe's ``[certificate]``. Of a
codebook that is held, the code is drawn from P(c | y-hat): what is counted there is y-hat, each reading standing for a
whole track.
"""

import hashlib
import json
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from edgeveil.edge_runtime.errors import BadInput, LimitNotMet
from edgeveil.edge_runtime.manifest.manifest import parse
from edgeveil.edge_runtime.pipeline.pipeline import Pipeline, load_pipeline
from edgeveil.trainer.attacks import rows
from edgeveil.trainer.attacks.problem import BUDGETS
from edgeveil.trainer.attacks.registry import adversaries
from edgeveil.trainer.audit import subject
from edgeveil.trainer.audit.floor import examine, raw_rates
from edgeveil.trainer.audit.sections.certificate_section import strata_of
from edgeveil.trainer.audit.subject import in_chunks
from edgeveil.trainer.datasets.base import Dataset
from edgeveil.trainer.export.export import export as export_run
from edgeveil.trainer.export.folder import ExportFolder
from edgeveil.trainer.measures.per_code import per_code
from edgeveil.trainer.perturbers.codebook.stream_codes import is_held
from edgeveil.trainer.progress import say
from edgeveil.trainer.recipe.schema import Recipe
from edgeveil.trainer.recipe.training_sections import Certificate
from edgeveil.trainer.runs.fitted import KerasRunner
from edgeveil.trainer.runs.run import Run
from edgeveil.trainer.tensorflow_quiet import load_tensorflow
from edgeveil.trainer.train import train
from scripts import audit_rows, record
from scripts.codebooks.codebook_summary import measure
from scripts.codebooks.slice_leaks import by_slice

KERAS, SHIPS = "keras", "tflite-int8"
ARTEFACTS = (KERAS, "tflite-float32", SHIPS)
NETWORKS = ("BatchNorm MLP", "CNN", "BatchNorm CNN", "fine-tuned D_z", "mixed", "inversion")
AGAIN = 16  # releases of the same x
AGAIN_ROWS = 300
FURTHER: dict[str, tuple[str | int, ...]] = {
    "priced_bits_over_null": ("priced_bits_over_null",),
    "linked_auc": ("pooled", -1, "code", "auc"),
    "label_only_linked_auc": ("pooled", -1, "label_only", "auc"),
    "factor": ("per_code", 0, "factor"),
    "factor_of_pairs_of_100": ("per_code", 1, "factor"),
}
FEWEST = (30, 100)  # units of a pair of y and code to bound it by: as in an audit, and more


def paired(right: np.ndarray, reference: np.ndarray) -> dict[str, float]:
    """Two answers to the same rows, right (n,) or not: McNemar's exact p that ``right`` is worse, and its margin.

    ``worse_by_at_most`` is the upper end of the one-sided 95 % interval for the difference of the two accuracies: the
    smallest margin at which this sample supports "not worse" (Wald, Agresti and Min's half rows added).
    """
    lost, gained = int((~right & reference).sum()), int((right & ~reference).sum())
    p = float(stats.binomtest(lost, lost + gained, alternative="greater").pvalue) if lost + gained else 1.0
    n, b, c = len(right) + 2.0, lost + 0.5, gained + 0.5
    error = np.sqrt(b + c - (b - c) ** 2 / n) / n
    return {
        "rows": len(right),
        "lost": lost,
        "gained": gained,
        "p_worse": p,
        "worse_by": (lost - gained) / len(right),
        "worse_by_at_most": float((b - c) / n + stats.norm.ppf(0.95) * error),
    }


def seed_record(recipe: Recipe, seed: int, out: Path) -> dict[str, Any]:
    """Train, export and measure one seed; what is there already is used."""
    started = time.monotonic()
    run, export = made(recipe, seed, out)
    dataset, test = run.dataset(), run.dataset().part("test")
    right, sent, figures = {}, {}, {}
    for artefact in ARTEFACTS:
        through = pipeline(run, export, artefact)
        figures[artefact], outputs = measured(run, through)
        right[artefact], sent[artefact] = outputs["label"] == test.y, outputs["sent"]
        if artefact == SHIPS:
            figures[artefact]["same_x"] = same_x(run, through, test.x[:AGAIN_ROWS])
            left = in_chunks(through.run, dataset.x[dataset.slices.rows()])
            figures[artefact]["by_slice"] = by_slice(dataset, told(run, left))
            tried = (recipe.certificate or Certificate()).tried
            figures[artefact]["per_code"] = [bound(dataset, told(run, left), tried, fewest) for fewest in FEWEST]
    return {
        "seed": seed,
        "limit_met": run.facts["limit_met"],
        "raw": raw_rates(dataset, run.classifiers()),
        "artefacts": figures,
        "int8_against_keras": {
            "label": paired(right[SHIPS], right[KERAS]),
            "codes_changed": float((sent[SHIPS] != sent[KERAS]).mean()),
        },
        "sha256": hashes(export),
        "cost": {name: export.manifest["models"]["encoder"][name] for name in ("macs", "parameters")},
        "training_s": run.facts["wall_time_s"],
        "wall_time_s": round(time.monotonic() - started, 1),
        **record.here(),
    }


def bound(dataset: Dataset, code: np.ndarray, tried: int, fewest: int) -> dict[str, Any]:
    """F of the codes (n,) of all rows, over pairs of y and code of so many units; counted where no training was."""
    unseen, code = dataset.rows(rows.unseen(dataset)), code.astype(np.int64)[dataset.slices.places("attack").start :]
    shape = len(dataset.y_names), int(code.max()) + 1, len(dataset.z_names)
    rng = np.random.default_rng(0)
    try:
        limit = per_code(
            unseen.y, code, unseen.z, shape=shape, rng=rng, cluster=unseen.cluster, tried=tried, fewest=fewest
        )
    except BadInput as error:
        return {"at_least": fewest, "not_given": str(error)}
    told_of = {"factor": limit.factor, "estimate": limit.estimate, "pairs": limit.pairs, "share": limit.share}
    return {"at_least": fewest, "units": limit.units, **told_of}


def holds(run: Run) -> bool:
    """Whether all that leaves of x is y-hat, of a track or as it is: codes are drawn from P(c | y-hat), x or no x."""
    return is_held(run.perturber().stream)


def told(run: Run, outputs: Mapping[str, np.ndarray]) -> np.ndarray:
    """What of ``outputs`` depends on x and nothing else does: the code c', or where it is held, y-hat."""
    return outputs["label" if holds(run) else "code"]


def pipeline(run: Run, export: ExportFolder | None, artefact: str) -> Pipeline:
    """The codebook of a run, on Keras or as one artefact of its export; an output ``sent`` says c."""
    fitted = run.perturber()
    label = next(output["tensor"] for output in fitted.outputs if output["kind"] == "label")
    tensor = label if holds(run) else "code"  # before any channel
    sent = {"name": "sent", "kind": "code", "tensor": tensor, "shape": [], "dtype": "int64"}
    if export is not None and artefact != KERAS:
        manifest = {**export.manifest, "outputs": [*export.manifest["outputs"], sent]}
        return load_pipeline(parse(manifest), export.members, artefact)
    description: dict[str, Any] = {**fitted.description(), "outputs": [*fitted.outputs, sent]}
    runners = {name: KerasRunner(model) for name, model in fitted.models.items()}
    return Pipeline(parse(description), tables=dict(fitted.tables), runners=runners)


def measured(run: Run, through: Pipeline, *, tried: int | None = None) -> tuple[dict[str, Any], Mapping[str, Any]]:
    """What ``scripts.codebooks.codebook_summary`` says of it, and its outputs on the test slice."""
    dataset, terms = run.dataset(), run.recipe.certificate or Certificate()
    outputs: list[Mapping[str, np.ndarray]] = []

    def perturb(x: np.ndarray) -> Mapping[str, np.ndarray]:
        outputs.append(in_chunks(through.run, x))
        return {**outputs[-1], "code": told(run, outputs[-1])}

    figures = measure(
        dataset,
        perturb,
        codes=len(dataset.y_names) * (1 if holds(run) else run.recipe.perturber.codes),
        channel=None if holds(run) else run.perturber().tables.get("channel"),
        strata=strata_of(dataset, terms.strata),
        tried=terms.tried if tried is None else tried,
    )
    return figures, outputs[0]


def made(recipe: Recipe, seed: int, out: Path) -> tuple[Run, ExportFolder]:
    """Run and export of one seed, made now or earlier."""
    recipe = recipe.model_copy(update={"seed": seed})
    folder, exported = out / f"{recipe.name}-{seed}", out / f"{recipe.name}-{seed}-export"
    finished = (folder / "run.json").is_file() and Run.open(folder).facts["state"] == "finished"
    if not finished:
        try:
            train(recipe, folder, resume=(folder / "run.json").is_file())
        except LimitNotMet as error:
            print(error)  # the record says limit_met
    if not (exported / "manifest.json").is_file():
        export_run(folder, ["workstation"], exported, all_formats=True)
    return Run.open(folder), ExportFolder.open(exported)


def hashes(export: ExportFolder) -> dict[str, str]:
    """SHA-256 of every artefact that is measured."""
    artefacts = export.manifest["models"]["encoder"]["artefacts"]
    return {
        name: hashlib.sha256(export.members[entry["file"]]).hexdigest()
        for name, entry in artefacts.items()
        if name in ARTEFACTS
    }


def networks(recipe: Recipe, seed: int, out: Path, budget: str) -> dict[str, Any]:
    """What networks make of the int8 x': the fixed and the transferred one, and those that learn on it."""
    started = time.monotonic()
    run, export = made(recipe, seed, out)
    dataset = run.dataset()
    every = dataset.slices.rows()
    left = subject.perturb_rows(subject.Subject(export.manifest, export.members, SHIPS), run, dataset, every).released
    families = tuple(family for family in adversaries() if family.name in NETWORKS or family.kind != "adaptive")
    tries = replace(BUDGETS[budget], every_family=True, confirm=True)
    audited = examine(dataset, left, run.classifiers(), tries, seed, families=lambda _problem: families)
    fields = audit_rows.part(audited.findings("y", "z"), "y", "z")
    recorded = ("target", "chance", "adversaries", "not_run", "worst_adaptive", "most_bits", "learning_curve")
    return {
        "budget": budget,
        "sha256": hashes(export)[SHIPS],
        **{name: fields[name] for name in recorded},
        "wall_time_s": round(time.monotonic() - started, 1),
    }


def same_x(run: Run, through: Any, x: np.ndarray) -> dict[str, Any]:
    """Whether readings released again and again ever send another code: if not, all releases tell what one tells."""
    codes = np.stack([told(run, through.run(x)) for _ in range(AGAIN)])
    return {"releases": AGAIN, "rows": len(x), "rows_with_several_codes": int((codes != codes[0]).any(axis=0).sum())}


def over_seeds(seeds: list[dict[str, Any]]) -> dict[str, Any]:
    """Mean and worst over seeds of what the targets are about, of the int8 artefact."""
    measured_of = [record["artefacts"][SHIPS] for record in seeds]
    attack = [row["attack"]["accuracy"] for row in measured_of]
    figures = {
        "label_accuracy_of_raw": [
            row["label_accuracy"] / record["raw"]["target"]["accuracy"]
            for row, record in zip(measured_of, seeds, strict=True)
        ],
        "attack_over_chance_points": [
            100 * (value - row["chance"]["majority"]) for value, row in zip(attack, measured_of, strict=True)
        ],
        "attack": attack,
        "auc": [max(row[name]["auc"] for name in ("code_counts", "code_counts_crossed")) for row in measured_of],
        "bits_over_null": [row["bits_over_null"] for row in measured_of],
        **{name: [found_at(row, *path) for row in measured_of] for name, path in FURTHER.items()},
        **{f"kept.{name}": [row["kept"][name] for row in measured_of] for name in measured_of[0]["kept"]},
    }
    low = ("label", "kept")  # of these, less is worse
    return {
        name: {"mean": float(np.mean(v)), "worst": float(min(v) if name.startswith(low) else max(v)), "seeds": v}
        for name, v in figures.items()
        if np.isfinite(v).all()
    }


def found_at(row: Any, *path: str | int) -> float:
    """The figure at this place of a record; NaN where it was not given, or too few samples were there for it."""
    for key in path:
        try:
            row = row[key]
        except LookupError:
            return float("nan")
    return float(row)


def main() -> None:
    """Record every seed that is missing, or print what is found of one run."""
    script = record.Script(__file__, __doc__, "wifi-codebook --out runs --record codebook-wifi.json")
    script.add_argument("recipe", nargs="?")
    script.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    script.add_argument("--out", type=Path, help="folder for runs and exports")
    script.add_argument("--record", type=Path)
    script.add_argument("--run", type=Path, help="measure this run of a codebook instead, and print it")
    script.add_argument("--export", type=Path, help="with --run: folder that `edgeveil export` made of it")
    script.add_argument("--artefact", default=SHIPS, help="with --export: tflite-int8, onnx-float32, ...")
    script.add_argument("--tried", type=int, help="with --run: configurations ever compared on these test rows")
    script.add_argument("--networks", choices=sorted(BUDGETS), help="let networks attack x' too, and how hard")
    script.add_argument(
        "--again", action="store_true", help="measure seeds on record anew; runs that are not in --out are made"
    )
    args = script.parse_args()
    if args.run:
        export = ExportFolder.open(args.export) if args.export else None
        artefact, run = args.artefact if export else KERAS, Run.open(args.run)
        document, _ = measured(run, pipeline(run, export, artefact), tried=args.tried)
        print(json.dumps({"recipe": run.recipe.name, "artefact": artefact, **document}))
        return
    if not (args.recipe and args.out and args.record):
        script.error("a recipe with --out and --record, or --run was expected")
    load_tensorflow()
    recipe = Recipe.find(args.recipe)
    settings: Mapping[str, Any] = recipe.model_dump(mode="json", exclude={"seed"}, exclude_none=True)
    document = record.read(args.record)
    if document.get("settings") != settings:
        document = {"kind": "edgeveil-codebook-record", "recipe": recipe.name, "settings": settings, "seeds": []}
    for seed in args.seeds:
        one = next((done for done in document["seeds"] if done["seed"] == seed), None)
        if one is None or args.again:
            before, one = one, seed_record(recipe, seed, args.out)
            if before and "networks" in before and before["sha256"] == one["sha256"]:
                one["networks"] = before["networks"]  # of the same artefact
            others = [done for done in document["seeds"] if done["seed"] != seed]
            document["seeds"] = sorted([*others, one], key=lambda done: done["seed"])
            document["over_seeds"] = over_seeds(document["seeds"])
            write(args.record, script, document)
        if args.networks and one.get("networks", {}).get("budget") not in (args.networks, "thorough"):
            one["networks"] = networks(recipe, seed, args.out, args.networks)
            if one["networks"]["sha256"] != one["sha256"][SHIPS]:
                say(f"Seed {seed}: the artefact in {args.out} is not the one on record; the record names both hashes.")
            write(args.record, script, document)


def write(path: Path, script: record.Script, found: Mapping[str, Any]) -> None:
    """The record, whole or not at all."""
    record.write(path, f"{script.path} {found['recipe']}", found)
    say(f"{found['recipe']}: recorded in {path}")


if __name__ == "__main__":
    record.run(main)
