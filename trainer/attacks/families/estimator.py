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
        """P(z | x', y) of each row; a z that was never seen in training gets 0."""
        out = np.zeros((len(part), self.z_classes))
        out[:, self.model.classes_] = self.model.predict_proba(self.view(part))
        return out


def log_loss(probabilities: np.ndarray, z: np.ndarray) -> float:
    """Mean cross-entropy in nats, each probability at least 1e-6."""
    return float(-np.log(np.maximum(probabilities[np.arange(len(z)), z], 1e-6)).mean())
