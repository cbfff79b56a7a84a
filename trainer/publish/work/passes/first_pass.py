"""Pass 1, of the table alone: people, generalised columns, pseudonyms, and which frame is whose."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.sources.base import Source
from edgeveil.trainer.datasets.columns import Cells
from edgeveil.trainer.pseudonyms.master_key import MasterKey
from edgeveil.trainer.pseudonyms.vault import Vault
from edgeveil.trainer.publish import statement
from edgeveil.trainer.publish.anonymity.generalise import Generalised
from edgeveil.trainer.publish.plan import Frames, Plan
from edgeveil.trainer.publish.pseudonymise import pseudonymise
from edgeveil.trainer.publish.publication import Prepared, published_columns
from edgeveil.trainer.publish.work import exactly_once
from edgeveil.trainer.publish.work.archive import matched, names_in
from edgeveil.trainer.publish.work.leaving import Leaving
from edgeveil.trainer.publish.work.passes import row_table

STATEMENT = "statement.json"


@dataclass(frozen=True)
class FirstPass:
    """The rows that are to be published, in the order of their frames: ``rows`` are their numbers in the table.

    ``owner`` (frames,) is the person of each frame, of those that are left out too.
    """

    prepared: Prepared
    shown: Generalised
    rows: np.ndarray
    frame: np.ndarray
    owner: np.ndarray

    @classmethod
    def of(cls, plan: Plan, cells: Cells, source: Source, outputs: Sequence[Leaving]) -> FirstPass:
        """Check table and recordings against the plan, and generalise. Raises ``BadInput``; nothing is written."""
        frames = frames_of(plan)
        prepared = Prepared.of(plan, cells)
        for name in plan.published:
            if name in {one.column for one in outputs} or name.startswith(row_table.PREFIX):
                raise BadInput(f'The column "{name}" has the name of a column that the bundle adds: rename it.')
        frame = matched(cells[frames.key], names_in(source), frames.key)
        shown = prepared.generalised()
        rows = np.flatnonzero(shown.rows)
        rows = rows[np.argsort(frame[rows])]
        return cls(prepared, shown, rows, frame[rows], prepared.person[np.argsort(frame)])

    def people(self) -> list[int | None]:
        """A number for whom a ledger charges for each row; None where nobody is known."""
        whose = self.prepared.plan.anonymity.people
        if whose is None:
            return [None] * len(self.rows)
        names = self.prepared.names[whose]
        return [int.from_bytes(hashlib.sha256(names[row].encode()).digest()[:8], "big") for row in self.rows]

    def write(
        self, work: Path, key: MasterKey, recipient: str, vault: Vault | None, *, paid: Sequence[bool], chunk_rows: int,
        archive: str, publication: str,
    ) -> None:  # fmt: skip
        """Make the file of rows; the vault knows everybody in it before it has its name, or nothing changes.

        It notes them as those of ``publication``, which may still come to nothing.
        """
        plan = self.prepared.plan
        text = json.dumps(self._statement(), sort_keys=True, allow_nan=False)
        exactly_once.make(work / STATEMENT, work, text.encode())
        secret = key.derive("row order", recipient, plan.sha256, archive)
        path = work / row_table.NAME
        with vault.change() if vault is not None else nullcontext():
            names = {name: [column[row] for row in self.rows] for name, column in self.prepared.names.items()}
            made = pseudonymise(plan, names, key, recipient, vault)
            if vault is not None:
                for scope, salts in made.salts.items():
                    vault.under_way.note(publication, scope.field, salts)
            columns = published_columns(self.prepared, self.shown, made.columns, self.rows)
            frame = np.where(paid, self.frame, -1)
            person, place = self.prepared.person[self.rows], row_table.places(secret, self.rows)
            data = row_table.as_bytes(row_table.row_table(columns, frame, person, place), chunk_rows)
            digest = exactly_once.prepare(path, work, data)
        exactly_once.link(path, work, digest)

    def _statement(self) -> Mapping[str, object]:
        prepared = self.prepared
        document = statement.document(prepared.frequencies(), prepared.plan, self.shown, {}, prepared.columns)
        return {**document, "suppressed": self.shown.suppressed}


def frames_of(plan: Plan) -> Frames:
    """The plan's table for recordings. Raises ``BadInput`` where it has none."""
    if plan.frames is None:
        raise BadInput(
            'The plan has no table [frames]: write one, with key = "COLUMN", the column that names the frame of a row, '
            "and most_dropped, the share of the frames that may be lost."
        )
    return plan.frames
