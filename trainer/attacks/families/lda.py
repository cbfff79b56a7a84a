"""Linear discriminant analysis with a shrunken covariance on principal components, within each y.

With many values of z and few rows of each (faces: 38 people, 14 pictures a person) it beats small networks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from edgeveil.trainer.attacks import features
from edgeveil.trainer.attacks.families.estimator import predicted
from edgeveil.trainer.attacks.problem import Problem, Released
from edgeveil.trainer.attacks.protocol import Adaptive

COMPONENTS = 120


class ShrinkageLDA(Adaptive):
    """Linear discriminants within each y, on at most 120 principal components: many z with few rows each, as faces."""

    name = "shrinkage LDA on PCA"
    order = 4
    swept = True

    def fit(self, problem: Problem, seed: int) -> WithinY:
        """Fit the components on all training rows, then a discriminant to the rows of each y."""
        from sklearn.decomposition import PCA
        from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

        training = problem.training()
        features = _features(problem, training)
        components = min(COMPONENTS, features.shape[1], len(training) // 4)
        with np.errstate(invalid="ignore"):  # constant features have no variance to take a share of
            pca = PCA(components, random_state=seed).fit(features)
        scores = pca.transform(features)
        # Where z is in x' without any noise the covariance within z is 0 and the equations have no solution: noise of
        # a thousandth of the spread gives the perfect leak its perfect score.
        grain = 1e-3 * max(float(scores.std()), 1e-6)
        scores = scores + np.random.default_rng(seed).normal(0.0, grain, scores.shape)
        models = {}
        for y in np.unique(training.y):
            rows = training.y == y
            present, counts = np.unique(training.z[rows], return_counts=True)
            keep = rows & np.isin(training.z, present[counts >= 2])  # a covariance needs two rows
            if len(np.unique(training.z[keep])) >= 2:
                model = LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto")
                models[int(y)] = model.fit(scores[keep], training.z[keep])
        return WithinY(problem, pca, models, len(training))


@dataclass(frozen=True)
class WithinY:
    """One discriminant per y; where y had too little to learn from, the counted P(z|y)."""

    problem: Problem
    pca: Any
    models: dict[int, Any]
    train_samples: int

    def probabilities(self, part: Released) -> np.ndarray:
        """P(z | x', y) of each row, from the discriminant of its y."""
        scores = self.pca.transform(_features(self.problem, part))
        out = self.problem.base(part).copy()
        for y, model in self.models.items():
            rows = np.flatnonzero(part.y == y)
            if len(rows):
                out[rows] = predicted(model, scores[rows], out.shape[1])
        return out


def _features(problem: Problem, part: Released) -> np.ndarray:
    flat = features.flat(problem, part)
    return flat if part.also is None else np.concatenate([flat, part.also.astype(np.float32)], axis=1)
