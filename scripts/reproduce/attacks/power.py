"""The power of an audit's attacks: which planted leaks do they find, of how many bits, in how many rows?

    python -m scripts.reproduce.attacks.power --minutes 10

A set of releases is made from a seed: every kind of leak in ``planted.LEAKS`` at several strengths and numbers of rows,
and releases without a leak, in random order. Each is attacked as in the quick audit and judged as there, without
knowing what was planted. Then 100 releases without a leak, half of them of few pictures as a codebook sends, count
false alarms. Writes docs/results/privacy/power.json, of which pages/write_pages.py makes docs/results/power.md. Run
again, it goes on with the cases that are missing.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, cast

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np

from edgeveil.trainer.attacks.problem import BUDGETS, Problem
from edgeveil.trainer.attacks.protocol import Adversary
from edgeveil.trainer.attacks.question import Question, crossed
from edgeveil.trainer.attacks.registry import BUILT_IN
from edgeveil.trainer.attacks.run_all import run, summed_up
from edgeveil.trainer.attacks.scores.parts import Labels, parts
from edgeveil.trainer.attacks.scores.scoring import Scored
from edgeveil.trainer.audit.document import Audited
from edgeveil.trainer.audit.verdict import LEAKS, SIGNIFICANT, judge
from edgeveil.trainer.measures.intervals import Interval
from edgeveil.trainer.measures.permutation import Permuted
from edgeveil.trainer.progress import say
from edgeveil.trainer.tensorflow_quiet import load_tensorflow
from scripts.reproduce import record
from scripts.reproduce.attacks import planted

RECORD = Path("docs/results/privacy/power.json")
STRENGTHS = (1.0, 0.5, 0.25, 0.12)
ROWS = (600, 2400)  # to learn on; half as many to test
REPEATS = 2  # releases of each kind, strength and number of rows
ALARM_ROWS, ALLOWED = 600, 2
ALARM_KINDS = ("checkerboard", "leaning code")  # without their leak: donors from a whole pool, and few of them
LARGER = 1  # pictures of 8 x 8
NETWORKS = ("BatchNorm MLP", "CNN", "BatchNorm CNN")
LEFT_OUT = {"some": NETWORKS[1:], "all": (), "none": NETWORKS}


class Case(NamedTuple):
    """One release of the set: the kind of leak, its strength (0: none), the rows to learn on, and its own seed."""

    kind: str
    strength: float
    rows: int
    seed: int

    @property
    def name(self) -> str:
        """To find it again."""
        return f"{self.kind}, {self.strength:g}, {self.rows}, {self.seed}"


def cases(seed: int) -> list[Case]:
    """The whole set, in random order: each leak at each strength and number of rows, and one without for each kind."""
    rng = np.random.default_rng(seed)
    whole = REPEATS * [(kind, strength, rows) for kind in planted.LEAKS for strength in STRENGTHS for rows in ROWS]
    whole += [(kind, 0.0, int(rng.choice(ROWS))) for kind in planted.LEAKS]
    return [Case(*whole[place], seed=int(rng.integers(1 << 31))) for place in rng.permutation(len(whole))]


def release(case: Case) -> planted.Release:
    """What is attacked."""
    rng = np.random.default_rng(case.seed)
    return planted.of_kind(planted.LEAKS[case.kind], case.rows * 3 // 2, case.strength, rng, larger=LARGER)


class Judged(NamedTuple):
    """The ``verdict`` of an audit by these attacks, the permutation ``test`` of the attack ``best`` on validation, and
    that of ``counting`` codes crossed, where few pictures are sent."""

    verdict: dict[str, Any]
    test: Permuted
    counting: Permuted | None
    best: str

    @property
    def leaks(self) -> bool:
        """Whether something was found."""
        return bool(self.verdict["word"] == LEAKS)


def judged(problem: Problem, families: tuple[Adversary, ...]) -> Judged:
    """What the quick audit's attacks and all tests of its verdict find, told nothing but the problem."""
    question = Question.alone(problem, crossed(problem, 0))
    ran = run(question, families=families)
    found, best = summed_up(question, ran, curve=False), cast(Scored, ran.most_bits)
    labels = Labels(*(cast(np.ndarray, part.also).argmax(axis=1) for part in (best.choose, best.test)))
    rng = np.random.default_rng(0)
    apart = parts(best.judged("choose"), best.judged("test"), problem.counted, {}, label=labels, rng=rng)
    document = Audited(Interval(1.0, 1.0, 1.0), found, best, apart).as_dict()
    tests = cast(Permuted, found.permutation), found.counting
    return Judged(judge(document, {}, None), *tests, found.most_bits.name)


def measured(case: Case, families: tuple[Adversary, ...]) -> dict[str, Any]:
    """The case, and what was found."""
    begun = time.perf_counter()
    found = judged(planted.problem(release(case), BUDGETS["quick"]), families)
    bits = planted.LEAKS[case.kind].share * planted.bits_of(case.strength)
    return {
        **case._asdict(),
        "bits": round(bits, 5),
        "found": found.leaks,
        "by": found.best,
        "reasons": found.verdict["reasons"] if found.leaks else [],
        "p": found.test.p,
        "p_counting": None if found.counting is None else found.counting.p,
        "gain": round(found.test.gain, 5),
        "seconds": round(time.perf_counter() - begun, 1),
    }


def alarms(first: int, seeds: int, done: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """False alarms over releases without a leak, one more in each; networks are left out, to have enough of them."""
    p, leaks = dict(done.get("p", {})), dict(done.get("leaks", {}))
    for seed in range(first, first + seeds):
        if str(seed) not in leaks:
            asked = planted.problem(release(Case(ALARM_KINDS[seed % 2], 0.0, ALARM_ROWS, seed)), BUDGETS["quick"])
            found = judged(asked, of_registry("none"))
            p[str(seed)], leaks[str(seed)] = found.test.p, found.leaks
        fired = sum(one <= SIGNIFICANT for one in p.values())
        settings = {"level": SIGNIFICANT, "allowed": ALLOWED, "rows": ALARM_ROWS, "left_out": list(NETWORKS)}
        yield {"seeds": len(p), "fired": fired, **settings, "p": p, "leaks": leaks}


def of_registry(networks: str) -> tuple[Adversary, ...]:
    """The registry's families without some networks: ``some`` leaves the MLP."""
    return tuple(family for family in BUILT_IN if family.name not in LEFT_OUT[networks])


def main() -> None:
    """Attack what is missing of the set, then count false alarms, until the time is over."""
    script = record.Script(__file__, __doc__, "--minutes 10", out=RECORD)
    script.add_argument("--seed", type=int, default=0, help="of the set")
    script.add_argument(
        "--minutes", type=float, default=10.0, help="of attacks on the set; then it may be gone on with"
    )
    script.add_argument("--alarms", type=int, default=100, help="releases without a leak")
    script.add_argument("--networks", choices=list(LEFT_OUT), default="some", help="some: the MLP alone")
    asked = script.parse_args()
    load_tensorflow()
    settings = {"seed": asked.seed, "networks": asked.networks, "picture": [8 * LARGER] * 2, "found": "verdict"}
    found = record.read(asked.out)
    if found.get("settings") != settings:
        left_out = list(LEFT_OUT[asked.networks])
        found = {"kind": "edgeveil-power", "settings": settings, "left_out": left_out, "cases": [], "false_alarms": {}}
    whole, families = cases(asked.seed), of_registry(asked.networks)
    found["planted"] = len(whole)
    done = {Case(*(one[key] for key in Case._fields)).name for one in found["cases"]}
    until = time.monotonic() + 60 * asked.minutes
    for case in whole:
        if case.name in done:
            continue
        if time.monotonic() > until:
            break
        found["cases"].append(measured(case, families))
        say(f"{len(found['cases'])} of {len(whole)}: {found['cases'][-1]}")
        record.write(asked.out, script.made_by(asked), found | record.here())
    for counted in alarms(1000 * (asked.seed + 1), asked.alarms, found["false_alarms"]):
        found["false_alarms"] = counted
        if counted["seeds"] % 10 == 0:
            say(f"{counted['fired']} false alarms of {counted['seeds']}")
            record.write(asked.out, script.made_by(asked), found | record.here())
    record.write(asked.out, script.made_by(asked), found | record.here())


if __name__ == "__main__":
    record.run(main)
