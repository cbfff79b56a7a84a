"""A plan to fill in: every column of a table with its type, its number of values, and no action yet."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from edgeveil.trainer.datasets.columns import MISSING, Cells
from edgeveil.trainer.publish.anonymity.date_spans import as_date
from edgeveil.trainer.publish.anonymity.number_ranges import as_number

WORDS = 4  # a text of more words than these is prose, in which anything may stand
LETTERS = 64
_HEAD = """\
# What becomes of each column. Write one action for each; nothing is published before.
#   drop | keep (reason) | pseudonym (mode, normalise, epoch) | quasi (hierarchy) | sensitive (distinct_l, ...) | target

[anonymity]
k = {k}  # people who look alike, at least
# people = ""      # the column that says whose a row is; left out with link = "rows"
# link = "person"  # person: a pseudonym links rows. none: nothing does. rows: each row is another's
suppress = 0  # people that may be left out
method = "incognito"  # or "mondrian": less loss, each row by itself

"""
_NO_FRAMES = """\
# [frames]            # for recordings beside the table (edgeveil publish archive)
# key = ""            # the column that names a row's frame: a file, or a number from 0
# most_dropped = 0.0  # share of the frames that may be lost
"""
_FRAMES = """\
[frames]
{key}  # {why}
most_dropped = 0.0  # share of the frames that may be lost
"""
_TAIL = """
# Numbers with noise beside the rows, and what attacks may learn of a column that is dropped:
# [statistics.NAME]  # kind = "count", "histogram" or "mean", epsilon
# [attack]           # sensitive, points, bits
"""


def draft(table: Path, cells: Cells, *, k: int = 10, frame_columns: Sequence[str] = ()) -> str:
    """The plan's TOML. ``cells`` are those of ``table``; of recordings, ``frame_columns`` each name all frames."""
    import tomli_w

    columns = {
        name: {"type": type_of(values), "values": len(set(values) - {""}), "action": ""}
        for name, values in cells.items()
    }
    frames = _frames(frame_columns) if frame_columns else _NO_FRAMES
    return f"# The columns of {table.name}.\n{_HEAD.format(k=k)}{frames}\n{tomli_w.dumps({'columns': columns})}{_TAIL}"


def _frames(columns: Sequence[str]) -> str:
    """The plan's table for recordings; where several columns could be it, none is chosen."""
    import tomli_w

    key, why = columns[0], 'names every frame once; its action is "drop"'
    if len(columns) > 1:
        key, why = "", f'choose one: {", ".join(columns)} name every frame once; its action is "drop"'
    return _FRAMES.format(key=tomli_w.dumps({"key": key}).strip(), why=why)


def type_of(values: Sequence[str]) -> str:
    """``number``, ``date``, ``text``, ``prose`` where some cell is a sentence or long, or ``empty``."""
    there = {value for value in values if value.strip().lower() not in MISSING}
    if not there:
        return "empty"
    if all(as_number(value) is not None for value in there):
        return "number"
    if all(as_date(value) is not None for value in there):
        return "date"
    return "prose" if any(is_prose(value) for value in there) else "text"


def is_prose(value: str) -> bool:
    """Whether a cell holds more than a name."""
    return len(value.split()) > WORDS or len(value) > LETTERS
