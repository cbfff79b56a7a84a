"""The black-box audit: every private mechanism that ships keeps its claim, and every planted bug is caught.

Records docs/results/dp/audit.json. A bound above the claim proves the claim wrong; 95 % is the confidence in all bounds
on what ships together, and in each one on a bug. Ends with 3 where a claim of what ships is proved wrong, or a bug is
not caught.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.measures.neighbours import most_proved, without_noise
from scripts.reproduce import record
from scripts.reproduce.dp.training.audit_case import Case
from scripts.reproduce.dp.training.audited import shipped
from scripts.reproduce.dp.training.planted_bugs import planted

RESULT = Path("docs/results/dp/audit.json")
ERROR = 0.05
FEWEST = 300


def judged(case: Case, runs: int, confidence: float) -> dict[str, Any]:
    """What the runs of a case prove."""
    began = time.monotonic()
    outputs = case.run(int(runs * case.times))
    about = {"mechanism": case.name, "claimed": case.claimed, "delta": case.delta, "confidence": confidence}
    if without_noise(outputs):
        return {**about, "proved": None, "neighbours": "all", "runs": 0, "above": True, "wall_s": _since(began)}
    found = most_proved(outputs, delta=case.delta, confidence=confidence, gaussian=case.gaussian, boosted=case.boosted)
    if found is None:
        raise BadInput(f"Expected two neighbours of {case.name}, or more; came {len(outputs)}.")
    spent = found.spent
    proved = {"proved": spent.epsilon, "neighbours": found.neighbours, "runs": spent.runs}
    return {**about, **proved, "above": spent.epsilon > case.claimed, "wall_s": _since(began)}


def _since(began: float) -> int:
    return round(time.monotonic() - began)


def main() -> int:
    """Run all, and write the record."""
    script = record.Script(__file__, __doc__, "--runs 3000", out=RESULT)
    script.add_argument("--runs", type=int, default=10_000, help="on each neighbour (default: 10,000)")
    asked = script.parse_args()
    if asked.runs < FEWEST:
        script.error(f"{FEWEST} runs or more were expected; came {asked.runs}")
    began, ships, bugs = time.monotonic(), list(shipped()), list(planted())
    document = {
        **record.here(),
        "seed": "the operating system's noise for what ships; 0 elsewhere",
        "runs": asked.runs,
        "shipped": [judged(case, asked.runs, 1 - ERROR / len(ships)) for case in ships],
        "planted": [judged(case, asked.runs, 1 - ERROR) for case in bugs],
        "wall_s": _since(began),
    }
    record.write(asked.out, script.made_by(asked), document)
    broken = [row for row in document["shipped"] if row["above"]]
    missed = [row for row in document["planted"] if not row["above"]]
    for row in (*broken, *missed):
        print(f"not as it should be: {row}")
    return 3 if broken or missed else 0


if __name__ == "__main__":
    record.run(main)
