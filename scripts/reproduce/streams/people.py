"""People who were not there in calibration: splits by person, how well y is read of the worst, are two tracks one's?"""

from __future__ import annotations

import math
from itertools import combinations
from typing import NamedTuple

import numpy as np

MOST_LISTED = 10_000  # choices of people; of 18 out of 38 there are 33 billion


class Linkage(NamedTuple):
    """Are two tracks the same person's? ``eer`` is the equal error rate (0.5: no idea), ``auc`` the area (0.5)."""

    eer: float
    auc: float
    pairs: int


def splits(people: int, *, unseen: int, count: int, seed: int = 0) -> list[tuple[int, ...]]:
    """``count`` different choices of ``unseen`` of ``people``, everybody left out as evenly often as can be."""
    rng = np.random.default_rng(seed)
    often = np.zeros(people, int)
    taken: list[tuple[int, ...]] = []
    if math.comb(people, unseen) > MOST_LISTED:
        while len(taken) < count:
            # Who was left out least often, ties by lot. Where that leaves one choice, and it was taken, anybody's.
            first = tuple(sorted(np.lexsort((rng.random(people), often))[:unseen].tolist()))
            choice = first if first not in taken else tuple(sorted(rng.permutation(people)[:unseen].tolist()))
            if choice not in taken:
                taken.append(choice)
                often[list(choice)] += 1
        return taken
    choices = list(combinations(range(people), unseen))
    order = [choices[i] for i in rng.permutation(len(choices))]
    while order and len(taken) < count:
        best = min(range(len(order)), key=lambda i: (often[list(order[i])].sum(), i))
        taken.append(order.pop(best))
        often[list(taken[-1])] += 1
    return taken


def by_person(right: np.ndarray, person: np.ndarray) -> tuple[float, float]:
    """The share of ``right`` (n,) of the worst person and of all persons on average, by ``person`` (n,)."""
    shares = [float(right[person == one].mean()) for one in np.unique(person)]
    return min(shares), float(np.mean(shares))


def linkage(p: np.ndarray, prior: np.ndarray, y: np.ndarray, person: np.ndarray) -> Linkage:
    """From answers ``p`` (n, people known) of an attacker who knows other people: which tracks are one person's?

    The score of two tracks is how alike their answers are, the cosine of p / sqrt P(z|y): people unknown look like
    some of the known and do so again. ``prior`` (classes of y, people known) is P(z|y), ``person`` (n,) whose each
    track really is.
    """
    shape = p / np.sqrt(prior[y])
    shape /= np.linalg.norm(shape, axis=1, keepdims=True)
    score = shape @ shape.T
    a, b = np.triu_indices(len(p), 1)
    same = person[a] == person[b]
    return Linkage(*equal_error(score[a, b][same], score[a, b][~same]), len(a))


def equal_error(same: np.ndarray, different: np.ndarray) -> tuple[float, float]:
    """Equal error rate and area under the curve of scores of same pairs against different pairs; ties count half."""
    values = np.concatenate([same, different])
    levels, rank = np.unique(values, return_inverse=True)
    of_same = np.bincount(rank[: len(same)], minlength=len(levels)) / len(same)
    of_different = np.bincount(rank[len(same) :], minlength=len(levels)) / len(different)
    # From accepting nothing to accepting everything, level by level; ties lie on the straight line between.
    miss = 1 - np.concatenate([[0], np.cumsum(of_same[::-1])])
    false = np.concatenate([[0], np.cumsum(of_different[::-1])])
    auc = float(((1 - miss[1:] + 1 - miss[:-1]) / 2 * np.diff(false)).sum())
    at = int(np.flatnonzero(miss <= false)[0])
    if at == 0:
        return float(miss[0]), auc
    gap_before, gap_after = miss[at - 1] - false[at - 1], miss[at] - false[at]
    weight = gap_before / (gap_before - gap_after)
    return float(false[at - 1] + weight * (false[at] - false[at - 1])), auc
