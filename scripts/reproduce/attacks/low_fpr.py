"""Few people recognised for sure: how often does an audit say so where nothing leaks, and where something does?

The verdict *leaks* where an attack surely recognises the most exposed samples more than three times as often as it
takes others for them, at a threshold read from the others. Invented scores of ten attacks, two of them chosen, are
judged as an audit judges them, and by the rule of before, which took the threshold as given: an attack's interval
above three times 1 %. Rows are independent, or four of each person score alike. Four cases:

  nothing    every score is random
  limit      of all attacks, z is exactly three times as likely above any threshold: the most that is no leak
  leak Q     one chosen attack is sure about a share Q of the most exposed; all else is random

Writes docs/results/privacy/low-fpr.json, of which pages/write_pages.py makes a part of docs/results/power.md.
"""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.trainer.attacks.scores.exposure import FALSE_POSITIVES, TIMES, Class, Judged, at_low_fpr
from edgeveil.trainer.audit.document import short
from edgeveil.trainer.audit.verdict import recognises
from edgeveil.trainer.measures.intervals import wider
from edgeveil.trainer.progress import say
from scripts.reproduce import record

RECORD = Path("docs/results/privacy/low-fpr.json")
ROWS = (150, 450, 900, 3600)  # to test on; as many to choose the class by
CASES = ("nothing", "limit", "leak 0.05", "leak 0.1", "leak 0.2", "leak 0.4")
ATTACKS, CHOSEN = 10, 2
ROWS_OF_PERSON = 4
CLASSES = 3  # of z; two of y


def scores(case: str, sees: bool, y: np.ndarray, z: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """P(z | x', y) (n, ``CLASSES``) that an attack answers; it ``sees`` the leak or not. z = 0 is the exposed one."""
    p, own = rng.random((len(y), CLASSES)), z == 0
    if case == "limit":
        # Above 1 - a lies a share a of all others, and 3 a of these.
        p[own, 0] = 1 - rng.random(int(own.sum())) / TIMES
    elif case != "nothing" and sees:
        p[own & (rng.random(len(y)) < float(case.split()[1])), 0] = 2.0
    return p


def judged(case: str, rows: int, people: bool, sees: bool, rng: np.random.Generator) -> Judged:
    """What an attack says of ``rows`` rows: the same rows each time, so that attacks differ in their scores alone."""
    units = rows // ROWS_OF_PERSON if people else rows
    labels = np.random.default_rng(rows)
    y, z = labels.integers(0, 2, units), labels.integers(0, CLASSES, units)
    p = scores(case, sees, y, z, rng)
    if not people:
        return Judged(p, y, z)
    unit = np.repeat(np.arange(units), ROWS_OF_PERSON)
    return Judged(p[unit], y[unit], z[unit], unit)


def audit(case: str, rows: int, people: bool, rng: np.random.Generator) -> tuple[bool, bool]:
    """Whether the verdict is *leaks* by these attacks: by the rule of before, and by that of now."""
    found = []
    for attack in range(ATTACKS):
        parts = [judged(case, rows, people, sees=attack == 0, rng=rng) for _ in ("choose", "test")]
        found.append(at_low_fpr(*parts))
    now = [
        {"name": str(n), "kind": "fixed", "seed": 0, "tpr": one.rate.estimate, "tpr_p": short(one.p)}
        for n, one in enumerate(found)
    ]
    chosen = [(str(n), 0) for n in range(CHOSEN)]
    before = any(_above(one, 1.0 if n < CHOSEN else wider(ATTACKS)) for n, one in enumerate(found))
    return before, any(True for _ in recognises(now, chosen))


def _above(one: Class, factor: float) -> bool:
    return one.rate.estimate - factor * (one.rate.estimate - one.rate.low) > TIMES * FALSE_POSITIVES


def counted(case: str, rows: int, people: bool, audits: int) -> dict[str, Any]:
    """How many of ``audits`` leak by both rules."""
    rng = np.random.default_rng([rows, people, zlib.crc32(case.encode())])
    verdicts = np.array([audit(case, rows, people, rng) for _ in range(audits)])
    before, now = (int(each) for each in verdicts.sum(axis=0))
    return {"case": case, "rows": rows, "people": people, "audits": audits, "before": before, "now": now}


def main() -> None:
    """Count every case at every number of rows."""
    script = record.Script(__file__, __doc__, out=RECORD)
    script.add_argument("--audits", type=int, default=200, help="of each case")
    asked = script.parse_args()
    found = record.read(asked.out)
    settings = {"audits": asked.audits, "attacks": ATTACKS, "chosen": CHOSEN, "rows_of_person": ROWS_OF_PERSON}
    if found.get("settings") != settings:
        found = {"kind": "edgeveil-low-fpr", "settings": settings, "cases": []}
    done = [(one["case"], one["rows"], one["people"]) for one in found["cases"]]
    for people in (False, True):
        for rows in ROWS:
            for case in CASES:
                if (case, rows, people) not in done:
                    audits = asked.audits // 2 if people else asked.audits  # slower, by one row of each person
                    found["cases"].append(counted(case, rows, people, audits))
                    say(str(found["cases"][-1]))
                    record.write(asked.out, script.made_by(asked), found | record.here())


if __name__ == "__main__":
    record.run(main)
