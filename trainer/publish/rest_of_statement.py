"""What a statement says beyond its columns: who is still alone, numbers with noise, and what can be read of people."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.trainer.datasets.columns import Cells
from edgeveil.trainer.publish.anonymity.generalise import Generalised
from edgeveil.trainer.publish.anonymity.loss import unique_shown
from edgeveil.trainer.publish.attack.of_files import attack_files
from edgeveil.trainer.publish.attack.published import Output
from edgeveil.trainer.publish.plan import Plan
from edgeveil.trainer.publish.statistics.released import drawn_once, released


def rest_of_statement(
    plan: Plan,
    cells: Cells,
    person: np.ndarray,
    shown: Generalised,
    files: Sequence[Path],
    rows: np.ndarray,
    *,
    outputs: Sequence[Output] = (),
    records: Iterable[tuple[Hashable, bytes]] = (),
    drawn: Path | None = None,
) -> dict[str, Any]:
    """``unique_after``, ``statistics`` and ``attack``; the latter two are None where the plan asks for none.

    ``cells`` and ``person`` (rows,) are of the raw table, ``rows`` (written rows,) the numbers in it of the rows of
    ``files``, one file after the other. ``outputs`` are the files' columns of frames, ``records`` the archive as
    ``donors.copies`` takes it. In the file ``drawn`` what was drawn is kept for a run that goes on.

    Raises ``BadInput``, and ``LimitNotMet`` where attacks may learn more than the plan allows.
    """
    asked, unit = plan.attack, plan.anonymity.unit
    if drawn is None:
        statistics = released(plan.statistics, cells, person, unit=unit)
    else:
        statistics = drawn_once(drawn, plan.statistics, cells, person, unit=unit)
    place = (np.cumsum(shown.rows) - 1)[rows]  # of a written row among those that may be shown
    written = {name: values[place] for name, values in shown.labels.items()}
    named = [] if asked is None else [name for name in (asked.sensitive, asked.target) if name is not None]
    labels = {name: [cells[name][row] for row in rows] for name in named}
    return {
        "unique_after": round(unique_shown(written, person[rows]), 3),
        "statistics": statistics,
        "attack": attack_files(files, plan, labels, people=person[rows].tolist(), outputs=outputs, records=records),
    }
