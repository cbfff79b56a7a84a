"""The frames of an archive, perturbed by a bundle in chunks, each in a job of its own, by the runtime's own file loop.

A chunk is a file of records: ``row``, the number of its frame's row, and the outputs. Its name ends with its SHA-256,
so that a chunk of an interrupted run is used again only if it is whole. A job gets paths and numbers, never a frame.
"""

from __future__ import annotations

import functools
import hashlib
import io
import math
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from edgeveil.edge_runtime.bundle.policy import audits_of, current_place
from edgeveil.edge_runtime.bundle.reader import Bundle, read_bundle, read_file
from edgeveil.edge_runtime.bundle.trust_store import open_trust
from edgeveil.edge_runtime.device import CPU
from edgeveil.edge_runtime.errors import (
    SPENT,
    BadInput,
    DeviceFailed,
    EdgeVeilError,
    FrameDropped,
    LimitNotMet,
    PrivacyStop,
    describe,
)
from edgeveil.edge_runtime.frames import PerturbedFrame, RawFrame
from edgeveil.edge_runtime.manifest.capture import pipeline_sha256
from edgeveil.edge_runtime.manifest.manifest import Manifest, expected
from edgeveil.edge_runtime.pipeline.batch import perturb_all
from edgeveil.edge_runtime.pipeline.crops import Capture
from edgeveil.edge_runtime.pipeline.perturber import Perturber
from edgeveil.edge_runtime.sources.base import Source
from edgeveil.edge_runtime.util import strict_json
from edgeveil.edge_runtime.util.atomic import write_atomic
from edgeveil.trainer.child_processes import Job, Run, processes, ray_tasks
from edgeveil.trainer.ext.publish.plan import Plan
from edgeveil.trainer.ext.publish.published import Output
from edgeveil.trainer.ext.publish.recordings import open_frames
from edgeveil.trainer.progress import progress

FRAMES = "frames.npy"  # of the work folder: the frame of each row (rows,) in rising order, -1: not paid for
BATCH_BYTES, BATCH_LEAST = 1 << 16, 16  # of input, that stays in the processor's cache; and frames
TRIES = 3  # of a job whose worker dies
_BY_CODE = {one.exit_code: one for one in (BadInput, LimitNotMet, DeviceFailed, PrivacyStop)}
Engine = Literal["local", "ray"]
FIRST = 8  # frames of which one must fit
ROW = "edgeveil row"  # no output is called so


@dataclass(frozen=True)
class Wanted:
    """``recordings`` is a folder of pictures, npz:FILE or FILE.parquet; ``key`` the file of the master key;
    ``chunk_rows`` the frames of a chunk and the rows of a part, None for about 16 MiB of outputs."""

    bundle: Path
    trust: Path
    recordings: str
    table: Path
    plan: Plan
    key: Path
    recipient: str
    out: Path
    engine: Engine = "local"
    jobs: int = 1
    ledger: Path | None = None
    chunk_rows: int | None = None
    again: bool = False
    unaudited: bool = False


@dataclass(frozen=True)
class Opened:
    """A verified bundle, and its perturber after the golden self-test."""

    bundle: Bundle
    perturber: Perturber

    @classmethod
    def of(cls, path: Path, trust: Path, *, artefact: str = "auto") -> Opened:
        """Raises as ``Perturber.open``, and ``BadInput`` for a bundle that does not take each frame by itself."""
        trusted, data = open_trust(trust), read_file(str(path))
        bundle = read_bundle(data, trusted)
        _require_single_frames(bundle.manifest)
        return cls(bundle, Perturber.open(data, trust=trusted, artefact=artefact))

    @property
    def manifest(self) -> Manifest:
        """As it was signed."""
        return self.bundle.manifest

    @property
    def outputs(self) -> list[Output]:
        """The outputs of a frame, in the manifest's order."""
        return [Output(one.name, tuple(one.shape), str(np.dtype(one.dtype))) for one in self.manifest.outputs]

    @property
    def records(self) -> np.dtype[Any]:
        """A record of a chunk."""
        return np.dtype([(ROW, np.int64), *((one.column, one.dtype, one.shape) for one in self.outputs)])

    def facts(self) -> dict[str, Any]:
        """What a publication says of it."""
        card = self.manifest.privacy.card
        return {
            "sha256": self.bundle.manifest_sha256,
            "card_sha256": None if card is None else hashlib.sha256(self.bundle.members[card]).hexdigest(),
            "artefact": self.perturber.artefact,
            "audited": bool(self.perturber.info["audited"]),
            "verdict": self._verdict(),
        }

    def pipeline_hash(self) -> str:
        """Of all that x' depends on, as the privacy card has it."""
        tables = {
            name: hashlib.sha256(self.bundle.members[table.file]).hexdigest()
            for name, table in self.manifest.tables.items()
        }
        return pipeline_sha256(self.manifest.document, self.perturber.artefact, tables)

    def require_audit(self, *, unaudited: bool) -> None:
        """Raise ``BadInput`` for a bundle that no one measured, unless that is to be said on the card."""
        if not self.perturber.info["audited"] and not unaudited:
            raise BadInput(
                "This bundle was not audited: what its frames give away is not known. Audit and seal it again, or "
                "add --accept unaudited, which the publication then states."
            )

    def require_fit(self, uri: str) -> None:
        """Raise ``BadInput`` where none of the first frames can be perturbed."""
        with _Machine(self, uri) as machine:
            frames, dropped = machine.perturbed(range(min(FIRST, machine.source.size or FIRST)))
        if not frames:
            wanted = expected(self.manifest.input, self.manifest.capture)
            raise BadInput(
                f"The first frames cannot be perturbed ({', '.join(dropped) or 'there are none'}): this bundle takes "
                f"{wanted['dtype']} {tuple(wanted['shape'])}. Take the bundle that was made for these recordings."
            )

    def _verdict(self) -> str | None:
        file = self.manifest.privacy.file
        if file is None:
            return None
        audits = audits_of(strict_json.loads(self.bundle.members[file]), self.perturber.artefact, CPU, current_place())
        return (audits[0].get("verdict") or {}).get("word") if audits else None


def _require_single_frames(manifest: Manifest) -> None:
    capture = manifest.capture
    if manifest.stream is not None and manifest.stream.hold != "frame":
        raise BadInput(
            "This bundle holds what it sends over the frames of a person or a time, and a publication works each frame "
            'by itself. Take a bundle whose recipe says hold = "none" or "frame".'
        )
    if capture is not None and capture.crop:
        raise BadInput(
            "This bundle cuts people out of each picture, and a row of the table has one frame. Save the cuts as "
            "recordings, and take a bundle whose input they are: its recipe has no [capture.crop]."
        )


def perturbed(
    wanted: Wanted, opened: Opened, work: Path, uri: str, *, rows: int, chunk_rows: int, most_dropped: int
) -> list[Path]:
    """Perturb the frames of ``FRAMES``, and return the files of all chunks, in order; those that are there are kept.

    Raises ``LimitNotMet`` where more than ``most_dropped`` frames were dropped, what a job raised, and ``DeviceFailed``
    where workers die again and again.
    """
    chunks = -(-rows // chunk_rows)
    files = {int(path.name[6:11]): path for path in sorted(work.glob("chunk-*.npy")) if _digest(path) in path.name}
    fixed = {
        "work": str(work.resolve()),
        "bundle": str(wanted.bundle.resolve()),
        "sealed": opened.bundle.manifest_sha256,
        "trust": str(wanted.trust.resolve()),
        "artefact": opened.perturber.artefact,
        "uri": uri,
        "chunk_rows": chunk_rows,
    }
    function, missing = f"{__name__}:work_chunk", [number for number in range(chunks) if number not in files]
    waiting = [Job(f"chunk {number}", function, {**fixed, "number": number}) for number in missing]
    dropped: Counter[str] = Counter()
    present = sum(len(np.load(path, mmap_mode="r")) for path in files.values())
    lost = rows - present - sum(min(chunk_rows, rows - number * chunk_rows) for number in missing)
    with engine_of(wanted.engine, wanted.jobs) as run:
        for answer in _answers(run, waiting, done=len(files)):
            files[answer["number"]] = work / answer["file"]
            dropped.update(answer["dropped"])
            if lost + dropped.total() > most_dropped:
                break
    lost += dropped.total()
    if lost > most_dropped:
        reasons = ", ".join(f"{count} {reason}" for reason, count in sorted(dropped.items()))
        raise LimitNotMet(
            f"{lost} frames of {rows} were dropped ({reasons or 'as before'}), and the plan's most_dropped allows "
            f"{most_dropped}: nothing was published. Mend the frames, or allow more."
        )
    return [files[number] for number in range(chunks)]


def engine_of(engine: Engine, at_once: int) -> AbstractContextManager[Run]:
    """What runs the jobs: processes of this machine, or the cluster at RAY_ADDRESS, which must share the folders."""
    return processes(at_once) if engine == "local" else ray_tasks(at_once, instead="EDGEVEIL_JOBS=N")


def _answers(run: Run, jobs: Sequence[Job], *, done: int) -> Iterator[dict[str, Any]]:
    """The answer of each job; one whose worker dies is run again. Raises what a job raised."""
    waiting = list(jobs)
    with progress("chunks", total=len(jobs) + done, done=done) as advance:
        for _ in range(TRIES):
            died = []
            for job, answer in run(waiting):
                if "crashed" in answer:
                    died.append(job)
                    continue
                if "failed" in answer:
                    code, text = answer["failed"]
                    raise _BY_CODE.get(code, DeviceFailed)(text)
                advance()
                yield answer
            waiting = died
            if not waiting:
                return
    raise DeviceFailed(
        f"{len(waiting)} of {len(jobs)} chunks were not made: their workers died {TRIES} times. Run the same command "
        "again, with a lower EDGEVEIL_JOBS if memory was short."
    )


def _returns_errors(work: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    """Returns errors instead of raising; unexpected ones are reduced to their place in the code."""

    @functools.wraps(work)
    def answer(**arguments: Any) -> dict[str, Any]:
        try:
            return work(**arguments)
        except EdgeVeilError as error:
            return {"failed": [error.exit_code, str(error)]}
        except Exception as error:  # its text could hold a value of a row
            return {"failed": [DeviceFailed.exit_code, f"A worker failed: {describe(error)}. Report it."]}

    return answer


@_returns_errors
def work_chunk(
    *, work: str, bundle: str, sealed: str, trust: str, artefact: str, uri: str, chunk_rows: int, number: int
) -> dict[str, Any]:
    """Make one chunk: its ``number`` and ``file``, and how many frames were ``dropped``, by reason.

    ``sealed`` is the SHA-256 of the bundle's manifest, which may not change in the meantime.
    """
    machine = _machine(Path(bundle), sealed, Path(trust), artefact, uri)
    begin = number * chunk_rows
    wanted = np.load(Path(work) / FRAMES, mmap_mode="r")[begin : begin + chunk_rows].tolist()
    frames, dropped = machine.perturbed([frame for frame in wanted if frame >= 0])
    row_of = {frame: begin + place for place, frame in enumerate(wanted)}
    chunk = np.empty(len(frames), machine.opened.records)
    chunk[ROW] = [row_of[one.index] for one in frames]
    for output in machine.opened.outputs if frames else ():
        chunk[output.column] = np.stack([one.outputs[output.column] for one in frames])
    data = io.BytesIO()
    np.save(data, chunk)
    path = Path(work) / f"chunk-{number:05d}-{hashlib.sha256(data.getvalue()).hexdigest()}.npy"
    write_atomic(path, data.getvalue())
    lost = Counter(dropped) + Counter({SPENT: sum(frame < 0 for frame in wanted)})
    return {"number": number, "file": path.name, "dropped": dict(lost)}


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


class _Machine(Source):
    """A bundle and its source, opened once by a process: a source of the frames that are asked for, together where
    nothing of them is converted before the pipeline."""

    def __init__(self, opened: Opened, uri: str) -> None:
        spec = opened.manifest.input
        self.opened, self.source, self._uri, self._at = opened, open_frames(uri, opened.manifest), uri, 0
        self.blocks = opened.manifest.capture is None
        self._most = max(BATCH_LEAST, BATCH_BYTES // (math.prod(spec.shape) * np.dtype(spec.dtype).itemsize))
        self._numbers: deque[int] = deque()
        self._refused: list[tuple[int, str]] = []

    def perturbed(self, numbers: Sequence[int]) -> tuple[list[PerturbedFrame], dict[str, int]]:
        """The frames of these ``numbers``, which rise, and why others were dropped."""
        frames: list[PerturbedFrame] = []
        self._numbers = deque(numbers)
        capture = None if self.blocks else Capture(self.opened.manifest)
        summary = perturb_all(self, self.opened.perturber, frames.append, capture=capture, emit_set=frames.extend)
        return frames, summary.dropped

    def next(self) -> RawFrame | None:
        """The next frame, None after the last. Raises ``FrameDropped``."""
        if not self._numbers:
            return None
        number = self._numbers.popleft()
        if number < self._at:
            self.source.close()
            self.source, self._at = open_frames(self._uri, self.opened.manifest), 0
        if number > self._at:
            self.source.skip(number - self._at)
        self._at = number + 1
        frame = self.source.next()
        if frame is None:
            raise FrameDropped("missing")
        return frame

    def next_block(self) -> list[RawFrame] | None:
        """The next frames that can be read; None after the last."""
        block: list[RawFrame] | None = [] if self._numbers else None
        while block is not None and self._numbers and len(block) < self._most:
            number = self._numbers[0]
            try:
                block += [frame for frame in (self.next(),) if frame is not None]
            except FrameDropped as drop:
                self._refused.append((number, drop.reason))
        return block

    def refused(self) -> list[tuple[int, str]]:
        """The frames since the last call that could not be read, and why."""
        refused, self._refused = self._refused, []
        return refused

    def close(self) -> None:
        """Close the source."""
        self.source.close()


_opened: dict[tuple[str, ...], _Machine] = {}


def _machine(bundle: Path, sealed: str, trust: Path, artefact: str, uri: str) -> _Machine:
    key = (str(bundle), sealed, str(trust), artefact, uri)
    if key not in _opened:
        pipeline = Opened.of(bundle, trust, artefact=artefact)
        if pipeline.bundle.manifest_sha256 != sealed:
            raise BadInput("The bundle is another one than at the start. Put the former back.")
        _opened[key] = _Machine(pipeline, uri)
    return _opened[key]
