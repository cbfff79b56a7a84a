"""The rows as they may be published: who is left out, what each column shows, and what that loses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.publish.anonymity import mondrian
from edgeveil.trainer.publish.anonymity.criteria import Criteria
from edgeveil.trainer.publish.anonymity.frequency import Frequencies, Link, Node
from edgeveil.trainer.publish.anonymity.incognito import search
from edgeveil.trainer.publish.anonymity.levels import Levels
from edgeveil.trainer.publish.anonymity.suppression import kept

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
    for name, asked in criteria.sensitive.items():
        if max(asked.distinct_l or 0, asked.entropy_l or 0) > len(np.unique(sensitive[name])):
            raise BadInput(f'"{name}" has fewer different values than the l that is asked for: ask for less.')
    frequencies = Frequencies.of(
        link, [one.levels for one in columns], [one.codes for one in columns], person, sensitive
    )
    if method == "mondrian":
        return _mondrian(columns, frequencies, person, criteria, budget)
    found = search(frequencies, criteria, budget=budget)
    if not found.minimal:
        raise BadInput(
            f"No generalisation meets the criteria: with every column at *, {_lacks(frequencies, criteria)}."
        )
    best = min(
        (_at(columns, frequencies, person, node, criteria, budget) for node in found.minimal), key=_order(columns)
    )
    facts = {"nodes": found.nodes, "nodes_checked": found.checked, "minimal_nodes": len(found.minimal)}
    return Generalised(best.rows, best.labels, best.losses, best.suppressed, {**best.facts, **facts})


def _order(columns: Sequence[Column]) -> Any:
    return lambda one: (one.loss(columns), one.facts["node"])


def _at(
    columns: Sequence[Column],
    frequencies: Frequencies,
    person: np.ndarray,
    node: Node,
    criteria: Criteria,
    budget: int,
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
        raise BadInput(f"Mondrian leaves nobody out: set `suppress` to 0 (it is {budget}).")
    parts = mondrian.partition(frequencies, criteria)
    order = np.argsort(person, kind="stable")  # the rows of ``frequencies`` are grouped by person
    labels, losses = {}, {}
    for column, codes in zip(columns, frequencies.codes, strict=True):
        cells = [mondrian.cell(column.levels, codes[part]) for part in parts]
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
    found = criteria.measured(frequencies, frequencies.classes(top))
    worst = {name: (values.max() if name.endswith(".t") else values.min()) for name, values in found.items()}
    return "the worst class has " + ", ".join(f"{name} = {value:.4g}" for name, value in worst.items())
