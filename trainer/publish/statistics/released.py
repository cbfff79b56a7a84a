"""Statistics of the raw table, of all people in it: who is left out of the published rows depends on the others, so
that one person more would change many of those."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.storage.atomic import write_atomic
from edgeveil.trainer.datasets.columns import MISSING, Cells
from edgeveil.trainer.publish.anonymity.number_ranges import as_number
from edgeveil.trainer.publish.requests.requested_statistics import Count, Histogram, Mean, Statistic
from edgeveil.trainer.publish.statistics.opendp_noise import geometric, laplace_sum
from edgeveil.trainer.recipe.messages import nearest

OTHER = "other"
Record = dict[str, Any]


def released(asked: Mapping[str, Statistic], cells: Cells, person: np.ndarray, *, unit: str) -> Record | None:
    """The ``statistics`` of a publication; None where the plan asks for none. Drawn anew at every call.

    ``person`` (rows,) numbers whose row each is, and ``unit`` says what that is: a person, or a row. Raises
    ``BadInput`` with column and row.
    """
    if not asked:
        return None
    for name, one in asked.items():
        for column in [*one.where, *([] if isinstance(one, Count) else [one.column])]:
            if column not in cells:
                raise BadInput(
                    f'The plan\'s statistic "{name}" asks for a column "{column}"{nearest(column, cells)} that the '
                    "table does not have."
                )
    return {
        "epsilon": sum(one.epsilon for one in asked.values()),
        "unit": unit,
        "released": [{"name": name, **_one(one, cells, person)} for name, one in asked.items()],
    }


def drawn_once(file: Path, asked: Mapping[str, Statistic], cells: Cells, person: np.ndarray, *, unit: str) -> Any:
    """As ``released``; what a run that was broken off has drawn is read from ``file``, for twice would cost twice."""
    if not file.exists():
        write_atomic(str(file), json.dumps(released(asked, cells, person, unit=unit), allow_nan=False).encode())
    return json.loads(file.read_text())


def _one(asked: Statistic, cells: Cells, person: np.ndarray) -> Record:
    rows = _rows(asked, cells, person)
    said: Record = {"kind": asked.kind, "epsilon": asked.epsilon, "rows_each": asked.rows_each, "where": asked.where}
    if isinstance(asked, Count):
        found = geometric([len(rows)], most=asked.rows_each, epsilon=asked.epsilon)
        return {**said, "noise": "geometric", "scale": found.scale, "within": found.within, "value": found.values[0]}
    said["column"] = asked.column
    if isinstance(asked, Histogram):
        names, counts = _counted(asked, [cells[asked.column][row] for row in rows])
        found = geometric(counts, most=asked.rows_each, epsilon=asked.epsilon)
        bins = dict(zip(names, found.values, strict=True))
        return {**said, "noise": "geometric", "scale": found.scale, "within": found.within, "bins": bins}
    return {**said, "noise": "Laplace", **_mean(asked, cells[asked.column], rows, person)}


def _rows(asked: Statistic, cells: Cells, person: np.ndarray) -> np.ndarray:
    """The rows that count: of each person the first ones that ``where`` allows."""
    there = np.ones(len(person), bool)
    for column, value in asked.where.items():
        there &= np.array([cell == value for cell in cells[column]], bool)
    rows = np.flatnonzero(there)
    order = rows[np.argsort(person[rows], kind="stable")]
    begins = np.searchsorted(person[order], person[order], side="left")
    return np.sort(order[np.arange(len(order)) - begins < asked.rows_each])


def _counted(asked: Histogram, values: Sequence[str]) -> tuple[list[str], list[int]]:
    """The bins and how many values each has; the last is for all that no other takes."""
    if asked.values is not None:
        names, where = asked.values, {name: at for at, name in enumerate(asked.values)}
        places = [where.get(value, len(names)) for value in values]
    else:
        edges = asked.edges or []
        names = [f"{low:g} to below {high:g}" for low, high in itertools.pairwise(edges)]
        numbers = [as_number(value) for value in values]
        found = [-1 if one is None else int(np.searchsorted(edges, float(one), "right")) - 1 for one in numbers]
        places = [at if 0 <= at < len(names) else len(names) for at in found]
    return [*names, OTHER], np.bincount(np.array(places, np.int64), minlength=len(names) + 1).tolist()


def _mean(asked: Mean, column: Sequence[str], rows: np.ndarray, person: np.ndarray) -> Record:
    middle, half = (asked.low + asked.high) / 2, (asked.high - asked.low) / 2
    parts: dict[int, float] = {}
    count = 0
    for row in rows.tolist():
        if column[row].strip().lower() in MISSING:
            continue
        number = as_number(column[row])
        if number is None:
            raise BadInput(
                f'Column "{asked.column}", row {row + 1}: a number was expected, for the plan asks for their mean. '
                "Correct the cell, or empty it."
            )
        clipped = min(max(float(number), asked.low), asked.high) - middle
        parts[int(person[row])] = parts.get(int(person[row]), 0.0) + clipped
        count += 1
    epsilon = asked.epsilon / 2
    many = geometric([count], most=asked.rows_each, epsilon=epsilon)
    total = laplace_sum(list(parts.values()), most=asked.rows_each * half, epsilon=epsilon)
    rows_there = max(1, int(many.values[0]))
    value = min(max(middle + total.values[0] / rows_there, asked.low), asked.high)
    # A sum and a count that are off, each by no more than its ``within``.
    within = min((total.within + half * many.within) / rows_there, asked.high - asked.low)
    return {
        "low": asked.low,
        "high": asked.high,
        "scale": total.scale,
        "count": int(many.values[0]),
        "count_scale": many.scale,
        "within": within,
        "value": value,
    }
