"""The stages of a manifest: each function here makes a function of the flow from a stage and its context.

The *flow* maps names to arrays whose first axis is the frame (``lut.Flow``); a compiled stage reads its inputs from it
and adds its outputs. What can be checked once is checked when a stage is compiled; what only a frame shows drops it.
"""

import functools
from typing import Any, Callable, Dict, Tuple

import numpy as np

from edgeveil.edge_runtime.errors import FrameDropped
from edgeveil.edge_runtime.lut import Flow, LutArray, map_values
from edgeveil.edge_runtime.manifest.manifest import Stage
from edgeveil.edge_runtime.pipeline import preprocess, random_draws
from edgeveil.edge_runtime.pipeline.model_stage import ModelStage

Run = Callable[[Flow], None]


def _preprocess(stage: Stage, context: Any) -> Run:
    source, target = stage.input, stage.output
    function: Callable[[np.ndarray], Any] = preprocess.to_unit(context.dtype, stage.low, stage.high)
    one_range = not (np.ndim(stage.low) or np.ndim(stage.high) or stage.low is None)
    if context.dtype == np.uint8 and one_range:
        function = functools.partial(LutArray, function(np.arange(256, dtype=np.uint8)))

    def run(flow: Flow) -> None:
        flow[target] = function(flow[source])

    return run


def _draw(stage: Stage, context: Any) -> Run:
    target, random_bytes = stage.output, context.random_bytes
    if stage.distribution == "uniform":
        shape = stage.shape

        def run(flow: Flow) -> None:
            flow[target] = random_draws.uniform((len(flow[context.input]),) + shape, random_bytes=random_bytes)

    elif stage.distribution == "laplace":
        shape = stage.shape
        laplace = functools.partial(
            random_draws.discrete_laplace, numerator=stage.numerator, denominator=stage.denominator
        )
        laplace((0,))  # a scale that is none is refused before the first frame

        def run(flow: Flow) -> None:
            n = len(flow[context.input])
            flow[target] = laplace((n,) + shape, random_bytes=random_bytes)

    else:
        source = stage.input
        channel = random_draws.Channel(context.table(stage.table))

        def run(flow: Flow) -> None:
            flow[target] = channel.draw(_checked_codes(flow[source], channel.rows), random_bytes=random_bytes)

    return run


def _table(stage: Stage, _context: Any) -> Run:
    if stage.op == "argmax_within":
        return _argmax_within(stage)
    source, target = stage.input, stage.output

    def run(flow: Flow) -> None:
        flow[target] = flow[source].reshape(len(flow[source]), -1).argmax(axis=1).astype(np.int64, copy=False)

    return run


def _argmax_within(stage: Stage) -> Run:
    """The largest of a row's values within one of ``groups`` equal groups; numbered over the whole row, so that the
    code tells its group."""
    source, group, groups, target = stage.input, stage.group, stage.groups, stage.output

    def run(flow: Flow) -> None:
        values = flow[source].reshape(len(flow[source]), -1)
        size, rest = divmod(values.shape[1], groups)
        if rest or not size:
            raise FrameDropped("shape")
        chosen = _checked_codes(flow[group], groups)
        within = values.reshape(-1, groups, size)[np.arange(len(values)), chosen].argmax(axis=1)
        flow[target] = chosen * size + within.astype(np.int64, copy=False)

    return run


def _hold(stage: Stage, context: Any) -> Run:
    source, target = stage.input, stage.output
    if stage.op == "majority":
        groups = stage.groups

        def run(flow: Flow) -> None:
            flow[target] = context.track_memory.majority(target, _checked_codes(flow[source], groups), groups)

    else:
        by = stage.by

        def run(flow: Flow) -> None:
            flow[target] = context.track_memory.keep(target, flow[source], flow[by])

    return run


def _synthesis(stage: Stage, context: Any) -> Run:
    source, target, table = stage.input, stage.output, context.table(stage.table)

    def run(flow: Flow) -> None:
        flow[target] = table[_checked_codes(flow[source], len(table))]

    return run


def _add(stage: Stage, _context: Any) -> Run:
    """Noise of whole steps on a grid of ``levels`` steps from 0 to 1; what would leave the grid stays at its end."""
    source, noise, target = stage.input, stage.noise, stage.output
    levels = np.int64(stage.levels)

    def run(flow: Flow) -> None:
        steps = flow[noise]
        if steps.dtype != np.int64 or steps.shape != flow[source].shape:
            raise FrameDropped("shape")
        place = np.rint(flow[source] * np.float32(levels)).astype(np.int64)
        # Cut first, so that no sum can wrap around; what is cut would end there in any case.
        place += np.minimum(np.maximum(steps, -levels), levels)
        place = np.minimum(np.maximum(place, 0), levels)
        flow[target] = place.astype(np.float32) / np.float32(levels)

    return run


def _output(stage: Stage, _context: Any) -> Run:
    source, target = stage.input, stage.output
    function = preprocess.to_raw(stage.dtype, stage.low, stage.high)
    one_range = not (np.ndim(stage.low) or np.ndim(stage.high))
    function = map_values(function) if one_range else function

    def run(flow: Flow) -> None:
        flow[target] = function(flow.lazy(source) if one_range else flow[source])

    return run


def _quantise(stage: Stage, _context: Any) -> Run:
    source, target, dtype = stage.input, stage.output, np.dtype(stage.dtype)
    scale, limits = np.float32(stage.scale), np.iinfo(stage.dtype)

    def run(flow: Flow) -> None:
        q = np.rint(flow[source] / scale)
        # A code beyond the range saturates; to drop it would tell that it was large.
        flow[target] = np.minimum(np.maximum(q, limits.min), limits.max).astype(dtype)

    return run


def _checked_codes(codes: np.ndarray, count: int) -> np.ndarray:
    # A negative code would index from the end without a word.
    if codes.dtype.kind not in "iu" or codes.ndim != 1 or (codes < 0).any() or (codes >= count).any():
        raise FrameDropped("code-range")
    return codes.astype(np.int64, copy=False)


# kind of stage -> its function, the key that picks a variant of it, and the variants that there are
KINDS: Dict[str, Tuple[Callable[[Stage, Any], Run], str, Tuple[str, ...]]] = {
    "preprocess": (_preprocess, "", ()),
    "artefact": (ModelStage, "", ()),
    "draw": (_draw, "distribution", ("uniform", "channel", "laplace")),
    "table": (_table, "op", ("argmax", "argmax_within")),
    "hold": (_hold, "op", ("majority", "keep")),
    "synthesis": (_synthesis, "op", ("row",)),
    "add": (_add, "", ()),
    "output": (_output, "", ()),
    "quantise": (_quantise, "", ()),
}
