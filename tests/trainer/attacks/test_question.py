"""The settings of an attack: which rows adversaries learn on, and that a leak on fresh rows alone is found."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from edgeveil.trainer.attacks import exposure, parts, run_all
from edgeveil.trainer.attacks.families.code_counts import CodeCounts
from edgeveil.trainer.attacks.problem import BUDGETS, Released
from edgeveil.trainer.attacks.rows import CROSSED_FOLDS, FOLDS, question_of
from edgeveil.trainer.attacks.run_all import attack_all, run
from edgeveil.trainer.datasets import slicing
from edgeveil.trainer.datasets.base import Dataset, InputSpec
from edgeveil.trainer.measures.attack_metrics import attack_gains
from tests.support.trial import short_audit


@pytest.fixture(autouse=True)
def few_shuffles(monkeypatch):
    short_audit.shuffle_less(monkeypatch)


CODES = 8
NONE = {"target": None, "sensitive": None}


def made(n, seed=0, cluster=None):
    """Labels without any features: what leaves is decided by ``released``."""
    rng = np.random.default_rng(seed)
    y, z = rng.integers(0, 2, n), rng.integers(0, 2, n)
    if cluster is not None:
        z = (cluster % 2).astype(np.int64)
    slices = slicing.cut(y, z, cluster=cluster, rng=rng)
    x = np.arange(n, dtype=np.float32)[:, None] * np.ones(2, np.float32)
    spec = InputSpec("vector", (2,), "float32", (0.0, 0.0), (float(n), float(n)))
    theta = np.full((2, 2), 0.5)
    return Dataset("made", x, y, z, ("a", "b"), ("c", "d"), theta, spec, slices, cluster=cluster)


def released(dataset, leak, *, everywhere):
    """A code of every row; in a share ``leak`` of them it tells z, on the rows of the first two slices only if
    ``everywhere``."""
    rng = np.random.default_rng([7])
    rows = dataset.slices.rows()
    code = rng.integers(0, CODES, len(rows))
    tells = rng.random(len(rows)) < leak
    if not everywhere:
        tells[: len(dataset.slices.training())] = False
    code = np.where(tells, dataset.z[rows], code)
    part = dataset.rows(rows)
    return Released(part.x, part.y, part.z, part.cluster, np.eye(CODES, dtype=np.float32)[code])


def found(dataset, left):
    asked = question_of(dataset, left, BUDGETS["quick"], NONE, seed=0)
    return {row.learned_on: row for row in attack_all(asked, families=(CodeCounts(),), curve=False).rows}


def test_a_leak_on_fresh_rows_alone_is_missed_by_who_learns_on_old_ones_and_found_by_the_others():
    dataset = made(8000)
    rows = found(dataset, released(dataset, 0.4, everywhere=False))
    assert {"old", "fresh", "both", "crossed"} <= set(rows)
    assert rows["old"].bits_counted.estimate < 0.01
    for learned_on in ("fresh", "both", "crossed"):
        assert rows[learned_on].bits_counted.low > 0.05, learned_on


@dataclass(frozen=True)
class Slow(CodeCounts):
    """A family with seeds, as networks are."""

    name: str = "slow"
    seeded: bool = True


def slow_ran(dataset, left, budget="quick"):
    asked = question_of(dataset, left, BUDGETS[budget], NONE, seed=0)
    findings = attack_all(asked, families=(CodeCounts(), Slow()), curve=False)
    reasons = [one.reason for one in findings.not_run if one.name == "slow"]
    assert bool(reasons) != ("slow" in {row.name for row in findings.rows})
    return reasons[0] if reasons else None


@pytest.mark.nightly  # by day one that is not left out, below
def test_a_slow_attack_is_left_out_once_another_reads_nearly_all_of_z():
    dataset = made(8000)
    all_of_it = released(dataset, 1.0, everywhere=True)
    assert "already reads z from all but 0.0% of the validation rows; a thorough audit runs this too" in slow_ran(
        dataset, all_of_it
    )
    assert slow_ran(dataset, all_of_it, "thorough") is None
    assert slow_ran(dataset, released(dataset, 0.9, everywhere=True)) is None


def test_a_slow_attack_still_looks_for_the_rows_of_which_others_know_nothing():
    """Of 6 % of the rows nothing leaves: others have nine tenths of the bits, and 3 % of the rows wrong."""
    dataset = made(8000)
    left = released(dataset, 1.0, everywhere=True)
    silent = np.random.default_rng(3).random(len(left)) < 0.06
    code = np.where(silent, CODES - 1, left.z)
    assert slow_ran(dataset, replace(left, also=np.eye(CODES, dtype=np.float32)[code])) is None


def test_a_rare_z_that_nobody_reads_leaves_no_slow_attack_out():
    """Hardly a row is wrong where one in two hundred has the other z; but none of its bits is read."""
    dataset = made(8000)
    rare = replace(dataset, z=(np.arange(8000) % 200 == 0).astype(np.int64))
    assert slow_ran(rare, released(rare, 0.0, everywhere=True)) is None


def test_a_leak_everywhere_is_found_in_every_setting():
    dataset = made(8000)
    for row in found(dataset, released(dataset, 0.4, everywhere=True)).values():
        assert row.bits_counted.low > 0.05


def test_without_a_leak_no_setting_finds_one():
    dataset = made(8000)
    for row in found(dataset, released(dataset, 0.0, everywhere=True)).values():
        assert row.bits_counted.low <= 0.01


@pytest.mark.parametrize("n", [2000, 700])
def test_no_adversary_learns_on_rows_that_it_is_judged_on(n):
    """2,000 rows have a slice to attack with; of 700 the fresh rows are the other folds of the test slice."""
    dataset = made(n)
    asked = question_of(dataset, released(dataset, 0.2, everywhere=True), BUDGETS["quick"], NONE, seed=0)
    test = set(dataset.slices.test)
    for setting in (*asked.settings, asked.crossed):
        assert len(setting.whole.test) == len(test)
        assert {row for fold in setting.folds for row in fold.test.x[:, 0].astype(int)} == test
        if len(setting.folds) == 1:
            assert setting.whole.fold is None
        else:  # for tests of answers that learned from each other's rows
            of_fold = [setting.whole.test.x[setting.whole.fold == k] for k in range(len(setting.folds))]
            assert all(map(np.array_equal, of_fold, [fold.test.x for fold in setting.folds]))
        for fold in setting.folds:
            parts = [set(part.x[:, 0].astype(int)) for part in (fold.fit, fold.stop, fold.choose, fold.test)]
            assert sum(map(len, parts)) == len(set().union(*parts))
    old, fresh, both = asked.settings
    assert [len(setting.folds) for setting in (old, fresh, both)] == [1 if n == 2000 else FOLDS] * 3
    assert len(asked.crossed.folds) == CROSSED_FOLDS
    training = set(dataset.slices.training())
    for fold in old.folds:
        assert {int(row) for part in (fold.fit, fold.stop) for row in part.x[:, 0]} == training
    for one, other in zip(fresh.folds, both.folds, strict=True):
        assert not {int(row) for part in (one.fit, one.stop, one.choose) for row in part.x[:, 0]} & training
        assert len(other.fit) == len(one.fit) + len(old.folds[0].fit)


def test_no_unit_is_on_both_sides():
    dataset = made(6000, cluster=np.arange(6000) // 40)
    asked = question_of(dataset, released(dataset, 0.2, everywhere=True), BUDGETS["quick"], NONE, seed=0)
    for setting in (*asked.settings, asked.crossed):
        for fold in setting.folds:
            units = [set(part.cluster) for part in (fold.fit, fold.stop, fold.choose, fold.test)]
            assert sum(map(len, units)) == len(set().union(*units))


@pytest.mark.parametrize("n", [2000, 700])
def test_folds_of_test_rows_go_with_an_attacks_answers(n):
    dataset = made(n)
    asked = question_of(dataset, released(dataset, 0.2, everywhere=True), BUDGETS["quick"], NONE, seed=0)
    for scored in run(asked, families=(CodeCounts(),)).kept:
        alone = n == 2000 and scored.row.learned_on != "crossed"
        assert (scored.judged("test").fold is None) == alone
        assert scored.judged("choose").fold is None


def test_where_folds_of_the_test_slice_are_too_few_the_old_rows_serve_alone():
    dataset = made(200)
    asked = question_of(dataset, released(dataset, 0.2, everywhere=True), BUDGETS["quick"], NONE, seed=0)
    assert [setting.learned_on for setting in asked.settings] == ["old"]
    assert asked.crossed is None


def test_slow_families_learn_where_the_quick_ones_learned_most():
    class Slow(CodeCounts):
        name, seeded, counts = "slow", True, False

    dataset = made(8000)
    left = released(dataset, 0.4, everywhere=False)
    for every_family, settings in ((False, 1), (True, 3)):
        budget = replace(BUDGETS["quick"], every_family=every_family)
        asked = question_of(dataset, left, budget, NONE, seed=0)
        rows = attack_all(asked, families=(Slow(), CodeCounts()), curve=False).rows
        slow = [row.learned_on for row in rows if row.name == "slow"]
        assert len(slow) == settings
        assert slow != ["old"]


def told_folds(module, name, monkeypatch):
    """The folds that a permutation test in ``module`` is told of, call by call."""
    told, exact = [], getattr(module, name)

    def watched(*words, fold=None, **asked):
        told.append(fold)
        return exact(*words, fold=fold, **asked)

    monkeypatch.setattr(module, name, watched)
    return told


@pytest.mark.nightly  # by day folds of answers, above
def test_every_permutation_test_of_an_attack_knows_the_folds(monkeypatch):
    dataset = made(700)
    asked = question_of(dataset, released(dataset, 0.9, everywhere=True), BUDGETS["quick"], NONE, seed=0)
    told = told_folds(run_all, "permutation_test", monkeypatch)
    scored = run(asked, families=(CodeCounts(),)).kept[1]
    run_all._permuted(asked, scored, None, 0)
    assert np.array_equal(told[0], asked.whole.fold)
    choose, test, prior = scored.judged("choose"), scored.judged("test"), asked.whole.counted
    label = parts.Labels(choose.y, np.where(np.arange(len(test.y)) % 3, test.y, 1 - test.y))
    told = told_folds(parts, "sequential_test", monkeypatch)
    parts.parts(choose, test, prior, {}, label=label, rng=np.random.default_rng(0))
    assert told
    assert all(fold is not None for fold in told)
    units = test._replace(cluster=np.arange(len(test.y)) // 2, z=test.z[np.arange(len(test.y)) // 2 * 2])
    told.clear()
    parts._units(attack_gains(prior, units.p, units.y), units, np.random.default_rng(0))
    assert told
    assert all(fold is not None for fold in told)
    told = told_folds(exposure, "sequential_test", monkeypatch)
    exposure.worst(exposure.thresholds(2), choose, test, prior, rng=np.random.default_rng(0))
    assert told
    assert told[0] is not None
