"""Pictures of classes or codes by the Gaussian mechanism, which a resumed run does not draw again."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace

import numpy as np

from edgeveil.trainer.private.means import noisy_means
from edgeveil.trainer.private.noise import Noise
from edgeveil.trainer.runs.log import Log


def noisy_pictures(
    u: np.ndarray, of: np.ndarray, count: int, rows: Sequence[np.ndarray], *, sigma: float, noise: Noise, log: Log
) -> np.ndarray:
    """The mean (count, *shape) of samples u (n, *shape) by the class or code ``of`` (n,); float32 in the unit cube.

    ``rows`` are the row numbers of each unit, ``sigma`` is the deviation of the noise on ``means.bounded_sums``.
    """
    import tensorflow as tf

    pictures = tf.Variable(tf.zeros((count, *u.shape[1:])))
    kept = log.checkpoint("pictures", pictures=SimpleNamespace(variables=[pictures]))
    if kept.restore() is None:  # drawn once: another draw of a resumed run would have to be paid for
        pictures.assign(noisy_means(u, of, count, rows, sigma=sigma, noise=noise))
        kept.save()
    return np.asarray(pictures.numpy())
