"""Passes 2 and 3, and the independent reader over what they made."""

from __future__ import annotations

import io
import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.edge_runtime.errors import LimitNotMet
from edgeveil.trainer.engines.job import Job, Run
from edgeveil.trainer.publish import reader
from edgeveil.trainer.publish.actions import Quasi, Sensitive
from edgeveil.trainer.publish.work import exactly_once, finishing
from edgeveil.trainer.publish.work.passes import chunk_work, part_work, row_table
from edgeveil.trainer.publish.work.passes.after_drops import left_out
from edgeveil.trainer.publish.work.passes.chunk_work import chunk_path
from edgeveil.trainer.publish.work.passes.first_pass import STATEMENT, frames_of
from edgeveil.trainer.publish.work.passes.jobs_of_passes import all_done, engine_of
from edgeveil.trainer.publish.work.passes.parquet_bytes import opened as opened_parquet
from edgeveil.trainer.publish.work.passes.row_table import PREFIX, ROW
from edgeveil.trainer.publish.work.perturbing import Opened
from edgeveil.trainer.publish.work.resuming import WORK
from edgeveil.trainer.publish.work.wanted import Wanted


class FramePasses:
    """From the rows of pass 1 to parts; ``paths`` are their files, ``written`` the numbers of their rows in that order,
    once they are made."""

    def __init__(self, wanted: Wanted, opened: Opened, uri: str) -> None:
        self._wanted, self._opened, self._uri = wanted, opened, uri
        self._work = wanted.out / WORK
        with opened_parquet(self._work / row_table.NAME) as file:
            self._rows, self._chunks = file.metadata.num_rows, file.num_row_groups
        self._parts = self._chunks
        self._said = json.loads((self._work / STATEMENT).read_bytes())
        self.written = np.empty(0, np.int64)
        self.paths = [wanted.out / part_work.part_name(number) for number in range(self._parts)]

    def worked(self, **facts: Any) -> dict[str, Any]:
        """Make all parts and count in them; returns ``publication.json``, with ``facts``.

        Raises ``LimitNotMet`` where more frames were dropped than the plan allows, or where the reader finds less than
        it asks for.
        """
        with engine_of(self._wanted.engine, self._wanted.jobs) as run:
            self._perturb(run)
            there = self._there()
            out, more = self._left_out(there)
            parts = self._gather(run)
        found = self._read(np.setdiff1d(there, out))
        return finishing.document(
            self._wanted.plan,
            self._said,
            parts,
            found,
            suppressed=self._said["suppressed"] + more,
            pipeline_hash=self._opened.pipeline_hash(),
            bundle=self._opened.facts(),
            dropped=self._rows - len(there),
            frames=[one.document() for one in self._opened.outputs],
            **facts,
        )

    def _perturb(self, run: Run) -> None:
        most = int(frames_of(self._wanted.plan).most_dropped * self._rows)
        missing = [n for n in range(self._chunks) if exactly_once.made(chunk_path(self._work, n), self._work) is None]
        fixed = {
            "work": str(self._work.resolve()),
            "bundle": str(self._wanted.bundle.resolve()),
            "sealed": self._opened.bundle.manifest_sha256,
            "trust": str(self._wanted.trust.resolve()),
            "artefact": self._opened.perturber.artefact,
            "uri": self._uri,
            "parts": self._parts,
        }
        function = f"{chunk_work.__name__}:work_chunk"
        jobs = [Job(f"chunk {number}", function, {**fixed, "number": number}) for number in missing]
        dropped: Counter[str] = Counter()
        for answer in all_done(run, "chunks", jobs, done=self._chunks - len(jobs)):
            dropped.update(answer["dropped"])
            if dropped.total() > most:
                break
        lost = dropped.total() if dropped.total() > most else self._rows - len(self._there())
        if lost > most:
            reasons = ", ".join(f"{count} {reason}" for reason, count in sorted(dropped.items()))
            raise LimitNotMet(
                f"{lost} frames of {self._rows} were dropped ({reasons or 'as before'}), and the plan's most_dropped "
                f"allows {most}: nothing was published. Mend the frames, or allow more."
            )

    def _there(self) -> np.ndarray:
        """The numbers of the rows whose frames were perturbed, in order."""
        found = [np.empty(0, np.int64)]
        for number in range(self._chunks):
            with opened_parquet(chunk_path(self._work, number)) as file:
                found.append(file.read(columns=[PREFIX + ROW]).column(0).to_numpy())
        return np.sort(np.concatenate(found))

    def _left_out(self, there: np.ndarray) -> tuple[np.ndarray, int]:
        rows, people = np.empty(0, np.int64), 0
        if len(there) < self._rows:
            rows, people = left_out(self._wanted.plan, self._work, there, suppressed=self._said["suppressed"])
        data = io.BytesIO()
        np.save(data, rows)
        exactly_once.make(self._work / part_work.LEFT_OUT, self._work, data.getvalue())
        return rows, people

    def _gather(self, run: Run) -> list[dict[str, Any]]:
        fixed = {
            "out": str(self._wanted.out.resolve()),
            "work": str(self._work.resolve()),
            "chunks": self._chunks,
            "texts": len(self._wanted.plan.published),
        }
        made = {path: exactly_once.made(path, self._work) for path in self.paths}
        entries = [_entry(path, digest) for path, digest in made.items() if digest is not None]
        function = f"{part_work.__name__}:work_part"
        jobs = [
            Job(f"part {number}", function, {**fixed, "number": number})
            for number, path in enumerate(self.paths)
            if made[path] is None
        ]
        entries += all_done(run, "parts", jobs, done=len(entries))
        return sorted(entries, key=lambda entry: str(entry["name"]))

    def _read(self, there: np.ndarray) -> dict[str, float]:
        """What an independent reader finds in the parts. Raises ``LimitNotMet``."""
        plan = self._wanted.plan
        people = [plan.anonymity.people] if plan.anonymity.link == "person" else []
        names = [*plan.of(Quasi), *plan.of(Sensitive), *map(str, people)]
        rows = row_table.Rows.read(self._work)
        place = rows.place[there]
        self.written = there[row_table.order_of(place, row_table.parts_of(place, self._parts))]
        found = reader.measured(reader.columns_of(self.paths, names), plan, rows.person[self.written].tolist())
        reader.require(plan, found)
        return found


def _entry(path: Path, digest: str) -> dict[str, Any]:
    with opened_parquet(path) as file:
        return {"name": path.name, "sha256": digest, "rows": file.metadata.num_rows}
