"""The features of a table: which columns make x, how their cells become numbers, and what to propose for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.manifest.columns import DAYS, DECIMAL, FALSE, THOUSANDS, TRUE, Encoder, checked, date, number
from edgeveil.trainer.datasets.columns import Column, Table, labels, listed, nfc
from edgeveil.trainer.datasets.readings import Readings, checked_samples, labelled
from edgeveil.trainer.measures.enough import SHOWN_PEOPLE, SHOWN_ROWS
from edgeveil.trainer.recipe.data_section import Columns, Encoding

MOST = 50  # values that a column is encoded by
COVERED = 0.5  # of the rows, by the values that are common enough; less is no category


def of_table(table: Table, columns: Columns) -> Readings:
    """The samples of a user's own table, such as ``csv:FILE`` or ``parquet:FILE``, one a row. Raises ``BadInput``.

    Columns that are neither y, z, subject, session nor left out are the features of x, float32, in the file's order.
    """
    path = table.path
    table.column(columns.target or "", "data.columns.target")
    of_roles = labels(table, columns)
    x, names, made = features(table, columns)
    if all(name.isprintable() and len(name) <= 200 for name in names):  # as a manifest has them
        return labelled(checked_samples(x, path), "vector", of_roles, path, features=names, table=made)
    if made is not None:
        raise BadInput(f"{path}: names of columns with their values must be printable, and of at most 200 characters.")
    return labelled(checked_samples(x, path), "vector", of_roles, path)


def feature_columns(table: Table, columns: Columns) -> list[str]:
    """The columns that make x, in the file's order. Raises ``BadInput``."""
    roles = {columns.target, columns.sensitive, columns.subject, columns.session, *(columns.also or {}).values()}
    for name in columns.leave_out or ():
        table.column(name, "data.columns.leave_out")
    other = {nfc(name) for name in (*roles, *(columns.leave_out or ())) if name}
    names = [name for name in table.columns if name not in other]
    for problem in table.unnamed(names):
        raise BadInput(problem)
    if not names:
        raise BadInput(f"{table.path}: no column is left for x: all {len(table.columns)} have another role.")
    if empty := [name for name in names if table.columns[name].missing.all()]:
        raise BadInput(f'{table.path}: "{empty[0]}" is empty in every row: leave it out, --leave-out {empty[0]!r}.')
    return names


def features(table: Table, columns: Columns) -> tuple[np.ndarray, tuple[str, ...], dict[str, Any] | None]:
    """x (rows, features) float32, its features, and how cells become them: a manifest's ``input.table``, or None.

    Raises ``BadInput`` for a feature of text or with cells missing that ``columns.encode`` has no rule for.
    """
    names = feature_columns(table, columns)
    plan = {nfc(name): one for name, one in (columns.encode or {}).items()}
    for name in plan:
        table.column(name, "data.columns.encode")
        if name not in names:
            raise BadInput(f'{table.path}: column "{name}" has another role, and is not encoded: drop its section.')
    plain = [name for name in names if name not in plan]
    words = [name for name in plain if not table.columns[name].is_number]
    if words:
        whose = "" if columns.subject is not None else " What says whose a row is goes to --subject."
        raise BadInput(
            f"{table.path}: x takes numbers, and {listed(words)} hold{'s' if len(words) == 1 else ''} text"
            f"{table.columns[words[0]].first_text()}. Correct it, leave out with "
            f"{' '.join(f'--leave-out {name!r}' for name in words[:3])}, or encode it in [data.columns.encode].{whose}"
        )
    gone = {name: int(table.columns[name].missing.sum()) for name in plain if table.columns[name].missing.any()}
    if gone:
        worst = max(gone, key=lambda name: gone[name])
        raise BadInput(
            f'{table.path}: {len(gone)} of {len(names)} features have empty cells, "{worst}" {gone[worst]} of '
            f"{table.rows} rows. Fill them, drop these rows, leave the columns out, or give a `fill` in "
            f"[data.columns.encode.NAME]."
        )
    if not plan:
        x = np.empty((table.rows, len(names)), np.float32)
        for place, name in enumerate(names):
            x[:, place] = table.columns[name].values
        return x, tuple(names), None
    entries = [plan.get(name, PLAIN).entry(name) for name in names]
    encoding = checked(entries, [nfc(word) for word in columns.missing or ()])
    return _encoded(table, encoding), tuple(Encoder(encoding).features), encoding


PLAIN = Encoding(kind="number")


def _encoded(table: Table, made: Mapping[str, Any]) -> np.ndarray:
    """x (rows, features) float32 by the code that a board runs. Raises ``BadInput``: a cell that it would refuse."""
    encoder = Encoder(made)
    x, start = np.empty((table.rows, len(encoder.features)), np.float32), 0
    for place, one in enumerate(made["columns"]):
        column = table.columns[one["name"]]
        if column.is_number and one["kind"] == "number" and (column.texts is None or one["decimal"] == "."):
            block, bad = encoder.numbers(place, column.values, column.missing)
        else:
            cells = column.values if column.texts is None else column.texts
            block, bad = encoder.column(place, [str(cell) for cell in np.where(column.missing, "", cells).tolist()])
        if bad.any():
            row = int(bad.argmax())
            what = "has no value" if column.missing[row] else f'does not fit `kind = "{one["kind"]}"`'
            raise BadInput(
                f'{table.path}: column "{one["name"]}" {what} in {int(bad.sum())} of {table.rows} rows, first in row '
                f"{row + 1}. Correct them, or change [data.columns.encode.NAME]: `fill` is for missing cells."
            )
        x[:, start : start + block.shape[1]] = block
        start += block.shape[1]
    return x


def proposed(table: Table, columns: Columns, rows: np.ndarray | None = None) -> dict[str, dict[str, Any]]:
    """``[data.columns.encode]`` for the columns of x that are not plain numbers, as far as their cells show one.

    Values and fills are those of ``rows`` (None: all).
    """
    try:
        names = feature_columns(table, columns)
    except BadInput:
        return {}  # said where the data are loaded
    rows = np.arange(table.rows) if rows is None else rows
    subject = table.columns.get(nfc(columns.subject or ""))
    people = None if subject is None else np.unique(subject.classes[rows], return_inverse=True)[1]
    rules: dict[str, dict[str, Any]] = {}
    for name in names:
        column = table.columns[name]
        if not column.is_number or column.missing.any():
            guess = _guess(column, rows, people)
            rules |= {} if guess is None else {name: guess}
    if any(one.get("decimal") == "," for one in rules.values()):  # then 1.234 is a thousand in every column
        for name in names:
            column = table.columns[name]
            if column.is_number and column.has_fractions and column.texts is not None:
                rules |= _of_thousands(name, column, rows)
    return rules


def _of_thousands(name: str, column: Column, rows: np.ndarray) -> dict[str, dict[str, Any]]:
    """A column of numbers whose points are all before three digits."""
    if column.texts is None:
        return {}
    values = [0.0 if gone else number(cell, ",", ".") for cell, gone in zip(column.texts, column.missing, strict=True)]
    if None in values:
        return {}
    settings = {"kind": "number", "decimal": ",", "thousands": "."}
    present = np.array(values, np.float64)[rows][~column.missing[rows]]
    return {name: settings | (_filled(present) if column.missing.any() else {})}


def _guess(column: Column, rows: np.ndarray, people: np.ndarray | None) -> dict[str, Any] | None:
    """``people`` (rows,) numbers whose each of ``rows`` is, or None."""
    gone = bool(column.missing.any())
    if column.is_number:
        return {"kind": "number"} | _filled(column.values[rows][~column.missing[rows]])
    cells, places = np.unique(column.values.astype(str), return_inverse=True)
    occurring = np.bincount(places[~column.missing], minlength=len(cells)) > 0
    some = ~column.missing[rows]
    of_rows = places[rows][some]
    seen = np.bincount(of_rows, minlength=len(cells))
    for settings, read in _ways():
        values = [read(cell) if used else 0.0 for cell, used in zip(cells.tolist(), occurring, strict=True)]
        if None not in values:
            return settings | (_filled(np.repeat(np.array(values, np.float64), seen)) if gone else {})
    shared = np.full(len(cells), SHOWN_PEOPLE)
    if people is not None:
        shared = np.bincount(np.unique(np.stack([of_rows, people[some]]), axis=1)[0], minlength=len(cells))
    order = np.argsort(-seen, kind="stable")[:MOST]
    common = [cells[at] for at in order if seen[at] >= SHOWN_ROWS and shared[at] >= SHOWN_PEOPLE]
    if not common or seen[np.isin(cells, common)].sum() < COVERED * seen.sum():
        return None
    return {"kind": "one-hot", "values": [*([""] if gone else []), *sorted(str(one) for one in common)]}


def _ways() -> list[tuple[dict[str, Any], Any]]:
    """The settings under which a cell is a value, with what reads it so; the likelier first."""
    ways: list[tuple[dict[str, Any], Any]] = [({"kind": "boolean"}, _truth)]
    for mark in THOUSANDS:
        for point in DECIMAL:
            if mark != point:
                settings = {"kind": "number", "decimal": point, "thousands": mark}
                ways.append((settings, lambda cell, point=point, mark=mark: number(cell, point, mark)))
    return ways + [({"kind": "date", "days": days}, lambda cell, days=days: date(cell, days)) for days in DAYS]


def _truth(cell: str) -> float | None:
    """1 or 0 of words; digits are numbers."""
    word = cell.lower()
    return None if word.isdigit() else 1.0 if word in TRUE else 0.0 if word in FALSE else None


def _filled(values: np.ndarray) -> dict[str, Any]:
    """What a missing cell becomes: the mean, with a flag."""
    return {"fill": float(f"{values.mean() if len(values) else 0.0:.5g}"), "flag": True}


def described(name: str, one: Mapping[str, Any]) -> str:
    """A rule of ``proposed`` in a sentence."""
    if one["kind"] == "one-hot":
        shown = [value or "(no value)" for value in one["values"]]
        return f'"{name}" becomes a feature for each of {listed(shown, most=6)}; another value is 0 in each'
    how = {
        key: value for key, value in one.items() if key in ("decimal", "thousands", "days") and value not in ("", ".")
    }
    marks = "".join(f', {key} "{value}"' for key, value in how.items())
    fill = f"; a missing cell becomes {one['fill']:g} with a flag" if "fill" in one else ""
    return f'"{name}" is read as {one["kind"]}{marks}{fill}'
