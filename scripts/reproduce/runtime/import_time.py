#!/usr/bin/env python3
"""Time `import edge_runtime` against `import numpy`: fresh processes, in turns, the least of each counts.

    .venv/bin/python scripts/bench_import.py                                   print the document
    .venv/bin/python scripts/bench_import.py --out docs/results/import_time.json   and write it there

Ends with 3 where the ratio is not below 1.2. Both are read from compiled files, as on a board after the first start.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT))

from edgeveil.edge_runtime import machine  # noqa: E402
from edgeveil.edge_runtime.storage.atomic import write_atomic  # noqa: E402

LIMIT = 1.2
ROUNDS = 25


def seconds(module: str) -> float:
    """What one import takes in a process of its own, interpreter start not included."""
    code = f"import time; t = time.perf_counter(); import {module}; print(time.perf_counter() - t)"
    return float(subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, check=True).stdout)


def measure(rounds: int = ROUNDS) -> dict[str, object]:
    """The document: least times in milliseconds and their ratio."""
    times: dict[str, list[float]] = {"numpy": [], "edgeveil.edge_runtime.api": []}
    seconds("edgeveil.edge_runtime.api")  # compiles what is not compiled yet
    for _ in range(rounds):
        for module, taken in times.items():
            taken.append(seconds(module))
    least = {module: min(taken) for module, taken in times.items()}
    return {
        "what": "import edgeveil.edge_runtime.api against import numpy: fresh processes in turns, least of each",
        "rounds": rounds,
        "numpy_ms": round(least["numpy"] * 1e3, 2),
        "edge_runtime_ms": round(least["edgeveil.edge_runtime.api"] * 1e3, 2),
        "ratio": round(least["edgeveil.edge_runtime.api"] / least["numpy"], 3),
        "limit": LIMIT,
        "machine": machine.facts(),
    }


def main() -> int:
    """Measure, print and, with ``--out``, record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="JSON file to write")
    out = parser.parse_args().out
    document = measure()
    text = json.dumps(document, indent=1) + "\n"
    print(text, end="")
    if out:
        write_atomic(out, text.encode())
    return 0 if float(str(document["ratio"])) < LIMIT else 3


if __name__ == "__main__":
    sys.exit(main())
