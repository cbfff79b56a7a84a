"""The nine variants of the estimator that were compared by leaving networks out; the product has the chosen one."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import numpy as np

from edgeveil.devices.latency.calibration import Row
from edgeveil.devices.latency.regression import COST_KEYS, COSTS, EFFECTS, FREEDOM, Regression, quantile
from edgeveil.devices.latency.terms import TERMS, kind

USUAL = "stiffer boards, calibrated by kind"
# name -> the priors' scales of kind, runtime and board, and the freedom of networks' own effects
_FITS: dict[str, tuple[tuple[float, float, float], float]] = {
    "usual": ((1.0, 0.4, 0.2), 4.0),
    "stiffer boards": (COSTS, FREEDOM),
    "heavier tails": ((1.0, 0.4, 0.2), 2.5),
}


def scored(rows: Sequence[Row], share: float) -> dict[str, tuple[float, Regression]]:
    """Every variant's score on these rows, networks left out, and its fit.

    Each fit is taken with ranges as they are, stretched alike on all chips, and stretched for each kind of chip.
    """
    found = {}
    for name, (costs, freedom) in _FITS.items():
        by_kind = Regression(rows, costs=costs, freedom=freedom)
        ratios, weights, _ = by_kind.ratios(share)
        everywhere = float(quantile(ratios, weights, share))
        bare, alike = copy.copy(by_kind), copy.copy(by_kind)
        bare.stretch = dict.fromkeys(by_kind.stretch, 1.0)
        alike.stretch = dict.fromkeys(by_kind.stretch, everywhere)
        for fit, ending in ((bare, ""), (alike, ", calibrated"), (by_kind, ", calibrated by kind")):
            found[name + ending] = left_out_score(fit, share), fit
    return found


def chosen(rows: Sequence[Row], share: float) -> tuple[str, Regression]:
    """The variant with the best score when networks are left out of these rows, and its fit."""
    fits = scored(rows, share)
    best = min(fits, key=lambda name: fits[name][0])
    return best, fits[best][1]


def left_out_score(fit: Regression, share: float) -> float:
    """The mean interval score of every row, its network left out: what variants are chosen by."""
    scores = []
    for at, off, spread in fit.left_out():
        stretch = np.array([fit.stretch[kind(fit.rows[i])] for i in at])
        reach = stretch * fit.reach(at, share) * spread
        scores += (2 * reach + 2 / (1 - share) * np.maximum(off - reach, 0)).tolist()
    return float(np.mean(scores))


def spreads(fit: Regression) -> dict[str, float]:
    """The fitted spread of every effect, as a factor of latency's logarithm."""
    names = [f"cost of {term.name}, {level}" for level, _ in COST_KEYS for term in TERMS]
    names += [effect.name for effect in EFFECTS]
    return {name: round(float(spread), 3) for name, spread in zip(names, fit.spreads, strict=True)}
