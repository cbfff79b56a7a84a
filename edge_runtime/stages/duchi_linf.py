"""The mechanism of Duchi, Jordan and Wainwright for vectors of the cube, in O(d) and exact.

J. C. Duchi, M. I. Jordan, M. J. Wainwright, "Minimax Optimal Procedures for Locally Private Estimation", 2018,
section 4.2.3, for the l-infinity ball. With a = ln P/(1-P) of the coin T:

A vector v of d signs, d odd, and a fair vector z of d signs agree in most places or in fewest; never in half of them.
What is sent is z if "they agree in most" is T, else -z. So it is uniform over the half cube that agrees with v in most
places with probability P, and over the other with 1 - P: no two v give a report probabilities with another ratio than
P/(1-P), its inverse or 1. The published form for even d puts the vectors that agree in half of the places into both
halves, and is not a-private (ln(e^a + 1) = 1.313 at d = 2, a = 1). Here an even d has one more place, which is 1 in
every v and does not leave: what does leave of a private report is private.
"""

import math
from typing import Any, Mapping, Sequence

from edgeveil.edge_runtime.late_imports import np
from edgeveil.edge_runtime.stages import mechanism as mech
from edgeveil.edge_runtime.stages.base import Entry
from edgeveil.edge_runtime.util.validate import refuse, whole


def report(u: np.ndarray, rounding: np.ndarray, fair: np.ndarray, coin: np.ndarray) -> np.ndarray:
    """u float32 (n, d) of [0, 1] in, -1 or 1 int8 (n, d) out.

    ``rounding`` uint32 (n, ceil(d / 2)), ``fair`` uint32 (n, ceil(d' / 32)) with d' the odd one of d and d + 1,
    ``coin`` bool (n,). A value is rounded to 1 with probability u, to 2**-17.
    """
    d = u.shape[1]
    halves = np.ascontiguousarray(rounding, "<u4").view("<u2")[:, :d]
    # v as bits; 2**16 is above every word, so that u = 1 is always rounded up.
    v = halves < np.rint(u * np.float32(2**16)).astype(np.int32)
    z = np.unpackbits(np.ascontiguousarray(fair, "<u4").view(np.uint8), axis=1, bitorder="little")
    agree = (z[:, :d] == v).sum(axis=1, dtype=np.int16)
    odd = d + 1 - d % 2
    if odd > d:
        agree += z[:, d]
    turned = (agree > odd // 2) != coin
    return (z[:, :d] ^ turned[:, None]).astype(np.int8) * np.int8(2) - np.int8(1)


def cube_bound(d: int, alpha: float) -> float:
    """B: a report of +-1 times B is unbiased (even d has a fair dummy coordinate)."""
    odd = d + (d % 2 == 0)
    log_binomial = math.lgamma(odd) - 2 * math.lgamma((odd + 1) / 2)
    return math.exp((odd - 1) * math.log(2) - log_binomial) / math.tanh(alpha / 2)


class DuchiCube(mech.Mechanism):
    """Corners of a cube, each place -1 or 1."""

    name = "mechanism duchi-linf"
    mechanism = "duchi-linf"
    fields = {"places": whole()}  # which number is that of the shape
    fair = 1
    answer = staticmethod(report)

    def report(self, stage: Entry, at: str, size: Any, noise: Sequence[Entry]) -> mech.Report:
        """As ``Mechanism``."""
        d = mech.places(size, at)
        odd = d + 1 - d % 2
        if stage["places"] != odd:
            refuse("wrong-value", at + ".places", "expected {}, the odd one of {} and {}".format(odd, d, d + 1))
        mech.expect(noise, at, ("words", [(d + 1) // 2]), ("words", [(odd + 31) // 32]), ("coin", []))
        return [d], "int8"

    def design(self, input_: str, size: int, alpha: float, **asked: Any) -> mech.Design:
        """As ``Mechanism``."""
        odd, truth = size + 1 - size % 2, mech.likely(mech.odds(alpha))
        noise = (
            mech.draw("rounding", "words", [(size + 1) // 2]),
            mech.draw("fair", "words", [(odd + 31) // 32]),
            mech.draw("truth", "coin", [], numerator=truth),
        )
        # cube_bound divides by (e^alpha - 1) / (e^alpha + 1); the shipped coin has its own.
        bound = cube_bound(size, alpha) * math.tanh(alpha / 2) / mech.excess(truth)
        stages = mech.stages_of("duchi-linf", input_, noise, places=odd)
        return mech.Design("duchi-linf", stages, (size,), "int8", bound * np.eye(size), np.zeros(size))

    def variance(self, size: int, alpha: float) -> float:
        """As ``Mechanism``."""
        return cube_bound(size, alpha) ** 2

    def worth(self, stage: Entry, made: Mapping[str, Entry], table: Any) -> mech.Worth:
        """As ``Mechanism``."""
        return mech.Worth(
            table, lambda reports: (np.abs(reports) == 1).all(axis=1), 2 * mech.weights(table).sum(axis=0)
        )

    def inputs(self, stage: Entry, noise: Sequence[Entry]) -> Any:
        """As ``Mechanism``: the corners of the cube. In between a report's law is a mixture of theirs."""
        odd = int(stage["places"])
        return mech.grid((0.0, 1.0), odd if noise[0]["shape"] == [(odd + 1) // 2] else odd - 1)
