"""Adult as paper 004 has it: 13 columns, categories by number, marital status as married or not, in [-1, 1]."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from scripts.papers import adult

# Public: the published rows are of people above 16 who work at least an hour, and of schooling from 1.
LOWEST = {"age": 17.0, "education-num": 1.0, "hours-per-week": 1.0, "capital-gain": 0.0, "capital-loss": 0.0}
SENSITIVE = "marital-status"
MARRIED = ("Married-civ-spouse", "Married-AF-spouse")
COLUMNS = tuple(name for name in adult.COLUMNS if name not in ("fnlwgt", "income"))
FOLDS = 5


@dataclass(frozen=True)
class People:
    """``x`` (n, 13) in [-1, 1], and ``y`` (n,): 1 for an income above 50,000."""

    x: np.ndarray
    y: np.ndarray

    def take(self, rows: np.ndarray) -> People:
        """Some of them."""
        return People(self.x[rows], self.y[rows])

    def folds(self, rng: np.random.Generator) -> Iterator[tuple[People, People]]:
        """(training, test) of five folds."""
        order = rng.permutation(len(self.y))
        for test in np.array_split(order, FOLDS):
            yield self.take(np.setdiff1d(order, test)), self.take(np.sort(test))


def place(name: str) -> int:
    """A column's number."""
    return COLUMNS.index(name)


def load() -> People:
    """The 30,162 complete rows of adult.data."""
    table = adult.load("adult.data.gz")
    columns = []
    for name in COLUMNS:
        if name == SENSITIVE:
            values, low, high = np.isin(table.categories[name], MARRIED).astype(np.float64), 0.0, 1.0
        elif name in LOWEST:
            values = table.numbers[:, list(adult.HIGHEST).index(name)]
            low, high = LOWEST[name], adult.HIGHEST[name]
        else:
            values, low, high = table.number(name).astype(np.float64), 0.0, len(table.values[name]) - 1.0
        columns.append(2 * (values - low) / (high - low) - 1)
    return People(np.stack(columns, axis=1), table.label.astype(np.int64))
