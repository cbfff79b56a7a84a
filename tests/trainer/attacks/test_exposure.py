"""Who is exposed most, whether more data would help, what the ensemble is made of, and what there is too little of."""

from dataclasses import replace

import numpy as np
import pytest

from edgeveil.trainer.attacks import exposure, run_all
from edgeveil.trainer.attacks.exposure import Judged
from edgeveil.trainer.attacks.families.logistic import Logistic
from edgeveil.trainer.attacks.findings import score
from edgeveil.trainer.attacks.problem import BUDGETS, Problem, Released, cut
from edgeveil.trainer.attacks.rows import Question, Setting
from edgeveil.trainer.attacks.run_all import attack_all, build_ensemble, learning_curve
from edgeveil.trainer.datasets.base import InputSpec
from edgeveil.trainer.measures import attack_metrics


def judged(n: int, seed: int = 0, known: float = 0.3) -> Judged:
    """Three z, of which the last is recognised for sure in a share ``known`` of its rows, and everything else is y."""
    rng = np.random.default_rng(seed)
    y, z = rng.integers(0, 2, n), rng.integers(0, 3, n)
    p = np.tile([0.4, 0.35, 0.25], (n, 1)) + rng.normal(0, 1e-3, (n, 3))
    p[(z == 2) & (rng.random(n) < known)] = [0.0, 0.0, 1.0]
    return Judged(p / p.sum(axis=1, keepdims=True), y, z)


def test_the_recognised_share_of_the_most_exposed_class_is_found():
    found = exposure.at_low_fpr(judged(3000, 1), judged(3000, 2))
    assert found.rows == (judged(3000, 2).z == 2).sum()
    # 30 % are above every other row, and of the rest about 1 % above all but 1 % of the others.
    assert found.rate.estimate == pytest.approx(0.307, abs=0.04)
    assert found.rate.low < 0.307 < found.rate.high


def test_without_a_hundred_others_there_is_no_such_share():
    few = judged(90, 3)
    found = exposure.at_low_fpr(few, few)
    assert np.isnan(found.rate.estimate)
    assert found.rows == 0


def guessed(n: int, seed: int, *, known: float = 0.0, times: float = 1.0, rows_of_person: int = 1) -> Judged:
    """Random scores of two y and three z. Of z = 2 a share ``known`` is recognised for sure; above any high threshold
    it lies ``times`` as often as others. Rows of a person are all alike."""
    rng = np.random.default_rng(seed)
    people = n // rows_of_person
    y, z, p = rng.integers(0, 2, people), rng.integers(0, 3, people), rng.random((people, 3))
    exposed = z == 2
    p[exposed, 2] = 1 - (1 - p[exposed, 2]) / times
    p[exposed & (rng.random(people) < known), 2] = 2.0
    person = np.repeat(np.arange(people), rows_of_person)
    return Judged(p[person], y[person], z[person], person if rows_of_person > 1 else None)


@pytest.mark.nightly  # by day people who are recognised, below
@pytest.mark.parametrize("rows_of_person", [1, 4], ids=["rows", "people"])
def test_few_rows_recognised_by_luck_are_no_evidence(rows_of_person):
    """A class that lies exactly three times as often above any threshold: the most that is no leak."""
    seeds, rows = 150, 1000
    found = [
        exposure.at_low_fpr(
            *(guessed(rows, 2 * seed + one, times=3.0, rows_of_person=rows_of_person) for one in (0, 1))
        )
        for seed in range(seeds)
    ]
    # The interval takes the threshold as given: it is above three times 1 % in every tenth audit.
    assert sum(one.rate.low > 0.03 for one in found) > 0.06 * seeds
    assert sum(one.p <= 0.025 for one in found) <= 0.025 * seeds


def test_a_few_people_who_are_recognised_for_sure_are_found():
    exposed = [exposure.at_low_fpr(*(guessed(1800, 2 * seed + one, known=0.1) for one in (0, 1))) for seed in range(20)]
    assert sum(one.p <= 0.0125 for one in exposed) >= 17
    people = [
        exposure.at_low_fpr(*(guessed(3600, 2 * seed + one, known=0.2, rows_of_person=4) for one in (0, 1)))
        for seed in range(8)
    ]
    assert sum(one.p <= 0.0125 for one in people) >= 7


def test_the_worst_class_is_chosen_on_validation_and_not_the_luckiest_on_test():
    prior = np.tile([0.4, 0.35, 0.25], (2, 1))
    choose, test = judged(3000, 1), judged(3000, 2)
    found = exposure.worst_class(choose, test, prior)
    assert found.rate.estimate == pytest.approx(0.3, abs=0.04)
    assert found.chance == 0.0  # whoever knows y alone never names it
    lucky = test._replace(p=np.eye(3)[np.where(test.z == 1, 1, 0)])  # on test another one is always right
    assert exposure.worst_class(choose, lucky, prior).rate.estimate == 0.0


def test_balanced_accuracy_starts_at_one_over_the_number_of_z():
    prior = np.tile([0.4, 0.35, 0.25], (2, 1))
    test = judged(3000, 2, known=0.0)
    found = exposure.balanced(test, prior)
    assert found.chance == pytest.approx(1 / 3)
    assert found.rate.estimate == pytest.approx(found.chance, abs=0.03)
    sure = test._replace(p=np.maximum(np.eye(3)[test.z], 1e-6))
    assert exposure.balanced(sure, prior).rate.estimate == 1.0


def problem(n: int, *, spread: float, features: int = 3, seed: int = 0) -> Problem:
    """Two z whose readings lie 2 apart in the first of ``features`` values, each of that ``spread``."""
    rng = np.random.default_rng(seed)
    y, z = rng.integers(0, 2, n + 2000), rng.integers(0, 2, n + 2000)
    x = rng.normal(size=(n + 2000, features)) * spread
    x[:, 0] += 2 * z - 1
    everything = Released(x.astype(np.float32), y, z)
    fit, stop, choose = cut(everything.take(np.arange(n)), 0)
    counted = attack_metrics.counted_prior(y[:n], z[:n], (2, 2))
    spec = InputSpec("vector", (features,), "float32", None, None)
    test = everything.take(np.arange(n, n + 2000))
    return Problem(spec, np.full((2, 2), 0.5), counted, fit, stop, choose, test, BUDGETS["quick"])


@pytest.mark.parametrize(("features", "rising"), [(400, True), (2, False)], ids=["starved", "saturated"])
def test_an_attack_that_still_gets_better_with_data_is_said_to(features, rising):
    ran = attack_all(Question.alone(problem(1200, spread=1.0, features=features)), families=(Logistic(),))
    found = ran.curve
    assert found.points[-1][1].estimate == ran.worst_adaptive.right.estimate
    assert [rows for rows, _ in found.points] == pytest.approx([123, 246, 492, 984], abs=8)
    assert found.rising is rising
    assert found.gain.estimate == pytest.approx(found.points[-1][1].estimate - found.points[-2][1].estimate)


def test_an_attack_that_reads_nearly_all_has_no_curve_in_a_quick_audit():
    asked = problem(1200, spread=1.0)
    right, wrong = np.arange(2000) % 100 > 0, np.arange(2000) % 40 > 0  # 1 and 2.5 % wrong
    curves = []
    for budget, full in (("quick", right), ("quick", wrong), ("thorough", right)):
        setting = Setting.from_folds("fresh", [replace(asked, budget=BUDGETS[budget])])
        curves.append(learning_curve(setting, Logistic(), seed=0, rows=984, full=full))
    assert [curve is None for curve in curves] == [True, False, False]


def test_an_eighth_of_too_few_rows_is_no_point_of_a_curve():
    asked = problem(300, spread=1.0)
    assert (
        learning_curve(Setting.from_folds("fresh", [asked]), Logistic(), seed=0, rows=200, full=np.ones(2000, bool))
        is None
    )


def test_the_ensemble_joins_what_each_overlooks_and_never_looks_at_test_rows():
    asked = problem(4000, spread=1.0)
    rng = np.random.default_rng(9)

    def attack(name: str, noise: float, test_noise: float):
        raw = {}
        for part, rows, spread in (("choose", asked.choose, noise), ("test", asked.test, test_noise)):
            odds = 1 / (1 + np.exp(-((2 * rows.z - 1) + rng.normal(size=len(rows)) * spread)))
            raw[part] = np.stack([1 - odds, odds], axis=1)
        return score(asked, raw, name=name, kind="adaptive", learned_on="fresh", seed=0, train_samples=10, begun=0.0)

    # The third is best on test and useless on validation: it must not be taken.
    kept = [attack("one", 1.0, 1.0), attack("two", 1.0, 1.0), attack("three", 50.0, 0.01)]
    made = build_ensemble(asked, kept, seed=0)
    assert set(made.row.members.split(", ")[:2]) == {"one on fresh rows", "two on fresh rows"}
    assert made.row.right.estimate > max(one.row.right.estimate for one in kept[:2]) + 0.02
    assert made.row.right.estimate < 0.97
    assert build_ensemble(asked, kept[:1], seed=0) is None


def test_what_there_is_too_little_of_is_said_with_the_number_needed():
    plenty = problem(1200, spread=1.0)
    assert run_all.warnings(plenty) == ()
    rare = np.where(np.arange(len(plenty.fit)) < 5, 0, 1)
    starved = replace(
        plenty,
        fit=replace(plenty.fit, z=rare),
        stop=replace(plenty.stop, z=np.ones(len(plenty.stop), int)),
        test=plenty.test.take(np.arange(100)),
    )
    classes, rows = run_all.warnings(starved)
    assert "1 of 2 classes of z have fewer than 20 training rows (the rarest 5)" in classes
    assert "wider than 5 points either way" in rows
    people = replace(plenty, test=replace(plenty.test, cluster=np.arange(2000) % 7))
    assert "holds 7 subjects or sessions" in run_all.warnings(people)[0]
