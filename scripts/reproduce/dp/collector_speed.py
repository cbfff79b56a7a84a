"""How long `edgeveil collect` takes for a million reports of 11 values, as a process of its own, and how much memory.

Made-up reports of `duchi-linf`, read from .npz and from lines; one core. The time is the processor's, of the whole
process with its start: what else runs on the machine hardly changes it. The runs take turns, and the slowest of each
counts. Records docs/results/dp/collector-speed.json.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.edge_runtime.errors import LimitNotMet
from scripts.reproduce import record
from tests.support.promised import collector_bundles as reports

RECORD = Path("docs/results/dp/collector-speed.json")
PLACES, RUNS = 11, 3
MOST_S, MOST_MB = 3.0, 300.0


def collected(bundle: Any, source: str) -> dict[str, float]:
    """Seconds and megabytes of one run; raises ``LimitNotMet`` where it did not count all reports."""
    words = [sys.executable, "-m", "edgeveil.trainer.cli.main", "collect", str(bundle.path), "--trust", bundle.trust]
    alone = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        [*words, "--from", source, "--estimate", "mean", "--json"], env=alone, stdout=subprocess.PIPE
    ) as process:
        said = b"" if process.stdout is None else process.stdout.read()
        _, code, use = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(code)
    if process.returncode or json.loads(said)["reports"]["refused"]:
        raise LimitNotMet(f"All reports of {source} were to be counted; collect ended with {process.returncode}.")
    return {"processor_seconds": use.ru_utime + use.ru_stime, "megabytes": use.ru_maxrss / 1024}


def main() -> int:
    """Measure and record."""
    script = record.Script(__file__, __doc__, out=RECORD)
    script.add_argument("--reports", type=int, default=10**6, help="how many (default: a million)")
    asked = script.parse_args()
    runs: dict[str, list[dict[str, float]]] = {"npz": [], "csv": []}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        bundle = reports.made(folder, "duchi-linf", alpha=1.0, d=PLACES)
        x = np.random.default_rng(0).choice(np.array([-1, 1], np.int8), (asked.reports, PLACES))
        np.savez(folder / "reports.npz", x=x, index=np.arange(asked.reports))
        np.savetxt(folder / "reports.csv", x, "%d", delimiter=",")
        for _ in range(RUNS):
            for kind, found in runs.items():
                found.append(collected(bundle, f"{kind}:{folder / f'reports.{kind}'}"))
    worst = {kind: {key: max(run[key] for run in found) for key in found[0]} for kind, found in runs.items()}
    held = {kind: one["processor_seconds"] <= MOST_S and one["megabytes"] <= MOST_MB for kind, one in worst.items()}
    document = {
        "reports": asked.reports,
        "places": PLACES,
        "worst": worst,
        "runs": runs,
        "limits": {"processor_seconds": MOST_S, "megabytes": MOST_MB},
        "held": held,
        **record.here(),
    }
    record.write(asked.out, script.made_by(asked), document)
    print(json.dumps({"worst": worst, "held": held}, indent=1))
    return 0 if all(held.values()) else 3


if __name__ == "__main__":
    record.run(main)
