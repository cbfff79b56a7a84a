"""The slide "36, then 37 children": who knew the 36 learns of the newcomer from two exact counts, and what from noise.

Two publications of the same group, one child later. Somebody who knows that there were 36 guesses from the second count
whether somebody has come: exact counts give it away, a count of ``[statistics]`` at epsilon 1 as geometric noise does,
which no guess from it can beat: right e / (1 + e) of the time. The black-box audit bounds what was spent from below.
Records docs/results/publishing/newcomer.json; the page is docs/results/publishing.md. Ends with 3 where the guess is
right more often or less often than that, or the audit finds more than 1.
"""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path

import numpy as np

from edgeveil.trainer.measures.black_box import lower_bound
from edgeveil.trainer.measures.intervals import rate
from edgeveil.trainer.publish.requests.requested_statistics import Count
from edgeveil.trainer.publish.statistics.released import released
from scripts.reproduce import record

RESULT = Path("docs/results/publishing/newcomer.json")
CHILDREN, EPSILON, RUNS = 36, 1.0, 100_000
ASKED = {"children": Count(kind="count", epsilon=EPSILON, where={"group": "children"})}


def main() -> int:
    """Publish both counts many times, guess, audit, and write the record."""
    script = record.Script(__file__, __doc__, out=RESULT)
    asked = script.parse_args()
    before, after = (counts(children) for children in (CHILDREN, CHILDREN + 1))
    right = np.concatenate([before <= CHILDREN, after > CHILDREN])  # the likelier of the two, by the noise's law
    guess, at_most = rate(right), math.exp(EPSILON) / (1 + math.exp(EPSILON))
    spent = lower_bound(before, after)
    held = guess.low <= at_most <= guess.high
    document = {
        **record.here(),
        "children": [CHILDREN, CHILDREN + 1],
        "epsilon": EPSILON,
        "runs": RUNS,
        "guess": {"right": guess.estimate, "low": guess.low, "high": guess.high},
        "best_guess": at_most,
        "audit": {key: round(value, 4) for key, value in asdict(spent).items()},
        "held": held and spent.epsilon <= EPSILON,
    }
    record.write(asked.out, script.made_by(asked), document)
    return 0 if document["held"] else 3


def counts(children: int) -> np.ndarray:
    """The published count (runs,) of a group of children, among adults."""
    groups = ["children"] * children + ["adults"] * CHILDREN
    person = np.arange(len(groups))
    found = [released(ASKED, {"group": groups}, person, unit="person") for _ in range(RUNS)]
    return np.array([one["released"][0]["value"] for one in found if one is not None])


if __name__ == "__main__":
    record.run(main)
