"""Reports that a stream keeps: one answer for a track or period, charged once, and RAPPOR's answers anew on top of it.

All that leaves is made of the kept answer and independent noise, so that all of it together tells at most what the kept
answer costs, however often it leaves (post-processing). That is what the bundle's promise claims.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from edgeveil.edge_runtime.manifest.count import COIN
from edgeveil.trainer.perturbers.mechanism_stages import (
    REPORT,
    Mechanism,
    check_categories,
    draw,
    likely,
    odds,
    of_bits,
    unary,
    unlikely,
)

ANSWER, KEPT = "answer", "kept"  # the value that is held, and what is held of it where more comes after


def held(made: Mechanism, output: str = REPORT) -> Mechanism:
    """The report of the first frame of each track or period, for all of its frames."""
    *before, last = made.stages
    hold = {"stage": "hold", "op": "first", "input": ANSWER, "output": output}
    return replace(made, stages=(*before, {**last, "output": ANSWER}, hold))


def rappor(input_: str, k: int, alpha: float, once: float) -> Mechanism:
    """Permanent bits of at most ``alpha``, kept for a track or period, and for every frame instantaneous bits of them.

    One instantaneous answer alone tells at most ``once``, below alpha; all of them together at most alpha (Erlingsson,
    Pihur and Korolova, CCS 2014, section 3, with a bit for each category). Coins are symmetric: p = 1 - q. Raises
    ``BadInput`` for fewer than 2 or more than 4096 categories.
    """
    check_categories("rappor", k)
    permanent = held(unary("rappor", input_, k, likely(odds(alpha / 2)), unlikely(odds(alpha / 2))), KEPT)
    p, q = (Fraction(stage["numerator"], COIN) for stage in permanent.stages[:2])
    # One answer has a 1 with probability p t + (1 - p)(1 - t); its odds are to be e^(once / 2).
    seen = Fraction(likely(odds(once / 2)), COIN)
    same = math.floor((seen + p - 1) / (2 * p - 1) * COIN)
    noise = draw("ones", "coin", [k], numerator=same), draw("zeros", "coin", [k], numerator=COIN - same)
    again = {"stage": "mechanism", "op": "rappor-again", "input": KEPT, "noise": ["ones", "zeros"], "output": REPORT}
    t = Fraction(same, COIN)
    slope, offset = of_bits(k, p * t + (1 - p) * (1 - t), q * t + (1 - q) * (1 - t))
    return replace(permanent, stages=(*permanent.stages, *noise, again), slope=slope, offset=offset)


def instantaneous(stages: Sequence[Mapping[str, Any]]) -> tuple[float, float] | None:
    """How likely a bit of one instantaneous answer is 1, at the category's place and at another; None without one."""
    coins = {stage["output"]: stage["numerator"] / COIN for stage in stages if stage.get("distribution") == "coin"}
    made = {stage["op"]: stage["noise"] for stage in stages if stage["stage"] == "mechanism"}
    if "rappor-again" not in made:
        return None
    ones, zeros = (coins[name] for name in made["rappor-again"])
    p, q = (coins[name] for name in made["rappor"])
    return p * ones + (1 - p) * zeros, q * ones + (1 - q) * zeros


def epsilon_of_one(law: tuple[float, float]) -> float:
    """What one instantaneous answer tells where no other is seen: two categories differ in two of its bits."""
    p, q = law
    return math.log(p * (1 - q) / (q * (1 - p)))
