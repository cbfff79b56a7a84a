"""The stages of a manifest: each function here compiles a stage, in its context, to a function of the flow.

The *flow* maps names to arrays whose first axis is the frame (``lut.Flow``); a compiled stage reads its inputs from it
and adds its outputs. Stages are checked when they are compiled as far as possible; other errors drop the frame.
"""

import functools
from typing import Any, Callable, Dict, Tuple

import numpy as np

from edgeveil.edge_runtime.errors import FrameDropped
from edgeveil.edge_runtime.lut import Flow, LutArray, map_values
from edgeveil.edge_runtime.manifest.manifest import Stage
from edgeveil.edge_runtime.pipeline import lots, preprocess, random_draws
from edgeveil.edge_runtime.pipeline.draw_pool import Pool
from edgeveil.edge_runtime.pipeline.model_stage import ModelStage

Run = Callable[[Flow], None]
LOTS = ("words", "coin", "integer", "subset")


def _from_input(stage: Stage, function: Callable[[np.ndarray], Any]) -> Run:
    """A stage whose output is ``function`` of its input."""
    source, target = stage.input, stage.output

    def run(flow: Flow) -> None:
        flow[target] = function(flow[source])

    return run


def _preprocess(stage: Stage, context: Any) -> Run:
    function: Callable[[np.ndarray], Any] = preprocess.to_unit(context.dtype, stage.low, stage.high)
    one_range = not (np.ndim(stage.low) or np.ndim(stage.high) or stage.low is None)
    if context.dtype == np.uint8 and one_range:
        function = functools.partial(LutArray, function(np.arange(256, dtype=np.uint8)))
    return _from_input(stage, function)


def _draw(stage: Stage, context: Any) -> Run:
    if stage.distribution == "channel":
        channel, checked = random_draws.Channel(context.table(stage.table)), _codes(context)
        return _from_input(stage, lambda codes: channel.draw(checked(codes, channel.rows)))
    draw: Callable[..., np.ndarray] = lots.drawing(stage) if stage.distribution in LOTS else random_draws.uniform
    if stage.distribution == "laplace":
        draw = functools.partial(
            random_draws.discrete_laplace, numerator=stage.numerator, denominator=stage.denominator
        )
    target = stage.output
    pool = Pool(draw, tuple(stage.shape))  # refuses an invalid scale before the first frame
    context.pools.append(pool)

    def run(flow: Flow) -> None:
        flow[target] = pool.take(len(flow[context.input]))

    return run


def _table(stage: Stage, context: Any) -> Run:
    if stage.op == "argmax_within":
        return _argmax_within(stage, context)
    return _from_input(
        stage, lambda values: values.reshape(len(values), -1).argmax(axis=1).astype(np.int64, copy=False)
    )


def _argmax_within(stage: Stage, context: Any) -> Run:
    """The largest of a row's values within one of ``groups`` equal groups; its number counts over the whole row, so
    that the code identifies the group."""
    source, group, groups, target = stage.input, stage.group, stage.groups, stage.output
    checked = _codes(context)

    def run(flow: Flow) -> None:
        values = flow[source].reshape(len(flow[source]), -1)
        size, rest = divmod(values.shape[1], groups)
        if rest or not size:
            raise FrameDropped("shape")
        chosen = checked(flow[group], groups)
        rows = np.arange(0, len(values) * groups, groups) + chosen
        within = values.reshape(-1, size).take(rows, 0).argmax(axis=1)
        flow[target] = chosen * size + within.astype(np.int64, copy=False)

    return run


def _hold(stage: Stage, context: Any) -> Run:
    source, target, memory = stage.input, stage.output, context.track_memory
    if stage.op == "majority":
        groups, checked = stage.groups, _codes(context)
        return _from_input(stage, lambda labels: memory.majority(target, checked(labels, groups), groups))
    if stage.op == "first":
        return _from_input(stage, lambda values: memory.first(target, values))
    by = stage.by

    def run(flow: Flow) -> None:
        flow[target] = memory.keep(target, flow[source], flow[by])

    return run


def _synthesis(stage: Stage, context: Any) -> Run:
    table, checked = context.table(stage.table), _codes(context)
    return _from_input(stage, lambda codes: table.take(checked(codes, len(table)), 0))


def _add(stage: Stage, _context: Any) -> Run:
    """Noise of whole steps on a grid of ``levels`` steps from 0 to 1; sums outside the grid are clipped to its ends."""
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


def _output(stage: Stage, _context: Any) -> Run:
    source, target = stage.input, stage.output
    function = preprocess.to_raw(stage.dtype, stage.low, stage.high)
    one_range = not (np.ndim(stage.low) or np.ndim(stage.high))
    function = map_values(function) if one_range else function

    def run(flow: Flow) -> None:
        flow[target] = function(flow.lazy(source) if one_range else flow[source])

    return run


def _quantise(stage: Stage, _context: Any) -> Run:
    scale, limits, dtype = np.float32(stage.scale), np.iinfo(stage.dtype), np.dtype(stage.dtype)

    def quantise(values: np.ndarray) -> np.ndarray:
        # A code beyond the range saturates; dropping it would reveal that it was large.
        return np.minimum(np.maximum(np.rint(values / scale), limits.min), limits.max).astype(dtype)

    return _from_input(stage, quantise)


def _checked_codes(codes: np.ndarray, count: int) -> np.ndarray:
    # A negative code would silently index from the end. Of one frame, a list is quicker than two reductions.
    if codes.dtype.kind not in "iu" or codes.ndim != 1 or not all(0 <= code < count for code in codes.tolist()):
        raise FrameDropped("code-range")
    return codes.astype(np.int64, copy=False)


def _codes(context: Any) -> Callable[[np.ndarray, int], np.ndarray]:
    """How codes are brought below a count. Where a promise is made none is dropped: which one was would tell."""
    if not getattr(context, "promises", False):
        return _checked_codes
    return lambda codes, count: _checked_codes(np.minimum(codes, count - 1), count)


OPS = ("duchi-linf", "duchi-l2", "laplace", "hybrid", "oue", "rappor", "rappor-again", "hrr")  # of a mechanism


# Imported by the few pipelines that have one: the others start sooner.
def _mechanism(stage: Stage, context: Any) -> Run:
    from edgeveil.edge_runtime.pipeline.mechanisms.compiled_ops import compile_mechanism

    return compile_mechanism(stage, context)


# kind of stage -> its function, the key of its variant, and the variants
KINDS: Dict[str, Tuple[Callable[[Stage, Any], Run], str, Tuple[str, ...]]] = {
    "preprocess": (_preprocess, "", ()),
    "artefact": (ModelStage, "", ()),
    "draw": (_draw, "distribution", ("uniform", "channel", "laplace", *LOTS)),
    "mechanism": (_mechanism, "op", OPS),
    "table": (_table, "op", ("argmax", "argmax_within")),
    "hold": (_hold, "op", ("majority", "keep", "first")),
    "synthesis": (_synthesis, "op", ("row",)),
    "add": (_add, "", ()),
    "output": (_output, "", ()),
    "quantise": (_quantise, "", ()),
}
