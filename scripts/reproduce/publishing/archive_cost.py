"""What publishing an archive costs beyond the interpreter: time, memory, and what a second process brings.

Time of a 28 x 28 frame: passes 2 and 3 and the reader, for MNIST's digits beside the made-up visitors' table (100,000
rows) and a bundle without an interpreter, in processor time of this process, less the opening of the bundle. Beside the
bare interpreter: networks of 28 x 28 and 180 x 180 pictures, UNTRAINED (time does not depend on it), one frame at a
time as they were exported, in turns. Two processes beside one: the 180 x 180 pictures, by float32. Memory of a worker
at the rows and at four times as many; time and memory of pass 1 at ten times as many, in a process of its own. Begins
once the machine is quiet. Records docs/results/publishing/cost.json. About ten minutes. Ends with 3 where a limit is
not met.
"""

from __future__ import annotations

import os

# Before numpy loads its BLAS.
os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = "1"

import contextlib
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from edgeveil.edge_runtime.machine import peak_rss_bytes
from edgeveil.edge_runtime.manifest.manifest import parse
from edgeveil.edge_runtime.pipeline.pipeline import Pipeline
from edgeveil.trainer.engines.child_processes import processes
from edgeveil.trainer.engines.job import Job
from edgeveil.trainer.publish.archive import frames, publishing
from scripts.reproduce import record
from scripts.reproduce.publishing import whole_archive
from scripts.reproduce.runtime import capture_loop
from tests.support import bundles
from tests.support.publishing import archives

RESULT = Path("docs/results/publishing/cost.json")
HERE = "scripts.reproduce.publishing.archive_cost"
MOST_US, LEAST_RATIO, LEAST_SPEEDUP = 25.0, 0.8, 1.7
MOST_BYTES, MOST_GROWTH, MOST_FIRST_S, MOST_FIRST_BYTES = 700e6, 1.1, 60.0, 1.5e9
TURNS, BARE_S = 3, 2.0
PEOPLE = {"28 x 28": 6000, "180 x 180": 3000}  # who come 1.75 times on average
ROWS, FEWEST = 100_000, 150
CLAIM = "180 x 180"


def main() -> int:
    """Measure, and write the record."""
    script = record.Script(__file__, __doc__, "--rows 2000 --out trial.json", out=RESULT, timing=True)
    script.add_argument("--rows", type=int, default=ROWS, help=f"visits (default: {ROWS})")
    script.add_argument("--first-pass", type=Path, metavar="DIR", help="pass 1 of an archive, in its own process")
    asked = script.parse_args()
    if asked.first_pass:
        print(json.dumps(_first_pass(asked.first_pass)))
        return 0
    watch = record.watch(asked)
    with tempfile.TemporaryDirectory() as folder:
        document: dict[str, Any] = {**record.here(), "rows": asked.rows, **_measured(Path(folder), asked.rows)}
    document |= record.verdict(watch.use())
    document["checks"] = _checks(document)
    record.write(asked.out, script.made_by(asked), document)
    for name, held in document["checks"].items():
        if not held:
            print(f"not held: {name}")
    return 0 if all(document["checks"].values()) else 3


def _measured(folder: Path, rows: int) -> dict[str, Any]:
    digits = whole_archive.archive_of(folder / "digits", rows, rows // whole_archive.CHUNKS)
    more = whole_archive.archive_of(folder / "more", 4 * rows, rows // whole_archive.CHUNKS)
    visits = whole_archive.archive_of(folder / "visits", 10 * rows, 8192, frames=np.zeros((10 * rows, 4), np.uint8))
    networks = [_beside_interpreter(folder, size, kind, rows) for size in PEOPLE for kind in capture_loop.PRECISIONS]
    return {
        "us_a_frame": [_us_a_frame(digits, f"cost-{turn}") for turn in range(TURNS)],
        "networks": networks,
        "two_processes": _two_processes(folder / f"{CLAIM} float32"),
        "memory_bytes": [_peak(digits), _peak(more)],
        "first_pass": {"rows": 10 * rows, **_in_a_process(visits.folder)},
    }


def _checks(document: dict[str, Any]) -> dict[str, bool]:
    claimed = [row["ratio"] for row in document["networks"] if row["input"] == CLAIM]
    first, (one, four) = document["first_pass"], document["memory_bytes"]
    return {
        "cost of a frame": statistics.median(document["us_a_frame"]) <= MOST_US,
        "share of the bare interpreter": min(claimed) >= LEAST_RATIO,
        "two processes": document["two_processes"]["speedup"] >= LEAST_SPEEDUP,
        "memory": max(one, four) <= MOST_BYTES,
        "memory does not grow": four <= MOST_GROWTH * one,
        "time of pass 1": first["s"] <= MOST_FIRST_S,
        "memory of pass 1": first["bytes"] <= MOST_FIRST_BYTES,
    }


@contextlib.contextmanager
def _timed(clock: Callable[[], float], *, opened: bool = True) -> Iterator[list[float]]:
    """Seconds of each run of passes 2 and 3; with ``opened`` a worker here has opened the bundle before."""
    spent: list[float] = []
    perturbed, made = publishing._Publishing._perturbed, publishing._Publishing._made

    def frames_timed(one: Any, rows: int) -> Any:
        if opened:
            of = one._opened.bundle.manifest_sha256, one._wanted.trust.resolve(), one._opened.perturber.artefact
            frames._machine(one._wanted.bundle.resolve(), *of, one._uri)
        begun = clock()
        chunks = perturbed(one, rows)
        spent.append(clock() - begun)
        return chunks

    def parts_timed(one: Any, *arguments: Any) -> Any:
        begun = clock()
        document = made(one, *arguments)
        spent[-1] += clock() - begun
        return document

    replaced = {"_perturbed": frames_timed, "_made": parts_timed}
    with mock.patch.multiple(publishing._Publishing, **replaced):
        yield spent


def _us_a_frame(archive: archives.Archive, out: str) -> float:
    frames._opened.clear()
    with mock.patch.object(frames, "engine_of", archives.here), _timed(time.process_time) as spent:
        document = archive.published(out)
    return round(1e6 * spent[0] / document["rows"], 2)


def _beside_interpreter(folder: Path, size: str, kind: str, rows: int) -> dict[str, Any]:
    """Seconds of a frame by the bare interpreter, and published, in turns."""
    (folder / f"{size} {kind}").mkdir()
    people = max(FEWEST, PEOPLE[size] * rows // ROWS)
    archive = archives.make(folder / f"{size} {kind}", bundle=_network(size, kind), people=people)
    archive.chunk_rows = 512
    pairs = []
    for turn in range(TURNS):
        frames._opened.clear()
        with mock.patch.object(frames, "engine_of", archives.here), _timed(time.perf_counter) as spent:
            document = archive.published(f"turn-{turn}")
        (machine,) = frames._opened.values()
        rate, _ = capture_loop.bare_rate(machine.opened.perturber, BARE_S)
        pairs.append((1 / rate, spent[0] / document["rows"]))
    bare, published = (statistics.median(one) for one in zip(*pairs, strict=True))
    return {
        "input": size,
        "artefact": f"tflite-{kind}",
        "frames": document["rows"],
        "bare_us": round(1e6 * bare, 1),
        "published_us": round(1e6 * published, 1),
        "ratio": round(statistics.median(one / other for one, other in pairs), 3),
        "ratios": [round(one / other, 3) for one, other in pairs],
    }


def _network(size: str, kind: str) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Manifest and members of an untrained network, its golden vectors made here."""
    document, data = capture_loop.untrained(*capture_loop.networks()[size], kind)
    ((artefact, entry),) = document["models"]["generator"]["artefacts"].items()
    x = np.random.default_rng(2).integers(0, 256, (2, *document["input"]["shape"]), np.uint8)
    backend = capture_loop.perturber(document, data).pipeline.runners["generator"]
    frame = Pipeline(parse(document), tables={}, runners={"generator": backend}).run(x)["frame"]
    files = {"golden/input.npy": bundles.npy(x), f"golden/{artefact}.frame.npy": bundles.npy(frame)}
    head = bundles._head("network")
    manifest = {
        **head,
        **document,
        "perturber": head["perturber"],
        "preference": [artefact],
        "profiles": {"workstation": {"artefacts": [artefact], "backends": ["tflite"]}},
        "tables": {},
        "golden": {
            "input": "golden/input.npy",
            "draws": {},
            "outputs": {artefact: {"frame": f"golden/{artefact}.frame.npy"}},
        },
        "privacy": bundles.not_audited(),
    }
    return manifest, {bundles.RUNTIME_MEMBER: b"in a real bundle, the runtime", entry["file"]: data, **files}


def _two_processes(folder: Path) -> dict[str, float]:
    """Seconds of passes 2 and 3 by one process and by two."""
    archive = archives.again(folder, chunk_rows=128)
    spent = {}
    for jobs in (1, 2):
        with _timed(time.perf_counter, opened=False) as seconds:
            archive.published(f"jobs-{jobs}", jobs=jobs)
        spent[jobs] = round(seconds[0], 2)
    return {"one_s": spent[1], "two_s": spent[2], "speedup": round(spent[1] / spent[2], 3)}


def _peak(archive: archives.Archive) -> int:
    """The largest memory of a worker that makes all chunks and parts."""
    found = []

    @contextlib.contextmanager
    def watched(_engine: Any, at_once: int) -> Any:
        with processes(at_once) as run:
            yield run
            ((_, answer),) = run([Job("peak", f"{HERE}:peak", {})])
            found.append(answer["bytes"])

    with mock.patch.object(frames, "engine_of", watched):
        archive.published("peak")
    return int(found[0])


def peak() -> dict[str, int]:
    """What a worker says of itself."""
    return {"bytes": peak_rss_bytes()}


def _in_a_process(folder: Path) -> dict[str, float]:
    command = [sys.executable, "-m", HERE, "--first-pass", str(folder)]
    found: dict[str, float] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    return found


class _Done(Exception):
    """Pass 1 is done."""


def _first_pass(folder: Path) -> dict[str, float]:
    """Seconds and memory of everything that comes before the first frame, the start of Python too."""

    def stop(*_: Any, **__: Any) -> None:
        raise _Done

    with mock.patch.object(publishing._Publishing, "_perturbed", stop), contextlib.suppress(_Done):
        archives.again(folder, chunk_rows=8192).published()
    return {"s": round(time.process_time(), 1), "bytes": peak_rss_bytes()}


if __name__ == "__main__":
    record.run(main)
