"""What a publication of recordings says beyond its rows, worked out once: a run that goes on reads what it was.

The signed statement must not change between two runs, and an attack that learns may end otherwise a second time.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from edgeveil.edge_runtime.capture.crops import Capture
from edgeveil.edge_runtime.errors import FrameDropped
from edgeveil.trainer.publish.attack.published import Output
from edgeveil.trainer.publish.rest_of_statement import rest_of_statement
from edgeveil.trainer.publish.statistics.released import drawn_once
from edgeveil.trainer.publish.work import exactly_once
from edgeveil.trainer.publish.work.archive import open_frames
from edgeveil.trainer.publish.work.passes.first_pass import FirstPass
from edgeveil.trainer.publish.work.passes.frame_passes import FramePasses
from edgeveil.trainer.publish.work.passes.row_table import Rows
from edgeveil.trainer.publish.work.perturbing import Opened

REST, DRAWN = "rest.json", "statistics.json"


def draw_statistics(first: FirstPass, work: Path) -> None:
    """Draw what the plan asks of the table, and keep it in the work folder. Raises ``BadInput`` with column and row."""
    prepared, plan = first.prepared, first.prepared.plan
    drawn_once(work / DRAWN, plan.statistics, prepared.cells, prepared.person, unit=plan.anonymity.unit)


def rest_of_archive(first: FirstPass, passes: FramePasses, opened: Opened, uri: str, work: Path) -> dict[str, Any]:
    """As ``rest_of_statement``, of the parts that ``passes`` made."""
    path, prepared = work / REST, first.prepared
    if exactly_once.made(path, work) is None:
        found = rest_of_statement(
            prepared.plan,
            prepared.cells,
            prepared.person,
            first.shown,
            passes.paths,
            first.rows[passes.written],
            outputs=[Output(one.column, one.shape, str(one.dtype)) for one in opened.outputs],
            records=_records(first, opened, uri, work),
            drawn=work / DRAWN,
        )
        exactly_once.make(path, work, json.dumps(found, allow_nan=False).encode())
    said: dict[str, Any] = json.loads(path.read_bytes())
    return said


def _records(first: FirstPass, opened: Opened, uri: str, work: Path) -> Iterator[tuple[str | int, bytes]]:
    """Whose each recording is, and its bytes as the bundle takes it.

    Linked people are called by their pseudonyms, as in the parts; all others, and those who were left out, by numbers.
    """
    asked, names = first.prepared.plan.anonymity, dict[int, str]()
    if asked.link == "person":
        column = str(asked.people)
        rows = Rows.read(work, [column])
        names = dict(zip(rows.person.tolist(), rows.texts(column), strict=True))
    capture = Capture(opened.manifest)
    with open_frames(uri, opened.manifest) as source:
        for who in first.owner.tolist():
            try:
                frame = source.next()
                if frame is None:
                    return
                ((_, taken),) = capture.frames(frame)
            except FrameDropped:
                continue
            data = taken._data
            yield names.get(who, who), data.astype(data.dtype.newbyteorder("<")).tobytes()
