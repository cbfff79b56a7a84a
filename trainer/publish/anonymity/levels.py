"""One column on integer codes: the code of each of its values at each level of its hierarchy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.publish.anonymity.hierarchies import Hierarchy


@dataclass(frozen=True)
class Levels:
    """``codes[level][base]`` is the code at a level of a value with base code ``base``; ``labels[level][code]`` its
    text and ``losses[level][code]`` its loss in [0, 1]. Equal texts of two places in a tree have different codes.
    ``positions`` (base codes,) is where each value stands on a line, 0 to 1, where values have an order. Base codes
    follow that order, else that of the plan's names."""

    codes: tuple[np.ndarray, ...]
    labels: tuple[tuple[str, ...], ...]
    losses: tuple[np.ndarray, ...]
    positions: np.ndarray | None

    def __len__(self) -> int:
        return len(self.codes)

    def size(self, level: int) -> int:
        """How many codes a level has."""
        return len(self.labels[level])


def encode(column: str, values: Sequence[str], hierarchy: Hierarchy) -> tuple[np.ndarray, Levels]:
    """Base codes int64 (rows,) of a column of texts, and its levels.

    Raises ``BadInput`` with the column and the row of a value that the hierarchy does not cover; the value itself is
    never shown.
    """
    distinct, first, raw = np.unique(np.asarray(values, object).astype(str), return_index=True, return_inverse=True)
    rungs = [hierarchy.rungs(str(value)) for value in distinct]
    for at in np.argsort(first):
        if rungs[at] is None:
            raise BadInput(
                f'Column "{column}", row {first[at] + 1}: its hierarchy of {hierarchy.kind} does not cover the value '
                "there. Add it to the plan, or drop the row."
            )
    found = [rung for rung in rungs if rung is not None]
    places = [hierarchy.place(str(value)) for value in distinct]
    order = np.array(sorted(range(len(places)), key=lambda at: places[at]))
    return _coded(raw, order, found, np.array(places) if hierarchy.ordered else None)


def _coded(
    raw: np.ndarray, order: np.ndarray, found: list[list[tuple[str, float]]], places: np.ndarray | None
) -> tuple[np.ndarray, Levels]:
    count = len(found[0])
    numbers: list[dict[tuple[str, ...], int]] = [{} for _ in range(count)]
    codes = np.empty((count, len(found)), np.int64)
    for at in order:
        labels = [label for label, _ in found[at]]
        for level in range(count):
            # A label and all above it: two groups of one name in different places stay two.
            codes[level, at] = numbers[level].setdefault(tuple(labels[level:]), len(numbers[level]))
    losses = [np.empty(len(one)) for one in numbers]
    for at, rungs in enumerate(found):
        for level, (_, loss) in enumerate(rungs):
            losses[level][codes[level, at]] = loss
    base = codes[0]
    by_base = np.empty(len(numbers[0]), np.int64)
    by_base[base] = np.arange(len(base))
    levels = Levels(
        codes=tuple(codes[level][by_base] for level in range(count)),
        labels=tuple(tuple(path[0] for path in one) for one in numbers),
        losses=tuple(losses),
        positions=None if places is None else places[by_base],
    )
    return base[raw], levels
