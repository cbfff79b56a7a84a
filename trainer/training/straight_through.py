"""Straight-through rounding: in training the losses see samples rounded, as sent, and the gradient passes unchanged.

Samples of few levels (WiFi: an access point is seen or not) need it: a network's output for 0.3 does not predict that
for 0. The network that ships has no rounding; the board's output stage rounds (``preprocess.to_raw``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.datasets.base import InputSpec


def identity(v: Any) -> Any:
    """v unchanged: for samples of so many levels that rounding does not matter."""
    return v


def straight_through(spec: InputSpec) -> Callable[[Any], Any]:
    """A function of v (n, *shape) in the unit cube: rounded to the steps of ``spec``'s integers, with gradient 1.

    Raises ``BadInput`` where the samples are not whole numbers.
    """
    if np.dtype(spec.dtype).kind not in "iu":
        raise BadInput(
            f"`perturber.straight_through` is for samples of whole numbers; these are {spec.dtype}. Leave it out."
        )
    import tensorflow as tf

    span = tf.constant(spec.span, tf.float32)

    def sent(v: Any) -> Any:
        return v + tf.stop_gradient(tf.round(v * span) / span - v)

    return sent
