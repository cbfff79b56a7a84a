"""Pass 2: the frames of one chunk of rows, perturbed by the edge runtime, beside what is published of the rows.

A job gets paths and numbers. What goes wrong is told by its place in the code and by numbers of rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.edge_runtime.capture.crops import Capture
from edgeveil.edge_runtime.errors import BadInput, FrameDropped
from edgeveil.edge_runtime.frames import RawFrame
from edgeveil.edge_runtime.ledger.book import SPENT
from edgeveil.edge_runtime.sources.base import Source
from edgeveil.trainer.publish.work import exactly_once
from edgeveil.trainer.publish.work.archive import open_frames
from edgeveil.trainer.publish.work.passes import row_table
from edgeveil.trainer.publish.work.passes.outcome import told
from edgeveil.trainer.publish.work.passes.parquet_bytes import opened, packed
from edgeveil.trainer.publish.work.passes.row_table import FRAME, PERSON, PLACE, PREFIX
from edgeveil.trainer.publish.work.perturbing import Opened

BATCH_BYTES, BATCH_LEAST = 1 << 16, 16  # of input, that stays in the processor's cache; and frames


def chunk_path(work: Path, number: int) -> Path:
    """Where a chunk is."""
    return work / f"chunk-{number:05d}.parquet"


@told
def work_chunk(
    *, work: str, bundle: str, sealed: str, trust: str, artefact: str, uri: str, number: int, parts: int
) -> dict[str, Any]:
    """Make one chunk; returns its ``rows`` and how many were ``dropped``, by reason.

    ``sealed`` is the SHA-256 of the bundle's manifest, which may not change under way.
    """
    machine = _machine(Path(bundle), sealed, Path(trust), artefact, uri)
    rows = opened(Path(work) / row_table.NAME).read_row_group(number)
    left, values, dropped = machine.perturbed(rows.column(PREFIX + FRAME).to_numpy())
    part = row_table.parts_of(row_table.place_values(rows.column(PREFIX + PLACE)), parts)[left]
    order = np.argsort(part, kind="stable")
    table = rows.take(left[order]).drop_columns([PREFIX + FRAME, PREFIX + PERSON])
    for output in machine.opened.outputs:
        table = table.append_column(output.column, output.array(values[output.column][order]))
    counts = np.bincount(part, minlength=parts).tolist()
    data = packed(table, (), counts, {"parts": " ".join(map(str, counts))}, quick=True)
    exactly_once.make(chunk_path(Path(work), number), Path(work), data)
    return {"rows": len(left), "dropped": dict(dropped)}


@dataclass
class _Machine:
    """A bundle and its source, opened once by a process; ``at`` is the number of the next frame."""

    opened: Opened
    uri: str
    source: Source
    at: int = 0

    def perturbed(self, wanted: np.ndarray) -> tuple[np.ndarray, dict[str, np.ndarray], Counter[str]]:
        """Of numbers in rising order: the places of those that were perturbed, their outputs (places, ...) by column,
        and why others were dropped."""
        left, dropped = list[int](), Counter[str]()
        made: dict[str, list[np.ndarray]] = {output.column: [] for output in self.opened.outputs}

        def lost(_: RawFrame, reason: str) -> None:
            dropped[reason] += 1

        for batch in self._batches(wanted, dropped):
            places = {frame.index: place for place, frame in batch}
            found = self.opened.perturber.perturb_columns([frame for _, frame in batch], on_drop=lost)
            left += [places[index] for index in found.indices]
            for column, values in made.items():
                values.append(found.outputs[column])
        columns = {one.column: np.concatenate([one.empty(), *made[one.column]]) for one in self.opened.outputs}
        return np.array(left, np.int64), columns, dropped

    def _batches(self, wanted: np.ndarray, dropped: Counter[str]) -> Iterator[Sequence[tuple[int, RawFrame]]]:
        spec = self.opened.manifest.input
        most = max(BATCH_LEAST, BATCH_BYTES // (int(np.prod(spec.shape)) * np.dtype(spec.dtype).itemsize))
        capture, batch = Capture(self.opened.manifest), list[tuple[int, RawFrame]]()
        for place, number in enumerate(wanted.tolist()):
            if number < 0:
                dropped[SPENT] += 1
                continue
            try:
                ((_, frame),) = capture.frames(self._frame(number))
            except FrameDropped as drop:
                dropped[drop.reason] += 1
                continue
            batch.append((place, frame))
            if len(batch) == most:
                yield batch
                batch = []
        if batch:
            yield batch

    def _frame(self, number: int) -> RawFrame:
        if number < self.at:
            self.source.close()
            self.source, self.at = open_frames(self.uri, self.opened.manifest), 0
        if number > self.at:
            self.source.skip(number - self.at)
        self.at = number + 1
        frame = self.source.next()
        if frame is None:
            raise FrameDropped("missing")
        return frame


_opened: dict[tuple[str, ...], _Machine] = {}


def _machine(bundle: Path, sealed: str, trust: Path, artefact: str, uri: str) -> _Machine:
    key = (str(bundle), sealed, str(trust), artefact, uri)
    if key not in _opened:
        pipeline = Opened.of(bundle, trust, artefact=artefact)
        if pipeline.bundle.manifest_sha256 != sealed:
            raise BadInput("The bundle is another one than at the start. Put the former back, and add --resume.")
        _opened[key] = _Machine(pipeline, uri, open_frames(uri, pipeline.manifest))
    return _opened[key]
