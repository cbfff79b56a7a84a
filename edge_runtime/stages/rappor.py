"""RAPPOR: permanent bits that a stream keeps, and instantaneous bits made of them anew.

U. Erlingsson, V. Pihur, A. Korolova, "RAPPOR", CCS 2014, with one bit for each category. All that leaves is made of the
kept answer and independent noise, so that all of it together tells at most what the kept answer costs, however often it
leaves (post-processing). That is what a bundle's promise claims.
"""

import math
from fractions import Fraction
from typing import Any, Mapping, Optional, Sequence, Tuple

from edgeveil.edge_runtime.late_imports import np
from edgeveil.edge_runtime.stages import kind_of
from edgeveil.edge_runtime.stages import mechanism as mech
from edgeveil.edge_runtime.stages.base import Entry
from edgeveil.edge_runtime.stages.draw import COIN
from edgeveil.edge_runtime.stages.oue import Unary, of_bits, unary, worth_of_bits
from edgeveil.edge_runtime.util.validate import refuse

KEPT = "kept"  # what is held of the permanent bits


def bits_again(first: np.ndarray, ones: np.ndarray, zeros: np.ndarray) -> np.ndarray:
    """Bits int8 (n, k) in and out: those of ``ones`` where they are 1, else those of ``zeros``, both bool (n, k)."""
    return np.where(first == 1, ones, zeros).astype(np.int8)


class Rappor(Unary):
    """The permanent bits."""

    name = "mechanism rappor"
    mechanism = "rappor"
    once = True

    def design(self, input_: str, size: int, alpha: float, **asked: Any) -> mech.Design:
        """As ``Mechanism``: permanent bits, kept for a track or period, and for every frame instantaneous bits of them.

        One instantaneous answer alone tells at most ``once``, below alpha; all of them together at most alpha (section
        3). Coins are symmetric: p = 1 - q.
        """
        k, own = size, mech.likely(mech.odds(alpha / 2))
        permanent = mech.held(unary("rappor", input_, k, own, mech.unlikely(mech.odds(alpha / 2))), KEPT)
        p, q = (Fraction(stage["numerator"], COIN) for stage in permanent.stages[:2])
        # One answer has a 1 with probability p t + (1 - p)(1 - t); its odds are to be e^(once / 2).
        seen = Fraction(mech.likely(mech.odds(asked["once"] / 2)), COIN)
        same = math.floor((seen + p - 1) / (2 * p - 1) * COIN)
        noise = mech.draw("ones", "coin", [k], numerator=same), mech.draw("zeros", "coin", [k], numerator=COIN - same)
        again: Entry = {"stage": "mechanism", "op": "rappor-again", "input": KEPT, "noise": ["ones", "zeros"]}
        t = Fraction(same, COIN)
        slope, offset = of_bits(k, p * t + (1 - p) * (1 - t), q * t + (1 - q) * (1 - t))
        stages = permanent.stages + noise + (dict(again, output=mech.REPORT),)
        return permanent._replace(stages=stages, slope=slope, offset=offset)

    def estimate(
        self, stage: Entry, stages: Sequence[Entry], size: int, alpha: float, tables: Any
    ) -> Tuple[int, float]:
        """As ``Mechanism``, of one instantaneous answer."""
        p, q = instantaneous(stages) or (0.5, 0.5)
        k = next(one["shape"][0] for one in stages if one.get("output") == stage["noise"][-1])
        return k, q * (1 - q) / (p - q) ** 2


class RapporAgain(mech.Mechanism):
    """The instantaneous bits."""

    name = "mechanism rappor-again"
    reads = {"input": "report"}
    of = "share"
    answer = staticmethod(bits_again)

    def report(self, stage: Entry, at: str, size: Any, noise: Sequence[Entry]) -> mech.Report:
        """As ``Mechanism``."""
        if size is None or len(size) != 1:
            refuse("wrong-value", at + ".input", "expected the bits of a report")
        mech.expect(noise, at, ("coin", size), ("coin", size))
        return size, "int8"

    def law(self, stage: Entry, made: Mapping[str, Entry]) -> Tuple[float, float]:
        """As ``Unary``."""
        ones, zeros = (mech.chance(made[name]) for name in stage["noise"])
        before = made[stage["input"]]
        while kind_of(before).repeats:
            before = made[before["input"]]
        p, q = kind_of(before).law(before, made)
        return p * ones + (1 - p) * zeros, q * ones + (1 - q) * zeros

    def worth(self, stage: Entry, made: Mapping[str, Entry], table: Any) -> mech.Worth:
        """As ``Mechanism``."""
        return worth_of_bits(made[stage["noise"][-1]]["shape"][0], *self.law(stage, made))


def instantaneous(stages: Sequence[Mapping[str, Any]]) -> Optional[Tuple[float, float]]:
    """How likely a bit of one instantaneous answer is 1, at the category's place and at another; None without one."""
    by_output = {stage["output"]: stage for stage in stages if "output" in stage}
    again = [stage for stage in stages if stage.get("op") == "rappor-again"]
    return RapporAgain().law(again[-1], by_output) if again else None


def epsilon_of_one(law: Tuple[float, float]) -> float:
    """What one instantaneous answer tells where no other is seen: two categories differ in two of its bits."""
    p, q = law
    return math.log(p * (1 - q) / (q * (1 - p)))
