"""A table of numbers and categories, coded by bounds and lists that are public: nothing is taken from its rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from edgeveil.edge_runtime.errors import BadInput


@dataclass(frozen=True)
class Coded:
    """``numbers`` (n, k) under the names of ``highest``, which bounds each; ``categories``: name -> texts (n,), one of
    ``values`` each; ``label`` (n,) is true or false."""

    numbers: np.ndarray
    highest: Mapping[str, float]
    categories: Mapping[str, np.ndarray]
    values: Mapping[str, Sequence[str]]
    label: np.ndarray

    def __len__(self) -> int:
        return len(self.label)

    def take(self, rows: np.ndarray) -> Coded:
        """Some of the rows."""
        categories = {name: texts[rows] for name, texts in self.categories.items()}
        return Coded(self.numbers[rows], self.highest, categories, self.values, self.label[rows])

    def number(self, name: str) -> np.ndarray:
        """One category as its place among its values, int64 (n,). Raises ``BadInput`` for a value that is no other."""
        values = np.array(sorted(self.values[name]))
        found = np.searchsorted(values, self.categories[name]).clip(max=len(values) - 1)
        strange = values[found] != self.categories[name]
        if strange.any():
            row = int(np.flatnonzero(strange)[0])
            raise BadInput(f"Expected one of {', '.join(values)} in {name}; row {row} has another value.")
        return found

    def unit_rows(self) -> np.ndarray:
        """Numbers over their bounds and categories one-hot, every row of Euclidean norm 1; float64 (n, d)."""
        scaled = np.minimum(self.numbers / np.array(list(self.highest.values())), 1)
        hot = [np.eye(len(values))[self.number(name)] for name, values in self.values.items()]
        rows = np.hstack([scaled, *hot])
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)
