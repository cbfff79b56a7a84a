"""Noisy bits, one for each of k categories.

``oue``: T. Wang and others, "Locally Differentially Private Protocols for Frequency Estimation", 2017. An index that is
too large counts as the last one: to drop it would tell.
"""

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any, List, Mapping, Sequence, Tuple

from edgeveil.edge_runtime.late_imports import np
from edgeveil.edge_runtime.stages import mechanism as mech
from edgeveil.edge_runtime.stages.base import Entry
from edgeveil.edge_runtime.stages.draw import COIN, MOST_PLACES
from edgeveil.edge_runtime.util.validate import refuse


def bits(index: np.ndarray, own: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Indices int64 (n,) in, int8 (n, k) out: ``own`` bool (n,) at the index, ``others`` bool (n, k) elsewhere."""
    k = others.shape[1]
    at_index = np.minimum(index, k - 1)[:, None] == np.arange(k)
    return np.where(at_index, own[:, None], others).astype(np.int8)


def unary(name: str, input_: str, k: int, own: int, other: int) -> mech.Design:
    """Noisy bits: a 1 at the category's place by the coin ``own``, elsewhere by ``other``; both are numerators."""
    noise = (mech.draw("own", "coin", [], numerator=own), mech.draw("others", "coin", [k], numerator=other))
    law = of_bits(k, Fraction(own, COIN), Fraction(other, COIN))
    return mech.Design(name, mech.stages_of(name, input_, noise), (k,), "int8", *law)


def of_bits(k: int, p: Fraction, q: Fraction) -> Tuple[np.ndarray, np.ndarray]:
    """Slope and offset of bits that are 1 with probability ``p`` at the category's place and ``q`` elsewhere."""
    return np.eye(k) * float(1 / (p - q)), np.full(k, float(-q / (p - q)))


def worth_of_bits(k: int, p: float, q: float) -> mech.Worth:
    """Of such bits: (bit - q) / (p - q)."""
    table = np.vstack([np.eye(k), np.full(k, -q)]) / (p - q)
    return mech.Worth(table, lambda made: ((made == 0) | (made == 1)).all(axis=1), mech.weights(table).sum(axis=0))


class Unary(mech.Mechanism):
    """Bits, the category's own true with the first coin, each other one with the second."""

    reads = {"input": "index"}
    of = "share"
    answer = staticmethod(bits)

    def report(self, stage: Entry, at: str, size: Any, noise: Sequence[Entry]) -> mech.Report:
        """As ``Mechanism``."""
        k: List[int] = noise[-1]["shape"] if noise else []
        mech.expect(noise, at, ("coin", []), ("coin", k))
        if len(k) != 1 or not 2 <= k[0] <= MOST_PLACES:
            problem = "expected a coin for each of 2 to {} categories"
            refuse("wrong-value", at + ".noise", problem.format(MOST_PLACES))
        return k, "int8"

    def epsilon(self, stage: Entry, noise: Sequence[Entry], table: Any) -> Decimal:
        """As ``Mechanism``: two categories differ in two bits."""
        return mech.log(mech.odds_of(noise[0]) / mech.odds_of(noise[1]))

    def law(self, stage: Entry, made: Mapping[str, Entry]) -> Tuple[float, float]:
        """The probabilities of a 1 at the category's own place and at another one."""
        own, other = (mech.chance(made[name]) for name in stage["noise"])
        return own, other

    def worth(self, stage: Entry, made: Mapping[str, Entry], table: Any) -> mech.Worth:
        """As ``Mechanism``."""
        return worth_of_bits(made[stage["noise"][-1]]["shape"][0], *self.law(stage, made))

    def inputs(self, stage: Entry, noise: Sequence[Entry]) -> Any:
        """As ``Mechanism``."""
        return mech.categories(int(noise[1]["shape"][0]))


class Oue(Unary):
    """Optimised unary encoding."""

    name = "mechanism oue"
    mechanism = "oue"
    automatic = True

    def design(self, input_: str, size: int, alpha: float, **asked: Any) -> mech.Design:
        """As ``Mechanism``."""
        return unary("oue", input_, size, COIN // 2, mech.unlikely(mech.odds(alpha)))

    def variance(self, size: int, alpha: float) -> float:
        """As ``Mechanism`` (Wang et al., USENIX Security 2017)."""
        return 4 * math.exp(alpha) / (math.exp(alpha) - 1) ** 2

    def estimate(
        self, stage: Entry, stages: Sequence[Entry], size: int, alpha: float, tables: Any
    ) -> Tuple[int, float]:
        """As ``Mechanism``."""
        k = next(one["shape"][0] for one in stages if one.get("output") == stage["noise"][-1])
        return k, self.variance(k, alpha)
