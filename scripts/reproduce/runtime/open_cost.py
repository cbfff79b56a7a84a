"""What opening a bundle costs with this version and with another one: whole cold starts, side by side, in turns.

A cold start is a process of its own: the interpreter's start, imports of compiled files, as on a board after its first
start, verifying, the self-test, and one frame. Of both
versions it records the median of the turns, and the median of their ratios. Exit code 3 where a ratio is above 1.15.
Records docs/results/bench/open-cost.json.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from edgeveil.edge_runtime import machine
from scripts.reproduce import record

RESULT = Path("docs/results/bench/open-cost.json")
LIMIT = 1.15
CODE = """
import sys, time
from edgeveil.edge_runtime.bench.protocol import synthetic_frames
from edgeveil.edge_runtime.pipeline.perturber import Perturber
began = time.perf_counter()
with Perturber.open(sys.argv[1], trust=sys.argv[2]) as opened:
    took = time.perf_counter() - began
    opened.perturb(synthetic_frames(opened.manifest.input, 1)[0])
    print(took * 1e3, opened.manifest.name, opened.artefact)
"""


def cold_start(packages: str, bundle: Path, trust: Path, compiled: str) -> tuple[float, float, str]:
    """Milliseconds of the whole process and of opening, and what ran."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment |= {"PYTHONPATH": packages, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    environment["PYTHONPYCACHEPREFIX"] = compiled
    began = time.perf_counter()
    command = [sys.executable, "-c", CODE, str(bundle), str(trust)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    opening, _, what = done.stdout.strip().partition(" ")
    return (time.perf_counter() - began) * 1e3, float(opening), what


def row(pair: str, versions: list[str], turns: int, compiled: str) -> dict[str, Any]:
    """One bundle, ``BUNDLE:TRUST``, with both versions in turns."""
    bundle, _, trust = pair.partition(":")
    for packages in versions:
        cold_start(packages, Path(bundle), Path(trust), compiled)  # compiles what is not compiled yet
    taken = [[cold_start(one, Path(bundle), Path(trust), compiled) for one in versions] for _ in range(turns)]
    found: dict[str, Any] = {"bundle": taken[0][0][2], "turns": turns}
    for place, name in enumerate(("start_ms", "open_ms")):
        before, now = ([float(turn[version][place]) for turn in taken] for version in (0, 1))
        ratio = statistics.median(b / a for a, b in zip(before, now, strict=True))
        found[name] = {"before": round(statistics.median(before), 1), "now": round(statistics.median(now), 1)}
        found[name]["ratio"] = round(ratio, 3)
    print(json.dumps(found), file=sys.stderr)
    return found


def main() -> int:
    """Measure and record."""
    script = record.Script(__file__, __doc__, "--before ../older/.venv/src a.veil:trust b.veil:trust", out=RESULT)
    script.add_argument("bundles", nargs="+", type=Path, help="BUNDLE:TRUST")
    script.add_argument("--before", type=Path, required=True, help="the folder of another version's package")
    script.add_argument("--turns", type=int, default=15)
    options = script.parse_args()
    versions = [str(options.before.resolve()), os.environ.get("PYTHONPATH") or ".venv/src"]
    with tempfile.TemporaryDirectory() as compiled:
        rows = [row(str(pair), versions, options.turns, compiled) for pair in options.bundles]
    document = {"kind": "open-cost", "what": __doc__.splitlines()[0], "limit": LIMIT, "rows": rows}
    document |= {"load": machine.load(), "machine": machine.facts()}
    record.write(options.out, script.made_by(options), document)
    return 3 if any(row["start_ms"]["ratio"] > LIMIT for row in rows) else 0


if __name__ == "__main__":
    record.run(main)
