"""Conversion to and from the unit cube: the same code in training, in the audit and on the board.

``u = clip((x - low) / (high - low), 0, 1)`` in float32, and back ``x' = low + clip(v, 0, 1) * (high - low)``, rounded
half to even where x is of an integer type. ``low`` and ``high`` are in units of x: numbers, or one per feature; both
None for vectors without a range, which go through as they are.
"""

import functools
from typing import Any, Callable, Tuple

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.late_imports import np
from edgeveil.edge_runtime.lut import LutArray, map_values
from edgeveil.edge_runtime.stages.base import DTYPES, Entry, Kind, Run, Value, from_input, same_shape
from edgeveil.edge_runtime.util.validate import bounds, one_of, refuse, rising

Function = Callable[[np.ndarray], np.ndarray]


def _checked_range(low: Any, high: Any) -> Tuple[np.ndarray, np.ndarray]:
    low, high = np.asarray(low, np.float32), np.asarray(high, np.float32)
    if not (np.isfinite(low).all() and np.isfinite(high).all() and (high > low).all()):
        raise BadInput("expected finite low < high for every feature; got another order. Correct the input section.")
    return low, high


def _cast_to(dtype: Any) -> Function:
    """Only the type changes."""

    def cast(x: np.ndarray) -> np.ndarray:
        # A value beyond float32 becomes infinite, and what a model makes of that is dropped.
        with np.errstate(over="ignore"):
            return x.astype(dtype)

    return cast


def to_unit(dtype: Any, low: Any, high: Any) -> Function:
    """The function from raw samples (n, ...) of ``dtype`` to float32 (n, ...) in [0, 1].

    One-byte samples with a single range go through a table of 256 entries, which gives the same bits.
    Raises ``BadInput`` if the range is empty or not finite.
    """
    dtype = np.dtype(dtype)
    if low is None and high is None:
        return _cast_to(np.float32)
    low, high = _checked_range(low, high)
    span = high - low

    def arithmetic(x: np.ndarray) -> np.ndarray:
        u = x.astype(np.float32)
        u -= low
        u /= span
        np.maximum(u, np.float32(0), out=u)
        return np.minimum(u, np.float32(1), out=u)

    if dtype != np.uint8 or low.ndim or high.ndim:
        return arithmetic
    return arithmetic(np.arange(256, dtype=np.uint8)).take


def to_raw(dtype: Any, low: Any, high: Any) -> Function:
    """The function from float32 (n, ...) back to samples (n, ...) of ``dtype``; values outside [0, 1] are clipped.

    Raises ``BadInput`` if the range is empty, not finite or outside what an integer ``dtype`` holds.
    """
    dtype = np.dtype(dtype)
    if low is None and high is None:
        return _cast_to(dtype)
    low, high = _checked_range(low, high)
    span = high - low
    whole = dtype.kind in "iu"
    if whole:
        limits = np.iinfo(dtype)
        if low.min() < limits.min or high.max() > limits.max:
            raise BadInput(
                "expected low and high within {} ({} to {}); got a wider range. Correct the output stage.".format(
                    dtype, limits.min, limits.max
                )
            )

    def raw(v: np.ndarray) -> np.ndarray:
        x = np.maximum(v, np.float32(0))
        np.minimum(x, np.float32(1), out=x)
        x *= span
        x += low
        if whole:
            np.rint(x, out=x)
        return x.astype(dtype)

    return raw


class Preprocess(Kind):
    """x in the unit cube."""

    name = "preprocess"
    reads = {"input": "raw"}
    fields = {"low": bounds, "high": bounds}
    rule = staticmethod(rising)
    measure = staticmethod(same_shape)  # type: ignore[assignment]

    def make(self, stage: Entry, at: str, flow: Any, *taken: Value) -> Value:
        """As ``Kind``."""
        flow.check_range(stage, at)
        return Value("unit", taken[0].shape, "float32")

    def compile(self, stage: Any, context: Any) -> Run:
        """As ``Kind``."""
        function: Callable[[np.ndarray], Any] = to_unit(context.dtype, stage.low, stage.high)
        one_range = not (np.ndim(stage.low) or np.ndim(stage.high) or stage.low is None)
        if context.dtype == np.uint8 and one_range:
            function = functools.partial(LutArray, function(np.arange(256, dtype=np.uint8)))
        return from_input(stage, function)


class Output(Kind):
    """Back from the unit cube: a whole sample."""

    name = "output"
    rounds = True
    reads = {"input": "model row noisy"}
    fields = {"low": bounds, "high": bounds, "dtype": one_of(DTYPES)}
    rule = staticmethod(rising)

    def make(self, stage: Entry, at: str, flow: Any, *taken: Value) -> Value:
        """As ``Kind``."""
        flow.check_range(stage, at)
        declared = flow.input
        if stage["dtype"] != declared["dtype"]:
            refuse("output-mismatch", at + ".dtype", "expected the dtype of the input, {}".format(declared["dtype"]))
        if taken[0].shape not in (None, declared["shape"]):
            refuse("output-mismatch", at + ".input", "its shape {} is not that of the input".format(taken[0].shape))
        return Value("frame", declared["shape"], stage["dtype"])

    def compile(self, stage: Any, context: Any) -> Run:
        """As ``Kind``."""
        source, target = stage.input, stage.output
        function: Callable[[Any], Any] = to_raw(stage.dtype, stage.low, stage.high)
        one_range = not (np.ndim(stage.low) or np.ndim(stage.high))
        function = map_values(function) if one_range else function

        def run(flow: Any) -> None:
            flow[target] = function(flow.lazy(source) if one_range else flow[source])

        return run
