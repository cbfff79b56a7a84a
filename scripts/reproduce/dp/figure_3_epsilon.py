"""What epsilon the Laplace noise of paper 000's figure 3 would be worth, were it exact and its range public."""

from __future__ import annotations

from typing import Any

import numpy as np

from edgeveil.trainer.datasets.loaders import scene
from edgeveil.trainer.linear.laplace_noise import scale_for
from scripts.reproduce.papers.predictors import PAPER_FIGURE_3, splits

WANTED, COUNT = 1, 10


def rows() -> list[dict[str, Any]]:
    """For each eps of the figure the noise's scale, and the epsilon of one value and of a vector (their sum).

    A value's range is that of the data set: figure 3 states none.
    """
    data = scene.load()
    span = np.ptp(data.x, axis=0)
    found = []
    for eps in PAPER_FIGURE_3:
        scales = np.array([scale_for(split.a_d, eps=eps * WANTED) for split in splits(data, WANTED, COUNT)])
        scale = float(scales.mean())
        each = span / scale
        found.append(
            {
                "eps": eps,
                "scale": scale,
                "epsilon_value": {"median": float(np.median(each)), "largest": float(each.max())},
                "epsilon_vector": float(each.sum()),
                "features": data.x.shape[1],
            }
        )
    return found
