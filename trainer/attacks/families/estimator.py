"""Attacks by scikit-learn estimators: features in, probabilities over every z out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from edgeveil.trainer.attacks.problem import Problem, Released
from edgeveil.trainer.attacks.protocol import Learned

MOST_CLASSES = 10  # of boosting: each class of z is a forest of its own; beyond this a random forest does the work

View = Callable[[Released], np.ndarray]


def behind(view: View, model: Any, problem: Problem, rows: int) -> Learned:
    """The attack of a classifier of scikit-learn that was fitted on a view of so many rows."""
    return Learned(lambda part: predicted(model, view(part), problem.z_classes), rows)


def predicted(model: Any, x: np.ndarray, z_classes: int) -> np.ndarray:
    """P(z | x), (n, ``z_classes``), of a fitted classifier, also of a sparse x; a z not in training gets 0."""
    out = np.zeros((x.shape[0], z_classes))
    out[:, model.classes_] = model.predict_proba(x)
    return out


def log_loss(probabilities: np.ndarray, z: np.ndarray) -> float:
    """Mean cross-entropy in nats, each probability at least 1e-6."""
    return float(-np.log(np.maximum(probabilities[np.arange(len(z)), z], 1e-6)).mean())


def trees(problem: Problem, view: View, seed: int) -> Learned:
    """Boosted trees on ``view``, stopped on ``stop``; a forest, where z has many values."""
    fit, stop = problem.fit, problem.stop
    if problem.z_classes <= MOST_CLASSES:
        model = boosted(view(fit), fit.z, view(stop), stop.z, problem.budget.trees, seed)
    else:
        model = forest(view(fit), fit.z, problem.budget.trees, seed)
    return behind(view, model, problem, len(fit) + len(stop))


def boosted(x: np.ndarray, z: np.ndarray, x_stop: np.ndarray, z_stop: np.ndarray, trees: int, seed: int) -> Any:
    """A histogram gradient boosting classifier, stopped early on rows of its own."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from threadpoolctl import threadpool_limits

    known = np.isin(z_stop, np.unique(z))
    settings: dict[str, Any] = {"learning_rate": 0.15, "max_leaf_nodes": 15, "max_features": 0.3}
    settings |= {"early_stopping": True, "n_iter_no_change": 8}
    model = HistGradientBoostingClassifier(max_iter=trees, random_state=seed, **settings)
    # On little data threads only wait for each other: 30 s instead of 0.3 s on two busy cores.
    with threadpool_limits(1 if x.size < 5_000_000 else None, user_api="openmp"):
        return model.fit(x, z, X_val=x_stop[known], y_val=z_stop[known])


def forest(x: np.ndarray, z: np.ndarray, trees: int, seed: int, *, jobs: int = 2) -> Any:
    """A random forest with at least two rows in each leaf."""
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(trees, min_samples_leaf=2, n_jobs=jobs, random_state=seed).fit(x, z)
