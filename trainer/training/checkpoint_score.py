"""The score of a checkpoint: D_y and D_z on perturbed samples, the distance to MED, and that of x' to x."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from edgeveil.trainer.graphs.prediction import predict


@dataclass(frozen=True)
class CheckpointScore:
    """Measured on validation rows, against the classifiers that the perturber was trained against (non-adaptive)."""

    target_accuracy: float  # Acc(D_y)
    sensitive_accuracy: float  # Acc(D_z), its logits masked to the z that θ allows
    med_cross_entropy: float  # mean CE(MED(z|y), D_z(x'|y)), in nats; its least value is med_entropy
    med_entropy: float
    distance: float  # mean Euclidean distance between u and u' in the unit cube

    def as_dict(self) -> dict[str, float]:
        """By name, as plain numbers."""
        return asdict(self)

    def rank(self, *, floor: float, most_distance: float) -> tuple[float, ...]:
        """Smaller is better, for ``min`` over checkpoints.

        Best are those with Acc(D_y) of at least ``floor``; of them those within ``most_distance``, because a generator
        may destroy its input to deceive a confident D_z; of them the one whose D_z is nearest to MED. The accuracy of
        D_z is no measure: a D_z that is always wrong reveals as much as one that is always right. Where none meets the
        floor, the highest Acc(D_y) is best.
        """
        if self.target_accuracy < floor:
            return (1.0, -self.target_accuracy)
        return (0.0, float(self.distance > most_distance), self.med_cross_entropy)


def score_checkpoint(
    u: np.ndarray,
    perturbed: np.ndarray,
    y: np.ndarray,
    z: np.ndarray,
    *,
    theta: np.ndarray,
    target: Any,
    sensitive: Any,
) -> CheckpointScore:
    """Score ``perturbed`` (n, ...) against ``u`` (n, ...), both in the unit cube, with labels y and z (n,).

    ``theta`` is MED(z|y) (classes of y, classes of z); ``target`` and ``sensitive`` are D_y and D_z, Keras models from
    the unit cube to logits.
    """
    p = theta[y]
    log_d = log_masked(predict(sensitive, perturbed), p)
    surprise = -np.where(p > 0, p * np.where(p > 0, log_d, 0.0), 0.0).sum(axis=1)
    entropy = -np.where(p > 0, p * np.log(np.where(p > 0, p, 1.0)), 0.0).sum(axis=1)
    return CheckpointScore(
        target_accuracy=float((predict(target, perturbed).argmax(axis=1) == y).mean()),
        sensitive_accuracy=float((log_d.argmax(axis=1) == z).mean()),
        med_cross_entropy=float(surprise.mean()),
        med_entropy=float(entropy.mean()),
        distance=float(np.linalg.norm((perturbed - u).reshape(len(u), -1), axis=1).mean()),
    )


def log_masked(logits: np.ndarray, p: np.ndarray) -> np.ndarray:
    """log D_z(x'|y): logits (n, classes of z) masked to the z with p > 0 and renormalised; -inf elsewhere."""
    masked = np.where(p > 0, logits.astype(np.float64), -np.inf)
    masked -= masked.max(axis=1, keepdims=True)
    return masked - np.log(np.exp(masked).sum(axis=1, keepdims=True))
