"""The score of a trained attack: its metrics on the test rows, and on the rows that choose the worst."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.attacks.findings import Row
from edgeveil.trainer.attacks.problem import Problem, Released
from edgeveil.trainer.attacks.protocol import Attack, Kind
from edgeveil.trainer.attacks.scores import exposure
from edgeveil.trainer.measures import attack_metrics, intervals


class Diverged(Exception):
    """An attack whose probabilities are not finite: its training diverged."""


@dataclass(frozen=True)
class Scored:
    """A row, its attack's probabilities for the validation and test rows, ``raw`` and calibrated (``sure``), and those
    rows (``choose``, ``test``) in the order of these; ``fold`` is that of ``Problem``."""

    row: Row
    raw: dict[str, np.ndarray]
    sure: dict[str, np.ndarray]
    choose: Released
    test: Released
    fold: np.ndarray | None = None

    def hits(self) -> np.ndarray:
        """Whether the best guess is right, of each test row (n,)."""
        return (self.raw if self.row.kind != "adaptive" else self.sure)["test"].argmax(axis=1) == self.test.z

    def judged(self, part: Literal["choose", "test"]) -> exposure.Judged:
        """What the calibrated attack says of the rows of a part."""
        rows: Released = getattr(self, part)
        return exposure.Judged(self.sure[part], rows.y, rows.z, rows.cluster, self.fold if part == "test" else None)


class Answers(NamedTuple):
    """What an attack said of the rows to ``choose`` by and of the ``test`` rows: (n, classes of z) each.

    ``seconds`` is what learning and answering took.
    """

    raw: dict[str, np.ndarray]
    train_samples: int
    seconds: float = 0.0


def answers(problem: Problem, attack: Attack, name: str) -> Answers:
    """Ask a trained attack. Raises ``BadInput`` where it does not return probabilities, ``Diverged`` where they are not
    finite."""
    raw = {
        part: checked(attack.probabilities(rows), rows, problem, name)
        for part, rows in (("choose", problem.choose), ("test", problem.test))
    }
    return Answers(raw, attack.train_samples)


def score(
    problem: Problem,
    raw: dict[str, np.ndarray],
    *,
    name: str,
    kind: Kind,
    learned_on: str,
    seed: int,
    train_samples: int,
    begun: float,
    members: str = "",
) -> Scored:
    """The row of probabilities ``raw`` (``choose`` and ``test``: (n, classes of z)).

    ``begun`` is when the attack's training began, by ``time.perf_counter``.
    """
    choose, test = problem.choose, problem.test
    calibration = attack_metrics.calibrate(raw["choose"], problem.base(choose), choose.z)
    sure = {
        "choose": calibration.apply(raw["choose"], problem.base(choose)),
        "test": calibration.apply(raw["test"], problem.base(test)),
    }
    judged = sure if kind == "adaptive" else raw
    accuracy = intervals.rate(judged["test"].argmax(axis=1) == test.z, test.cluster)
    bits = attack_metrics.bits_beyond(problem.theta, sure["test"], test.y, test.z, test.cluster)
    counted = attack_metrics.bits_beyond(problem.counted, sure["test"], test.y, test.z, test.cluster)
    guesses = {
        part: exposure.Judged(np.maximum(judged[part], attack_metrics.FLOOR), rows.y, rows.z, rows.cluster)
        for part, rows in (("choose", choose), ("test", test))
    }
    # Scores rank rows, so they are not calibrated: calibration and its floor would tie the surest.
    scored = {part: one._replace(p=raw[part]) for part, one in guesses.items()}
    low_fpr = exposure.at_low_fpr(scored["choose"], scored["test"])
    worst = exposure.worst_class(guesses["choose"], guesses["test"], problem.counted)
    balanced = exposure.balanced(guesses["test"], problem.counted)
    row = Row(
        name=name,
        kind=kind,
        learned_on=learned_on,
        seed=seed,
        train_samples=train_samples,
        accuracy=accuracy.estimate,
        low=accuracy.low,
        high=accuracy.high,
        auc=attack_metrics.auc_within_y(raw["test"], test.y, test.z),
        bits=bits.estimate,
        bits_low=bits.low,
        bits_high=bits.high,
        bits_counted=counted.estimate,
        bits_counted_low=counted.low,
        bits_counted_high=counted.high,
        validation_accuracy=float(np.mean(judged["choose"].argmax(axis=1) == choose.z)),
        validation_bits=attack_metrics.bits_beyond(problem.counted, sure["choose"], choose.y, choose.z).estimate,
        seconds=round(time.perf_counter() - begun, 3),
        balanced=balanced.rate.estimate,
        balanced_low=balanced.rate.low,
        balanced_high=balanced.rate.high,
        balanced_chance=balanced.chance,
        tpr=low_fpr.rate.estimate,
        tpr_low=low_fpr.rate.low,
        tpr_high=low_fpr.rate.high,
        tpr_rows=low_fpr.rows,
        tpr_p=low_fpr.p,
        worst_class=worst.rate.estimate,
        worst_class_low=worst.rate.low,
        worst_class_high=worst.rate.high,
        worst_class_chance=worst.chance,
        worst_class_rows=worst.rows,
        members=members,
    )
    return Scored(row, raw, sure, choose, test, problem.fold)


def checked(probabilities: np.ndarray, rows: Released, problem: Problem, name: str) -> np.ndarray:
    """``probabilities`` if they are (n, classes of z), none negative, rows summing to 1; else raise."""
    p = np.asarray(probabilities, np.float64)
    expected = (len(rows), problem.z_classes)
    if p.shape != expected:
        raise BadInput(f"The adversary {name!r} must answer with probabilities of shape {expected}; got {p.shape}.")
    if not np.isfinite(p).all():
        raise Diverged
    if (p < -1e-9).any() or np.abs(p.sum(axis=1) - 1).max() > 1e-3:
        raise BadInput(f"The adversary {name!r} must answer with probabilities: each row at least 0, and 1 in all.")
    return np.maximum(p, 0.0)
