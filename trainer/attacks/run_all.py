"""Attribute inference by every adversary on one set of released rows. Knows nothing of bundles, runs or files."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from edgeveil.trainer.attacks import sample_size
from edgeveil.trainer.attacks.ensemble import NAME as ENSEMBLE
from edgeveil.trainer.attacks.ensemble import build_ensemble
from edgeveil.trainer.attacks.families.code_counts import BayesKnowingChannel, CodeCounts
from edgeveil.trainer.attacks.findings import Curve, Done, Findings, NotRun, most_bits, worst_adaptive
from edgeveil.trainer.attacks.journal import answered
from edgeveil.trainer.attacks.learning_curve import FEWEST_WRONG, learning_curve
from edgeveil.trainer.attacks.problem import Problem
from edgeveil.trainer.attacks.protocol import Adversary
from edgeveil.trainer.attacks.question import Question, Setting
from edgeveil.trainer.attacks.registry import adversaries, meant_for
from edgeveil.trainer.attacks.scores import counting
from edgeveil.trainer.attacks.scores.scoring import Diverged, Scored, score
from edgeveil.trainer.measures import attack_metrics
from edgeveil.trainer.measures.permutation import Permuted, permutation_test

COUNTING = (CodeCounts.name, BayesKnowingChannel.name)
NEARLY_ALL = 0.9  # of the bits that z has beyond y


def attack_all(
    question: Question,
    *,
    seed: int = 0,
    families: tuple[Adversary, ...] | None = None,
    done: Done | None = None,
    curve: bool = True,
) -> Findings:
    """Train every adversary of the registry in every setting of ``question``, and report each on the test rows.

    ``seed`` is the first of the budget's seeds; a family that does not depend on one runs once. Attacks by counting run
    crossed too. In a quick audit the slow families, those with seeds, learn in that setting alone in which the others
    learned most on validation, and do not run once an attack reads nearly all of z. The ensemble is made of the others,
    one for each seed. ``curve`` trains the best attack found on less data too.
    """
    ran = run(question, seed=seed, families=families, done=done)
    return summed_up(question, ran, seed=seed, curve=curve)


class Ran(NamedTuple):
    """Every attack with what it says of each row, the families that did not run, and all ``families`` asked for."""

    kept: tuple[Scored, ...]
    not_run: tuple[NotRun, ...]
    families: tuple[Adversary, ...]

    @property
    def most_bits(self) -> Scored | None:
        """The adaptive attack with most bits on validation; None where none is adaptive."""
        adaptive = [one for one in self.kept if one.row.kind == "adaptive"]
        if not adaptive:
            return None
        most = most_bits([one.row for one in adaptive])
        return next(one for one in adaptive if one.row is most)


def run(
    question: Question,
    *,
    seed: int = 0,
    families: tuple[Adversary, ...] | None = None,
    done: Done | None = None,
) -> Ran:
    """The attacks of ``attack_all``."""
    families = meant_for(adversaries() if families is None else families, question.whole.input.kind)
    quick, slow = ([family for family in families if family.seeded == seeded] for seeded in (False, True))
    kept: list[Scored] = []
    left_out: list[NotRun] = []
    for family in [*quick, *slow]:
        found: list[Scored] = []
        nothing_hidden = _nothing_hidden(question.whole, kept) if family.seeded else None
        reasons = [] if nothing_hidden is None else [nothing_hidden]
        for setting in () if reasons else _settings(question, family, kept):
            attacks, reason = _attack(setting, family, seed)
            found += attacks
            reasons += [] if reason is None else [reason]
        if not found:
            left_out.append(NotRun(family.name, family.kind, reasons[-1]))
        kept += found
        if done is not None:
            done([one.row for one in found])
    kept += _ensembles(question.whole, [one for one in kept if one.row.learned_on != "crossed"], families, seed)
    return Ran(tuple(kept), tuple(left_out), families)


def summed_up(question: Question, ran: Ran, *, seed: int = 0, curve: bool = True) -> Findings:
    """What the attacks have found."""
    whole, counted = question.whole, _counted(question, ran, seed)
    return Findings(
        attack_metrics.chance(whole.theta, whole.counted, whole.test.y, whole.test.z),
        tuple(one.row for one in ran.kept),
        ran.not_run,
        _curve(question, ran.kept, ran.families) if curve else None,
        sample_size.warnings(whole),
        _permuted(question, ran.most_bits, counted, seed),
        counted,
    )


def _settings(question: Question, family: Adversary, kept: Sequence[Scored]) -> Sequence[Setting]:
    """Those in which a family attacks. What does not learn from perturbed rows attacks once."""
    if family.kind != "adaptive":
        return question.settings[-1:]
    if family.seeded and not question.whole.budget.every_family:
        adaptive = [one.row for one in kept if one.row.kind == "adaptive" and one.row.learned_on != "crossed"]
        best = max(adaptive, key=lambda row: row.validation_bits).learned_on if adaptive else None
        return [setting for setting in question.settings if setting.learned_on == best] or question.settings[-1:]
    crossed = question.crossed
    return question.settings if crossed is None or family.name not in COUNTING else [*question.settings, crossed]


def _nothing_hidden(problem: Problem, kept: Sequence[Scored]) -> str | None:
    """Why a slow attack has nothing to add in a quick audit: on validation one has nearly all bits and rows already."""
    if problem.budget.every_family:
        return None
    choose = problem.choose
    at_most = -float(np.log2(problem.counted[choose.y, choose.z]).mean())
    for one in kept:
        row = one.row
        wrong = 1 - row.validation_accuracy
        if row.kind == "adaptive" and wrong < FEWEST_WRONG and row.validation_bits >= NEARLY_ALL * at_most:
            return f"{row.label} already reads z from all but {wrong:.1%} of the rows; a thorough audit runs this too"
    return None


def _attack(setting: Setting, family: Adversary, first_seed: int) -> tuple[list[Scored], str | None]:
    """The family's attacks in one setting, one for each seed; or why it cannot attack there."""
    reason = next((why for why in map(family.why_not, setting.folds) if why is not None), None)
    if reason is not None:
        return [], reason
    kept = []
    for seed in range(first_seed, first_seed + (setting.whole.budget.seeds if family.seeded else 1)):
        try:
            said = [answered(fold, family, seed) for fold in setting.folds]
        except Diverged:
            return [], "its training diverged"
        begun = time.perf_counter() - sum(one.seconds for one in said)
        raw = {part: np.concatenate([one.raw[part] for one in said]) for part in ("choose", "test")}
        kept.append(
            score(
                setting.whole,
                raw,
                name=family.name,
                kind=family.kind,
                learned_on=setting.learned_on if family.kind == "adaptive" else "clean",
                seed=seed,
                train_samples=said[0].train_samples,
                begun=begun,
            )
        )
    return kept, None


def _ensembles(problem: Problem, kept: Sequence[Scored], families: Sequence[Adversary], seed: int) -> list[Scored]:
    seeded = {family.name for family in families if family.seeded}
    made = []
    for one in range(seed, seed + (problem.budget.seeds if seeded else 1)):
        of_seed = [each for each in kept if each.row.seed == one or each.row.name not in seeded]
        ensemble = build_ensemble(problem, of_seed, seed=one)
        made += [] if ensemble is None else [ensemble]
    return made


def _counted(question: Question, ran: Ran, seed: int) -> Permuted | None:
    """Whether codes tell anything of z, whichever attack won; None where what leaves are no codes."""
    if question.crossed is None or not any(counting.is_crossed(one.row) for one in ran.kept):
        return None
    return counting.counting_test(question.crossed, rng=np.random.default_rng([seed, 98]))


def _permuted(question: Question, best: Scored | None, counted: Permuted | None, seed: int) -> Permuted | None:
    """Whether the attack with most bits on validation gained anything on test; one attack, so nothing to correct."""
    if best is None:
        return None
    if counting.is_crossed(best.row):
        return counted
    test, rng = best.test, np.random.default_rng([seed, 99])
    whole = question.whole
    return permutation_test(whole.counted, best.sure["test"], test.y, test.z, test.cluster, fold=whole.fold, rng=rng)


def _curve(question: Question, kept: Sequence[Scored], families: Sequence[Adversary]) -> Curve | None:
    """Of the best attack found; of its best member where that is an ensemble."""
    candidates = [one for one in kept if one.row.kind == "adaptive" and one.row.learned_on != "crossed"]
    if not candidates:
        return None
    worst = worst_adaptive([one.row for one in candidates])
    if worst.name == ENSEMBLE:
        worst = worst_adaptive([one.row for one in candidates if one.row.label in worst.members.split(", ")])
    family = next(one for one in families if one.name == worst.name)
    setting = next(one for one in question.settings if one.learned_on == worst.learned_on)
    best = next(one for one in candidates if one.row is worst)
    return learning_curve(setting, family, seed=worst.seed, rows=worst.train_samples, full=best.hits())
