"""Noise of whole steps on a grid of ``levels`` steps from 0 to 1; sums outside the grid are clipped to its ends."""

from fractions import Fraction
from typing import Any, Sequence, Tuple

from edgeveil.edge_runtime.errors import FrameDropped
from edgeveil.edge_runtime.late_imports import np
from edgeveil.edge_runtime.lut import Flow
from edgeveil.edge_runtime.stages.base import Entry, Kind, Run, Value, same_shape
from edgeveil.edge_runtime.util.validate import refuse, whole

MOST_STEPS = 2**20  # of a grid on which Laplace noise is added


def epsilon_of_steps(stage: Entry, noise: Sequence[Entry], _table: Any) -> Any:
    """Every value may move by all the grid: the distance in l1 is their number times ``levels``."""
    values = 1
    for size in noise[0]["shape"]:
        values *= size
    from edgeveil.edge_runtime.stages.mechanism import above

    return above(Fraction(values * stage["levels"] * noise[0]["denominator"], noise[0]["numerator"]))


def variance_of_steps(values: int, alpha: float) -> float:
    """The variance of each of so many values, in squared half ranges, at ``alpha`` for all of them."""
    return 8 * (values / alpha) ** 2


class Add(Kind):
    """The sum of a value of the unit cube and discrete Laplace noise."""

    name = "add"
    reads = {"input": "unit", "noise": "steps"}
    fields = {"levels": whole(1, MOST_STEPS)}
    charges = True
    of = "mean"  # what is estimated from it
    epsilon = staticmethod(epsilon_of_steps)
    measure = staticmethod(same_shape)  # type: ignore[assignment]

    def make(self, stage: Entry, at: str, flow: Any, *taken: Value) -> Value:
        """As ``Kind``."""
        value, noise = taken
        if noise.shape != value.shape:
            refuse("wrong-value", at + ".noise", "its shape {} is not {}".format(noise.shape, value.shape))
        if flow.input["low"] is None:
            refuse("wrong-value", at, "an input without a range has no grid to add noise on")
        return Value("noisy", value.shape, "float32")

    def estimate(
        self, stage: Entry, stages: Sequence[Entry], size: int, alpha: float, tables: Any
    ) -> Tuple[int, float]:
        """As ``stages.mechanism.Mechanism``."""
        return size, variance_of_steps(size, alpha)

    def compile(self, stage: Any, context: Any) -> Run:
        """As ``Kind``."""
        source, (noise,), target = stage.input, stage.noise, stage.output
        levels = np.int64(stage.levels)

        def run(flow: Flow) -> None:
            steps = flow[noise]
            if steps.dtype != np.int64 or steps.shape != flow[source].shape:
                raise FrameDropped("shape")
            place = np.rint(flow[source] * np.float32(levels)).astype(np.int64)
            # Clipped first, so that no sum can wrap around; a larger step would end at the same place.
            place += np.minimum(np.maximum(steps, -levels), levels)
            place = np.minimum(np.maximum(place, 0), levels)
            flow[target] = place.astype(np.float32) / np.float32(levels)

        return run
