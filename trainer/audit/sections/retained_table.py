"""The table of retained properties, as reports and cards show it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import stats

from edgeveil.trainer.attacks.families.code_counts import shrunk
from edgeveil.trainer.datasets.base import Part
from edgeveil.trainer.measures import attack_metrics, certificate, intervals

KINDS_OF_DATA = (
    ("raw", "raw readings"),
    ("perturbed", "this perturber"),
    ("label_only_mean", "label-only, a class's mean"),
    ("label_only_donor", "label-only, a random reading of the class"),
)


def retained_table(document: Mapping[str, Any]) -> dict[str, Any] | None:
    """The table of collateral utility of an audit: attributes, and a row for each kind of data; None where none is."""
    part = document.get("collateral")
    if not part:
        return None
    beside = document["label_only"].get("collateral", {})
    rows = []
    for key, title in KINDS_OF_DATA:
        row = part["perturbed"] if key == "perturbed" else beside.get(key)
        if row:
            rows.append({"title": title, "this": key == "perturbed", **row})
    return {"attributes": part["attributes"], "chance": part["chance"], "rows": rows, "part": part}


def score(value: Mapping[str, Any] | None) -> str:
    """A rate or a correlation with its interval: ``97.1 % [96.0, 98.0]``, ``.82 [.80, .84]``."""
    if value is None:
        return "\N{EN DASH}"
    if "accuracy" in value:
        ends = f"[{100 * value['low']:.1f}, {100 * value['high']:.1f}]"
        return f"{100 * value['accuracy']:.1f} % {ends}"
    if value["low"] is None:
        return f"{value['correlation']:.2f}"
    return f"{value['correlation']:.2f} [{value['low']:.2f}, {value['high']:.2f}]"


# Attacks by counting codes on the other folds of the same rows: rows that no codebook was learned on.


FOLDS = 5
WEIGHT = 4.0  # rows that the prior counts for
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
    found = attacked(_counted_elsewhere(part, part.z, code, prior, codes, rng), part)
    if part.cluster is None:
        return found
    nulls = [
        attacked(_counted_elsewhere(part, z, code, prior, codes, rng), replace(part, z=z))
        for z in certificate.shuffled_labels(part.z, part.y, shuffles=SHUFFLES, rng=rng, cluster=part.cluster)
    ]
    by_chance = np.array([one["accuracy"] for one in nulls])
    null, null_auc = float(by_chance.mean()), float(np.mean([one["auc"] for one in nulls]))
    gained = found["accuracy"] - null
    half = float(stats.norm.ppf(0.975) * by_chance.std(ddof=1))
    ends = {"accuracy": gained, "low": gained - half, "high": gained + half}
    return {
        **{name: float(np.clip(chance + end, 0, 1)) for name, end in ends.items()},
        "auc": float(np.clip(found["auc"] - null_auc + 0.5, 0, 1)),
        "null": null,
    }


def _counted_elsewhere(
    part: Part, z: np.ndarray, code: np.ndarray, prior: np.ndarray, codes: int, rng: np.random.Generator
) -> np.ndarray:
    """P(z | y, code) (n, classes of z) of each row, counted on the other folds."""
    unit = np.arange(len(part)) if part.cluster is None else np.unique(part.cluster, return_inverse=True)[1]
    fold = rng.permutation(int(unit.max()) + 1)[unit] % FOLDS
    p = np.empty((len(part), prior.shape[1]))
    for number in range(FOLDS):
        rest, mine = fold != number, fold == number
        shape = (prior.shape[0], codes, prior.shape[1])
        counts = certificate.count(part.y[rest], code[rest], z[rest], shape=shape)
        p[mine] = shrunk(counts, prior, WEIGHT)[part.y[mine], code[mine]]
    return p


def attacked(p: np.ndarray, part: Part) -> dict[str, float]:
    """Right answers of probabilities p (n, classes of z) with their interval, and the AUC within y."""
    right = intervals.rate(p.argmax(axis=1) == part.z, part.cluster)
    return {
        "accuracy": right.estimate,
        "low": right.low,
        "high": right.high,
        "auc": attack_metrics.auc_within_y(p, part.y, part.z),
    }
