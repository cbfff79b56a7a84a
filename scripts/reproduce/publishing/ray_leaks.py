"""The leak search through Ray too: its session folder, its logs, and an object store that must spill to a disk.

Publishes a small archive by ``--engine ray`` with the smallest store that Ray takes, filled with zeros until it spills;
what is spilled is kept, for Ray deletes it with its object. Then names, frames, the vault's bytes, the key and the
archive's paths are looked for in outputs, work folder, what was said, session folder and spilled files. As it is
nothing may be found, nor where a frame ends in an error; with one guard taken away, what it guards. Every publication
runs in a process of its own. Records docs/results/publishing/leaks.json. About three minutes. Ends with 3 where
something is not held.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np

from edgeveil.edge_runtime.errors import EdgeVeilError
from edgeveil.trainer.engines.job import Job
from edgeveil.trainer.publish import publication
from edgeveil.trainer.publish.work import finishing
from edgeveil.trainer.publish.work.passes import chunk_work, first_pass, frame_passes, outcome
from scripts.reproduce import record
from tests.support.publishing import archives
from tests.support.publishing.leak_search import LeakSearch, pieces_of

RESULT = Path("docs/results/publishing/leaks.json")
STORE_BYTES, FILLING_BYTES = 80 << 20, 30 << 20
TIMES = 1000  # each frame, in a job that is given rows: two jobs are more than the store holds
HERE = "scripts.reproduce.publishing.ray_leaks"


def main() -> int:
    """Search every case, and write the record."""
    script = record.Script(__file__, __doc__, "--out trial.json", out=RESULT)
    script.add_argument("--publish", nargs=2, metavar=("CASE", "DIR"), help="one case, in its own process")
    asked = script.parse_args()
    if asked.publish:
        _publish(asked.publish[0], Path(asked.publish[1]))
        return 0
    rows = []
    for name, (_, must) in CASES.items():
        rows.append({"case": name, "must_find": must, **_searched(name)})
        print(rows[-1], file=sys.stderr)
    document = {
        **record.here(),
        "cases": rows,
        "checks": {
            "it is published as it is": rows[0]["parts"] > 0,
            "nothing is found as it is": all(not row["found"] for row in rows if row["must_find"] is None),
            "each guard counts": all(row["must_find"] in row["found"] for row in rows if row["must_find"]),
            "every store spilled": all(row["spilled_files"] > 0 for row in rows if row["through_ray"]),
            "rows in jobs are found in spilled files": "frame" in _of(rows, ROWS)["found_in_spilled_files"],
        },
    }
    record.write(asked.out, script.made_by(asked), document)
    for name, held in document["checks"].items():
        if not held:
            print(f"not held: {name}")
    return 0 if all(document["checks"].values()) else 3


def _of(rows: list[dict[str, Any]], name: str) -> dict[str, Any]:
    return next(row for row in rows if row["case"] == name)


def _searched(name: str) -> dict[str, Any]:
    """What is found after one publication, and where."""
    with tempfile.TemporaryDirectory(prefix="leaks-") as folder:
        session, kept = Path(folder) / "ray", Path(folder) / "kept"
        kept.mkdir()
        command = [sys.executable, "-m", HERE, "--publish", name, folder]
        with (Path(folder) / "said").open("wb") as said, subprocess.Popen(command, stdout=said, stderr=said) as child:
            while child.poll() is None:
                _keep_spilled(session, kept)
                time.sleep(0.02)
        _keep_spilled(session, kept)
        archive = _archive(Path(folder))
        search = LeakSearch(archive)
        through = list(session.glob("session_2*"))
        spilled = search.kinds(pieces_of(kept))
        places = [(Path(folder) / "said").read_bytes(), *pieces_of(archive["out"]), *pieces_of(session)]
        found = search.kinds(places) | spilled | search.order("out")
        return {
            "found": sorted(found),
            "found_in_spilled_files": sorted(spilled),
            "spilled_files": len(list(kept.iterdir())),
            "through_ray": bool(through),
            "parts": len(archive.parts()),
        }


def _keep_spilled(session: Path, kept: Path) -> None:
    for path in session.glob("session_2*/ray_spilled_objects*/*"):
        with contextlib.suppress(OSError):
            os.link(path, kept / path.name)


def _archive(folder: Path) -> archives.Archive:
    """The archive of a case; the same one for the process that publishes it and the one that searches."""
    at = folder / "archive"
    if at.exists():
        return archives.again(at, archives.read_table(at / "visits.csv"))
    at.mkdir()
    return archives.make(at)


def _publish(name: str, folder: Path) -> None:
    """Publish by Ray, and leave the work folder as it is at the end."""
    import ray

    archive, start = _archive(folder), ray.init
    filling = []

    def started(**options: Any) -> Any:
        found = start(**options, _temp_dir=str(folder / "ray"), object_store_memory=STORE_BYTES)
        filling.extend(ray.put(np.zeros(FILLING_BYTES, np.uint8)) for _ in range(4))
        return found

    kept = mock.patch.object(finishing, "shutil", SimpleNamespace(rmtree=lambda _: None))  # Ray needs its own
    with mock.patch.object(ray, "init", started), kept, CASES[name][0](archive):
        try:
            archive.published(engine="ray", jobs=2)
        except EdgeVeilError as error:
            print(error)


@contextlib.contextmanager
def _without_refusal(archive: archives.Archive) -> Iterator[None]:
    archives.name_in_remarks(archive)
    with mock.patch.object(publication, "_refuse_prose"):
        yield


@contextlib.contextmanager
def _with_refusal(archive: archives.Archive) -> Iterator[None]:
    archives.name_in_remarks(archive)
    yield


def _jobs(function: Callable[..., Any], **more: Any) -> Any:
    """Chunks worked by ``function`` of this module."""

    def job(name: str, was: str, arguments: dict[str, Any]) -> Job:
        if not was.endswith(":work_chunk"):
            return Job(name, was, arguments)
        return Job(name, f"{HERE}:{function.__name__}", {**arguments, **more})

    return mock.patch.object(frame_passes, "Job", job)


def _with_rows(archive: archives.Archive) -> Any:
    frames = [frame.tobytes().hex() for frame in np.load(archive["x.npz"])["x"]]
    return _jobs(given_rows, rows="".join(frames) * TIMES)


def given_rows(*, rows: str, **arguments: Any) -> dict[str, Any]:
    """A job that carries the rows themselves."""
    assert rows  # noqa: S101
    return chunk_work.work_chunk(**arguments)


def failing(**arguments: Any) -> dict[str, Any]:
    """A chunk whose frame ends in an error that holds it."""

    def wrong(machine: Any, _wanted: Any) -> Any:
        raise RuntimeError(f"cannot use {machine.source.next()._data.tobytes()[20:40]!r}")

    with mock.patch.object(chunk_work._Machine, "perturbed", wrong):
        return chunk_work.work_chunk(**arguments)


def failing_in_words(**arguments: Any) -> dict[str, Any]:
    """The same, its text told."""
    with mock.patch.object(outcome, "describe", str):
        return failing(**arguments)


def _in_order(_: archives.Archive) -> Any:
    def numbered(_: bytes, rows: np.ndarray) -> np.ndarray:
        place = np.zeros((len(rows), 16), np.uint8)
        place[:, 14], place[:, 15] = rows // 256, rows % 256
        return place

    return mock.patch.object(first_pass.row_table, "places", numbered)


ROWS = "without paths in place of rows"
CASES: dict[str, tuple[Callable[[archives.Archive], Any], str | None]] = {
    "as it is": (contextlib.nullcontext, None),
    "a table with free text": (_with_refusal, None),
    "a frame that ends in an error": (lambda _: _jobs(failing), None),
    "without the plan's refusal of free text": (_without_refusal, "name"),
    ROWS: (_with_rows, "frame"),
    "without the shuffle": (_in_order, "order"),
    "without the place in place of an error's text": (lambda _: _jobs(failing_in_words), "frame"),
}

if __name__ == "__main__":
    record.run(main)
