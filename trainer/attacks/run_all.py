"""Attribute inference by every adversary on one set of released rows. Knows nothing of bundles, runs or files."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from edgeveil.trainer.attacks import sample_size
from edgeveil.trainer.attacks.ensemble import NAME as ENSEMBLE
from edgeveil.trainer.attacks.ensemble import build_ensemble
from edgeveil.trainer.attacks.findings import Done, Findings, NotRun, Row, worst_adaptive
from edgeveil.trainer.attacks.learning_curve import Curve, learning_curve
from edgeveil.trainer.attacks.problem import Problem
from edgeveil.trainer.attacks.protocol import Adversary
from edgeveil.trainer.attacks.registry import adversaries
from edgeveil.trainer.attacks.scoring import Diverged, Scored, score_attack
from edgeveil.trainer.measures import attack_metrics

__all__ = ["Done", "Findings", "NotRun", "Row", "attack_all"]


def attack_all(
    problem: Problem,
    *,
    seed: int = 0,
    families: tuple[Adversary, ...] | None = None,
    done: Done | None = None,
    curve: bool = True,
    look: Callable[[Sequence[Scored]], None] | None = None,
) -> Findings:
    """Train every adversary of the registry on ``problem`` and report each on its test rows.

    ``seed`` is the first of the budget's seeds; a family that does not depend on one runs once. The ensemble is made of
    the others, one for each seed. ``curve`` trains the best attack found on less data too. ``look`` is given every
    attack with its answers, the ensembles included.
    """
    # Nobody who attacks has the samples behind the rows that are judged, a user's own family included.
    problem = replace(problem, choose=problem.choose.as_received(), test=problem.test.as_received())
    families = adversaries() if families is None else families
    kept: list[Scored] = []
    left_out: list[NotRun] = []
    for family in families:
        reason = family.why_not(problem)
        found: list[Scored] = []
        if reason is None:
            try:
                found = _attack(problem, family, seed)
            except Diverged:
                reason = "its training diverged"
        if reason is not None:
            left_out.append(NotRun(family.name, family.kind, reason))
        kept += found
        if done is not None:
            done([one.row for one in found])
    kept += _ensembles(problem, kept, families, seed)
    if look is not None:
        look(kept)
    test = problem.test
    return Findings(
        attack_metrics.chance(problem.theta, problem.counted, test.y, test.z),
        tuple(one.row for one in kept),
        tuple(left_out),
        _curve(problem, kept, families) if curve else None,
        sample_size.warnings(problem),
    )


def _attack(problem: Problem, family: Adversary, first_seed: int) -> list[Scored]:
    kept = []
    for seed in range(first_seed, first_seed + (problem.budget.seeds if family.seeded else 1)):
        begun = time.perf_counter()
        attack = family.fit(problem, seed)
        kept.append(score_attack(problem, attack, name=family.name, kind=family.kind, seed=seed, begun=begun))
    return kept


def _ensembles(problem: Problem, kept: Sequence[Scored], families: Sequence[Adversary], seed: int) -> list[Scored]:
    seeded = {family.name for family in families if family.seeded}
    made = []
    for one in range(seed, seed + (problem.budget.seeds if seeded else 1)):
        of_seed = [each for each in kept if each.row.seed == one or each.row.name not in seeded]
        ensemble = build_ensemble(problem, of_seed, seed=one)
        made += [] if ensemble is None else [ensemble]
    return made


def _curve(problem: Problem, kept: Sequence[Scored], families: Sequence[Adversary]) -> Curve | None:
    """Of the best attack found; of its best member where that is an ensemble."""
    candidates = [one for one in kept if one.row.kind == "adaptive"]
    if not candidates:
        return None
    worst = worst_adaptive([one.row for one in candidates])
    if worst.name == ENSEMBLE:
        worst = worst_adaptive([one.row for one in candidates if one.row.name in worst.members.split(", ")])
    family = next(one for one in families if one.name == worst.name)
    best = next(one for one in candidates if one.row is worst)
    return learning_curve(problem, family, seed=worst.seed, rows=worst.train_samples, full=best.hits(problem.test))
