"""The leak search through Ray too: its session folder, its logs, and an object store that spills whatever it holds.

Publishes about 2,000 rows by ``edgeveil publish archive --engine ray``, each time in a process of its own, with a store
that spills every object to a disk; what is spilled is kept, for Ray deletes it with its object. Then names, frames, the
vault's bytes, the key and the archive's paths are looked for in outputs, work folder, what was said, session folder and
spilled files. Nothing may be found, nor where a frame ends in an error; with one guard taken away, what it guards.
Where the jobs themselves are made to spill, their paths alone. Records docs/results/publishing/leaks.json. About five
minutes; what was broken off is gone on with. Ends with 3 where something is not held.
"""

from __future__ import annotations

import contextlib
import functools
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np

from edgeveil.edge_runtime.errors import DeviceFailed
from edgeveil.trainer.cli import main as command_line
from edgeveil.trainer.publish.archive import publishing
from scripts.reproduce import record
from tests.support.publishing import archives
from tests.support.publishing.leak_cases import AS_IT_IS, CASES, JOBS, REFUSED, ROWS
from tests.support.publishing.leak_search import LeakSearch, pieces_of

RESULT = Path("docs/results/publishing/leaks.json")
HERE = "scripts.reproduce.publishing.ray_leaks"
PEOPLE, CHUNK_ROWS, STARTS = 1_150, 256, 3
STORE_BYTES, FILLING_BYTES = 80 << 20, 1 << 18  # the least store that Ray takes; what it holds in any case
SPILLED = "session_2*/ray_spilled_objects*/*"


def main() -> int:
    """Search every case, and write the record."""
    script = record.Script(__file__, __doc__, "--out trial.json", out=RESULT)
    kept = "folder of the cases that were searched already (default: runs/ray-leaks)"
    script.add_argument("--work", type=Path, default=Path("runs/ray-leaks"), help=kept)
    asked = script.parse_args()
    rows = []
    for number, name in enumerate(CASES):
        rows.append(record.kept(asked.work / f"{number}.json", functools.partial(searched, name)))
        print(rows[-1], file=sys.stderr)
    document = {**record.here(), "cases": rows, "checks": checks(rows)}
    record.write(asked.out, script.made_by(asked), document)
    for name, held in document["checks"].items():
        if not held:
            print(f"not held: {name}")
    return 0 if all(document["checks"].values()) else 3


def checks(rows: list[dict[str, Any]]) -> dict[str, bool]:
    """What must be so of all cases."""
    of = {row["case"]: row for row in rows}
    guards = [(row, CASES[row["case"]].found) for row in rows]
    return {
        "it is published as it is": of[AS_IT_IS]["parts"] > 0,
        "nothing is found as it is": not any(row["found"] for row, found in guards if found is None),
        "each guard counts": all(found in row["found"] for row, found in guards if found),
        "jobs tell paths alone": of[JOBS]["found"] == ["path"] and of[JOBS]["parts"] > 0,
        "every store spilled": all(row["spilled_files"] > 0 for row in rows if row["case"] != REFUSED),
        "rows in jobs are in spilled files": "frame" in of[ROWS]["found_in_spilled_files"],
    }


def searched(name: str) -> dict[str, Any]:
    """What is found after the publication of a case, and where. Raises ``DeviceFailed`` where Ray does not start."""
    case = CASES[name]
    for _ in range(STARTS):
        with tempfile.TemporaryDirectory(prefix="leaks-") as folder:
            session, kept, home = (Path(folder) / one for one in ("ray", "kept", "archive"))
            kept.mkdir()
            home.mkdir()
            archive = archives.make(home, people=PEOPLE)
            archive.chunk_rows = CHUNK_ROWS
            if case.remarks:
                archives.name_in_remarks(archive)
            said = _published(name, archive, session, kept)
            if b"Ray did not start" not in said:
                return {"case": name, **_found(archive, said, session, kept)}
    raise DeviceFailed(f"Ray did not start in its 30 s, {STARTS} times: the machine is busy. Run it again later.")


def _found(archive: archives.Archive, said: bytes, session: Path, kept: Path) -> dict[str, Any]:
    search = LeakSearch(archive)
    spilled = search.kinds(pieces_of(kept))
    found = search.kinds([said, *pieces_of(archive["out"]), *pieces_of(session)]) | spilled | search.order("out")
    return {
        "found": sorted(found),
        "found_in_spilled_files": sorted(spilled),
        "spilled_files": len(list(kept.iterdir())),
        "session_files": sum(path.is_file() for path in session.rglob("*")),
        "parts": len(archive.parts()),
    }


def _published(name: str, archive: archives.Archive, session: Path, kept: Path) -> bytes:
    """Publish in a process whose command line is that of the command; returns what it said."""
    code = f"from {HERE} import publish; publish({name!r}, {str(session)!r})"
    words = archive.command("out", "--engine", "ray", "--jobs", 2, "--json")  # without, it says where it is
    paths = os.pathsep.join([str(record.ROOT), os.environ.get("PYTHONPATH", "")])
    with tempfile.TemporaryFile() as said:
        command = [sys.executable, "-c", code, *words]
        child = subprocess.Popen(command, stdout=said, stderr=said, env={**os.environ, "PYTHONPATH": paths})
        while child.poll() is None:
            for path in session.glob(SPILLED):
                with contextlib.suppress(OSError):  # it is there already, or no more
                    os.link(path, kept / path.name)
            time.sleep(0.01)
        said.seek(0)
        return said.read()


def publish(name: str, session: str) -> None:
    """Publish one case by Ray, as the words of the command line say; its work folder stays."""
    import ray

    start, case, filling = ray.init, CASES[name], list[Any]()

    def started(**options: Any) -> Any:
        found = start(**options, _temp_dir=session, object_store_memory=STORE_BYTES, _system_config=case.store)
        while not any(Path(session).glob(SPILLED)):
            filling.append(ray.put(np.zeros(FILLING_BYTES, np.uint8)))
            time.sleep(5)  # what spills has to start first, and few zeros are quickly searched
        return found

    kept = mock.patch.object(publishing, "shutil", SimpleNamespace(rmtree=lambda _: None))  # Ray needs its own
    with mock.patch.object(ray, "init", started), kept, case.without():
        command_line.main()


if __name__ == "__main__":
    record.run(main)
