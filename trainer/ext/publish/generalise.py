"""The rows as they may be published: who is left out, what each column shows, and what that loses."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from edgeveil.edge_runtime.errors import BadInput, LimitNotMet
from edgeveil.trainer.ext.publish.frequency import Classes, Criteria, Frequencies, Link, Node
from edgeveil.trainer.ext.publish.levels import ANY, Levels

# Whole people left out, as few as a node needs.
#
# Where the link is ``none``, a person who is left out leaves all of their classes, and others may fail then. The people
# who may stay together are closed under union (a class only gains), so there is one largest such set, and leaving out
# anyone who is in a failing class, again and again, ends at it. It grows with generalisation: pruning stays exact.


def kept(frequencies: Frequencies, classes: Classes, criteria: Criteria, *, budget: int) -> np.ndarray | None:
    """Mask (people,) of those who stay; None where more than ``budget`` people would have to go, or no one stays."""
    staying = np.ones(len(frequencies.weight), bool)
    while True:
        failing = criteria.failing(frequencies, classes)
        if not failing.any():
            return staying
        staying[classes.person[failing[classes.number]]] = False
        if not staying.any() or int(frequencies.weight[~staying].sum()) > budget:
            return None
        classes = classes.of(staying)


# Incognito (LeFevre, DeWitt, Ramakrishnan, SIGMOD 2005): every full-domain generalisation that is fine enough.
#
# A node is a level for each column. Subsets of the columns are searched bottom-up, the smallest first. A node that
# meets the criteria has them met by all above it (generalisation); one that fails for a subset fails for every larger
# set (subset). Both hold for criteria that are monotone, which ``Criteria.require_monotone`` sees to. The search is
# exact: NP-hardness is of the best recoding cell by cell.


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
        passing = {subset: mask for subset, mask in passing.items() if len(subset) == count}
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


# Mondrian (LeFevre, DeWitt, Ramakrishnan, ICDE 2006), strict: each class is cut in two as long as both parts will do.
#
# A column with an order is cut at its median, a column of names between the groups below its present one. The column of
# the largest loss within the class is tried first. A class is published with the smallest range, or lowest group, that
# holds its values.


@dataclass(frozen=True)
class Cell:
    """What a class shows of one column, and its loss in [0, 1]."""

    label: str
    loss: float


def partition(frequencies: Frequencies, criteria: Criteria) -> list[np.ndarray]:
    """The rows (numbers into ``frequencies.person``) of each class, none of which can be cut further.

    Raises ``BadInput`` where a person has several rows that a pseudonym links; ``LimitNotMet`` where all rows together
    do not meet the criteria.
    """
    if frequencies.link == "person" and len(frequencies.person) > len(frequencies.weight):
        raise BadInput(
            'Mondrian cuts rows, and a pseudonym links several rows of a person: take method = "incognito", or '
            'link = "none".'
        )
    everything = np.arange(len(frequencies.person))
    if not _enough(frequencies, criteria, [everything]):
        raise LimitNotMet(
            "All people in one class do not meet the criteria: ask for less, or for criteria that the table can meet."
        )
    todo, done = [everything], []
    while todo:
        rows = todo.pop()
        parts = next((cut for cut in _cuts(frequencies, rows) if _enough(frequencies, criteria, cut)), None)
        if parts is None:
            done.append(rows)
        else:
            todo += parts
    return done


def cell(levels: Levels, codes: np.ndarray) -> Cell:
    """What holds the base codes (rows,) of a class most closely."""
    if levels.positions is None:
        level = _lowest(levels, codes)
        code = levels.codes[level][codes[0]]
        return Cell(levels.labels[level][code], float(levels.losses[level][code]))
    low, high = int(codes.min()), int(codes.max())
    if low == high:
        return Cell(levels.labels[0][low], 0.0)
    if levels.positions[low] < 0:  # an empty cell has no place in a range
        return Cell(ANY, 1.0)
    span = float(levels.positions[high] - levels.positions[low])
    return Cell(f"{levels.labels[0][low]}..{levels.labels[0][high]}", span)


def _cuts(frequencies: Frequencies, rows: np.ndarray) -> Iterator[list[np.ndarray]]:
    """The parts that each column would cut a class into, the column of the largest loss first."""
    held = [codes[rows] for codes in frequencies.codes]
    losses = [cell(levels, codes).loss for levels, codes in zip(frequencies.levels, held, strict=True)]
    for column in sorted(range(len(held)), key=lambda at: (-losses[at], at)):
        if losses[column] > 0:
            yield _parts(frequencies.levels[column], held[column], rows)


def _parts(levels: Levels, codes: np.ndarray, rows: np.ndarray) -> list[np.ndarray]:
    if levels.positions is None:
        below = levels.codes[_lowest(levels, codes) - 1][codes]
        left = np.isin(below, _half(*np.unique(below, return_counts=True)))
        return [rows[left], rows[~left]]
    middle = np.partition(codes, (len(codes) - 1) // 2)[(len(codes) - 1) // 2]
    if middle == codes.max():  # more than half are the largest: the cut is below it
        middle -= 1
    return [rows[codes <= middle], rows[codes > middle]]


def _half(groups: np.ndarray, counts: np.ndarray) -> list[int]:
    """Some of the groups, with about half of what they count: the larger first, each to the side that has less."""
    sides: tuple[list[int], list[int]] = ([], [])
    sizes = [0, 0]
    for at in np.argsort(-counts, kind="stable"):
        side = int(sizes[1] < sizes[0])
        sides[side].append(int(groups[at]))
        sizes[side] += int(counts[at])
    return sides[0]


def _lowest(levels: Levels, codes: np.ndarray) -> int:
    """The lowest level at which all codes are one label."""
    return next(level for level, up in enumerate(levels.codes) if len(codes) and (up[codes] == up[codes[0]]).all())


def _enough(frequencies: Frequencies, criteria: Criteria, parts: Sequence[np.ndarray]) -> bool:
    """Whether every part meets the criteria."""
    number = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    person = frequencies.person[np.concatenate(parts)]
    pairs = np.unique(number * len(frequencies.weight) + person)
    classes = Classes(pairs // len(frequencies.weight), pairs % len(frequencies.weight))
    return not criteria.failing(frequencies, classes).any()


Method = Literal["incognito", "mondrian"]


@dataclass(frozen=True)
class Column:
    """A quasi-identifier: base codes (rows,), levels, and its weight in the loss."""

    name: str
    codes: np.ndarray
    levels: Levels
    weight: float = 1.0


@dataclass(frozen=True)
class Generalised:
    """``rows`` (mask) are published, with ``labels`` (published rows,) of text for each column. ``losses`` are means
    over all rows, 1 for one that is left out; ``suppressed`` counts people; ``facts`` say how it was found."""

    rows: np.ndarray
    labels: Mapping[str, np.ndarray]
    losses: Mapping[str, float]
    suppressed: int
    facts: Mapping[str, Any]

    def loss(self, columns: Sequence[Column]) -> float:
        """The mean over the columns, by their weights."""
        return _weighted([self.losses[column.name] for column in columns], columns)


def generalise(
    columns: Sequence[Column],
    *,
    link: Link,
    person: np.ndarray,
    sensitive: Mapping[str, np.ndarray],
    criteria: Criteria,
    budget: int = 0,
    method: Method = "incognito",
) -> Generalised:
    """Generalise until the criteria are met; ``person`` (rows,) as ``Frequencies.of`` takes it.

    ``sensitive`` has codes (people,). Raises ``BadInput`` where no generalisation will do, with what the last one
    lacks.
    """
    people = int(person.max()) + 1
    if criteria.k > people:
        raise BadInput(f"k is {criteria.k} and the table has {people} people: ask for a smaller k.")
    if budget > people - criteria.k:
        raise BadInput(
            f"`suppress` is {budget} of {people} people, and at least k = {criteria.k} must stay: allow fewer."
        )
    for name, criterion in criteria.sensitive.items():
        if max(criterion.distinct_l or 0, criterion.entropy_l or 0) > len(np.unique(sensitive[name])):
            raise BadInput(f'"{name}" has fewer different values than the l that is asked for: ask for less.')
    frequencies = Frequencies.of(
        link, [one.levels for one in columns], [one.codes for one in columns], person, sensitive
    )
    if method == "mondrian":
        return _mondrian(columns, frequencies, person, criteria, budget)
    result = search(frequencies, criteria, budget=budget)
    if not result.minimal:
        raise BadInput(
            f"No generalisation meets the criteria: with every column at *, {_lacks(frequencies, criteria)}."
        )
    best = min(
        (_at(columns, frequencies, person, node, criteria, budget) for node in result.minimal), key=_order(columns)
    )
    facts = {"nodes": result.nodes, "nodes_checked": result.checked, "minimal_nodes": len(result.minimal)}
    return Generalised(best.rows, best.labels, best.losses, best.suppressed, {**best.facts, **facts})


def _order(columns: Sequence[Column]) -> Any:
    return lambda one: (one.loss(columns), one.facts["node"])


def _at(
    columns: Sequence[Column], frequencies: Frequencies, person: np.ndarray, node: Node, criteria: Criteria, budget: int
) -> Generalised:
    staying = kept(frequencies, frequencies.classes(node), criteria, budget=budget)
    if staying is None:
        raise AssertionError("a node of the search meets the criteria")
    rows = staying[person]
    labels, losses = {}, {}
    for column, level in zip(columns, node, strict=True):
        codes = column.levels.codes[level][column.codes]
        labels[column.name] = np.array(column.levels.labels[level], object)[codes[rows]]
        losses[column.name] = float(np.where(rows, column.levels.losses[level][codes], 1.0).mean())
    return Generalised(rows, labels, losses, int((~staying).sum()), {"method": "incognito", "node": list(node)})


def _mondrian(
    columns: Sequence[Column], frequencies: Frequencies, person: np.ndarray, criteria: Criteria, budget: int
) -> Generalised:
    if budget:
        raise BadInput(f"Mondrian leaves no one out: set `suppress` to 0 (it is {budget}).")
    parts = partition(frequencies, criteria)
    order = np.argsort(person, kind="stable")  # the rows of ``frequencies`` are grouped by person
    labels, losses = {}, {}
    for column, codes in zip(columns, frequencies.codes, strict=True):
        cells = [cell(column.levels, codes[part]) for part in parts]
        shown = np.empty(len(person), object)
        for part, one in zip(parts, cells, strict=True):
            shown[order[part]] = one.label
        labels[column.name] = shown
        losses[column.name] = sum(len(part) * one.loss for part, one in zip(parts, cells, strict=True)) / len(person)
    facts = {"method": "mondrian", "classes": len(parts)}
    return Generalised(np.ones(len(person), bool), labels, losses, 0, facts)


def _weighted(losses: Sequence[float], columns: Sequence[Column]) -> float:
    return float(np.average(losses, weights=[column.weight for column in columns]))


def _lacks(frequencies: Frequencies, criteria: Criteria) -> str:
    top = tuple(len(levels) - 1 for levels in frequencies.levels)
    measures = criteria.measured(frequencies, frequencies.classes(top))
    worst = {name: (values.max() if name.endswith(".t") else values.min()) for name, values in measures.items()}
    return "the worst class has " + ", ".join(f"{name} = {value:.4g}" for name, value in worst.items())
