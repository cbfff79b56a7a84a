"""Attacks by scikit-learn estimators: features in, probabilities over every z out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable

import numpy as np

from edgeveil.trainer.attacks.problem import Released

View = Callable[[Released], np.ndarray]


@dataclass(frozen=True)
class EstimatorAttack:
    """A fitted scikit-learn classifier behind the view of x' that it was fitted on."""

    model: Any
    view: View
    z_classes: int
    train_samples: int

    def probabilities(self, part: Released) -> np.ndarray:
        """P(z | x', y) of each row."""
        return predicted(self.model, self.view(part), self.z_classes)


def predicted(model: Any, x: np.ndarray, z_classes: int) -> np.ndarray:
    """P(z | x), (n, ``z_classes``), of a fitted classifier; a z that was not in training gets 0."""
    out = np.zeros((len(x), z_classes))
    out[:, model.classes_] = model.predict_proba(x)
    return out


def log_loss(probabilities: np.ndarray, z: np.ndarray) -> float:
    """Mean cross-entropy in nats, each probability at least 1e-6."""
    return float(-np.log(np.maximum(probabilities[np.arange(len(z)), z], 1e-6)).mean())
