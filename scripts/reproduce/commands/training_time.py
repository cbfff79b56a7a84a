"""How long `edgeveil train` takes with this version and with an earlier one, one after the other on the same recipe.

Each training is a process of its own, D_y and D_z included, at the recipe's full budget. What both reached on
validation stands beside the times: the same floor, and z as well hidden. The earlier version comes out of the history
of the checkout. The record is INVALID where other programs used more than a quarter of a core. Exit code 3 there, and
over the limit. Records docs/results/bench/training-time.json.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from edgeveil.edge_runtime import machine
from edgeveil.edge_runtime.errors import DeviceFailed
from scripts.reproduce import record
from scripts.reproduce.commands.command_time import checkout_of, packages

RESULT = Path("docs/results/bench/training-time.json")
BEFORE = "e1e110d"  # the last version that computed everything in float32
LIMIT_S = 300


def trained(code: Path, recipe: str, out: Path) -> dict[str, Any]:
    """One training by the packages under ``code``."""
    command = [sys.executable, "-m", "edgeveil.trainer.cli.main", "train", recipe, "--out", str(out)]
    environment = {**os.environ, "PYTHONPATH": str(code), "TF_CPP_MIN_LOG_LEVEL": "3"}
    used, began = os.times(), time.monotonic()
    if subprocess.run(command, env=environment, cwd=code, check=False).returncode:
        raise DeviceFailed(f"The training of {recipe} by {code} failed; see above.")
    wall_s, now = time.monotonic() - began, os.times()
    facts = json.loads((out / "run.json").read_text())
    measured = facts["validation"]
    return {
        "wall_s": round(wall_s, 1),
        "processor_s": round(now.children_user + now.children_system - used.children_user - used.children_system, 1),
        "parts_s": facts["wall_time_s"],
        "bfloat16": facts.get("bfloat16", False),
        "limit_met": facts["limit_met"],
        "validation": {key: round(measured[key], 4) for key in ("target_accuracy", "sensitive_accuracy", "distance")},
    }


def main() -> int:
    """Measure and record."""
    script = record.Script(__file__, __doc__, "mnist-prgan", out=RESULT, timing=True)
    script.add_argument("recipe", nargs="?", default="mnist-prgan", help="a recipe that comes with EdgeVeil")
    script.add_argument("--before", default=BEFORE, help=f"the earlier version, a commit (default: {BEFORE})")
    options = script.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        code = {
            "before": packages(folder / "old", checkout_of(options.before, folder / "checkout")),
            "now": packages(folder / "new", record.ROOT),
        }
        watch = record.watch(options)
        found = {version: trained(path, options.recipe, folder / version) for version, path in code.items()}
        judged = record.verdict(watch.use())
    ratio = {key: round(found["now"][key] / found["before"][key], 3) for key in ("wall_s", "processor_s")}
    document = {
        **judged,
        "kind": "training-time",
        "what": __doc__.splitlines()[0],
        "recipe": options.recipe,
        "before_commit": options.before,
        "limit_s": LIMIT_S,
        **found,
        "ratio": ratio,
        "machine": machine.facts(),
    }
    record.write(options.out, script.made_by(options), {**document, **record.here()})
    print(judged["verdict"], ratio, file=sys.stderr)
    return 3 if judged["reasons"] or found["now"]["wall_s"] > LIMIT_S else 0


if __name__ == "__main__":
    record.run(main)
