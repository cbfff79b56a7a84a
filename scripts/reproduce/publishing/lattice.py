"""Incognito on Adult: against every node of the lattice, and how many nodes it has to check."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from edgeveil.trainer.datasets.tables.coded import Coded
from edgeveil.trainer.publish.anonymity.criteria import Criteria, Sensitive
from edgeveil.trainer.publish.anonymity.frequency import Frequencies, Node
from edgeveil.trainer.publish.anonymity.incognito import search
from edgeveil.trainer.publish.anonymity.levels import encode
from edgeveil.trainer.publish.anonymity.name_groups import Tree
from edgeveil.trainer.publish.anonymity.suppression import kept
from scripts.reproduce.publishing import adult_columns

NAMES = list(adult_columns.HIERARCHIES)
INCOME = Tree(kind="tree", tree=["<=50K", ">50K"])
# (quasi-identifiers, k, what is asked of income, people who may be left out)
SETTINGS: Sequence[tuple[int, int, dict[str, Any], int]] = (
    *((count, k, {}, budget) for count in (3, 5) for k in (2, 10) for budget in (0, 300)),
    (5, 10, {"distinct_l": 2}, 0),
    (5, 10, {"distinct_l": 2}, 300),
    (5, 10, {"entropy_l": 1.5}, 0),
    (5, 10, {"t": 0.2}, 0),
)
KNOWN = {5: (106, 240, 9), 8: (1300, 6480, 22)}  # nodes checked at most, all nodes, minimal nodes


def frequencies_of(table: Coded, count: int, asked: dict[str, Any], k: int) -> tuple[Frequencies, Criteria]:
    """The first ``count`` quasi-identifiers of Adult, each row another person, with income as the sensitive column."""
    held = adult_columns.columns(table, NAMES[:count])
    codes, levels = encode("income", np.where(table.label, ">50K", "<=50K").tolist(), INCOME)
    sensitive = {"income": codes} if asked else {}
    found = Frequencies.of(
        "rows", [one.levels for one in held], [one.codes for one in held], np.arange(len(table)), sensitive
    )
    return found, Criteria(k, {"income": Sensitive(levels, **asked)} if asked else {})


def every_node(frequencies: Frequencies, criteria: Criteria, budget: int) -> set[Node]:
    """The minimal nodes, each node of the lattice checked on all rows."""
    heights = [range(len(levels)) for levels in frequencies.levels]
    passing = {
        node
        for node in itertools.product(*heights)
        if kept(frequencies, frequencies.classes(node), criteria, budget=budget) is not None
    }
    return {
        node
        for node in passing
        if not any(other != node and all(a <= b for a, b in zip(other, node, strict=True)) for other in passing)
    }


def equal_to_brute_force(table: Coded) -> Iterator[dict[str, Any]]:
    """Each setting, with whether both find the same nodes."""
    for count, k, asked, budget in SETTINGS:
        frequencies, criteria = frequencies_of(table, count, asked, k)
        found = search(frequencies, criteria, budget=budget)
        same = set(found.minimal) == every_node(frequencies, criteria, budget)
        yield {
            "quasi_identifiers": count,
            "k": k,
            "asked": asked,
            "suppress": budget,
            "checked": found.checked,
            "nodes": found.nodes,
            "minimal": len(found.minimal),
            "held": same,
        }


def pruning(table: Coded) -> Iterator[dict[str, Any]]:
    """Nodes checked at k = 10, and the time of the search in times of one check on all rows (both of this process)."""
    for count, (most, nodes, minimal) in KNOWN.items():
        frequencies, criteria = frequencies_of(table, count, {}, 10)
        begun = time.process_time()
        found = search(frequencies, criteria)
        search_s = time.process_time() - begun
        begun = time.process_time()
        for node in found.minimal:
            kept(frequencies, frequencies.classes(node), criteria, budget=0)
        check_s = (time.process_time() - begun) / len(found.minimal)
        ratio = search_s / (found.checked * check_s)
        yield {
            "quasi_identifiers": count,
            "checked": found.checked,
            "nodes": found.nodes,
            "minimal": len(found.minimal),
            "search_s": round(search_s, 3),
            "check_s": round(check_s, 5),
            "times_one_check": round(ratio, 2),
            "held": found.checked <= most and (found.nodes, len(found.minimal)) == (nodes, minimal) and ratio <= 3,
        }
