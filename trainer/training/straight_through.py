"""Straight-through rounding: in training the losses see samples as they are sent, and the slope passes as if nothing
had been rounded.

Readings of few levels (WiFi: an access point is seen or not) need it: what a network makes of 0.3 says nothing of what
it makes of 0. The network that ships has no rounding; the output stage of the board rounds (``preprocess.to_raw``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.datasets.base import InputSpec


def identity(v: Any) -> Any:
    """v as it is: for samples of so many levels that rounding is not felt."""
    return v


def straight_through(spec: InputSpec) -> Callable[[Any], Any]:
    """A function of v (n, *shape) in the unit cube: rounded to the steps of ``spec``'s whole numbers, with slope 1.

    Raises ``BadInput`` where the samples are not whole numbers.
    """
    if np.dtype(spec.dtype).kind not in "iu":
        raise BadInput(
            f"`perturber.straight_through` is for readings of whole numbers; these are {spec.dtype}. Leave it out."
        )
    import tensorflow as tf

    span = tf.constant(spec.span, tf.float32)

    def sent(v: Any) -> Any:
        return v + tf.stop_gradient(tf.round(v * span) / span - v)

    return sent
