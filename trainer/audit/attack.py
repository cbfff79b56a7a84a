"""Every adversary against one set of released rows. Knows arrays and labels; nothing of bundles, runs or files."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from trainer.audit import intervals, metrics
from trainer.audit.adversary import Adversary, Attack, Kind
from trainer.audit.problem import Problem
from trainer.audit.registry import adversaries


@dataclass(frozen=True)
class Row:
    """One attack, measured on the test rows.

    ``accuracy`` with its 95 % interval [``low``, ``high``]; ``auc`` within y (0.5 tells nothing; NaN where z never
    varies within y); ``bits`` about z beyond theta_y with their interval, ``bits_counted`` beyond the counted P(z|y)
    with the lower end of theirs (the public prior may be wrong, and bits gained by correcting it are not leaked by x').
    ``validation_accuracy`` and ``validation_bits`` (beyond the counted P(z|y)) chose the worst attack.
    Adaptive attacks are judged calibrated; fixed and transfer ones as they are, their bits alone calibrated.
    """

    name: str
    kind: Kind
    seed: int
    train_samples: int
    accuracy: float
    low: float
    high: float
    auc: float
    bits: float
    bits_low: float
    bits_high: float
    bits_counted: float
    bits_counted_low: float
    validation_accuracy: float
    validation_bits: float
    seconds: float


class NotRun(NamedTuple):
    """A family that did not attack, and why."""

    name: str
    kind: Kind
    reason: str


Done = Callable[[Sequence[Row]], None]  # told the rows of each family when it is done; none where it did not run


@dataclass(frozen=True)
class Findings:
    """Everything found out about one perturber by one set of adversaries.

    ``worst_adaptive`` is the best attack found: the adaptive row with the highest accuracy on validation (bits break
    ties). ``most_bits`` is the adaptive row with most bits there: at a skewed prior an attack can know a lot and
    still not guess better.
    """

    chance: metrics.Chance
    rows: tuple[Row, ...]
    not_run: tuple[NotRun, ...]

    @property
    def worst_adaptive(self) -> Row:
        """The best attack found."""
        return max(self._adaptive(), key=lambda row: (row.validation_accuracy, row.validation_bits))

    @property
    def most_bits(self) -> Row:
        """The attack that learned most bits beyond counting."""
        return max(self._adaptive(), key=lambda row: row.validation_bits)

    def _adaptive(self) -> list[Row]:
        return [row for row in self.rows if row.kind == "adaptive"]


def attack_all(
    problem: Problem, *, seed: int = 0, families: tuple[Adversary, ...] | None = None, done: Done | None = None
) -> Findings:
    """Train every adversary of the registry on ``problem`` and report each on its test rows.

    ``seed`` is the first of the budget's seeds; a family that does not depend on one runs once.
    """
    rows: list[Row] = []
    left_out: list[NotRun] = []
    for family in adversaries() if families is None else families:
        reason = family.why_not(problem)
        found: list[Row] = []
        if reason is None:
            found = _family(problem, family, seed)
        else:
            left_out.append(NotRun(family.name, family.kind, reason))
        rows += found
        if done is not None:
            done(found)
    test = problem.test
    return Findings(metrics.chance(problem.theta, problem.counted, test.y, test.z), tuple(rows), tuple(left_out))


def _family(problem: Problem, family: Adversary, first_seed: int) -> list[Row]:
    rows = []
    for seed in range(first_seed, first_seed + (problem.budget.seeds if family.seeded else 1)):
        begun = time.perf_counter()
        rows.append(_measured(problem, family, family.fit(problem, seed), seed, begun))
    return rows


def _measured(problem: Problem, family: Adversary, attack: Attack, seed: int, begun: float) -> Row:
    choose, test = problem.choose, problem.test
    raw = {"choose": attack.probabilities(choose), "test": attack.probabilities(test)}
    calibration = metrics.calibrate(raw["choose"], problem.base(choose), choose.z)
    sure = {
        "choose": calibration.apply(raw["choose"], problem.base(choose)),
        "test": calibration.apply(raw["test"], problem.base(test)),
    }
    judged = sure if family.kind == "adaptive" else raw
    accuracy = intervals.rate(judged["test"].argmax(axis=1) == test.z, test.cluster)
    bits = metrics.bits_beyond(problem.theta, sure["test"], test.y, test.z, test.cluster)
    counted = metrics.bits_beyond(problem.counted, sure["test"], test.y, test.z, test.cluster)
    return Row(
        name=family.name,
        kind=family.kind,
        seed=seed,
        train_samples=attack.train_samples,
        accuracy=accuracy.estimate,
        low=accuracy.low,
        high=accuracy.high,
        auc=metrics.auc_within_y(raw["test"], test.y, test.z),
        bits=bits.estimate,
        bits_low=bits.low,
        bits_high=bits.high,
        bits_counted=counted.estimate,
        bits_counted_low=counted.low,
        validation_accuracy=float(np.mean(judged["choose"].argmax(axis=1) == choose.z)),
        validation_bits=metrics.bits_beyond(problem.counted, sure["choose"], choose.y, choose.z).estimate,
        seconds=round(time.perf_counter() - begun, 3),
    )
