"""Draws that a mechanism uses up: words, coins, integers and subsets, exact, from the operating system's generator.

Every function takes ``shape`` (n, ...), the frame first, and ``random_bytes`` as those of ``random_draws``.
"""

import functools
import os
from typing import Any, Callable, Dict, Tuple

import numpy as np

from edgeveil.edge_runtime.errors import BadInput, FrameDropped
from edgeveil.edge_runtime.lut import Flow, LutArray, lazy, map_values
from edgeveil.edge_runtime.manifest.manifest import Stage
from edgeveil.edge_runtime.pipeline import preprocess, random_draws
from edgeveil.edge_runtime.pipeline.random_draws import RandomBytes, integers
from edgeveil.edge_runtime.pipeline.track_memory import Pool

_SPARE = np.uint64(2)  # bits of a 64-bit word that a coin of 62 does not need


def _count(shape: Tuple[int, ...]) -> int:
    return int(np.prod(shape, dtype=np.int64))


def words(shape: Tuple[int, ...], *, random_bytes: RandomBytes = os.urandom) -> np.ndarray:
    """Independent words of 32 fair bits, uint32 ``shape``."""
    # A copy, for what was used is overwritten, and bytes cannot be.
    return np.frombuffer(random_bytes(4 * _count(shape)), np.uint32).reshape(shape).copy()


def coins(shape: Tuple[int, ...], *, numerator: int, random_bytes: RandomBytes = os.urandom) -> np.ndarray:
    """Independent coins, true with probability ``numerator`` / 2**62; bool ``shape``."""
    drawn = np.frombuffer(random_bytes(8 * _count(shape)), np.uint64) >> _SPARE
    return (drawn < np.uint64(numerator)).reshape(shape)


def whole_numbers(shape: Tuple[int, ...], *, bound: int, random_bytes: RandomBytes = os.urandom) -> np.ndarray:
    """Independent integers, each of 0 .. ``bound`` - 1 equally likely; int64 ``shape``."""
    return integers(bound, _count(shape), random_bytes=random_bytes).reshape(shape)


def subsets(shape: Tuple[int, int], *, of: int, random_bytes: RandomBytes = os.urandom) -> np.ndarray:
    """For each of n rows, k different places of 0 .. ``of`` - 1, every choice equally likely; int64 (n, k), ascending.

    Floyd's algorithm (Bentley and Floyd, "A Sample of Brilliance", 1987): one integer for each place.
    """
    n, k = shape
    chosen = np.empty((n, k), np.int64)
    for place in range(k):
        last = of - k + place
        drawn = integers(last + 1, n, random_bytes=random_bytes)
        taken = (chosen[:, :place] == drawn[:, None]).any(axis=1)
        chosen[:, place] = np.where(taken, last, drawn)
    chosen.sort(axis=1)
    return chosen


def drawing(stage: Stage) -> Callable[[Tuple[int, ...]], np.ndarray]:
    """The function from a shape (n, ...) to the draws of a ``draw`` stage of lots."""
    if stage.distribution == "coin":
        return functools.partial(coins, numerator=stage.numerator)
    if stage.distribution == "integer":
        return functools.partial(whole_numbers, bound=stage.bound)
    if stage.distribution == "subset":
        return functools.partial(subsets, of=stage.of)
    return words


# The stage that runs a model: its inputs from the flow, the interpreter, and its outputs into the flow.


class ModelStage(object):
    """A stage ``artefact`` of the manifest; ``preprocess``, ``infer`` and ``postprocess`` may run on three threads."""

    def __init__(self, stage: Stage, context: Any) -> None:
        runner = context.runners.get(stage.model)
        if runner is None:
            raise BadInput("a stage names the model {!r}, which does not exist".format(stage.model))
        self._inputs, self._outputs = list(stage.inputs.items()), list(stage.outputs.items())
        self._x = context.input
        self._promises = context.promises
        # A network in training has real tensors: nothing to convert.
        self._preprocess, self._postprocess = (
            getattr(runner, part, lambda values: values) for part in ("preprocess", "postprocess")
        )
        self._infer = getattr(runner, "infer", runner.run)

    def __call__(self, flow: Flow) -> None:
        self.preprocess(flow)
        self.infer(flow)
        self.postprocess(flow)

    def preprocess(self, flow: Flow) -> None:
        """Convert the inputs from the flow to the interpreter's tensors."""
        flow.between = self._preprocess(Flow({tensor: flow.lazy(name) for tensor, name in self._inputs}))

    def infer(self, flow: Flow) -> None:
        """Run the interpreter."""
        feeds, flow.between = flow.between, self._infer(flow.between)
        if isinstance(feeds, list):  # else it is a flow over the same arrays
            flow.used += feeds

    def postprocess(self, flow: Flow) -> None:
        """Convert the interpreter's tensors and put them into the flow."""
        values, flow.between = self._postprocess(flow.between), None
        n = len(flow[self._x])
        for tensor, name in self._outputs:
            value = lazy(values, tensor)
            if len(value) != n:
                raise FrameDropped("shape")
            # The values of a lookup table are finite: the backend has checked that.
            if type(value) is not LutArray and not np.isfinite(value).all():
                if not self._promises:
                    raise FrameDropped("not-finite")
                value = np.where(np.isfinite(value), value, np.float32(0))  # to drop the frame would tell
            flow[name] = value


# The stages of a manifest: each function here compiles a stage, in its context, to a function of the flow.
#
# The *flow* maps names to arrays whose first axis is the frame (``lut.Flow``); a compiled stage reads its inputs from
# it and adds its outputs. Stages are checked when they are compiled as far as possible; other errors drop the frame.


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
    draw: Callable[..., np.ndarray] = drawing(stage) if stage.distribution in LOTS else random_draws.uniform
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
