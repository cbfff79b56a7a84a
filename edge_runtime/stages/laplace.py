"""Discrete Laplace noise on a grid, without a cut at the ends of the range: a receiver averages without bias."""

import functools
import math
from fractions import Fraction
from typing import Any, Callable, Mapping, Sequence

from edgeveil.edge_runtime.late_imports import np
from edgeveil.edge_runtime.stages import mechanism as mech
from edgeveil.edge_runtime.stages.add import MOST_STEPS, epsilon_of_steps, variance_of_steps
from edgeveil.edge_runtime.stages.base import Entry
from edgeveil.edge_runtime.stages.random_draws import LARGEST_SCALE
from edgeveil.edge_runtime.util.validate import whole

MOST = 2**24  # steps at which a report saturates: a rule for all, which tells nothing
LEVELS, SCALES = 4096, 40  # of a design's grid: beyond so many scales nothing is lost


def report(u: np.ndarray, steps: np.ndarray, levels: int) -> np.ndarray:
    """u float32 (n, d) of [0, 1] and ``steps`` int64 (n, d) in, the noisy places on a grid of ``levels`` steps out,
    int32 (n, d)."""
    place = np.rint(u * np.float32(levels)).astype(np.int64)
    # Clipped first, so that no sum can wrap around; a larger step would end at the same place.
    place += np.minimum(np.maximum(steps, -2 * MOST), 2 * MOST)
    return np.minimum(np.maximum(place, -MOST), MOST).astype(np.int32)


class LaplaceSteps(mech.Mechanism):
    """Steps of a grid, saturating."""

    name = "mechanism laplace"
    mechanism = "laplace"
    lots = "steps"
    fields = {"levels": whole(1, MOST_STEPS)}
    # Those of the stage ``add``.
    epsilon = staticmethod(epsilon_of_steps)  # type: ignore[assignment]
    variance = staticmethod(variance_of_steps)  # type: ignore[assignment]

    def report(self, stage: Entry, at: str, size: Any, noise: Sequence[Entry]) -> mech.Report:
        """As ``Mechanism``."""
        d = mech.places(size, at)
        mech.expect(noise, at, ("laplace", [d]))
        return [d], "int32"

    def function(self, stage: Any, context: Any) -> Callable[..., np.ndarray]:
        """As ``Mechanism``."""
        return functools.partial(report, levels=stage.levels)

    def design(self, input_: str, size: int, alpha: float, **asked: Any) -> mech.Design:
        """As ``Mechanism``."""
        levels = max(1, min(LEVELS, int(MOST * alpha / (SCALES * size))))
        scale = Fraction(levels * size) / Fraction(alpha)
        denominator = max(1, min(1024, LARGEST_SCALE // math.ceil(scale)))
        numerator = math.ceil(scale * denominator)
        noise = (mech.draw("noise", "laplace", [size], numerator=numerator, denominator=denominator),)
        stages = mech.stages_of("laplace", input_, noise, levels=levels)
        return mech.Design("laplace", stages, (size,), "int32", 2.0 / levels * np.eye(size), -np.ones(size))

    def worth(self, stage: Entry, made: Mapping[str, Entry], table: Any) -> mech.Worth:
        """As ``Mechanism``."""

        def within(reports: np.ndarray) -> np.ndarray:
            return np.abs(reports.astype(np.int64)).max(axis=1) <= MOST

        return mech.Worth(table, within, 2 * MOST * mech.weights(table).sum(axis=0))
