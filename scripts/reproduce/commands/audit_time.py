"""How long a quick audit takes with this version and with an earlier one, one after the other on the same export.

Each audit is a process of its own with an empty cache: data, classifiers, every attack, probes, label-only. With this
version a second one follows, as after another artefact or seed of the same run. What both found stands beside the
times: the same attacks, as strong. The earlier version comes out of the history of the checkout. Records
docs/results/bench/audit-time.json.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from edgeveil.edge_runtime import machine
from edgeveil.edge_runtime.errors import DeviceFailed
from scripts.reproduce import record
from scripts.reproduce.commands.command_time import checkout_of, packages

RESULT = Path("docs/results/bench/audit-time.json")
BEFORE = "f14ebf6"  # the last version that asked a classifier in every section, and measured label-only after the rest
AUDIT = """
import json, resource, sys, time
from pathlib import Path
began = time.monotonic()
from edgeveil.trainer.audit.audit import audit
found = audit(Path(sys.argv[1]), artefact=sys.argv[3], cache=Path(sys.argv[2]))
used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
attacks = sorted({row["name"] for row in found["adversaries"]})
worst, floor = found["worst_adaptive"], found["label_only"]["worst_adaptive"]
json.dump({
    "wall_s": round(time.monotonic() - began, 1),
    "processor_s": round(sum(one.ru_utime + one.ru_stime for one in used), 1),
    "attacks": attacks,
    "worst": {key: worst[key] for key in ("name", "accuracy", "low", "high")},
    "label_only": {key: floor[key] for key in ("name", "accuracy", "low", "high")},
}, sys.stdout)
"""


def audited(code: Path, export: Path, cache: Path, artefact: str) -> dict[str, Any]:
    """One audit by the packages under ``code``."""
    command = [sys.executable, "-c", AUDIT, str(export), str(cache), artefact]
    environment = {**os.environ, "PYTHONPATH": str(code), "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=False)
    if done.returncode:
        raise DeviceFailed(f"The audit by {code} ended with code {done.returncode}; see above.")
    return json.loads(done.stdout)


def main() -> None:
    """Measure and record."""
    script = record.Script(__file__, __doc__, "runs/mnist/export", out=RESULT)
    script.add_argument("exports", nargs="+", type=Path, help="folders that edgeveil export made")
    script.add_argument("--before", default=BEFORE, help=f"the earlier version, a commit (default: {BEFORE})")
    script.add_argument("--artefact", default="tflite-int8")
    options = script.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        code = {
            "before": packages(folder / "old", checkout_of(options.before, folder / "checkout")),
            "now": packages(folder / "new", record.ROOT),
        }
        for export in options.exports:
            caches = {version: folder / f"cache-{len(rows)}-{version}" for version in code}
            row: dict[str, Any] = {"export": export.name}
            for version in code:
                row[version] = audited(code[version], export, caches[version], options.artefact)
            row["again"] = audited(code["now"], export, caches["now"], options.artefact)
            row["ratio"] = {part: round(row[part]["wall_s"] / row["before"]["wall_s"], 3) for part in ("now", "again")}
            print(json.dumps({"export": export.name, **row["ratio"]}), file=sys.stderr)
            rows.append(row)
    document = {"kind": "audit-time", "what": __doc__.splitlines()[0], "before": options.before, "rows": rows}
    record.write(options.out, script.made_by(options), {**document, **record.here(), "load": machine.load()})


if __name__ == "__main__":
    record.run(main)
