"""Properties of x that x' retains: what a perturber gives beyond label-only, which retains none.

Everything is measured within y: the class is released anyway, and a property that follows the class (light from the
left, many access points in one building) would be credited to any perturber that keeps y. What is kept of a property is
leakage about it; the reader of the card decides whether that is a use or a harm.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from edgeveil.trainer.attacks.rows import places
from edgeveil.trainer.audit.document import spread
from edgeveil.trainer.audit.sections.utility import (
    EFFORT,
    Effort,
    Property,
    Reader,
    Shown,
    chances,
    correlation,
    discriminator_accuracy,
    moments_of,
    properties,
)
from edgeveil.trainer.datasets.base import Dataset, Part
from edgeveil.trainer.measures import intervals
from edgeveil.trainer.measures.moments import MOMENTS, moments

ROUNDING = 1e-6  # of the unit cube
SIMILARITY_ROWS = 2_000  # for pictures compared one by one
MEANING = {
    "train_on_it": "trained on perturbed samples (raw: on raw ones), tested on clean test samples",
    "read_from_it": "trained and tested on perturbed samples: leakage about each property",
    "kept": "correlation within y of a property of x with the same property of x'; label-only keeps 0",
    "told_apart": "a fresh discriminator's accuracy, half real: 0.5 is perfect; for donors it proves nothing",
}


def section(
    dataset: Dataset, frames: np.ndarray, budget: str, seed: int, *, named: tuple[str, ...] = ()
) -> dict[str, Any]:
    """What the released frames (n, ...) of the rows of all slices, in their order, are still good for.

    ``named`` are the properties that the recipe asks to keep; nothing was tuned for the others.
    """
    effort, known = EFFORT[budget], properties(dataset, named=named)
    shown = _by_slice(dataset, frames)
    found = _row(dataset, shown, known, effort, seed)
    test = dataset.part("test")
    moved = (dataset.unit(test.x) - shown["test"].u).reshape(len(test), -1)
    return {
        "rows": {"training": min(effort.rows, len(shown["learn"].rows)), "test": len(test)},
        "attributes": {p.name: {"classes": p.classes, "named_by_recipe": p.name in named} for p in known},
        "chance": dict(chances(dataset, known)),
        "perturbed": found,
        "kept": correlations_with_intervals(dataset, test, frames[-len(test) :], named=named),
        "distance": spread(intervals.mean(np.linalg.norm(moved, axis=1), test.cluster)),
        "alike": _similarity(dataset, test, shown["test"].u, seed),
        "meaning": dict(MEANING),
    }


def label_only(
    dataset: Dataset, means: np.ndarray, label: np.ndarray, budget: str, seed: int, *, named: tuple[str, ...] = ()
) -> dict[str, dict[str, Any]]:
    """The same networks on raw samples and on label-only, as its mean (``means``, frames of all rows) and as a donor.

    ``label`` (n,) is y-hat of the rows of all slices. A donor is a random training sample of class y-hat: it
    shows how much of a row's figures is due to donors alone. ``named`` is as in ``section``.
    """
    effort, known = EFFORT[budget], properties(dataset, named=named)
    rng = np.random.default_rng([seed, 7])
    pool, drawn = dataset.part("perturber"), np.empty(len(label), np.int64)
    for value in np.unique(label):
        rows = pool.index[pool.y == value]
        drawn[label == value] = rng.choice(rows, int((label == value).sum()))
    raw = _by_slice(dataset, dataset.x[dataset.slices.rows()])
    reader = Reader(dataset, raw["learn"], known, effort, seed)
    return {
        "raw": {"train_on_it": reader.score(raw["test"])},
        "label_only_mean": _row(dataset, _by_slice(dataset, means), known, effort, seed),
        "label_only_donor": _row(dataset, _by_slice(dataset, dataset.x[drawn]), known, effort, seed),
    }


def correlations(dataset: Dataset, part: Part, frames: np.ndarray, *, named: tuple[str, ...] = ()) -> dict[str, float]:
    """Correlation within y between x and x' by property, for rows ``part`` and their raw ``frames`` (n, *shape).

    What ``moments_of`` names is measured. An attribute of the data set is looked up where every frame is a
    sample of the data set (donors); else it is left out, because it is not known of a made frame.
    """
    found = correlations_with_intervals(dataset, part, frames, named=named)
    return {name: value["correlation"] for name, value in found.items()}


def correlations_with_intervals(
    dataset: Dataset, part: Part, frames: np.ndarray, *, named: tuple[str, ...] = ()
) -> dict[str, dict[str, Any]]:
    """As ``correlations``, each with its 95 % interval."""
    found = {}
    if shown := moments_of(dataset, named):
        before, after = moments(dataset.unit(part.x)), moments(dataset.unit(frames))
        for name in shown:
            i = MOMENTS.index(name)
            found[name] = correlation(before[:, i], after[:, i], part.y, part.cluster)
    donors = _rows_of(dataset, frames) if dataset.attributes else None
    if donors is not None:
        for name, values in dataset.attributes.items():
            found[name] = correlation(values[part.index], values[donors], part.y, part.cluster)
    return found


def _row(
    dataset: Dataset, shown: Mapping[str, Shown], known: list[Property], effort: Effort, seed: int
) -> dict[str, Any]:
    clean = Shown(dataset.unit(dataset.part("test").x), dataset.slices.test)
    reader = Reader(dataset, shown["learn"], known, effort, seed)
    # Real samples to learn on are of the first slice, made ones of the second: no row is seen as both.
    first = Shown(dataset.unit(dataset.part("classifiers").x), dataset.slices.classifiers)
    half = len(clean.rows) // 2
    order = np.random.default_rng([seed, 8]).permutation(len(clean.rows))
    real, made = (
        Shown(of.u[rows], of.rows[rows]) for of, rows in ((clean, order[:half]), (shown["test"], order[half:]))
    )
    return {
        "train_on_it": reader.score(clean),
        "read_from_it": reader.score(shown["test"]),
        "told_apart": discriminator_accuracy(dataset, (first, real), (shown["second"], made), effort, seed),
    }


def _by_slice(dataset: Dataset, frames: np.ndarray) -> dict[str, Shown]:
    rows, u = dataset.slices.rows(), dataset.unit(frames)
    return {name: Shown(u[at], rows[at]) for name, at in places(dataset)._asdict().items()}


def _similarity(dataset: Dataset, test: Part, u: np.ndarray, seed: int) -> dict[str, Any] | None:
    """Mean SSIM and PSNR (dB) between pictures and what leaves in their place; None for vectors."""
    if dataset.input.kind != "image":
        return None
    import tensorflow as tf

    some = np.random.default_rng([seed, 9]).permutation(len(test))[:SIMILARITY_ROWS]
    before, after = dataset.unit(test.x[some]), u[some]
    side = min(11, *dataset.input.shape[:2])
    cluster = None if test.cluster is None else test.cluster[some]
    ssim = tf.image.ssim(before, after, 1.0, filter_size=side).numpy().astype(np.float64)
    error = ((before - after) ** 2).reshape(len(some), -1).mean(axis=1)
    psnr = -10 * np.log10(np.maximum(error, 1e-10))  # 100 dB where nothing was changed
    return {"ssim": spread(intervals.mean(ssim, cluster)), "psnr_db": spread(intervals.mean(psnr, cluster))}


def _rows_of(dataset: Dataset, frames: np.ndarray) -> np.ndarray | None:
    """The training row that each frame is, or None where some frame is none.

    Floats come back from the unit cube, so they are equal but for rounding; first of all in their sum.
    """
    known = dataset.slices.training()
    different, which = np.unique(dataset.unit(frames).reshape(len(frames), -1), axis=0, return_inverse=True)
    samples = dataset.unit(dataset.x[known]).reshape(len(known), -1)
    sums, found = samples.sum(axis=1, dtype=np.float64), np.empty(len(different), np.int64)
    for number, frame in enumerate(different):
        near = np.flatnonzero(np.abs(sums - frame.sum(dtype=np.float64)) <= ROUNDING * len(frame))
        same = near[(np.abs(samples[near] - frame) <= ROUNDING).all(axis=1)]
        if not len(same):
            return None
        found[number] = known[same[0]]
    return found[which.reshape(-1)]
