"""The Laplace mechanism on every feature, tuned to the error a cleaner makes (paper 000, figure 3)."""

from __future__ import annotations

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.linear.cleaner import checked_operator


def scale_for(a_d: np.ndarray, *, eps: float) -> float:
    """The scale b at which independent Laplace noise moves A_d^T x by eps in the mean square.

    Noise of scale b has variance 2 b^2 in every feature, so E|A_d^T noise|^2 = 2 b^2 |A_d|_F^2.
    """
    weight = np.sum(checked_operator(a_d, "A_d") ** 2)
    if not 0 <= eps < np.inf or weight == 0:
        raise BadInput(f"The Laplace mechanism needs eps from 0 up (got {eps}) and an A_d that is not zero.")
    return float(np.sqrt(eps / (2 * weight)))
