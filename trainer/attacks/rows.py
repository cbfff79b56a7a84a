"""The rows that adversaries learn on, and those they are tested on. Attacks, probes and sections all take them here.

An audit perturbs the rows ``dataset.slices.rows()``: those of every slice, one slice after the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np

from edgeveil.trainer.attacks.problem import Budget, Problem, Released, blank, cut, enough, hold, joined
from edgeveil.trainer.datasets.base import Dataset, SliceName
from edgeveil.trainer.measures import attack_metrics
from edgeveil.trainer.measures.enough import LEARN_ROWS
from edgeveil.trainer.measures.intervals import unit_numbers


class Places(NamedTuple):
    """Where rows lie among those that an audit perturbs.

    ``old`` are the first two slices, on which the perturber was trained, ``second`` the later of them, ``fresh`` the
    slice ``attack`` (empty where the data are too few for it), and ``learn`` all three.
    """

    learn: slice
    old: slice
    second: slice
    fresh: slice
    test: slice


def places(dataset: Dataset) -> Places:
    """Where the rows of each kind are."""
    slices = dataset.slices
    second, fresh, test = slices.places("perturber"), slices.places("attack"), slices.places("test")
    return Places(slice(0, fresh.stop), slice(0, second.stop), second, fresh, test)


def freshest(dataset: Dataset) -> SliceName:
    """The slice to learn on of what leaks most on rows that the perturber never saw: ``attack``, where there is one."""
    return "attack" if len(dataset.slices.attack) else "perturber"


def unseen(dataset: Dataset) -> np.ndarray:
    """The numbers (n,) of the rows that no training saw, in the order of an audit's: ``attack``, then ``test``."""
    return np.concatenate([dataset.slices.attack, dataset.slices.test])


def to_learn(dataset: Dataset) -> np.ndarray:
    """The numbers (n,), in the data set, of the rows that adversaries learn on."""
    return dataset.slices.rows()[places(dataset).learn]


def prior(dataset: Dataset) -> np.ndarray:
    """P(z|y), (classes of y, classes of z), counted on the rows that adversaries learn on."""
    rows = to_learn(dataset)
    return attack_metrics.counted_prior(dataset.y[rows], dataset.z[rows], dataset.theta.shape)


# One question to every adversary, in three settings: what it learned on decides what it finds.
#
# A perturber leaks least on the rows that trained it, and an attacker may have others. So adversaries learn on *old*
# rows (those of the first two slices, which trained the perturber), on *fresh* rows (the slice ``attack``, which
# neither classifiers nor perturber saw) and on *both*; the best is reported. Rows to calibrate on and to choose the
# best by are always fresh. Where the data are too few for a slice ``attack``, the fresh rows are the other folds of
# the test slice.

LearnedOn = Literal["old", "fresh", "both", "crossed"]
FOLDS = 3  # of the test slice, where it is the only source of fresh rows
CROSSED_FOLDS = 5  # of the test slice, for attacks by counting
CHOOSE_SHARE, MOST_TO_CHOOSE = 0.25, 8000
STOP_SHARE, MOST_TO_STOP = 0.15, 4000


@dataclass(frozen=True)
class Setting:
    """What adversaries learn on: one problem for each fold of the test rows.

    ``whole`` has the rows to choose by and the test rows of all folds, one fold after the other: there an attack is
    scored, with what each fold's adversary says of its own rows.
    """

    learned_on: LearnedOn
    folds: tuple[Problem, ...]
    whole: Problem

    @classmethod
    def from_folds(cls, learned_on: LearnedOn, folds: Sequence[Problem]) -> Setting:
        """The setting of these folds, in which no adversary gets the samples behind the rows that it is judged on."""
        folds = [replace(one, choose=one.choose.as_received(), test=one.test.as_received()) for one in folds]
        first, *others = folds
        choose, test = first.choose, first.test
        for other in others:
            choose, test = joined(choose, other.choose), joined(test, other.test)
        fold = np.repeat(np.arange(len(folds)), [len(one.test) for one in folds]) if others else None
        whole = replace(first, choose=choose, test=test, fold=fold)
        # Where data are sorted, the number of a row tells its labels.
        unnumbered = (
            replace(one, choose=replace(one.choose, row=None), test=replace(one.test, row=None)) for one in folds
        )
        return cls(learned_on, tuple(unnumbered), whole)


@dataclass(frozen=True)
class Question:
    """The settings in which adversaries learn, the last of them on all rows; ``crossed`` is for attacks by counting."""

    settings: tuple[Setting, ...]
    crossed: Setting | None = None

    @property
    def whole(self) -> Problem:
        """The problem on all rows, for what is the same in every setting: its test rows, chance and budget."""
        return self.settings[-1].whole

    @classmethod
    def alone(cls, problem: Problem, crossed: Setting | None = None) -> Question:
        """One problem, whose rows are all fresh."""
        return cls((Setting.from_folds("fresh", [problem]),), crossed)


class Pool(NamedTuple):
    """Fresh rows to learn on, and the test rows that they are disjoint from."""

    fresh: Released
    test: Released


def question_of(
    dataset: Dataset, released: Released, budget: Budget, classifiers: Mapping[str, Any], *, seed: int
) -> Question:
    """The question of what left for the rows of all slices of ``dataset``, in their order.

    Adversaries know the samples behind the rows that they learn on: a holder of the perturber can put samples into it.
    ``classifiers`` are D_y and D_z. Raises ``BadInput`` where there are too few rows to learn on at all.
    """
    at, clean = places(dataset), dataset.part("classifiers")
    rows = dataset.slices.rows()
    seen = replace(released, raw=dataset.x[rows], row=rows)
    bare = replace(
        blank(dataset.input, dataset.theta, prior(dataset), seen, budget),
        clean=Released(clean.x, clean.y, clean.z, clean.cluster),
        sensitive=classifiers["sensitive"],
    )
    old, test = seen.take(at.old), seen.take(at.test)
    pools = [Pool(seen.take(at.fresh), test)] if len(dataset.slices.attack) else _folds(test, FOLDS, seed)
    if not all(enough(pool.fresh) for pool in pools):
        fit, stop, choose = cut(old, seed)
        return Question((Setting.from_folds("old", [replace(bare, fit=fit, stop=stop, choose=choose, test=test)]),))
    old_fit, old_stop = hold(old, _share(len(old), STOP_SHARE, MOST_TO_STOP), seed)
    settings: dict[LearnedOn, list[Problem]] = {"old": [], "fresh": [], "both": []}
    for pool in pools:
        rest, choose = hold(pool.fresh, _share(len(pool.fresh), CHOOSE_SHARE, MOST_TO_CHOOSE), seed)
        fit, stop = hold(rest, _share(len(rest), STOP_SHARE, MOST_TO_STOP), seed)
        judged = replace(bare, choose=choose, test=pool.test)
        settings["old"].append(replace(judged, fit=old_fit, stop=old_stop))
        settings["fresh"].append(replace(judged, fit=fit, stop=stop))
        fit, stop = (_shuffled(joined(a, b), seed) for a, b in ((old_fit, fit), (old_stop, stop)))
        settings["both"].append(replace(judged, fit=fit, stop=stop))
    main_settings = tuple(Setting.from_folds(name, folds) for name, folds in settings.items())
    if len(pools) == 1:  # attacks by counting learn from the other folds of the test rows too
        (both,) = settings["both"]
        pairs = _folds(both.test, CROSSED_FOLDS, seed)
        crossed = [replace(both, fit=joined(both.fit, rest), test=fold) for rest, fold in pairs]
    else:
        crossed = []
        for others, fold in _folds(test, CROSSED_FOLDS, seed):
            rest, choose = hold(others, CHOOSE_SHARE, seed)
            crossed.append(replace(bare, fit=joined(old_fit, rest), stop=old_stop, choose=choose, test=fold))
    return Question(main_settings, Setting.from_folds("crossed", crossed))


def question_of_fresh(rows: Released, bare: Problem, *, seed: int, judged: int = FOLDS) -> Question:
    """The question of rows that trained no perturber, so that all of them are fresh.

    They are cut into three folds of whole clusters; ``judged`` of them are test rows, each for adversaries that learned
    on the others. ``bare`` gives the problem's input, tables and budget. Where it has ``clean`` rows, those of each
    fold are the samples behind the rows that its adversaries learn on. Raises ``BadInput`` for too few rows to learn.
    """
    problems = []
    for pool in _folds(rows, FOLDS, seed)[:judged]:
        fit, stop, choose = cut(pool.fresh, seed)
        clean = None if bare.clean is None else joined(fit, stop).unperturbed()
        problems.append(replace(bare, fit=fit, stop=stop, choose=choose, test=pool.test, clean=clean))
    return Question((Setting.from_folds("fresh", problems),))


ORDERS, TOLD = 999, 0.001  # an honest order is refused about twice in a thousand releases
MOST_GROUPS = 30  # of y and of z that are told apart for that


def in_order(rows: Released) -> Released:
    """``rows``, which are in the order in which they left, with x' of both neighbours of each row ``beside`` it.

    The last row comes before the first. Where y and z of a neighbour tell z by themselves, given y (sorted rows, or a
    recording), x' of neighbours would tell it whatever a mechanism does: such rows stay without.
    """
    if len(rows) < LEARN_ROWS or _labels_tell(rows.y, rows.z):
        return rows
    return replace(rows, beside=np.stack([np.roll(rows.x, 1, axis=0), np.roll(rows.x, -1, axis=0)], axis=1))


def _labels_tell(y: np.ndarray, z: np.ndarray) -> bool:
    """Whether y and z of the row before or after depend on z given y: by chi-squared, against random orders."""
    rng = np.random.default_rng(0)
    for step in (1, -1):
        observed = _dependence(y, z, step)
        null = [_dependence(y, _within(y, z, rng), step) for _ in range(ORDERS)]
        if (1 + sum(one >= observed - 1e-9 for one in null)) / (1 + ORDERS) <= TOLD:
            return True
    return False


def _within(y: np.ndarray, z: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """``z`` in a random order among rows of equal ``y``."""
    shuffled = rng.permutation(len(y))
    mixed = np.empty_like(z)
    mixed[np.argsort(y, kind="stable")] = z[shuffled[np.argsort(y[shuffled], kind="stable")]]
    return mixed


def _dependence(y: np.ndarray, z: np.ndarray, step: int) -> float:
    """Chi-squared of z (n,) and of y and z ``step`` rows before, given y."""
    y, z = y % MOST_GROUPS, z % MOST_GROUPS
    shape = int(y.max()) + 1, int(z.max()) + 1
    cell = np.roll(y * shape[1] + z, step)
    cells = shape[0] * shape[1]
    counts = np.bincount((y * shape[1] + z) * cells + cell, minlength=cells * cells).reshape(*shape, cells)
    of_z, of_cell = counts.sum(axis=2, keepdims=True), counts.sum(axis=1, keepdims=True)
    expected = of_z * of_cell / np.maximum(counts.sum(axis=(1, 2), keepdims=True), 1)
    return float(((counts - expected) ** 2 / np.maximum(expected, 1e-9))[expected > 0].sum())


def _folds(test: Released, count: int, seed: int) -> list[Pool]:
    """The test rows in ``count`` folds of whole clusters: each with the others to learn on."""
    rng = np.random.default_rng([seed, 2])
    unit = unit_numbers(len(test), test.cluster)
    fold = rng.permutation(int(unit.max()) + 1)[unit] % count
    return [Pool(test.take(np.flatnonzero(fold != k)), test.take(np.flatnonzero(fold == k))) for k in range(count)]


def _shuffled(released: Released, seed: int) -> Released:
    return released.take(np.random.default_rng([seed, 3]).permutation(len(released)))


def _share(rows: int, share: float, most: int) -> float:
    return min(share, most / max(1, rows))
