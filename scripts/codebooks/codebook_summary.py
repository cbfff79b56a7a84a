"""The figures of a codebook on one page: certificate, attacks on its codes, retained properties."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.attacks import rows, sequences
from edgeveil.trainer.attacks.families.code_counts import WEIGHT, shrunk
from edgeveil.trainer.attacks.sequences import Tracks
from edgeveil.trainer.audit.findings import plain
from edgeveil.trainer.audit.sections.retained import correlations
from edgeveil.trainer.datasets.base import Dataset, Part, taken
from edgeveil.trainer.ext.sweep.point import attacked, cross_validated
from edgeveil.trainer.measures import attack_metrics, certificate

POOLED = (1, 4, 16)
DEALS = 16  # of rows to tracks: the figure of one deal strays by about .02
SHUFFLES = 100


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
    exchangeable by design. Everything is reported on the test slice. One attack by counts learns on the slice
    ``attack``, or where there is none on the second, on which the codes were learned and tell less than elsewhere;
    another learns on the test slice itself, in folds of whole clusters. Both have 95 % intervals; ``attack`` is the
    stronger of them.
    """
    rng = np.random.default_rng(seed)
    test, second = dataset.part("test"), dataset.part(rows.freshest(dataset))
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
    counted = attacked(shrunk(counts, prior, WEIGHT)[test.y, out["code"]], test)
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
        "priced_bits_over_null": _priced_bits(dataset.as_priced(), test.index, out["code"], codes),
        "code_counts": counted,
        "code_counts_crossed": again,
        "attack": max(counted, again, key=lambda rate: rate["accuracy"]),
        "pooled": [pooled(length, (second, seen), (test, out), classes, codes, rng) for length in POOLED],
        "kept": {name: plain(one.estimate) for name, one in correlations(dataset, test, out["frame"]).items()},
        "distance": float(np.linalg.norm(distance, axis=1).mean()),
    }


def _priced_bits(priced: Dataset, rows: np.ndarray, code: np.ndarray, codes: int) -> float:
    """I(c'; label | y) of the label that is priced, in bits over its mean where the label is shuffled within y."""
    y, label, shape = priced.y[rows], priced.z[rows], (len(priced.y_names), codes, len(priced.z_names))
    rng = np.random.default_rng(0)
    shuffled = certificate.shuffled_labels(label, y, shuffles=SHUFFLES, rng=rng, cluster=taken(priced.cluster, rows))
    null = [certificate.information(certificate.count(y, code, one, shape=shape)) for one in shuffled]
    return certificate.information(certificate.count(y, code, label, shape=shape)) - float(np.mean(null))


def pooled(
    length: int,
    learn: tuple[Part, Mapping[str, np.ndarray]],
    judge: tuple[Part, Mapping[str, np.ndarray]],
    classes: tuple[int, int],
    codes: int,
    rng: np.random.Generator,
) -> dict[str, Any]:
    """Different samples of one (y, z), linked: the sum of log-posteriors on codes, and on y-hat alone to compare.

    Means over ``DEALS`` deals of the samples to tracks. Where z has two classes, ``low`` and ``high`` are the means of
    the ends of each deal's 95 % interval by tracks: what so many samples can tell of the AUC, however they are dealt.
    """
    deals = 1 if length == 1 else DEALS
    figures: dict[str, Any] = {"releases": length}
    for name, of in (("code", "code"), ("label_only", "label")):
        of_deal = []
        for _ in range(deals):
            try:
                fit, test = (
                    sequences.pooled(out[of], part.y, part.z, length=length, rng=rng) for part, out in (learn, judge)
                )
            except BadInput as error:
                return {**figures, "not_run": str(error)}
            of_deal.append(_attacked_tracks(fit, test, classes, codes))
        figures[name] = {figure: float(np.mean([deal[figure] for deal in of_deal])) for figure in of_deal[0]}
    return {**figures, "deals": deals}


def _attacked_tracks(fit: Tracks, test: Tracks, classes: tuple[int, int], codes: int) -> dict[str, Any]:
    """The sum of log-posteriors on the tracks ``test``, with intervals of its AUC: by tracks; of z == 1 within y."""
    p = sequences.log_posteriors(fit, test, classes=classes, codes=codes)
    area = attack_metrics.auc_interval(p, test.y, test.z)
    figures = {"tracks": len(test), "accuracy": attack_metrics.accuracy(p, test.z), "auc": area.estimate}
    figures |= {"auc_low": area.low, "auc_high": area.high}
    if classes[1] > 2:
        return figures
    area = attack_metrics.area_within_y(p[:, 1], test.y, test.z == 1)
    return {**figures, "low": area.low, "high": area.high}
