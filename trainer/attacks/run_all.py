"""Does a code tell anything of z? Counting it crossed, against the same with z shuffled.

The attack chosen on validation rows is tested in every audit, but a few rows may choose one that misses what counting
finds. So counting is tested as well, whichever attack was chosen. On *crossed* rows it learns from the other folds of
the test rows too: what it answers depends on their z. With its answers kept while z is shuffled, as for other attacks,
p would be too small (where codes are many and rows few, at 1 % it fires in 4 % of audits without a leak). So codes are
counted anew for each shuffle, and p is exact.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple, cast

import numpy as np
from scipy import special

from edgeveil.edge_runtime.util.validate import counted
from edgeveil.trainer.attacks.ahead import Asked
from edgeveil.trainer.attacks.families.code_counts import SHRINKAGE, CodeCounts, values
from edgeveil.trainer.attacks.findings import (
    Curve,
    Diverged,
    Done,
    Findings,
    NotRun,
    Row,
    Scored,
    answered,
    score,
    worst_adaptive,
)
from edgeveil.trainer.attacks.problem import Problem, units_of
from edgeveil.trainer.attacks.protocol import Adversary
from edgeveil.trainer.attacks.registry import adversaries, meant_for
from edgeveil.trainer.attacks.rows import Question, Setting
from edgeveil.trainer.datasets.base import Part
from edgeveil.trainer.datasets.slicing import hold_out
from edgeveil.trainer.measures import attack_metrics, intervals
from edgeveil.trainer.measures.attack_metrics import FLOOR, SHUFFLES, Permuted, permutation_test, permuted
from edgeveil.trainer.measures.enough import PART_ROWS, RATE, ROWS_OF_A_CLASS, TEST_ROWS
from edgeveil.trainer.measures.intervals import count

LEARNED_ON = "crossed"


def is_crossed(row: Row) -> bool:
    """Whether it is of codes counted on crossed rows, which is there wherever outputs are codes."""
    return (row.name, row.learned_on) == (CodeCounts.name, LEARNED_ON)


def counting_test(setting: Setting, *, shuffles: int = SHUFFLES, rng: np.random.Generator) -> Permuted:
    """The permutation test of counting in the crossed ``setting``; its gain is that of counts as they are."""
    test = setting.whole.test
    folds, first = [], 0
    for problem in setting.folds:
        folds.append(_Fold.from_problem(problem, setting.whole, first))
        first += len(problem.test)

    def gain(z: np.ndarray) -> float:
        return sum(fold.gain(z) for fold in folds) / len(z)

    return permuted(gain, test.y, test.z, test.cluster, shuffles=shuffles, rng=rng)


class _Fold(NamedTuple):
    """One fold, by cells, which are y and code: ``counts`` (cells, classes of z) of the rows to learn on that keep
    their z, those of the rows to ``stop`` on, and P(z|y) of each cell, the ``prior``.

    Of rows that shuffle their z, each times the classes of z, are the cells: ``cell`` (m,) of the rows of other folds,
    which stand in ``place`` (m,) among all test rows, and ``test`` (n,) of the fold's own, which stand ``at``.
    """

    counts: np.ndarray
    stop: np.ndarray
    prior: np.ndarray
    cell: np.ndarray
    place: np.ndarray
    test: np.ndarray
    at: slice

    @classmethod
    def from_problem(cls, problem: Problem, whole: Problem, first: int) -> _Fold:
        """The fold of ``problem``, whose test rows come after the ``first`` ones of ``whole``."""
        every = [values(part, few=problem.few_values) for part in (problem.fit, problem.stop, problem.test)]
        code = np.unique([value for of in every for value in of], return_inverse=True)[1]
        codes, ends = int(code.max()) + 1, np.cumsum([len(of) for of in every[:2]])
        of_fit, of_stop, of_test = (
            part.y * codes + of
            for part, of in zip((problem.fit, problem.stop, problem.test), np.split(code, ends), strict=True)
        )
        tested, learned = (cast(np.ndarray, part.row) for part in (whole.test, problem.fit))
        order = np.argsort(tested)
        place = order[np.searchsorted(tested, learned, sorter=order) % len(order)]
        moves = tested[place] == learned
        prior, classes = np.repeat(problem.counted, codes, axis=0), problem.z_classes
        counts = count(of_fit[~moves], problem.fit.z[~moves], shape=prior.shape)
        stop, at = count(of_stop, problem.stop.z, shape=prior.shape), slice(first, first + len(problem.test))
        return cls(counts, stop, prior, of_fit[moves] * classes, place[moves], of_test * classes, at)

    def gain(self, z: np.ndarray) -> float:
        """Bits beyond P(z|y) of the rows of the fold in all, were ``z`` (n,) that of all test rows."""
        counts = self.counts + self._counted(self.cell + z[self.place])
        total = counts.sum(axis=1, keepdims=True)
        tables = [(counts + weight * self.prior) / (total + weight) for weight in SHRINKAGE]
        best = max(tables, key=lambda table: (self.stop * np.log(table)).sum())
        return float((self._counted(self.test + z[self.at]) * np.log2(best / self.prior)).sum())

    def _counted(self, places: np.ndarray) -> np.ndarray:
        return np.bincount(places, minlength=self.prior.size).reshape(self.prior.shape)


# Attribute inference by every adversary on one set of released rows. Knows nothing of bundles, runs or files.

# An ensemble of the best attacks: one may find what another misses.
#
# Members and their number are chosen by cross-entropy on one half of the validation rows, never on test rows.

NAME = "ensemble"
SIZES = (2, 3, 5)


def build_ensemble(problem: Problem, kept: Sequence[Scored], *, seed: int) -> Scored | None:
    """The mean of calibrated log-posteriors of the best adaptive attacks; None where there are not two of them."""
    begun = time.perf_counter()
    choose = problem.choose
    inner, _ = hold_out(Part(choose.x, choose.y, choose.z, choose.cluster, np.arange(len(choose))), share=0.5, seed=0)

    def loss(p: np.ndarray) -> float:
        return float(-np.log(np.maximum(p[inner, choose.z[inner]], FLOOR)).mean())

    adaptive = sorted((one for one in kept if one.row.kind == "adaptive"), key=lambda one: loss(one.sure["choose"]))
    if len(adaptive) < 2:
        return None
    sizes = [size for size in SIZES if size <= len(adaptive)]
    size = min(sizes, key=lambda size: loss(_mean(adaptive[:size], "choose")))
    members = adaptive[:size]
    learned_on = {one.row.learned_on for one in members}
    facts: dict[str, Any] = {"name": NAME, "kind": "adaptive", "seed": seed, "begun": begun}
    facts["learned_on"] = learned_on.pop() if len(learned_on) == 1 else "several"
    facts["members"] = ", ".join(one.row.label for one in members)
    samples = max(one.row.train_samples for one in members)
    return score(problem, {part: _mean(members, part) for part in ("choose", "test")}, train_samples=samples, **facts)


def _mean(members: Sequence[Scored], part: str) -> np.ndarray:
    return special.softmax(np.mean([np.log(one.sure[part]) for one in members], axis=0), axis=1)


# The learning curve of the best attack: whether it would do better with more data.

FRACTIONS = (0.125, 0.25, 0.5)
FEWEST_WRONG = 0.02  # of the test rows; an attack that gets fewer wrong has nothing left to find


def learning_curve(setting: Setting, family: Adversary, *, seed: int, rows: int, full: np.ndarray) -> Curve | None:
    """Train ``family`` on parts of the ``rows`` it had; ``full`` (n,) says which test rows it got right with all.

    None where an eighth of the rows would be too few to train on at all, and in a quick audit where the attack gets
    hardly any row wrong.
    """
    if not setting.whole.budget.every_family and 1 - float(full.mean()) < FEWEST_WRONG:
        return None
    whole, first = setting.whole, setting.folds[0]
    share = min(1.0, rows / (len(first.fit) + len(first.stop)))
    folds = [part(fold, share) for fold in setting.folds]
    if min(len(fold.fit) for fold in folds) * FRACTIONS[0] < PART_ROWS:
        return None
    points, half = [], full
    smaller = [[part(fold, fraction) for fold in folds] for fraction in FRACTIONS]
    journal = whole.budget.journal
    if journal is not None and journal.ahead is not None:
        journal.ahead.learn(journal, [Asked(fold, family, seed) for folds in smaller for fold in folds])
    for folds in smaller:
        fold_answers = [answered(fold, family, seed) for fold in folds]
        choose, test = (np.concatenate([one.raw[name] for one in fold_answers]) for name in ("choose", "test"))
        calibration = attack_metrics.calibrate(choose, whole.base(whole.choose), whole.choose.z)
        half = calibration.apply(test, whole.base(whole.test)).argmax(axis=1) == whole.test.z
        points.append((fold_answers[0].train_samples, intervals.rate(half, whole.test.cluster)))
    points.append((rows, intervals.rate(full, whole.test.cluster)))
    gain = intervals.mean(full.astype(np.float64) - half, whole.test.cluster)
    return Curve(family.name, seed, tuple(points), gain)


def part(problem: Problem, fraction: float) -> Problem:
    """The same question with ``fraction`` of the rows to train and to stop on (they are in random order already)."""
    fit, stop = (rows.take(slice(max(8, round(len(rows) * fraction)))) for rows in (problem.fit, problem.stop))
    return replace(problem, fit=fit, stop=stop)


# Warnings where there are too few rows for an attack or a figure. How many would do is the verdict's to say.


def warnings(problem: Problem) -> tuple[str, ...]:
    """One sentence for each shortage, in words that fit under a table."""
    sentences = []
    rows = np.bincount(problem.training().z, minlength=problem.z_classes)
    short = rows[(rows > 0) & (rows < ROWS_OF_A_CLASS)]
    if len(short):
        sentences.append(
            f"{len(short)} of {int((rows > 0).sum())} classes of z have fewer than {ROWS_OF_A_CLASS} training rows "
            f"(the rarest {short.min()}): too few for adversaries, so finding no leak says little. Give at least "
            f"{ROWS_OF_A_CLASS} of each."
        )
    test, units = problem.test, units_of(problem.test)
    if test.cluster is None and units < TEST_ROWS:
        sentences.append(f"{units} test rows give intervals wider than 5 points either way.")
    if test.cluster is not None and units < RATE:
        sentences.append(
            f"The test slice holds {units} subjects or sessions: intervals are mostly about how these differ, and "
            "little about others like them."
        )
    missing = np.setdiff1d(np.unique(test.z), np.unique(problem.training().z))
    if len(missing):
        sentences.append(
            f"{counted(len(missing), 'class of z is', 'classes of z are')} in the test slice and in no training "
            f"row: no adaptive attack can name "
            "them, so cut the slices such that each z is in all of them."
        )
    return tuple(sentences)


NEARLY_ALL = 0.9  # of the bits that z has beyond y


def attack_all(
    question: Question, *, seed: int = 0, families: tuple[Adversary, ...] | None = None, curve: bool = True
) -> Findings:
    """Train every adversary of the registry in every setting of ``question``, and report each on the test rows.

    ``seed`` is the first of the budget's seeds; a family that does not depend on one runs once. Attacks by counting run
    crossed too. In a quick audit the slow families, those with seeds, learn in that setting alone in which the others
    learned most on validation, and do not run once an attack reads nearly all of z. The ensemble is made of the others,
    one for each seed. ``curve`` trains the best attack found on less data too.
    """
    return summed_up(question, run(question, seed=seed, families=families), seed=seed, curve=curve)


class Ran(NamedTuple):
    """Every attack with what it says of each row, the families that did not run, and all ``families`` asked for."""

    kept: tuple[Scored, ...]
    not_run: tuple[NotRun, ...]
    families: tuple[Adversary, ...]

    @property
    def most_bits(self) -> Scored | None:
        """As ``of_most_bits``."""
        return of_most_bits(self.kept)


def of_most_bits(attacks: Sequence[Scored]) -> Scored | None:
    """The adaptive attack with most bits on validation; None where none is adaptive."""
    adaptive = (one for one in attacks if one.row.kind == "adaptive")
    return max(adaptive, key=lambda one: one.row.validation_bits, default=None)


def run(
    question: Question, *, seed: int = 0, families: tuple[Adversary, ...] | None = None, done: Done | None = None
) -> Ran:
    """The attacks of ``attack_all``."""
    families = meant_for(adversaries() if families is None else families, question.whole.input.kind)
    quick, slow = ([family for family in families if family.seeded == seeded] for seeded in (False, True))
    journal = question.whole.budget.journal
    scored: list[Scored] = []
    left_out: list[NotRun] = []
    for family in [*quick, *slow]:
        of_family: list[Scored] = []
        nothing_hidden = _nothing_hidden(question.whole, scored) if family.seeded else None
        reasons = [] if nothing_hidden is None else [nothing_hidden]
        if journal is not None and journal.ahead is not None:
            if reasons:
                journal.ahead.forget()
            elif family in (*quick[:1], *slow[:1]):
                journal.ahead.learn(journal, _to_ask(question, slow if family.seeded else quick, scored, seed))
        for setting in () if reasons else _settings(question, family, scored):
            attacks, reason = _attack(setting, family, seed)
            of_family += attacks
            reasons += [] if reason is None else [reason]
        if not of_family:
            left_out.append(NotRun(family.name, family.kind, reasons[-1]))
        scored += of_family
        if done is not None:
            done([one.row for one in of_family])
    scored += _ensembles(question.whole, [one for one in scored if one.row.learned_on != "crossed"], families, seed)
    return Ran(tuple(scored), tuple(left_out), families)


def summed_up(question: Question, ran: Ran, *, seed: int = 0, curve: bool = True) -> Findings:
    """What the attacks have found."""
    whole, counted = question.whole, _counted(question, ran, seed)
    chance = attack_metrics.chance(whole.theta, whole.counted, whole.test.y, whole.test.z)
    learning = _curve(question, ran.kept, ran.families) if curve else None
    permutation, rows = _permuted(question, ran.most_bits, counted, seed), tuple(one.row for one in ran.kept)
    return Findings(chance, rows, ran.not_run, learning, warnings(whole), permutation, counted)


def _to_ask(question: Question, families: Sequence[Adversary], kept: Sequence[Scored], first_seed: int) -> list[Asked]:
    """What these families will be asked, were no attack to end the search."""
    return [
        Asked(fold, family, seed)
        for family in families
        for setting in _settings(question, family, kept)
        if all(family.why_not(fold) is None for fold in setting.folds)
        for seed in _seeds(setting, family, first_seed)
        for fold in setting.folds
    ]


def _seeds(setting: Setting, family: Adversary, first: int) -> range:
    return range(first, first + (setting.whole.budget.seeds if family.seeded else 1))


def _settings(question: Question, family: Adversary, kept: Sequence[Scored]) -> Sequence[Setting]:
    """Those in which a family attacks. What does not learn from perturbed rows attacks once."""
    if family.kind != "adaptive":
        return question.settings[-1:]
    if family.seeded and not question.whole.budget.every_family:
        adaptive = [one.row for one in kept if one.row.kind == "adaptive" and one.row.learned_on != "crossed"]
        best = max(adaptive, key=lambda row: row.validation_bits).learned_on if adaptive else None
        return [setting for setting in question.settings if setting.learned_on == best] or question.settings[-1:]
    counted = question.crossed if getattr(family, "counts", False) else None
    return question.settings if counted is None else [*question.settings, counted]


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
            most = f"{row.label} already reads z from all but {wrong:.1%} of the validation rows"
            return f"{most}; a thorough audit runs this too"
    return None


def _attack(setting: Setting, family: Adversary, first_seed: int) -> tuple[list[Scored], str | None]:
    """The family's attacks in one setting, one for each seed; or why it cannot attack there."""
    reason = next((why for why in map(family.why_not, setting.folds) if why is not None), None)
    if reason is not None:
        return [], reason
    scored = []
    for seed in _seeds(setting, family, first_seed):
        try:
            fold_answers = [answered(fold, family, seed) for fold in setting.folds]
        except Diverged:
            return [], "its training diverged"
        raw = {part: np.concatenate([one.raw[part] for one in fold_answers]) for part in ("choose", "test")}
        facts: dict[str, Any] = {"name": family.name, "kind": family.kind, "seed": seed}
        facts["learned_on"] = setting.learned_on if family.kind == "adaptive" else "clean"
        facts["begun"] = time.perf_counter() - sum(one.seconds for one in fold_answers)
        scored.append(score(setting.whole, raw, train_samples=fold_answers[0].train_samples, **facts))
    return scored, None


def _ensembles(problem: Problem, kept: Sequence[Scored], families: Sequence[Adversary], seed: int) -> list[Scored]:
    seeded = {family.name for family in families if family.seeded}
    ensembles = (
        build_ensemble(
            problem, [each for each in kept if each.row.seed == one or each.row.name not in seeded], seed=one
        )
        for one in range(seed, seed + (problem.budget.seeds if seeded else 1))
    )
    return [one for one in ensembles if one is not None]


def _counted(question: Question, ran: Ran, seed: int) -> Permuted | None:
    """Whether codes tell anything of z, whichever attack won; None where what is sent is no codes."""
    if question.crossed is None or not any(is_crossed(one.row) for one in ran.kept):
        return None
    return counting_test(question.crossed, rng=np.random.default_rng([seed, 98]))


def _permuted(question: Question, best: Scored | None, counted: Permuted | None, seed: int) -> Permuted | None:
    """Whether the attack with most bits on validation gained anything on test; one attack, so nothing to correct."""
    if best is None:
        return None
    if is_crossed(best.row):
        return counted
    test, whole, rng = best.test, question.whole, np.random.default_rng([seed, 99])
    return permutation_test(whole.counted, best.sure["test"], test.y, test.z, test.cluster, fold=whole.fold, rng=rng)


def _curve(question: Question, kept: Sequence[Scored], families: Sequence[Adversary]) -> Curve | None:
    """Of the best attack found; of its best member where that is an ensemble."""
    candidates = [one for one in kept if one.row.kind == "adaptive" and one.row.learned_on != "crossed"]
    if not candidates:
        return None
    worst = worst_adaptive([one.row for one in candidates])
    if worst.name == NAME:
        worst = worst_adaptive([one.row for one in candidates if one.row.label in worst.members.split(", ")])
    family = next(one for one in families if one.name == worst.name)
    setting = next(one for one in question.settings if one.learned_on == worst.learned_on)
    best = next(one for one in candidates if one.row is worst)
    return learning_curve(setting, family, seed=worst.seed, rows=worst.train_samples, full=best.hits())
