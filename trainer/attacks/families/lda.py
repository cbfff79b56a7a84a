"""Linear discriminant analysis with a shrunken covariance on principal components, within each y or over all.

With many values of z and few rows of each (faces: 38 people, 14 pictures a person) it beats small networks.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from edgeveil.trainer.attacks import features
from edgeveil.trainer.attacks.families.estimator import log_loss, predicted
from edgeveil.trainer.attacks.problem import Problem, Released
from edgeveil.trainer.attacks.protocol import Adaptive, Learned

COMPONENTS = 120
LEAST = 1e-6  # of P(z|y), where a z was not counted with a y


class ShrinkageLDA(Adaptive):
    """Linear discriminants, within each y or over all, on 120 principal components: many z with few rows each."""

    name = "shrinkage LDA on PCA"
    order = 4
    swept = True

    def fit(self, problem: Problem, seed: int) -> Learned:
        """Fit the components and the discriminants to all training rows.

        Of both ways the one is taken that has the lower loss on ``stop`` when it has learned from ``fit`` alone.
        """
        from sklearn.decomposition import PCA

        training = problem.training()
        flat = _features(problem, training)
        components = min(COMPONENTS, flat.shape[1], len(training) // 4)
        with np.errstate(invalid="ignore"):  # constant features have no variance to take a share of
            pca = PCA(components, random_state=seed).fit(flat)
        scores = pca.transform(flat)
        # Where z is in x' without any noise the covariance within z is 0 and the equations have no solution: noise of
        # a thousandth of the spread gives the perfect leak its perfect score.
        grain = 1e-3 * max(float(scores.std()), 1e-6)
        scores = scores + np.random.default_rng(seed).normal(0.0, grain, scores.shape)
        fit = len(problem.fit)
        tried = [_discriminants(problem, pca, scores[:fit], problem.fit, over_all) for over_all in (False, True)]
        losses = [log_loss(one.probabilities(problem.stop), problem.stop.z) for one in tried]
        return _discriminants(problem, pca, scores, training, losses[1] < losses[0])


def _discriminants(problem: Problem, pca: Any, scores: np.ndarray, rows: Released, over_all: bool) -> Learned:
    """One discriminant per y; where y had too little to learn from, the counted P(z|y).

    With ``over_all`` it is the same one for each y, of equal shares of every z, and P(z|y) weighs what it reads.
    """
    values = range(len(problem.theta))
    if over_all:
        models = dict.fromkeys(values, _fitted(scores, rows.z, np.ones(len(rows), bool), equal=True))
    else:
        models = {y: _fitted(scores, rows.z, rows.y == y) for y in values}
    able = {y: model for y, model in models.items() if model is not None}

    def probabilities(part: Released) -> np.ndarray:
        scores, base = pca.transform(_features(problem, part)), problem.base(part)
        out = base.copy()
        for y, model in able.items():
            of_y = np.flatnonzero(part.y == y)
            if len(of_y):
                out[of_y] = predicted(model, scores[of_y], out.shape[1])
        if over_all and able:
            out *= np.maximum(base, LEAST)
            out /= out.sum(axis=1, keepdims=True)
        return out

    return Learned(probabilities, len(rows))


def _fitted(scores: np.ndarray, z: np.ndarray, rows: np.ndarray, equal: bool = False) -> Any:
    """A discriminant of those z that have two of the ``rows``, which a covariance needs; None for fewer than two z."""
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    present, counts = np.unique(z[rows], return_counts=True)
    present = present[counts >= 2]
    if len(present) < 2:
        return None
    rows = rows & np.isin(z, present)
    priors = np.full(len(present), 1.0 / len(present)) if equal else None
    return LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto", priors=priors).fit(scores[rows], z[rows])


def _features(problem: Problem, part: Released) -> np.ndarray:
    flat = features.flat(problem, part)
    return flat if part.also is None else np.concatenate([flat, part.also.astype(np.float32)], axis=1)
