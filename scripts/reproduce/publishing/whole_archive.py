"""Recordings published whole: MNIST's digits as what the made-up visitors did, by every engine, killed and resumed.

100,000 visits of 19,878 people, each with a digit for a frame, through a bundle without an interpreter, a table of 784
means. One process, two, and Ray Core with two must make the same parts,
byte for byte; so must one that is killed (SIGKILL, the whole group) at 20, 50 and 80 % and gone on with, and one that
loses a worker alone. A bundle that draws is killed and gone on with: what was drawn stays. Records
docs/results/publishing/publish.json. About two minutes. Ends with 3 where something is not held. --rows is for a trial.
"""

from __future__ import annotations

import contextlib
import csv
import hashlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w

from edgeveil.edge_runtime.errors import DeviceFailed
from edgeveil.trainer.datasets.loaders import mnist
from edgeveil.trainer.publish import table_files
from scripts.reproduce import record
from scripts.reproduce.publishing import visitors
from tests.support import bundles
from tests.support.publishing import archives

RESULT = Path("docs/results/publishing/publish.json")
MNIST_HIGH, FEATURES, K, CHUNKS, RAY_STARTS = 255, 784, 10, 12, 3
SHARES = (0.2, 0.5, 0.8)
QUASI = ("age", "sex", "group", "door")
Parts = Mapping[str, str]


def main() -> int:
    """Run all, and write the record."""
    script = record.Script(__file__, __doc__, "--rows 2000 --out trial.json", out=RESULT)
    script.add_argument("--rows", type=int, default=visitors.ROWS, help="visits (default: all)")
    asked = script.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        same = archive_of(Path(folder) / "same", asked.rows, asked.rows // CHUNKS)
        parts = _engines(same)
        document: dict[str, Any] = {
            **record.here(),
            "rows": asked.rows,
            "parts": len(parts["local 1"]),
            "equal": {name: found == parts["local 1"] for name, found in parts.items()},
            "not_run": {},
            "drawn": _drawn(archive_of(Path(folder) / "drawn", asked.rows, asked.rows // CHUNKS, drawn=True)),
        }
        on_ray = _on_ray(same)
    if on_ray is None:
        document["not_run"]["ray 2"] = f"Ray did not start in its 30 s, {RAY_STARTS} times: the machine was busy"
    else:
        document["equal"]["ray 2"] = on_ray == parts["local 1"]
    document["checks"] = {
        "the same bytes by every engine": all(document["equal"].values()),
        "what was drawn stays": all(document["drawn"].values()),
    }
    record.write(asked.out, script.made_by(asked), document)
    for name, held in document["checks"].items():
        if not held:
            print(f"not held: {name}")
    return 0 if all(document["checks"].values()) else 3


def archive_of(
    folder: Path, rows: int, chunk_rows: int, *, drawn: bool = False, frames: np.ndarray | None = None
) -> archives.Archive:
    """The visitors' table, as often as there are rows, and digits as its recordings, or ``frames`` (rows, features)."""
    folder.mkdir()
    table = visitors.made()
    columns = {one.name: np.array(one.levels.labels[0], object)[one.codes] for one in table.columns}
    turns = -(-rows // visitors.ROWS)
    people = int(table.person.max()) + 1
    cells = {name: np.tile(values, turns)[:rows].tolist() for name, values in columns.items()}
    whose = np.concatenate([table.person + turn * people for turn in range(turns)])[:rows]
    order = np.random.default_rng(3).permutation(rows)
    cells |= {"visitor": [f"visitor {one}" for one in whose], "recording": order.astype(str).tolist()}
    with (folder / "visits.csv").open("w", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(cells)
        lines.writerows(zip(*cells.values(), strict=True))
    x = mnist.load(target="parity", sensitive="less-than-five").x.reshape(-1, FEATURES)
    x = x[np.arange(rows) % len(x)] if frames is None else frames
    np.savez(folder / "x.npz", x=x)
    example = archives.example(x.shape[1], MNIST_HIGH, drawn=drawn)
    return archives.with_keys(folder, bundles.make_bundle(folder, example=example), _plan(), chunk_rows=chunk_rows)


def _plan() -> str:
    quasi = {
        name: {"action": "quasi", "hierarchy": visitors.HIERARCHIES[name].model_dump(exclude_none=True)}
        for name in QUASI
    }
    names = {"action": "pseudonym", "mode": "vault", "normalise": ["spaces"], "epoch": 1}
    plan = {
        "anonymity": {"k": K, "people": "visitor", "link": "person", "suppress": 1000},
        "frames": {"key": "recording", "most_dropped": 0.0},
        "columns": {
            **quasi,
            "visitor": names,
            "day": {"action": "drop"},
            "hour": {"action": "target"},
            "recording": {"action": "drop"},
        },
    }
    return tomli_w.dumps(plan)


def _engines(archive: archives.Archive) -> dict[str, Parts]:
    """The parts' SHA-256 of every way to make them by processes."""
    found = {}
    for name, options in {"local 1": (), "local 2": ("--jobs", 2)}.items():
        _ended(_started(archive, name, *options))
        found[name] = _parts(archive, name)
    killed: list[str] = []
    for share in SHARES:
        _kill(_started(archive, "killed", *killed), archive, "killed", round(share * CHUNKS), group=True)
        killed = ["--resume"]
    _ended(_started(archive, "killed", "--resume"))
    found["killed at 20, 50 and 80 %"] = _parts(archive, "killed")
    child = _started(archive, "worker", "--jobs", 2)
    _kill(child, archive, "worker", CHUNKS // 2, group=False)
    _ended(child)
    found["a worker killed alone"] = _parts(archive, "worker")
    return found


def _on_ray(archive: archives.Archive) -> Parts | None:
    """The same by Ray; None where it does not start in the time that it gives itself, as on a busy machine."""
    for turn in range(RAY_STARTS):
        child = _started(archive, "ray 2", "--engine", "ray", "--jobs", 2, *(("--resume",) if turn else ()))
        if "Ray did not start" not in _ended(child, refused=True):
            return _parts(archive, "ray 2")
    return None


def _drawn(archive: archives.Archive) -> dict[str, bool]:
    """Whether each chunk was drawn once, and the tables are those of another draw."""
    _kill(_started(archive, "first", "--jobs", 2), archive, "first", CHUNKS // 2, group=True)
    before = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in _chunks(archive, "first")}
    child = _started(archive, "first", "--resume")
    seen: dict[str, str] = {}
    while child.poll() is None:
        with contextlib.suppress(OSError):
            seen |= {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in _chunks(archive, "first")}
        time.sleep(0.2)
    _ended(child)
    _ended(_started(archive, "second", "--again"))
    first, second = (_columns(archive, name) for name in ("first", "second"))
    return {
        "each chunk once": bool(before) and all(seen.get(name) == digest for name, digest in before.items()),
        "other draws": first.pop("frame") != second.pop("frame") and first.pop("label") != second.pop("label"),
        "the same table": first == second,
    }


def _started(archive: archives.Archive, out: str, *options: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "edgeveil.trainer.cli.main", *archive.command(out, *options)]
    return subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True, text=True
    )


def _ended(child: subprocess.Popen[str], *, refused: bool = False) -> str:
    """What a publication said; with ``refused`` the device may have failed."""
    _, said = child.communicate()
    if child.returncode not in ((0, DeviceFailed.exit_code) if refused else (0,)):
        raise DeviceFailed(f"A publication ended with {child.returncode}: {said[-2000:]}")
    return said


def _kill(child: subprocess.Popen[str], archive: archives.Archive, out: str, after: int, *, group: bool) -> None:
    """Kill a publication, or one of its workers, once so many chunks are there."""
    while len(_chunks(archive, out)) < after and child.poll() is None:
        time.sleep(0.005)
    if child.poll() is not None:
        raise DeviceFailed(f"A publication ended with {child.returncode} before it was killed.")
    if group:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        return
    workers = Path(f"/proc/{child.pid}/task/{child.pid}/children").read_text().split()
    with contextlib.suppress(ProcessLookupError):
        os.kill(int(workers[0]), signal.SIGKILL)


def _chunks(archive: archives.Archive, out: str) -> list[Path]:
    return sorted(archive[out].glob("work/chunk-*.parquet"))


def _parts(archive: archives.Archive, out: str) -> Parts:
    return {name: hashlib.sha256(data).hexdigest() for name, data in archive.parts(out).items()}


def _columns(archive: archives.Archive, out: str) -> dict[str, list[Any]]:
    parquet = table_files.pyarrow().parquet
    tables = [parquet.read_table(path) for path in sorted(archive[out].glob("part-*.parquet"))]
    return {name: [cell for one in tables for cell in one.column(name).to_pylist()] for name in tables[0].column_names}


if __name__ == "__main__":
    record.run(main)
