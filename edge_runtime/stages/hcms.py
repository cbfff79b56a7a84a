"""One entry of a Hadamard matrix at a hashed category: the count-mean sketch in its one-bit form.

Apple's Differential Privacy Team, "Learning with Privacy at Scale", 2017, algorithms 4 and 5. The bits of ``cms`` are
replaced by one entry of their Hadamard transform, as of ``hrr``: a report has the numbers of a hash function and of a
row of the matrix, both drawn without regard to the category, and one bit.
"""

from typing import Any, Callable, Mapping, Sequence, Tuple

from edgeveil.edge_runtime.late_imports import np
from edgeveil.edge_runtime.stages import mechanism as mech
from edgeveil.edge_runtime.stages.base import Entry
from edgeveil.edge_runtime.stages.cms import ROWS, WIDTH, Sketch, of_one
from edgeveil.edge_runtime.stages.hrr import Hadamard, hadamard


class HadamardCountMean(Sketch):
    """Numbers 2 width row + 2 entry + bit."""

    name = "mechanism hcms"
    mechanism = "hcms"

    def sizes(self, noise: Sequence[Entry]) -> Tuple[int, int]:
        """As ``Sketch``."""
        return noise[0]["bound"], noise[1]["bound"]

    def report(self, stage: Entry, at: str, size: Any, noise: Sequence[Entry]) -> mech.Report:
        """As ``Mechanism``."""
        mech.expect(noise, at, ("integer", []), ("integer", []), ("coin", []))
        self.shared(noise, at)
        return [], "int64"

    def function(self, stage: Any, context: Any) -> Callable[..., np.ndarray]:
        """As ``Mechanism``."""
        hashed, width = self.hashed(stage, context), context.drawn[stage.noise[1]].bound
        return lambda index, row, entry, coin: 2 * width * row + hadamard(hashed(index, row), entry, coin, width)

    def design(self, input_: str, size: int, alpha: float, **asked: Any) -> mech.Design:
        """As ``Mechanism``; ``asked`` has the ``seed`` of the hash functions."""
        noise = (
            mech.draw("row", "integer", [], bound=ROWS),
            mech.draw("entry", "integer", [], bound=WIDTH),
            mech.draw("truth", "coin", [], numerator=mech.likely(mech.odds(alpha))),
        )
        stages = mech.stages_of("hcms", input_, noise, categories=size, seed=asked["seed"])
        return mech.Design("hcms", stages, (), "int64")

    def variance(self, size: int, alpha: float) -> float:
        """As of ``cms``."""
        return of_one(WIDTH, Hadamard().variance(size, alpha))

    def worth(self, stage: Entry, made: Mapping[str, Entry], table: Any) -> Any:
        """As ``Mechanism``."""
        noise = [made[name] for name in stage["noise"]]
        rows, width = self.sizes(noise)
        places, true = np.arange(width), np.ones(width, bool)
        matrix = np.stack([hadamard(places, np.full(width, at), true, width) % 2 for at in places])
        matrix = matrix.astype(np.int8) * np.int8(2) - np.int8(1)

        def signs(reports: np.ndarray) -> Tuple[np.ndarray, np.ndarray]:
            row, rest = np.divmod(reports, 2 * width)
            bit = (rest % 2).astype(np.int8) * np.int8(2) - np.int8(1)
            return row, matrix[rest // 2] * bit[:, None]

        def can_be(reports: np.ndarray) -> np.ndarray:
            return np.asarray((reports >= 0) & (reports < 2 * width * rows))

        return self.worth_of(stage, noise, 1 / mech.excess(noise[2]["numerator"]), 0.0, made=can_be, signs=signs)
