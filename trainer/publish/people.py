"""Whose rows these are: identifiers in one spelling, and one sensitive value for each person."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.pseudonyms.normalise import Step, normalised
from edgeveil.trainer.publish.actions import Sensitive
from edgeveil.trainer.publish.anonymity.levels import Levels, encode


def identifiers(column: str, cells: Sequence[str], steps: Sequence[Step]) -> list[str]:
    """Each cell in its one spelling. Raises ``BadInput`` with column and row of one that is empty, or no date."""
    known: dict[str, str] = {}
    for row, cell in enumerate(cells):
        if cell not in known:
            try:
                known[cell] = normalised(cell, steps)
            except ValueError as error:
                raise BadInput(
                    f'Column "{column}", row {row + 1}: an identifier was expected that {list(steps)} can normalise; '
                    f"there, {error}. Correct the cell, or drop the row."
                ) from None
    return [known[cell] for cell in cells]


def numbers(names: Sequence[str]) -> np.ndarray:
    """Numbers (rows,) of people from 0, in the order of their first rows."""
    seen: dict[str, int] = {}
    return np.array([seen.setdefault(name, len(seen)) for name in names])


def sensitive_values(
    column: str, cells: Sequence[str], asked: Sensitive, person: np.ndarray
) -> tuple[np.ndarray, Levels]:
    """The code (people,) of each person's value, and the levels of the values.

    Raises ``BadInput`` with column and row where a person has two: what a class tells of a person would not be one
    number.
    """
    codes, levels = _plain(cells) if asked.hierarchy is None else encode(column, cells, asked.hierarchy)
    values = np.full(int(person.max()) + 1, -1)
    values[person[::-1]] = codes[::-1]  # the first row of each
    other = values[person] != codes
    if other.any():
        raise BadInput(
            f'Column "{column}", row {int(other.argmax()) + 1}: a sensitive column has one value for each person, and '
            "this one had another before. Publish one row a person, or drop the column."
        )
    return values, levels


def _plain(cells: Sequence[str]) -> tuple[np.ndarray, Levels]:
    """Values without any order."""
    distinct, codes = np.unique(np.asarray(cells, object).astype(str), return_inverse=True)
    count = len(distinct)
    return codes, Levels((np.arange(count),), (tuple(map(str, distinct)),), (np.zeros(count),), None)
