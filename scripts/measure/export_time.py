"""An export of a trained run for the demo's boards next to the same of an earlier commit: processes in turns.

Wall-clock and processor time of whole processes, as of a command, and of the export alone, as in the demo, which has
trained by then: TensorFlow is there. From compiled files; and whether both make the same artefacts. The run is trained
once, and kept in --work. Exit code 3 where the machine was busy, or an artefact differs.
"""

from __future__ import annotations

import io
import json
import os
import resource
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.edge_runtime.errors import DeviceFailed
from edgeveil.trainer.demo import PROFILES
from scripts import record
from scripts.measure.converters import WORK, trained

OUT = record.RESULTS / "export_time.json"
EXPORT = """
import json, sys, time
from pathlib import Path
from edgeveil.trainer.cli import main
from edgeveil.trainer.export.export import export
from edgeveil.trainer.tensorflow_quiet import load_tensorflow, quiet_process
quiet_process()
load_tensorflow()
begun = time.perf_counter(), time.process_time()
export(Path(sys.argv[1]), sys.argv[3:], Path(sys.argv[2]))
print(json.dumps({"wall_s": time.perf_counter() - begun[0], "processor_s": time.process_time() - begun[1]}))
"""
PARTS = ("devices", "edge_runtime", "models", "trainer")


def tree(commit: str, folder: Path, *, parts: Sequence[str] = PARTS) -> Path:
    """``parts`` (none: all) of a commit in ``folder``; the path from which its packages can be imported."""
    packed = subprocess.run(["git", "archive", commit, *parts], cwd=record.ROOT, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as file:
        file.extractall(folder, filter="data")
    package = folder / "packages" / "edgeveil"
    package.mkdir(parents=True)
    (package / "__init__.py").symlink_to(folder / "trainer" / "api" / "__init__.py")
    for part in PARTS:
        (package / part).symlink_to(folder / part)
    return package.parent


def exported(packages: Path, run: Path, out: Path) -> tuple[dict[str, float], dict[str, str]]:
    """Seconds of one export, and the SHA-256 of its artefacts. Raises ``DeviceFailed`` where it fails."""
    shutil.rmtree(out, ignore_errors=True)
    words = [sys.executable, "-c", EXPORT, str(run), str(out), *PROFILES]
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    environment = {**os.environ, "PYTHONPATH": str(packages)}
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=environment, cwd=packages)
    wall, after = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise DeviceFailed(f"the export ended with code {done.returncode}: {done.stderr[-300:]}")
    models = json.loads((out / "manifest.json").read_text())["models"].values()
    files = {name: one["sha256"] for model in models for name, one in model["artefacts"].items()}
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    alone = json.loads(done.stdout.splitlines()[-1])
    whole = {"wall_s": wall, "processor_s": processor}
    return {**whole, **{f"alone_{key}": value for key, value in alone.items()}}, files


def measured(recipe: str, before: str, turns: int, work: Path) -> dict[str, Any]:
    """Medians of both trees, and of the quotient within a turn."""
    run = trained(recipe, work).folder.resolve()
    rows: list[dict[str, dict[str, float]]] = []
    files: dict[str, dict[str, str]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        places = {"before": tree(before, folder / "tree"), "now": record.ROOT / ".venv" / "src"}
        for turn in range(-1, turns):  # the first compiles the files, and does not count
            row = {}
            for way in sorted(places, reverse=bool(turn % 2)):
                row[way], files[way] = exported(places[way], run, folder / "out")
            rows += [row] if turn >= 0 else []
            print(turn, {way: {key: round(value, 2) for key, value in one.items()} for way, one in row.items()})
    facts: dict[str, Any] = {"recipe": recipe, "boards": PROFILES, "before": before, "turns": turns}
    for key in rows[0]["now"]:
        pairs = np.array([[row[way][key] for way in ("before", "now")] for row in rows])
        facts[key] = {"before": np.median(pairs[:, 0]), "now": np.median(pairs[:, 1])}
        facts[key]["quotient"] = np.median(pairs[:, 1] / pairs[:, 0])
    return {**facts, "same_artefacts": files["before"] == files["now"]}


def main() -> int:
    """Measure and record."""
    script = record.Script(__file__, __doc__, "--before 17a34944", out=OUT, timing=True)
    script.add_argument("--before", default="17a34944", help="the commit to compare with")
    script.add_argument("--recipe", default="digits-codebook", help="whose run is exported")
    script.add_argument("--turns", type=int, default=7)
    script.add_argument("--work", type=Path, default=WORK, help="folder of the run")
    options = script.parse_args()
    watch = record.watch(options)
    facts = measured(options.recipe, options.before, options.turns, options.work)
    judged = record.verdict(watch.use())
    record.write(options.out, script.made_by(options), {**judged, **facts, **record.here()})
    print(judged["verdict"], *judged["reasons"])
    return 3 if judged["reasons"] or not facts["same_artefacts"] else 0


if __name__ == "__main__":
    record.run(main)
