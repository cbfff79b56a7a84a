"""A made-up table of visitors, seeded: who came on which day, at which hour, by which door; six quasi-identifiers."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta

import numpy as np

from edgeveil.trainer.publish.anonymity.date_spans import Dates
from edgeveil.trainer.publish.anonymity.generalise import Column
from edgeveil.trainer.publish.anonymity.hierarchies import Hierarchy
from edgeveil.trainer.publish.anonymity.levels import encode
from edgeveil.trainer.publish.anonymity.name_groups import Tree
from edgeveil.trainer.publish.anonymity.number_ranges import Ranges

PEOPLE, ROWS = 20_000, 100_000
FIRST = date(2025, 1, 1)
DOORS = {f"house {house}": [f"{house}{door}" for door in "NESW"] for house in "ABC"}
GROUPS = {"staff": ["lab", "office"], "guests": ["student", "family", "supplier"]}
HIERARCHIES: dict[str, Hierarchy] = {
    "day": Dates(kind="dates", first=FIRST, last=date(2025, 12, 31), units=["month", "quarter"]),
    "hour": Ranges(kind="ranges", low=0, high=23, widths=[6, 12]),
    "door": Tree(kind="tree", tree=DOORS),
    "age": Ranges(kind="ranges", low=18, high=89, widths=[10, 20]),
    "sex": Tree(kind="tree", tree=["f", "m"]),
    "group": Tree(kind="tree", tree=GROUPS),
}
WEIGHTS = {"day": 4.0, "door": 4.0}  # the study is about who comes when and where


@dataclass(frozen=True)
class Visitors:
    """``columns`` of ``ROWS`` rows, and whose each row is, numbered without gaps."""

    columns: list[Column]
    person: np.ndarray


def made(seed: int = 0) -> Visitors:
    """The table: each person has an age, a sex, a group and a house of their own, and comes a few times in the year."""
    rng = np.random.default_rng(seed)
    _, person = np.unique(rng.integers(0, PEOPLE, ROWS), return_inverse=True)
    people = int(person.max()) + 1
    doors = [door for many in DOORS.values() for door in many]
    groups = [group for many in GROUPS.values() for group in many]
    house, age = rng.integers(0, 3, people), np.clip(rng.normal(45, 16, people), 18, 89).astype(int)
    sex, group = rng.integers(0, 2, people), rng.integers(0, len(groups), people)
    at_home = rng.random(ROWS) < 0.9
    door = np.where(at_home, 4 * house[person] + rng.integers(0, 4, ROWS), rng.integers(0, 12, ROWS))
    day = rng.integers(0, 365, ROWS)
    hour = np.clip(rng.normal(12, 4, ROWS), 0, 23).astype(int)
    texts = {
        "day": [(FIRST + timedelta(int(one))).isoformat() for one in day],
        "hour": hour.astype(str).tolist(),
        "door": [doors[one] for one in door],
        "age": age[person].astype(str).tolist(),
        "sex": ["fm"[one] for one in sex[person]],
        "group": [groups[one] for one in group[person]],
    }
    columns = [
        Column(name, *encode(name, cells, HIERARCHIES[name]), WEIGHTS.get(name, 1.0)) for name, cells in texts.items()
    ]
    return Visitors(columns, person)
