"""The demo on 20 seeds: both verdicts, what the codebook keeps beyond the label, and how long it took.

A seed is other slices of the same digits, other first weights, another order and other attacks. Each demo is whole, in
a process of its own, one after the other, and is recorded as it came out. Run again, the script goes on with the seeds
that are missing, where the recipes are the same. Settings were chosen on other drawings of the digits (another ``SEED``
of ``trainer/datasets/loaders/drawn.py``), so these rows chose nothing. Where others used the machine, the seconds of a
seed are not to be quoted. Records docs/results/demo-seeds.json; exits with 3 where a verdict does not hold.
"""

import hashlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from edgeveil.devices.compare import Watch
from edgeveil.trainer.audit.findings import LABEL_ONLY, Finding, best, findings, guess
from edgeveil.trainer.audit.findings import kept as reader_of_y
from edgeveil.trainer.audit.verdict import LEAKS, verdict
from edgeveil.trainer.datasets.loaders import drawn
from edgeveil.trainer.demo import RECIPES
from edgeveil.trainer.recipe.schema import Recipe
from scripts import record

RESULT = Path("docs/results/demo-seeds.json")
SEEDS = range(20)
DEMO = """
import sys; from pathlib import Path; from edgeveil.trainer.demo import demo
demo(Path(sys.argv[1]), quick=False, seed=int(sys.argv[2]))
"""


def settings() -> dict[str, Any]:
    """SHA-256 of each recipe as it ships, by its name, and which digits are drawn."""
    recipes = {name: hashlib.sha256(Recipe.text(name).encode()).hexdigest() for name in RECIPES}
    return {"recipes": recipes, "digits": drawn.ROWS, "drawing": drawn.SEED}


def interval(one: Finding) -> dict[str, float | None]:
    """Estimate and ends of a figure."""
    return {"estimate": one.value, "low": one.interval[0], "high": one.interval[1]}


def of_audit(document: Mapping[str, Any]) -> dict[str, Any]:
    """What is recorded of the audit of one perturber."""
    judged = verdict(document)
    correlations = [one for one in findings(document) if (one.name, one.figure) == ("x to x'", "correlation")]
    return {
        "word": judged["word"],
        "line": judged["line"],
        "upper": judged["upper"],
        "test_rows": document["data"]["rows"]["test"],
        "guess": guess(document),
        "attack": interval(best(document).figures["right"]),
        "label_only": interval(best(document, LABEL_ONLY).figures["right"]),
        "y": interval(reader_of_y(document)),
        "kept": {one.question: interval(one) for one in correlations},
    }


def of_seed(seed: int) -> dict[str, Any]:
    """The row of one demo."""
    with tempfile.TemporaryDirectory() as folder:
        out, watch = Path(folder) / "demo", Watch()
        subprocess.run([sys.executable, "-c", DEMO, str(out), str(seed)], check=True)
        use = watch.use()
        exports = {"prgan": "prgan-export", "codebook": "export"}
        audits = {name: of_audit(json.loads((out / at / "audit.json").read_text())) for name, at in exports.items()}
    return {"seed": seed, **use.document(), "reasons": use.reasons(), **audits}


def held(row: Mapping[str, Any]) -> bool:
    """Whether the codebook of a row is not found to leak, and PR-GAN is."""
    return row["codebook"]["word"] != LEAKS and row["prgan"]["word"] == LEAKS


def main() -> int:
    """Run the seeds that are not on record."""
    script = record.Script(__file__, __doc__, out=RESULT)
    asked = script.parse_args()
    before, now = record.read(asked.out), settings()
    rows = before["rows"] if before.get("settings") == now else []
    for seed in SEEDS:
        if seed not in [row["seed"] for row in rows]:
            rows.append(of_seed(seed))
            facts = {"settings": now, "held": sum(map(held, rows)), "rows": rows, **record.here()}
            record.write(asked.out, script.made_by(asked), facts)
    print(f"{sum(map(held, rows))} of {len(rows)} hold")
    return 0 if all(map(held, rows)) else 3


if __name__ == "__main__":
    record.run(main)
