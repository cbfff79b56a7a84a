"""A model's output as whole numbers of a step, which saturate."""

from typing import Any

from edgeveil.edge_runtime.late_imports import np
from edgeveil.edge_runtime.stages.base import Entry, Kind, Run, Value, from_input
from edgeveil.edge_runtime.util.validate import one_of, positive


class Quantise(Kind):
    """A code of so many bits for each value."""

    name = "quantise"
    rounds = True
    reads = {"input": "model"}
    fields = {"scale": positive(), "dtype": one_of(("int8", "int16"))}

    def make(self, stage: Entry, at: str, flow: Any, *taken: Value) -> Value:
        """As ``Kind``."""
        return Value("code", taken[0].shape, stage["dtype"])

    def compile(self, stage: Any, context: Any) -> Run:
        """As ``Kind``."""
        scale, limits, dtype = np.float32(stage.scale), np.iinfo(stage.dtype), np.dtype(stage.dtype)

        def quantise(values: np.ndarray) -> np.ndarray:
            # A code beyond the range saturates; dropping it would reveal that it was large.
            return np.minimum(np.maximum(np.rint(values / scale), limits.min), limits.max).astype(dtype)

        return from_input(stage, quantise)
