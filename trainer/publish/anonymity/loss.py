"""What a published table lost, and how many people the raw one shows alone."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping

import numpy as np

from edgeveil.trainer.publish.anonymity.frequency import Frequencies, combined, numbered


def discernibility(labels: Mapping[str, np.ndarray], rows: np.ndarray) -> int:
    """The sum over published rows of the rows that look like them, and of all rows for each that is left out.

    Bayardo and Agrawal (2005). ``rows`` (mask) are published, with ``labels`` (published rows,) for each column.
    """
    coded = [np.unique(values.astype(str), return_inverse=True) for values in labels.values()]
    key, size = combined([codes for _, codes in coded], [len(values) for values, _ in coded])
    alike = np.bincount(numbered(key, size)) if len(key) else np.zeros(0, np.int64)
    return int((alike**2).sum()) + int((~rows).sum()) * len(rows)


def unique_people(frequencies: Frequencies) -> float:
    """The share of people whom the raw values of the columns show alone, by any of their rows that nothing links."""
    classes = frequencies.classes((0,) * len(frequencies.levels))
    size = np.bincount(classes.number, weights=frequencies.weight[classes.person])
    alone = np.unique(classes.person[size[classes.number] == 1])
    return len(alone) / int(frequencies.weight.sum())


def unique_shown(labels: Mapping[str, np.ndarray], person: np.ndarray) -> float:
    """The same share of what is shown: ``labels`` (rows,) for each column, ``person`` (rows,) whose they are."""
    alone: dict[tuple[str, ...], int | None] = {}
    for who, *row in zip(person.tolist(), *labels.values(), strict=True):
        alone[tuple(row)] = who if alone.get(tuple(row), who) == who else None
    people = len(np.unique(person))
    return len({who for who in alone.values() if who is not None}) / max(people, 1)


def uniqueness(frequencies: Frequencies, names: list[str], *, most: int = 3) -> Iterator[tuple[tuple[str, ...], float]]:
    """``unique_people`` of one to ``most`` columns at a time, with their names."""
    for count in range(1, most + 1):
        for columns in itertools.combinations(range(len(names)), count):
            yield tuple(names[at] for at in columns), unique_people(frequencies.chosen(columns))
