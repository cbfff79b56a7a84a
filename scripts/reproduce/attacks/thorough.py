"""A thorough audit beside a quick one, of the same export: what does four times as large and as long find more?

Each budget attacks the artefact once, whole. Every attack is kept with what it found and how long it took. Run again,
it goes on where an audit was broken off, and exports that are recorded already are left as they are. Records
docs/results/privacy/thorough.json, of which pages/write_pages.py makes a part of docs/results/power.md.
"""

from __future__ import annotations

import os
import resource
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from edgeveil.trainer.audit.audit import audit
from edgeveil.trainer.progress import say
from scripts.reproduce import record

RECORD = Path("docs/results/privacy/thorough.json")
BUDGETS = ("quick", "thorough")
FIGURES = ("name", "kind", "learned_on", "seed", "train_samples", "seconds", "accuracy", "low", "high", "auc")
FIGURES += ("bits_counted", "bits_counted_low", "bits_counted_high", "tpr", "tpr_rows", "tpr_p")


def measured(export: Path, artefact: str, budget: str) -> dict[str, Any]:
    """One audit: its verdict, chosen attacks, every attack, and the time that it took."""
    begun, used = time.monotonic(), _used()
    found = audit(export, artefact=artefact, budget=budget, resume=True)

    def shown(row: dict[str, Any]) -> dict[str, Any]:
        return {name: row[name] for name in FIGURES}

    return {
        "wall_s": round(time.monotonic() - begun, 1),
        "processor_s": round(_used() - used, 1),
        "perturber": found["perturber"],
        "data": found["data"]["name"],
        "sensitive": found["data"]["sensitive"],
        "rows": found["data"]["rows"],
        "chance": max(found["chance"].values()),
        "verdict": found["verdict"],
        "worst_adaptive": shown(found["worst_adaptive"]),
        "most_bits": shown(found["most_bits"]),
        "permutation": found["permutation"],
        "counting": found["counting"],
        "adversaries": [shown(row) for row in found["adversaries"]],
        "not_run": [one["name"] for one in found["not_run"]],
    }


def main() -> None:
    """Audit each export with both budgets."""
    script = record.Script(__file__, __doc__, "runs/digits/export", out=RECORD)
    script.add_argument("exports", nargs="+", type=Path, help="folders that edgeveil export made")
    script.add_argument("--artefact", default="tflite-int8")
    asked = script.parse_args()
    found = record.read(asked.out) or {"kind": "edgeveil-thorough", "audits": {}}
    for export in asked.exports:
        for budget in BUDGETS:
            key = f"{export.name}, {asked.artefact}, {budget}"
            if key in found["audits"]:
                continue
            found["audits"][key] = {"budget": budget, **measured(export, asked.artefact, budget)}
            word = found["audits"][key]["verdict"]["word"]
            say(f"{key}: {word} after {found['audits'][key]['wall_s']:.0f} s")
            record.write(asked.out, script.made_by(asked), found | record.here())


def _used() -> float:
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in both)


if __name__ == "__main__":
    record.run(main)
