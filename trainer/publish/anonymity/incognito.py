"""Incognito (LeFevre, DeWitt, Ramakrishnan, SIGMOD 2005): every full-domain generalisation that is fine enough.

A node is a level for each column. Subsets of the columns are searched bottom-up, the smallest first. A node that meets
the criteria has them met by all above it (generalisation); one that fails for a subset fails for every larger set
(subset). Both hold for criteria that are monotone, which ``Criteria.require_monotone`` sees to. The search is exact:
NP-hardness is of the best recoding cell by cell.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.publish.anonymity.criteria import Criteria
from edgeveil.trainer.publish.anonymity.frequency import Frequencies, Node
from edgeveil.trainer.publish.anonymity.suppression import kept

MOST_NODES = 5_000_000


@dataclass(frozen=True)
class Found:
    """The ``minimal`` nodes that meet the criteria, how many of all subsets' were ``checked``, and of how many."""

    minimal: tuple[Node, ...]
    checked: int
    nodes: int


def search(frequencies: Frequencies, criteria: Criteria, *, budget: int = 0) -> Found:
    """All minimal nodes at which at most ``budget`` people are suppressed.

    Raises ``BadInput`` for criteria that are not monotone here, and for a lattice that is too large to hold.
    """
    criteria.require_monotone(frequencies, budget=budget)
    heights = [len(levels) for levels in frequencies.levels]
    if math.prod(1 + height for height in heights) > MOST_NODES:
        raise BadInput(
            f"{len(heights)} quasi-identifiers have more than {MOST_NODES:,} nodes to search. Drop some, or give their "
            'hierarchies fewer levels, or take method = "mondrian".'
        )
    columns, checked = range(len(heights)), 0
    passing: dict[tuple[int, ...], np.ndarray] = {(): np.array(True)}
    for count in range(1, len(heights) + 1):
        for subset in itertools.combinations(columns, count):
            passing[subset], more = _subset(frequencies, subset, heights, passing, criteria, budget)
            checked += more
        # Only the subsets of one column less are asked for.
        passing = {subset: found for subset, found in passing.items() if len(subset) == count}
    (whole,) = passing.values()
    return Found(tuple(sorted(_minimal(whole))), checked, whole.size)


def _subset(
    frequencies: Frequencies,
    subset: tuple[int, ...],
    heights: Sequence[int],
    passing: dict[tuple[int, ...], np.ndarray],
    criteria: Criteria,
    budget: int,
) -> tuple[np.ndarray, int]:
    """Which nodes of a subset pass, as an array with an axis for each column; and how many had to be checked."""
    shape = tuple(heights[column] for column in subset)
    candidate = np.ones(shape, bool)
    for axis in range(len(subset)):
        candidate &= np.expand_dims(passing[subset[:axis] + subset[axis + 1 :]], axis)
    passed, checked = np.zeros(shape, bool), 0
    chosen = frequencies.chosen(subset) if candidate.any() else frequencies
    for node in _by_height(candidate):
        if any(passed[below] for below in _below(node)):
            passed[node] = True
        else:
            checked += 1
            passed[node] = kept(chosen, chosen.classes(node), criteria, budget=budget) is not None
    return passed, checked


def _by_height(candidate: np.ndarray) -> list[Node]:
    nodes = np.argwhere(candidate)
    return [tuple(map(int, node)) for node in nodes[np.argsort(nodes.sum(axis=1), kind="stable")]]


def _below(node: Node) -> Iterator[Node]:
    """The nodes that are one level finer in one column."""
    for axis, level in enumerate(node):
        if level:
            yield (*node[:axis], level - 1, *node[axis + 1 :])


def _minimal(passed: np.ndarray) -> Iterator[Node]:
    for node in _by_height(passed):
        if not any(passed[below] for below in _below(node)):
            yield node
