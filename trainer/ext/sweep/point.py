"""One point of a frontier: train the recipe, attack its output, measure its utility.

Points measure the run's networks on the test slice, so that hundreds can be compared; ``edgeveil audit`` attacks the
exported artefact, which is what ships.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from edgeveil.edge_runtime.errors import EdgeVeilError, LimitNotMet
from edgeveil.edge_runtime.util.atomic import write_atomic
from edgeveil.trainer.attacks.families.code_counts import WEIGHT, CodeCounts, shrunk
from edgeveil.trainer.attacks.problem import BUDGETS, Problem
from edgeveil.trainer.attacks.protocol import Adversary
from edgeveil.trainer.attacks.registry import adversaries
from edgeveil.trainer.audit.document import environment, interval
from edgeveil.trainer.audit.findings import plain
from edgeveil.trainer.audit.floor import examine, raw_rates
from edgeveil.trainer.audit.sections.retained import correlations
from edgeveil.trainer.audit.subject import perturb_with
from edgeveil.trainer.audit.verdict import judge, limits_of
from edgeveil.trainer.datasets.base import Dataset, Part
from edgeveil.trainer.datasets.slicing import fit_and_validation, sample
from edgeveil.trainer.measures import attack_metrics, certificate, intervals
from edgeveil.trainer.measures.certificate import over_null
from edgeveil.trainer.networks.training import train_classifiers, train_linear
from edgeveil.trainer.perturbers.label_only import from_classifier
from edgeveil.trainer.recipe.perturber import of_kind
from edgeveil.trainer.recipe.schema import Recipe
from edgeveil.trainer.recipe.training_sections import Limits
from edgeveil.trainer.report.pictures import strip
from edgeveil.trainer.runs.fitted import FittedPerturber
from edgeveil.trainer.runs.run import Run
from edgeveil.trainer.train import train

SHOWN = 10  # samples in the picture of a point


def measure_point(
    recipe: Recipe, floor: bool, out: Path, budget: str, attacks: str, *, searched: bool = False
) -> dict[str, Any]:
    """The document of one point: figures, or ``failed`` and why. ``floor`` measures label-only on the recipe's data.

    ``searched``: on the rows by which checkpoints were chosen; the test slice is not used. A run that misses the
    recipe's limits there is ``pruned``, by how much, and not attacked.

    Trains in ``out/runs`` and shares D_y and D_z through ``out/classifiers``, one process at a time. ``attacks`` is
    ``codes``, ``quick``, ``all``, or ``auto``: ``codes`` for a perturber that sends few codes, else ``quick``.
    """
    lent = shared_classifiers(recipe, out, budget=budget)
    try:
        run = lent if floor else _trained(recipe, out, lent, budget=budget)
    except EdgeVeilError as error:
        return {"failed": str(error)}
    if searched and not run.facts["limit_met"]:
        had = run.facts["validation"]
        best = max(had[name] for name in ("target_accuracy", "reader_accuracy") if name in had)
        return {"pruned": max(recipe.limits.target_accuracy - best, 0.0)}
    dataset, two = without_test(run.dataset()) if searched else run.sample(), lent.classifiers()
    fitted = from_classifier(dataset.for_training(), two["target"]) if floor else run.perturber()
    named = tuple(getattr(recipe.perturber, "keep", ()))
    figures = measure(
        *(dataset, fitted, two),
        attacks=attacks,
        seed=recipe.seed,
        limits=recipe.limits,
        named=named,
        pictures=out / "pictures",
    )
    versions, machine = environment()
    spent = round(sum(run.facts["wall_time_s"].values()), 1)
    limit_met = floor or bool(run.facts["limit_met"])
    return {**figures, "limit_met": limit_met, "training_s": spent, "versions": versions, "machine": machine}


def without_test(dataset: Dataset) -> Dataset:
    """The rows by which checkpoints are chosen, in the place of the test slice; all others as they are."""
    fit, held = fit_and_validation(dataset, "perturber")
    return sample(dataset.limited(replace(dataset.slices, perturber=fit.index, test=held.index)))


def shared_classifiers(recipe: Recipe, out: Path, *, budget: str) -> Run:
    """A run with D_y and D_z for this recipe's data, slices and seed: trained once, by the first process."""
    shared = recipe.with_budget(budget)
    what = shared.model_dump(include={"data", "prior", "classifiers", "seed"})
    what |= shared.budget.model_dump(include={"rows", "batch", "classifier_epochs"})
    if files := shared.with_files().files:
        what["files"] = [one.sha256 for one in files]
    if shared.private is not None:  # its slices are cut by unit
        what["private"] = shared.private.unit
    text = json.dumps([what, recipe.perturber.unbounded], sort_keys=True)
    folder = out / "classifiers" / hashlib.sha256(text.encode()).hexdigest()[:12]
    with _locked(folder):
        if not (folder / "run.json").is_file():
            Run.create(folder, recipe, budget=budget)
        run = Run.open(folder)
        run.recipe = shared.with_files()  # not what is stored there, which may name other code
        if run.facts["state"] != "classifiers":
            (train_linear if recipe.classifiers.architecture == "linear" else train_classifiers)(run)
            run.record(state="classifiers")
    return run


def measure(
    dataset: Dataset,
    fitted: FittedPerturber,
    two: Mapping[str, Any],
    *,
    attacks: str,
    seed: int,
    limits: Limits | None = None,
    named: tuple[str, ...] = (),
    pictures: Path | None = None,
) -> dict[str, Any]:
    """Leakage, utility and kept properties of ``fitted`` on the test slice; ``two`` are D_y and D_z.

    The verdict is an audit's, by the recipe's ``limits``; ``named`` is what it asks to keep. ``pictures`` is a folder
    for a picture of what is sent, where that is one.
    """
    rows = dataset.slices.rows()
    perturbed = perturb_with(fitted, dataset, rows)
    chosen = partial(_families, attacks, fitted.kind)
    about = dataset, perturbed.released, two, BUDGETS["quick"], seed
    audited = examine(*about, families=chosen, labels=perturbed.labels)
    result, outputs = audited.found, perturbed.outputs
    worst = result.worst_adaptive
    right = dict(zip(("accuracy", "low", "high"), worst.right, strict=True))
    leak: dict[str, Any] = {"name": worst.name, **right, "auc": worst.auc}
    fixed = next((row for row in result.rows if row.kind == "fixed"), None)
    document: dict[str, Any] = {
        "attacked_by": [row.name for row in result.rows],
        "not_run": [left_out._asdict() for left_out in result.not_run],
        "fixed": None if fixed is None else interval(fixed.right),
    }
    part = dataset.part("test")
    first = len(rows) - len(part)
    counted = attack_metrics.counted_prior(dataset.y[rows[:first]], dataset.z[rows[:first]], dataset.theta.shape)
    code = next((o["name"] for o in fitted.outputs if o["kind"] == "code"), None)
    sent = outputs.get(code or "label") if code or of_kind(fitted.kind).certified else None
    if sent is not None:
        values, codes = sent.astype(np.int64)[first:], int(sent.max()) + 1
        rng = np.random.default_rng([seed, 2])
        rate = cross_validated(part, values, counted, codes=codes, chance=result.chance.majority, rng=rng)
        # Codes leak less on the rows they were learned on, so they are counted on test folds too.
        if rate["accuracy"] > leak["accuracy"]:
            leak = {"name": "code counts, crossed", **rate}
        shape = (len(dataset.y_names), codes, len(dataset.z_names))
        document["bits_over_null"] = bits_over_null(part, values, shape, rng)
    frames = perturbed.released.x[first:]
    if pictures is not None and dataset.input.kind == "image":
        document["pictures"] = drawn(dataset, frames[np.argsort(part.y[:SHOWN], kind="stable")], pictures)
    distance = (dataset.unit(part.x) - dataset.unit(frames)).reshape(len(part), -1)
    units = len(part) if part.cluster is None else len(np.unique(part.cluster))
    clusters = None if part.cluster is None else {"kind": dataset.cluster_kind, "test": units}
    entries = [one.as_json() for one in audited.findings("y", "z")]
    judged = {"findings": entries, "data": {"sensitive": "z", "rows": {"test": len(part)}, "clusters": clusters}}
    thresholds = {} if limits is None else limits_of(limits)
    return plain(
        {
            **document,
            "perturber": fitted.kind,
            "rows": len(part),
            "chance": result.chance._asdict(),
            "verdict": judge(judged, thresholds),
            "leak": leak,
            "target": interval(audited.target),
            "raw": raw_rates(dataset, two),
            "kept": {
                name: correlation(plain(value.estimate), units)
                for name, value in correlations(dataset, part, frames, named=named).items()
            },
            "distance": float(np.linalg.norm(distance, axis=1).mean()),
        }
    )


def drawn(dataset: Dataset, frames: np.ndarray, folder: Path) -> str:
    """Some frames next to each other, as a PNG of that folder: its name, by what it shows."""
    data = strip(dataset.unit(frames[:SHOWN]), 0.0, 1.0)
    name = f"{hashlib.sha256(data).hexdigest()[:16]}.png"
    folder.mkdir(parents=True, exist_ok=True)
    write_atomic(folder / name, data)
    return name


def bits_over_null(
    part: Part, code: np.ndarray, shape: tuple[int, int, int], rng: np.random.Generator
) -> dict[str, float]:
    """Bits about z beyond y in codes (n,), less those about z permuted over whole clusters (the null), by unit."""
    design: dict[str, Any] = {
        "q": np.eye(shape[1]),
        "classes": (shape[0], shape[2]),
        "rng": rng,
        "cluster": part.cluster,
    }
    null = certificate.null_distribution(part.y, code, part.z, shuffles=60, **design)[:, 1]
    bits = over_null(part.y, code, part.z, null_bits=float(null.mean()), **design)
    return {
        "estimate": bits.estimate,
        "low": bits.low,
        "high": bits.high,
        "null": null.mean(),
        "null_95": np.quantile(null, 0.95),
    }


def correlation(value: float, units: int) -> dict[str, float]:
    """A correlation with its 95 % interval over independent units (Fisher's z)."""
    half = float(stats.norm.ppf(0.975)) / float(np.sqrt(max(units - 3, 1)))
    middle = float(np.arctanh(np.clip(value, -0.999999, 0.999999)))
    return {"correlation": value, "low": float(np.tanh(middle - half)), "high": float(np.tanh(middle + half))}


def _trained(recipe: Recipe, out: Path, lent: Run, *, budget: str) -> Run:
    digest = hashlib.sha256((recipe.model_dump_json() + budget).encode()).hexdigest()[:12]
    folder = out / "runs" / digest
    resume = (folder / "run.json").is_file()
    if not resume or Run.open(folder).facts["state"] != "finished":
        try:
            train(recipe, folder, budget=budget, resume=resume, classifiers=lent.folder)
        except LimitNotMet:
            # Utility below the recipe's limit is a point of the frontier like any other; a diverged training is none.
            if Run.open(folder).facts["state"] != "finished":
                raise
    return Run.open(folder)


def _families(attacks: str, kind: str, problem: Problem) -> tuple[Adversary, ...]:
    every = adversaries()
    if attacks == "all":
        return every
    by_code = tuple(family for family in every if family.kind == "fixed" or getattr(family, "counts", False))
    countable = CodeCounts().why_not(problem) is None
    if countable and (attacks == "codes" or (attacks == "auto" and of_kind(kind).certified)):
        return by_code
    return tuple(family for family in every if family in by_code or getattr(family, "swept", False))


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the lock of ``folder``: one process at a time, also across machines if the file system locks."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with Path(f"{folder}.lock").open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


# Attacks by counting codes on the other folds of the same rows: rows that no codebook was learned on.

FOLDS = 5
SHUFFLES = 40


def cross_validated(
    part: Part, code: np.ndarray, prior: np.ndarray, *, codes: int, chance: float, rng: np.random.Generator
) -> dict[str, float]:
    """Right answers and AUC of an attack on each row by counts on the other folds of the same rows.

    Clusters stay whole: with frames of one recording in two folds, the recording would be counted and not z. But
    leaving a recording out takes its person from the counts, and with few recordings an attack is then right less often
    than a guess where there is no leak. So with clusters its ``accuracy`` is ``chance`` plus its gain over itself with
    z shuffled over whole clusters (``null``, whose spread gives the interval), its AUC likewise.
    """
    scores = attacked(_counted_elsewhere(part, part.z, code, prior, codes, rng), part)
    if part.cluster is None:
        return scores
    nulls = [
        attacked(_counted_elsewhere(part, z, code, prior, codes, rng), replace(part, z=z))
        for z in certificate.shuffled_labels(part.z, part.y, shuffles=SHUFFLES, rng=rng, cluster=part.cluster)
    ]
    by_chance = np.array([one["accuracy"] for one in nulls])
    null, null_auc = float(by_chance.mean()), float(np.mean([one["auc"] for one in nulls]))
    gained = scores["accuracy"] - null
    half = float(stats.norm.ppf(0.975) * by_chance.std(ddof=1))
    ends = {"accuracy": chance + gained, "low": chance + (gained - half), "high": chance + (gained + half)}
    ends["auc"] = scores["auc"] - null_auc + 0.5
    return {**{name: float(np.clip(end, 0, 1)) for name, end in ends.items()}, "null": null}


def _counted_elsewhere(
    part: Part, z: np.ndarray, code: np.ndarray, prior: np.ndarray, codes: int, rng: np.random.Generator
) -> np.ndarray:
    """P(z | y, code) (n, classes of z) of each row, counted on the other folds."""
    unit = intervals.unit_numbers(len(part), part.cluster)
    fold = rng.permutation(int(unit.max()) + 1)[unit] % FOLDS
    p = np.empty((len(part), prior.shape[1]))
    for number in range(FOLDS):
        rest, mine = fold != number, fold == number
        counts = intervals.count(part.y[rest], code[rest], z[rest], shape=(prior.shape[0], codes, prior.shape[1]))
        p[mine] = shrunk(counts, prior, WEIGHT)[part.y[mine], code[mine]]
    return p


def attacked(p: np.ndarray, part: Part) -> dict[str, float]:
    """Right answers of probabilities p (n, classes of z) with their interval, and the AUC within y."""
    right = intervals.rate(p.argmax(axis=1) == part.z, part.cluster)
    ends = dict(zip(("accuracy", "low", "high"), right, strict=True))
    return {**ends, "auc": attack_metrics.auc_within_y(p, part.y, part.z)}
