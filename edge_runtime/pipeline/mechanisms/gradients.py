"""The gradient of one sample's loss at parameters from without, clipped: what a mechanism reports of a training round.

A sample x has d features and, last, the label y, in units of x; its score is s = theta . features. The loss is

* ``logistic``: log(1 + exp(-s)) for y = 1, log(1 + exp(s)) for y = 0, with the gradient (sigmoid(s) - y) features;
* ``squared``: (s - y)^2 / 2, with the gradient (s - y) features: least squares;
* ``median``: |s - y|, with the gradient sign(s - y) features: the median of y given the features.

Each value is clipped to [-clip, clip] (the l-infinity ball) and scaled to the unit cube, which a mechanism takes.
Abadi and others, "Deep Learning with Differential Privacy", 2016, clip each sample's own gradient too.
"""

from typing import Any, Callable, Dict

import numpy as np

from edgeveil.edge_runtime.lut import Flow
from edgeveil.edge_runtime.manifest.manifest import Stage

_RESIDUALS: Dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    # The hyperbolic tangent does not overflow where an exponential does.
    "logistic": lambda score, y: 0.5 * (1.0 + np.tanh(0.5 * score)) - y,
    "squared": lambda score, y: score - y,
    "median": lambda score, y: np.sign(score - y),
}


def compile_parameters(stage: Stage, context: Any) -> Callable[[Flow], None]:
    """Hands each frame the parameters that ``context.parameters`` holds now."""
    target, name = stage.output, context.input
    values = context.parameters[target] = np.zeros(stage.shape, np.float32)

    def run(flow: Flow) -> None:
        flow[target] = np.broadcast_to(values, (len(flow[name]),) + values.shape)

    return run


def compile_gradient(stage: Stage, _context: Any) -> Callable[[Flow], None]:
    """The stage as a function of the flow: u float32 (n, d + 1) and theta float32 (n, d) in, float32 (n, d) of [0, 1]
    out."""
    residual, source, parameters, target = _RESIDUALS[stage.loss], stage.input, stage.parameters, stage.output
    # In double precision no product of a sample within its bounds and bounded parameters overflows.
    low, high = np.asarray(stage.low, np.float64), np.asarray(stage.high, np.float64)
    clip = float(stage.clip)

    def run(flow: Flow) -> None:
        x = low + flow[source] * (high - low)
        features = x[:, :-1]
        score = np.einsum("nd,nd->n", features, flow[parameters].astype(np.float64))
        gradient = residual(score, x[:, -1])[:, None] * features
        clipped = np.minimum(np.maximum(gradient / clip, -1.0), 1.0)
        flow[target] = (0.5 + 0.5 * clipped).astype(np.float32)

    return run
