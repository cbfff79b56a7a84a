"""Who finds a pseudonym: an attacker who knows a few visits of a person, in a table anonymised by rows and by people.

The attacker knows 1, 2 or 4 visits, by day and door or by all six columns, and takes one of the pseudonyms whose rows
agree with all of them: the right one with a chance of one over their number, computed exactly for each target. Records
docs/results/publishing/linkage.json; the page is docs/results/publishing.md. A few minutes on one core. Ends with 3
where counting people lets an attacker do better than 1/k, or where counting rows does not: the check had no power.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from functools import partial, reduce
from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.trainer.measures.intervals import mean
from edgeveil.trainer.publish.anonymity.criteria import Criteria
from edgeveil.trainer.publish.anonymity.generalise import Generalised, generalise
from scripts.reproduce import record
from scripts.reproduce.publishing import visitors

RESULT = Path("docs/results/publishing/linkage.json")
K = 10
KNOWN = (1, 2, 4)  # visits that the attacker knows
TARGETS = 2_000
KNOWLEDGE = {"day and door": ("day", "door"), "all columns": tuple(visitors.HIERARCHIES)}
LEFT_OUT = 0.05  # of all people may be left out, by people; by rows, as many rows


def main() -> int:
    """Run all, and write the record."""
    script = record.Script(__file__, __doc__, out=RESULT)
    asked = script.parse_args()
    table = visitors.made()
    people = int(table.person.max()) + 1
    by_rows = _generalised(table, "rows", np.arange(len(table.person)), int(LEFT_OUT * people))
    by_people = _generalised(table, "person", table.person, int(LEFT_OUT * people))
    document = {
        **record.here(),
        "rows": len(table.person),
        "people": people,
        "k": K,
        "targets": TARGETS,
        "columns": [column.name for column in table.columns],
        "tables": {
            "raw": {"attacks": _both(table, None)},
            "k by rows": _entry(table, by_rows),
            "k by people": _entry(table, by_people),
        },
    }
    attacks = {name: one["attacks"] for name, one in document["tables"].items()}
    held = all(one["largest"] <= 1 / K + 1e-12 for many in attacks["k by people"].values() for one in many)
    power = all(many[-1]["low"] > 2 / K for many in attacks["k by rows"].values())
    document |= {"held": held, "power": power}
    record.write(asked.out, script.made_by(asked), document)
    return 0 if held and power else 3


def _generalised(table: visitors.Visitors, link: Any, person: np.ndarray, budget: int) -> Generalised:
    return generalise(
        table.columns, link=link, person=person, sensitive={}, criteria=Criteria(K), budget=budget, method="incognito"
    )


def _entry(table: visitors.Visitors, shown: Generalised) -> dict[str, Any]:
    kept = np.flatnonzero(shown.rows)
    labels = [tuple(row) for row in zip(*shown.labels.values(), strict=True)]
    groups: dict[int, Counter[tuple[str, ...]]] = defaultdict(Counter)
    for row, label in zip(kept, labels, strict=True):
        groups[int(table.person[row])][label] += 1
    alike = Counter(frozenset(held.items()) for held in groups.values())
    alone = sum(alike[frozenset(held.items())] < K for held in groups.values())
    return {
        "node": dict(zip((column.name for column in table.columns), shown.facts["node"], strict=True)),
        "loss": round(shown.loss(table.columns), 4),
        "rows_left_out": int((~shown.rows).sum()),
        "people_in_groups_below_k": alone,
        "attacks": _both(table, shown),
    }


def _both(table: visitors.Visitors, shown: Generalised | None) -> dict[str, list[dict[str, float]]]:
    """The attacks of each knowledge; None for the raw table."""
    return {name: _attacks(table, _cells(table, shown, columns)) for name, columns in KNOWLEDGE.items()}


def _cells(table: visitors.Visitors, shown: Generalised | None, names: Sequence[str]) -> np.ndarray:
    """What each row shows of some columns, as one text (rows,); an empty one for a row that was left out."""
    chosen = [column for column in table.columns if column.name in names]
    found = np.full(len(table.person), "", object)
    if shown is None:
        texts = [np.array(one.levels.labels[0], object)[one.codes] for one in chosen]
        found[:] = ["|".join(row) for row in zip(*texts, strict=True)]
    else:
        found[shown.rows] = ["|".join(row) for row in zip(*(shown.labels[one.name] for one in chosen), strict=True)]
    return found


def _attacks(table: visitors.Visitors, cells: np.ndarray) -> list[dict[str, float]]:
    """For each number of known visits the attacker's chance: its mean over targets, with interval, and its largest."""
    rows = np.flatnonzero(cells != "")
    held = Holders(cells[rows], table.person[rows])
    often = np.bincount(table.person[rows])
    targets = np.random.default_rng(1).choice(np.flatnonzero(often >= max(KNOWN)), TARGETS, replace=False)
    known: dict[int, list[str]] = {int(one): [] for one in targets}
    for row in np.random.default_rng(2).permutation(rows):
        if int(table.person[row]) in known:
            known[int(table.person[row])].append(cells[row])
    found = []
    for count in KNOWN:
        chances = np.array([1 / held.people_with(Counter(visits[:count])) for visits in known.values()])
        middle = mean(chances)
        ends = {"estimate": middle.estimate, "low": middle.low, "high": middle.high}
        found.append({"known": count, **ends, "largest": float(chances.max())})
    return found


class Holders:
    """Who has which visits, from the cells (rows,) of a table and whose they are."""

    def __init__(self, cells: np.ndarray, person: np.ndarray) -> None:
        names, codes = np.unique(cells.astype(str), return_inverse=True)
        pairs, times = np.unique(codes * (int(person.max()) + 1) + person, return_counts=True)
        cell, who = pairs // (int(person.max()) + 1), pairs % (int(person.max()) + 1)
        ends = np.searchsorted(cell, np.arange(len(names) + 1))
        self._of = {name: slice(ends[at], ends[at + 1]) for at, name in enumerate(names)}
        self._who, self._times = who, times
        self._seen: dict[frozenset[tuple[str, int]], int] = {}

    def people_with(self, visits: Counter[str]) -> int:
        """How many people have each of these visits, as often as it is there."""
        key = frozenset(visits.items())
        if key not in self._seen:
            having = [self._who[self._of[cell]][self._times[self._of[cell]] >= times] for cell, times in key]
            self._seen[key] = len(reduce(partial(np.intersect1d, assume_unique=True), having))
        return self._seen[key]


if __name__ == "__main__":
    record.run(main)
