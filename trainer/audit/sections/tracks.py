"""Attackers of whole tracks: every family at T = 1, 4 and 16 releases, and on all tracks of a person together.

Each track is judged by attackers that learned on other tracks (cross-fitting), so that few tracks still say something.
Compare every result with the zero-information row: what the same attackers reach with as many tracks where there is no
leak.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from edgeveil.trainer.attacks import sequences
from edgeveil.trainer.attacks.sequences import Tracks
from edgeveil.trainer.audit.sections.track_network import sequence_network
from edgeveil.trainer.measures.attack_metrics import accuracy

LENGTHS = (1, 4, 16)
LINKED = 10  # tracks of one person that are known to be one person's
FOLDS = 3

Attack = Callable[..., np.ndarray]
FAMILIES: Mapping[str, Attack] = {
    "sum of log-posteriors": sequences.log_posteriors,
    "forest on histograms": sequences.histogram_forest,
    "forest on timed codes": sequences.timed_forest,
    "1-D CNN": sequence_network,
}
IN_ORDER = ("forest on timed codes", "1-D CNN")  # on the longest tracks alone: few releases have little order


def last_releases(tracks: Tracks, length: int) -> Tracks:
    """The last ``length`` releases of each track: of a held one, those after its vote first."""
    return replace(tracks, code=tracks.code[:, -length:])


def balanced(tracks: Tracks, classes: tuple[int, int]) -> Tracks:
    """The same tracks, weighed so that each z counts as much as any other with the same y.

    Tracks held out for judging are missing from training. Where a (y, z) has a handful of tracks, that points to the
    wrong z, and attackers that count end up below chance; with even weights there is nothing to count.
    """
    cell = np.bincount(tracks.y * classes[1] + tracks.z, minlength=classes[0] * classes[1]).reshape(classes)
    seen = (cell > 0).sum(axis=1)
    return replace(tracks, weight=(cell.sum(axis=1) / np.maximum(seen, 1))[tracks.y] / cell[tracks.y, tracks.z])


def cross_validated(
    tracks: Tracks, *, classes: tuple[int, int], codes: int, folds: int = FOLDS, seed: int = 0, **options: Any
) -> dict[str, np.ndarray]:
    """P(z | y, codes), (n, classes of z), of every track by every family, learned on the other folds' tracks.

    Folds are dealt evenly within (y, z), and every z counts alike within y. ``options`` go to the forests (``trees``).
    """
    rng = np.random.default_rng(seed)
    fold = np.empty(len(tracks), np.int64)
    order = rng.permutation(len(tracks))
    order = order[np.argsort((tracks.y * classes[1] + tracks.z)[order], kind="stable")]
    fold[order] = np.arange(len(order)) % folds
    found: dict[str, np.ndarray] = {}
    for number in range(folds):
        fit, test = balanced(tracks.take(fold != number), classes), fold == number
        for name, p in posteriors(fit, tracks.take(test), classes=classes, codes=codes, seed=seed, **options).items():
            found.setdefault(name, np.empty((len(tracks), classes[1])))[test] = p
    return found


def posteriors(
    fit: Tracks, test: Tracks, *, classes: tuple[int, int], codes: int, seed: int = 0, trees: int = 300
) -> dict[str, np.ndarray]:
    """P(z | y, codes), (tracks, classes of z), of ``test`` by every family that learned on ``fit``."""
    found = {}
    for name, attack in FAMILIES.items():
        if name in IN_ORDER and fit.code.shape[1] < max(LENGTHS):
            continue
        options: dict[str, int] = {}
        if "forest" in name:
            options["trees"] = trees
        if "forest" in name or name in IN_ORDER:
            options["seed"] = seed
        found[name] = attack(fit, test, classes=classes, codes=codes, **options)
    return found


def accuracies(
    tracks: Tracks, *, classes: tuple[int, int], codes: int, seed: int = 0, **options: Any
) -> dict[str, Any]:
    """How often each family is right about z: ``{"T=1": {family: share}, ..., "linked": {...}}``.

    ``linked`` puts the family's answers for ``LINKED`` tracks of a person together, by Bayes' rule.
    """
    found: dict[str, Any] = {}
    prior = sequences.prior_of(balanced(tracks, classes), classes)
    for length in LENGTHS:
        part = last_releases(tracks, length)
        answers = cross_validated(part, classes=classes, codes=codes, seed=seed, **options)
        found[f"T={length}"] = {name: accuracy(p, part.z) for name, p in answers.items()}
    rng = np.random.default_rng(seed)
    found["linked"] = {name: linked_accuracy(p, tracks, prior, rng=rng) for name, p in answers.items()}
    return found


def linked_accuracy(
    p: np.ndarray, tracks: Tracks, prior: np.ndarray, *, rng: np.random.Generator, times: int = 20
) -> float:
    """How often z is right where ``LINKED`` tracks of a person are judged together, from answers ``p`` for each."""
    ratio = np.log(np.maximum(p, 1e-3)) - np.log(prior[tracks.y])
    hits = []
    for _ in range(times):
        for person in np.unique(tracks.z):
            mine = rng.permutation(np.flatnonzero(tracks.z == person))
            for at in range(0, len(mine) - LINKED + 1, LINKED):
                hits.append(ratio[mine[at : at + LINKED]].sum(axis=0).argmax() == person)
    return float(np.mean(hits)) if hits else float("nan")


def permuted(tracks: Tracks, rng: np.random.Generator) -> Tracks:
    """The same tracks with z shuffled within y: the null, what attackers find where there is no leak."""
    z = tracks.z.copy()
    for value in np.unique(tracks.y):
        rows = np.flatnonzero(tracks.y == value)
        z[rows] = tracks.z[rng.permutation(rows)]
    return replace(tracks, z=z)
