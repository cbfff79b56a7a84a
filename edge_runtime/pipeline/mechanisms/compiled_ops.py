"""Compiles a ``mechanism`` stage: its report, made of its input and its draws, all of the flow."""

import functools
from typing import Any, Callable, Dict

import numpy as np

from edgeveil.edge_runtime.lut import Flow
from edgeveil.edge_runtime.manifest.manifest import Stage
from edgeveil.edge_runtime.pipeline.mechanisms import categories, duchi_ball, duchi_cube, piecewise, whole_steps


def compile_mechanism(stage: Stage, context: Any) -> Callable[[Flow], None]:
    """The stage as a function of the flow; ``context.drawn`` has the draw stages by output."""
    function = OPS[stage.op](stage, context)
    source, noise, target = stage.input, stage.noise, stage.output

    def run(flow: Flow) -> None:
        flow[target] = function(flow[source], *[flow[name] for name in noise])

    return run


def _hybrid(stage: Stage, context: Any) -> Callable[..., np.ndarray]:
    if len(stage.noise) == 3:
        return piecewise.report
    window, rest = (context.drawn[name].bound for name in stage.noise[5:])
    return lambda u, chosen, rounding, coin, *further: piecewise.report(
        u, chosen, rounding, coin, further, (window, rest)
    )


OPS: Dict[str, Callable[[Stage, Any], Callable[..., np.ndarray]]] = {
    "duchi-linf": lambda _stage, _context: duchi_cube.report,
    "duchi-l2": lambda stage, _context: functools.partial(duchi_ball.report, radius=stage.radius),
    "laplace": lambda stage, _context: functools.partial(whole_steps.report, levels=stage.levels),
    "hybrid": _hybrid,
    "oue": lambda _stage, _context: categories.bits,
    "rappor": lambda _stage, _context: categories.bits,
    "rappor-again": lambda _stage, _context: categories.bits_again,
    "hrr": lambda stage, context: functools.partial(categories.hadamard, rows=context.drawn[stage.noise[0]].bound),
}
