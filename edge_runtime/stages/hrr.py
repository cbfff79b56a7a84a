"""One entry of a Hadamard matrix, of k categories.

J. Acharya, Z. Sun, H. Zhang, "Hadamard Response", 2019, in its one-bit form. An index that is too large counts as the
last one: to drop it would tell.
"""

import functools
import math
from typing import Any, Callable, Mapping, Sequence, Tuple

from edgeveil.edge_runtime.late_imports import np
from edgeveil.edge_runtime.stages import mechanism as mech
from edgeveil.edge_runtime.stages.base import Entry
from edgeveil.edge_runtime.util.validate import refuse


def hadamard(index: np.ndarray, row: np.ndarray, coin: np.ndarray, rows: int) -> np.ndarray:
    """Indices int64 (n,) in, 2 row + bit out, int64 (n,); ``row`` int64 (n,) below ``rows``, ``coin`` bool (n,).

    The bit says that H[row, index] = (-1)**(ones of row & index) is 1, or where the coin is false that it is -1.
    """
    common = row & np.minimum(index, rows - 1)
    for shift in (16, 8, 4, 2, 1):
        common = common ^ (common >> shift)
    return 2 * row + (((common & 1) == 0) == coin)


class Hadamard(mech.Mechanism):
    """Numbers 2 row + bit."""

    name = "mechanism hrr"
    mechanism = "hrr"
    reads = {"input": "index"}
    of = "share"

    def report(self, stage: Entry, at: str, size: Any, noise: Sequence[Entry]) -> mech.Report:
        """As ``Mechanism``."""
        mech.expect(noise, at, ("integer", []), ("coin", []))
        rows = noise[0]["bound"]
        if rows < 2 or rows & (rows - 1):
            problem = "expected rows that are a power of two, 2 or more; got {}"
            refuse("wrong-value", at + ".noise", problem.format(rows))
        return [], "int64"

    def function(self, stage: Any, context: Any) -> Callable[..., np.ndarray]:
        """As ``Mechanism``."""
        return functools.partial(hadamard, rows=context.drawn[stage.noise[0]].bound)

    def design(self, input_: str, size: int, alpha: float, **asked: Any) -> mech.Design:
        """As ``Mechanism``."""
        rows = 1 << (size - 1).bit_length()
        noise = (
            mech.draw("row", "integer", [], bound=rows),
            mech.draw("truth", "coin", [], numerator=mech.likely(mech.odds(alpha))),
        )
        return mech.Design("hrr", mech.stages_of("hrr", input_, noise), (), "int64")

    def variance(self, size: int, alpha: float) -> float:
        """As ``Mechanism`` (Wang et al., USENIX Security 2017)."""
        return ((math.exp(alpha) + 1) / (math.exp(alpha) - 1)) ** 2

    def estimate(
        self, stage: Entry, stages: Sequence[Entry], size: int, alpha: float, tables: Any
    ) -> Tuple[int, float]:
        """As ``Mechanism``."""
        rows = next(one["bound"] for one in stages if one.get("output") == stage["noise"][0])
        return rows, self.variance(rows, alpha)

    def worth(self, stage: Entry, made: Mapping[str, Entry], table: Any) -> mech.Worth:
        """As ``Mechanism``."""
        row, truth = (made[name] for name in stage["noise"])
        return worth_of_hadamard(row["bound"], mech.chance(truth))

    def inputs(self, stage: Entry, noise: Sequence[Entry]) -> Any:
        """As ``Mechanism``."""
        return mech.categories(int(noise[0]["bound"]))


def worth_of_hadamard(rows: int, p: float) -> mech.Worth:
    """Of numbers 2 row + bit, the bit 1 where H[row, category] = 1 is true as a coin of probability ``p`` is."""
    signs = np.ones((1, 1))
    while len(signs) < rows:
        signs = np.vstack([np.hstack([signs, signs]), np.hstack([signs, -signs])])
    signs = signs / (2 * p - 1)
    return mech.Worth(np.stack([-signs, signs], axis=1).reshape(2 * rows, rows))
