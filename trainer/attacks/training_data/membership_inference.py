"""Membership inference from a classifier's logits: was this row among those that it was trained on?

For an attacker who holds the bundle, and so can run its artefact on any row. Two attacks: the loss alone (Yeom et al.
2018), and the likelihood ratio of Carlini et al., "Membership Inference Attacks From First Principles", 2022, by shadow
models that were trained like the target, each on half of the rows.
"""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp

from edgeveil.edge_runtime.errors import BadInput

TINY = 1e-6  # of a deviation: scores that are all alike


def confidence(logits: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """log p / (1 - p) of the right class (n,), of ``logits`` (n, classes): near a normal law, as the ratio needs.

    It orders rows as minus the loss does, so it is the score of the attack by the loss, too.
    """
    rows = np.arange(len(labels))
    others = np.array(logits, np.float64)
    right = others[rows, labels].copy()
    others[rows, labels] = -np.inf
    return right - logsumexp(others, axis=1)


def halves(rows: int, models: int, rng: np.random.Generator) -> np.ndarray:
    """Which rows each model is trained on, bool (models, rows): every row is in half of the models, but for one where
    their number is odd."""
    order = np.argsort(rng.random((models, rows)), axis=0)
    return order < models // 2


def likelihood_ratio(target: np.ndarray, shadows: np.ndarray, inside: np.ndarray) -> np.ndarray:
    """log of how much likelier the target's confidences (n,) are of a model that was trained on the row, (n,).

    ``shadows`` (m, n) are the confidences of models that were trained on the rows ``inside`` (m, n). Each row has two
    means of its own; both deviations are common to all rows, since few shadows know no better. Raises ``BadInput``
    where a row is in all shadows or in none.
    """
    if inside.all(axis=0).any() or not inside.any(axis=0).all():
        raise BadInput("Expected every row in some shadow models and not in others; draw their rows by halves().")
    logs = []
    for side in (inside, ~inside):
        kept = np.where(side, shadows, np.nan)
        means = np.nanmean(kept, axis=0)
        freedom = side.sum() - len(means)  # a mean for each row is taken off
        deviation = max(float(np.sqrt(np.nansum((kept - means) ** 2) / max(freedom, 1))), TINY)
        # The mean itself is known from so many shadows only.
        spread = deviation * np.sqrt(1 + 1 / side.sum(axis=0))
        logs.append(-(((target - means) / spread) ** 2) / 2 - np.log(spread))
    return np.asarray(logs[0] - logs[1])
