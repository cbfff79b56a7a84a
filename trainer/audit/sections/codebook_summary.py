"""The figures of a codebook on one page: certificate, attacks on its codes, retained properties."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

import numpy as np
from scipy import stats

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.attacks import rows, sequences
from edgeveil.trainer.attacks.families.code_counts import shrunk
from edgeveil.trainer.audit.sections.retained import correlations
from edgeveil.trainer.datasets.base import Dataset, Part
from edgeveil.trainer.measures import attack_metrics, certificate, intervals

POOLED = (1, 4, 16)
FOLDS = 5
WEIGHT = 4.0  # rows that the prior counts for
SHUFFLES = 40


def measure(
    dataset: Dataset,
    perturb: Any,
    *,
    codes: int,
    channel: np.ndarray | None = None,
    strata: np.ndarray | None = None,
    tried: int,
    seed: int = 0,
) -> dict[str, Any]:
    """Measure ``perturb`` (raw samples to outputs ``frame``, ``label``, ``code``, and ``sent`` where a channel draws).

    ``codes`` is their number over all classes, ``channel`` the shipped integers (codes, codes), None where c' = c;
    ``code`` is c', and ``sent`` c before the channel. ``strata`` (N,) are those rows of the data set within which z is
    exchangeable by design. Everything is reported on the test slice. One attack by counts learns on the second slice,
    on which the codes were learned and tell less than elsewhere; another learns on the test slice itself, in folds of
    whole clusters. Both have 95 % intervals; ``attack`` is the stronger of them.
    """
    rng = np.random.default_rng(seed)
    test, second = dataset.part("test"), dataset.part("perturber")
    out, seen = perturb(test.x), perturb(second.x)
    classes = len(dataset.y_names), len(dataset.z_names)
    prior = rows.prior(dataset)
    chance = attack_metrics.chance(dataset.theta, prior, test.y, test.z)
    certified = certificate.certify(
        test.y,
        out["code"] if channel is None else out["sent"],
        test.z,
        channel=np.eye(codes) if channel is None else channel,
        classes=classes,
        chance=chance.majority,
        cluster=test.cluster,
        strata=None if strata is None else strata[test.index],
        tried=tried,
        rng=rng,
    )
    counts = certificate.count(second.y, seen["code"], second.z, shape=(classes[0], codes, classes[1]))
    counted = _attacked(shrunk(counts, prior, WEIGHT)[test.y, out["code"]], test)
    again = cross_validated(test, out["code"], prior, codes=codes, chance=chance.majority, rng=rng)
    distance = (dataset.unit(test.x) - dataset.unit(out["frame"])).reshape(len(test), -1)
    return {
        "rows": len(test),
        "label_accuracy": float((out["label"] == test.y).mean()),
        "chance": chance._asdict(),
        "codes_used": len(np.unique(out["code"])),
        "certificate": asdict(certified),
        "sentence": certified.sentence(f"{dataset.cluster_kind}s" if dataset.cluster_kind else "readings"),
        "bits_over_null": certified.bits - certified.null_bits,
        "code_counts": counted,
        "code_counts_crossed": again,
        "attack": max(counted, again, key=lambda rate: rate["accuracy"]),
        "pooled": [_pooled(length, (second, seen), (test, out), classes, codes, rng) for length in POOLED],
        "kept": correlations(dataset, test, out["frame"]),
        "distance": float(np.linalg.norm(distance, axis=1).mean()),
    }


def cross_validated(
    part: Part, code: np.ndarray, prior: np.ndarray, *, codes: int, chance: float, rng: np.random.Generator
) -> dict[str, float]:
    """Right answers and AUC of an attack on each row by counts on the other folds of the same rows.

    Clusters stay whole: with frames of one recording in two folds, the recording would be counted and not z. But
    leaving a recording out takes its person from the counts, and with few recordings an attack is then right less often
    than a guess where there is no leak. So with clusters its ``accuracy`` is ``chance`` plus its gain over itself with
    z shuffled over whole clusters (``null``, whose spread gives the interval), its AUC likewise.
    """
    found = _attacked(_counted_elsewhere(part, part.z, code, prior, codes, rng), part)
    if part.cluster is None:
        return found
    nulls = [
        _attacked(_counted_elsewhere(part, z, code, prior, codes, rng), replace(part, z=z))
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


def _attacked(p: np.ndarray, part: Part) -> dict[str, float]:
    right = intervals.rate(p.argmax(axis=1) == part.z, part.cluster)
    return {
        "accuracy": right.estimate,
        "low": right.low,
        "high": right.high,
        "auc": attack_metrics.auc_within_y(p, part.y, part.z),
    }


def _pooled(
    length: int,
    learn: tuple[Part, Mapping[str, np.ndarray]],
    judge: tuple[Part, Mapping[str, np.ndarray]],
    classes: tuple[int, int],
    codes: int,
    rng: np.random.Generator,
) -> dict[str, Any]:
    """Different samples of one (y, z), linked: the sum of log-posteriors on codes, and on y-hat alone to compare."""
    found: dict[str, Any] = {"releases": length}
    for name, of in (("code", "code"), ("label_only", "label")):
        try:
            fit, test = (
                sequences.pooled(out[of], part.y, part.z, length=length, rng=rng) for part, out in (learn, judge)
            )
        except BadInput as error:
            return {**found, "not_run": str(error)}
        found[name] = sequences.summed(fit, test, classes=classes, codes=codes)
    return found
