"""How long a quick audit takes with this tree and with an earlier commit's, in turns on the same exports.

Each audit is a process of its own with an empty cache: data, classifiers, every attack, probes, label-only. Both draw
what is sent from the same bytes. What they answer stands next to the times: how many attacks learned, and the one that
reads z most. ``--documents`` keeps the audits, which scripts/audit_rows.py compares. Exit code 3 where the machine was
busy, or an audit of this tree takes longer than ``MOST_S``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.edge_runtime.errors import DeviceFailed
from scripts import record
from scripts.audit_rows import fields
from scripts.measure.export_time import tree

OUT = record.RESULTS / "bench" / "audit-time.json"
MOST_S = {"mnist-codebook": 60, "mnist-prgan": 120, "digits-codebook": 20}  # on two cores
AUDIT = """
import hashlib, inspect, json, os, resource, sys, time
from pathlib import Path
entropy, drawn = os.urandom, []
def draw(count):  # of the modules that draw what is sent: both trees audit the same outputs
    name = sys._getframe(1).f_globals["__name__"].rpartition(".")[2]
    if name not in ("draw", "lots", "random_draws"):
        return entropy(count)
    drawn.append(count)
    return hashlib.shake_256(b"%d" % len(drawn)).digest(count)
os.urandom = draw
begun = time.monotonic()
from edgeveil.trainer.audit.audit import audit
from edgeveil.trainer.tensorflow_quiet import quiet_process
quiet_process()
cores = len(os.sched_getaffinity(0))  # of processes, as the command has them
jobs = {"jobs": cores} if "jobs" in inspect.signature(audit).parameters else {}
document = audit(Path(sys.argv[1]), cache=Path(sys.argv[2]), **jobs)
used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
times = {"wall_s": time.monotonic() - begun, "processor_s": sum(one.ru_utime + one.ru_stime for one in used)}
Path(sys.argv[3]).write_text(json.dumps({"times": times, "document": document}, default=str))
"""


def audited(packages: Path, export: Path) -> tuple[dict[str, float], dict[str, Any]]:
    """Seconds of one quick audit with seed 0, and its document. Raises ``DeviceFailed`` where it fails."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "audit.json")
        words = [sys.executable, "-c", AUDIT, str(export), str(Path(folder, "cache")), str(out)]
        environment = {**os.environ, "PYTHONPATH": str(packages)}
        done = subprocess.run(words, capture_output=True, text=True, check=False, env=environment, cwd=packages)
        if done.returncode:
            raise DeviceFailed(f"the audit ended with code {done.returncode}: {done.stderr[-500:]}")
        made = json.loads(out.read_text())
    return made["times"], made["document"]


def answer(document: Mapping[str, Any]) -> dict[str, Any]:
    """What an audit of either schema found: its attacks, and the one that reads z most."""
    schema_1 = document if "adversaries" in document else fields(document)
    worst = {key: schema_1["worst_adaptive"][key] for key in ("name", "accuracy", "low", "high")}
    return {"attacks": len(schema_1["adversaries"]), "worst": worst}


def measured(export: Path, places: Mapping[str, Path], turns: int, documents: Path | None) -> dict[str, Any]:
    """Medians of both trees, and of the quotient within a turn."""
    rows, found = [], {}
    for turn in range(turns):
        row = {}
        for way in sorted(places, reverse=bool(turn % 2)):
            row[way], found[way] = audited(places[way], export)
        rows.append(row)
        print(export.name, {way: {key: round(s, 1) for key, s in one.items()} for way, one in row.items()}, flush=True)
    facts: dict[str, Any] = {"export": export.name.removesuffix("-export"), "turns": turns}
    for way, document in found.items():
        facts[way] = {key: np.median([row[way][key] for row in rows]) for key in rows[0][way]} | answer(document)
        if documents:
            documents.mkdir(parents=True, exist_ok=True)
            (documents / f"{export.name}-{way}.json").write_text(json.dumps(document))
    return {**facts, "quotient": np.median([row["now"]["wall_s"] / row["before"]["wall_s"] for row in rows])}


def main() -> int:
    """Measure and record."""
    script = record.Script(__file__, __doc__, "runs/mnist-codebook", out=OUT, timing=True)
    script.add_argument("exports", nargs="+", type=Path, help="folders that edgeveil export made")
    script.add_argument("--before", default="baecb1ef", help="the commit to compare with")
    script.add_argument("--turns", type=int, default=1)
    script.add_argument("--documents", type=Path, help="folder that keeps the audits")
    options = script.parse_args()
    watch = record.watch(options)
    with tempfile.TemporaryDirectory() as folder:
        places = {"before": tree(options.before, Path(folder)), "now": record.ROOT / ".venv" / "src"}
        rows = [measured(one.resolve(), places, options.turns, options.documents) for one in options.exports]
    judged = record.verdict(watch.use())
    facts = {"kind": "audit-time", "what": __doc__.splitlines()[0], "before": options.before, "most_s": MOST_S}
    record.write(options.out, script.made_by(options), {**facts, **judged, "rows": rows, **record.here()})
    print(judged["verdict"], *judged["reasons"])
    late = [row["export"] for row in rows if row["now"]["wall_s"] > MOST_S.get(row["export"], float("inf"))]
    print("longer than asked:", *(late or ["none"]))
    return 3 if judged["reasons"] or late else 0


if __name__ == "__main__":
    record.run(main)
