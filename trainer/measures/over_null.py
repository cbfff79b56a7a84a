"""Bits about z that codes tell beyond y, over those of a null, with a bootstrap interval by unit.

The counted I(c'; z | y) is biased upwards: noise looks like information. The mean over shuffles of z is that bias where
nothing leaks, and is taken off. A bootstrap sample is noisier than the data, so its bits are biased once more. Only its
spread about its own mean is used, or the bias would be counted twice (Efron and Tibshirani 1993, chapter 10).
"""

from __future__ import annotations

import numpy as np

from edgeveil.trainer.measures import certificate
from edgeveil.trainer.measures.intervals import CONFIDENCE, Interval

RESAMPLES = 200


def over_null(
    y: np.ndarray,
    code: np.ndarray,
    z: np.ndarray,
    *,
    q: np.ndarray,
    classes: tuple[int, int],
    null_bits: float,
    rng: np.random.Generator,
    cluster: np.ndarray | None = None,
    resamples: int = RESAMPLES,
) -> Interval:
    """Bits beyond ``null_bits``, the mean of ``certificate.null_distribution``, of rows y, code, z (n,).

    ``q`` (codes, codes') is the channel behind the code, ``classes`` the numbers of classes of y and z. Units (rows, or
    ``cluster`` (n,)) are drawn with replacement ``resamples`` times. One unit says nothing: its ends are infinite.
    """
    shape = (classes[0], len(q), classes[1])
    cell = np.ravel_multi_index((y, code, z), shape)

    def bits(weights: np.ndarray | None) -> float:
        counts = np.bincount(cell, weights=weights, minlength=int(np.prod(shape))).reshape(shape)
        return certificate.information(certificate.released_counts(counts, q))

    estimate = bits(None) - null_bits
    unit = np.arange(len(y)) if cluster is None else np.unique(cluster, return_inverse=True)[1].reshape(-1)
    units = int(unit.max()) + 1
    if units < 2:
        return Interval(estimate, float("-inf"), float("inf"))
    drawn = np.array([bits(rng.multinomial(units, np.full(units, 1 / units))[unit]) for _ in range(resamples)])
    beyond = drawn - drawn.mean()
    low, high = np.quantile(beyond, [(1 + CONFIDENCE) / 2, (1 - CONFIDENCE) / 2])
    return Interval(estimate, float(estimate - low), float(estimate - high))
