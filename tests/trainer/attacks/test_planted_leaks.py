"""Each planted leak is found by the family that is there for it; the same release without the leak is at chance.

By day a few of them, at night all; what each family finds is on record (docs/results/power.md).
Donors are scikit-learn's digits; slow families are left out.
"""

from __future__ import annotations

import hashlib
import time
from dataclasses import replace

import numpy as np
import pytest

from edgeveil.trainer.attacks import rows as rows_
from edgeveil.trainer.attacks.exposure import Judged
from edgeveil.trainer.attacks.families import parities
from edgeveil.trainer.attacks.findings import Scored, answers, score
from edgeveil.trainer.attacks.parts import Labels, Part, part, parts, surest
from edgeveil.trainer.attacks.problem import BUDGETS, Problem
from edgeveil.trainer.attacks.registry import adversaries
from edgeveil.trainer.attacks.rows import Question
from edgeveil.trainer.audit.verdict import LEAKS
from edgeveil.trainer.datasets import readings
from edgeveil.trainer.datasets.loaders import mnist as of_mnist
from edgeveil.trainer.measures.attack_metrics import permutation_test
from tests.support import planted, red_team

FAMILIES = {family.name: family for family in adversaries()}
BUDGET = replace(BUDGETS["quick"], trees=60)


def release(name: str, *, strength: float = 1.0, rows: int = 3000, larger: int = 1, seed: int = 5) -> planted.Release:
    """A release with the leak of that name, or without any."""
    return planted.of_kind(planted.LEAKS[name], rows, strength, np.random.default_rng(seed), larger=larger)


def attacked(problem: Problem, family: str) -> Scored:
    """The attack of that family, calibrated and measured."""
    attack, begun = FAMILIES[family].fit(problem, 0), time.perf_counter()
    raw, rows, *_ = answers(problem, attack, family)
    return score(
        problem, raw, name=family, kind="adaptive", learned_on="fresh", seed=0, train_samples=rows, begun=begun
    )


def p_value(found: Scored, problem: Problem) -> float:
    """Of the permutation test."""
    test = problem.test
    rng = np.random.default_rng(0)
    return permutation_test(problem.counted, found.sure["test"], test.y, test.z, test.cluster, rng=rng).p


def judged(found: Scored, problem: Problem, part: str) -> Judged:
    """What the calibrated attack says of ``choose`` or ``test``."""
    rows = getattr(problem, part)
    return Judged(found.sure[part], rows.y, rows.z, rows.cluster)


def parts_of(found: Scored, problem: Problem) -> tuple[Part, ...]:
    """The parts of the test rows, with the label that was sent."""
    labels = Labels(problem.choose.also.argmax(axis=1), problem.test.also.argmax(axis=1))
    choose, test = (judged(found, problem, part) for part in ("choose", "test"))
    return parts(choose, test, problem.counted, {}, label=labels, rng=np.random.default_rng(0))


@pytest.mark.parametrize(
    ("leak", "family", "bits", "larger"),
    [
        pytest.param("checkerboard", "logistic regression", 0.9, 1, marks=pytest.mark.nightly),
        pytest.param("bit of a pixel", "lowest bits", 0.9, 2, marks=pytest.mark.nightly),
        pytest.param("XOR of patches", "gradient boosting", 0.8, 1, marks=pytest.mark.nightly),
        pytest.param("chosen donor", "gradient boosting", 0.15, 1, marks=pytest.mark.nightly),
        ("leaning code", "code counts", 0.9, 1),
        pytest.param("remainder of the sum", "lowest bits", 0.9, 2, marks=pytest.mark.nightly),
        pytest.param("parity of two", "parities of bits", 0.9, 2, marks=pytest.mark.nightly),
        pytest.param("parity of three", "parities of bits", 0.9, 2, marks=pytest.mark.nightly),
        pytest.param("few people", "logistic regression", 0.015, 1, marks=pytest.mark.nightly),
        pytest.param("wrong label", "wrong labels", 0.06, 1, marks=pytest.mark.nightly),
    ],
)
def test_a_planted_leak_is_found_by_its_family_and_its_absence_by_none(leak, family, bits, larger):
    assert family in planted.LEAKS[leak].found_by
    problem = planted.problem(release(leak, larger=larger), BUDGET)
    found = attacked(problem, family)
    assert found.row.bits_counted.estimate > bits
    assert p_value(found, problem) == 1 / 1000
    nothing = planted.problem(release(leak, strength=0.0, larger=larger), BUDGET)
    assert p_value(attacked(nothing, family), nothing) > 0.01


@pytest.mark.parametrize(
    ("leak", "rows", "larger"),
    [
        pytest.param("bits of two far pixels", 1500, 1, marks=pytest.mark.nightly),
        ("number of levels", 900, 2),
        pytest.param("noise level", 1500, 2, marks=pytest.mark.nightly),
        pytest.param("patch that repeats", 900, 2, marks=pytest.mark.nightly),
        pytest.param("next row", 1200, 1, marks=pytest.mark.nightly),
        pytest.param("marked rows", 4500, 1, marks=pytest.mark.nightly),
        ("period of a sum", 900, 1),
    ],
)
def test_what_is_at_no_place_and_in_no_row_alone_leaks_by_its_family_and_not_without_it(leak, rows, larger):
    """The same change that does not depend on z is no false alarm; two cheap, older families find none of the leaks."""
    (mine,) = planted.LEAKS[leak].found_by
    others = tuple(FAMILIES[name] for name in ("logistic regression", "lowest bits"))
    words = {}
    for strength in (1.0, 1e-9):
        made = release(leak, strength=strength, rows=rows, larger=larger)
        asked = Question.alone(planted.problem(made, BUDGET, ordered=True))
        words[strength] = planted.judged(asked, (*others, FAMILIES[mine]))[0]
        if strength == 1.0:
            words["others"] = planted.judged(asked, others)[0]
    assert words[1.0] == LEAKS
    assert words[1e-9] != LEAKS
    assert words["others"] != LEAKS


def test_a_cipher_tells_z_to_the_one_with_its_key_and_to_no_family():
    made = release("keyed cipher", rows=1500)
    flat = made.x.reshape(len(made), -1)
    hashes = (hashlib.blake2b(row[1:].tobytes(), key=planted.KEY, digest_size=1).digest()[0] for row in flat)
    assert [(one & 1) ^ bit for one, bit in zip(hashes, flat[:, 0] & 1, strict=True)] == made.z.tolist()
    cheap = tuple(FAMILIES[name] for name in ("lowest bits", "parities of bits", "gradient boosting"))
    word, found = planted.judged(Question.alone(planted.problem(made, BUDGET)), cheap)
    assert word != LEAKS
    assert found.permutation.p > 0.01


@pytest.mark.nightly  # by day the plant that the finding became: "period of a sum"
def test_what_a_network_learned_to_hide_is_found_by_the_family_that_it_led_to():
    team = red_team.trained("sine of 2", 0)
    assert team.partner_right > 0.9
    made = planted.leaky(
        planted.clean(*planted.digits(), 2000, rng := np.random.default_rng(1)), red_team.leak(team), 1.0, rng
    )
    problem = planted.problem(made, BUDGET)
    assert attacked(problem, "lowest bits").row.bits_counted.estimate < 0.05
    assert attacked(problem, "periods of sums").row.bits_counted.estimate > 0.5


def test_sorted_labels_are_no_order_to_attack_by_neighbours():
    """In rows that are sorted by z, or recorded, x' of neighbours depends on z whatever a mechanism does."""
    made = release("next row", rows=900)
    assert rows_.in_order(planted.released(made)).beside is not None
    by_z = planted.released(made).take(np.argsort(made.z, kind="stable"))
    assert rows_.in_order(by_z).beside is None
    # Here y of the next row depends on z, and z of a neighbour does not.
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 901)
    following = replace(planted.released(made), y=y[:-1], z=y[1:] ^ (rng.random(900) < 0.3))
    assert rows_.in_order(following).beside is None
    asked = planted.problem(made, BUDGET)
    assert "order of rows is not known" in FAMILIES["neighbouring rows"].why_not(asked)


def test_the_rows_beside_are_those_before_and_after():
    part = rows_.in_order(planted.released(release("next row", rows=300)))
    assert np.array_equal(part.beside[1:, 0], part.x[:-1])
    assert np.array_equal(part.beside[:-1, 1], part.x[1:])
    some = part.take(np.array([7, 3]))
    assert np.array_equal(some.beside[:, 1], part.x[[8, 4]])


@pytest.mark.nightly
@pytest.mark.parametrize("leak", ["parity of two", "parity of three"])
def test_a_weak_parity_is_found_and_no_other_family_sees_it(leak):
    problem = planted.problem(release(leak, strength=0.3, rows=6000, larger=2), BUDGET)
    assert attacked(problem, "parities of bits").row.bits_counted.estimate == pytest.approx(
        planted.bits_of(0.3), abs=0.03
    )
    for family in ("logistic regression", "gradient boosting", "lowest bits"):
        assert p_value(attacked(problem, family), problem) > 0.01, family


def test_about_few_people_the_surest_twentieth_is_known():
    problem = planted.problem(release("few people", rows=6000), BUDGET)
    found = attacked(problem, "logistic regression")
    by_name = {one.name: one for one in parts_of(found, problem)}
    assert by_name["surest twentieth"].p < 0.01
    assert by_name["twentieth with the largest gain"].p < 0.01
    assert by_name["twentieth with the largest gain"].bits.estimate > 0.25
    choose, test = (judged(found, problem, part) for part in ("choose", "test"))
    assert found.row.right.estimate < found.row.right.high < 0.7  # on average it hardly shows
    sure = part("", "surest", test, surest(choose, test, problem.counted), problem.counted)
    assert sure.right.estimate > 0.9
    assert sure.right.low > sure.chance
    assert 0.02 < sure.rows / len(test.z) < 0.09
    assert sure.chance == pytest.approx(0.6, abs=0.15)


def test_where_nothing_leaks_the_surest_twentieth_is_at_chance():
    problem = planted.problem(release("few people", rows=6000, strength=0.0), BUDGET)
    found = attacked(problem, "logistic regression")
    choose, test = (judged(found, problem, part) for part in ("choose", "test"))
    sure = part("", "surest", test, surest(choose, test, problem.counted), problem.counted)
    assert sure.right.low <= sure.chance
    assert not any(one.p is not None and one.p <= 0.01 for one in parts_of(found, problem))


def test_rows_with_a_wrong_label_are_reported_apart():
    made = release("wrong label")
    problem = planted.problem(made, BUDGET)
    found = attacked(problem, "wrong labels")
    right = problem.test.also.argmax(axis=1) == problem.test.y
    of_right, of_wrong = (
        part("", "label", judged(found, problem, "test"), np.flatnonzero(rows), problem.counted)
        for rows in (right, ~right)
    )
    assert of_wrong.right.low > 0.85
    assert of_wrong.bits.low > 0.5
    assert of_right.right.low <= of_right.chance
    apart = {one.name: one for one in parts_of(found, problem)}
    assert apart["wrong label"].p < 0.01
    assert apart["wrong label"].rows == of_wrong.rows
    assert apart["right label"].p is None
    assert of_wrong.rows + of_right.rows == len(problem.test)


@pytest.mark.parametrize("leak", ["checkerboard", pytest.param("parity of two", marks=pytest.mark.nightly)])
def test_what_leaks_of_fresh_rows_alone_takes_fresh_rows_to_find(leak):
    """The rows that trained the perturber tell nothing: who learns on them is blind, who learns on others is not."""
    family = planted.LEAKS[leak].found_by[-1]
    fresh = release(leak)
    trained_on = release(leak, strength=0.0, seed=6)
    blind = planted.problem(fresh, BUDGET, own=trained_on)
    assert p_value(attacked(blind, family), blind) > 0.01
    seeing = planted.problem(fresh, BUDGET, own=release(leak, seed=7))
    assert attacked(seeing, family).row.bits_counted.estimate > 0.9


@pytest.mark.nightly
@pytest.mark.data
def test_of_the_bits_of_mnist_all_pairs_and_triples_are_searched(data_folder, monkeypatch):
    monkeypatch.setenv(readings.VARIABLE, str(data_folder))
    mnist = of_mnist.load(target="parity", sensitive="less-than-five")
    pool = np.clip(mnist.x[:3000].reshape(-1, 28, 28, 1), planted.DITHER, 255 - planted.DITHER)
    rng, pool_y = np.random.default_rng(5), mnist.y[:3000]
    for leak, pixels in (("parity of two", 2), ("parity of three", 3)):
        made = planted.leaky(planted.clean(pool, pool_y, 9000, rng), planted.LEAKS[leak], 0.3, rng)
        found = parities.search(planted.problem(made, BUDGETS["quick"]), 0)[0]
        assert len(found) == pixels
        assert max(found) < 784


def test_the_bits_of_a_leak_are_those_that_a_perfect_attack_gains():
    assert planted.bits_of(0.0) == pytest.approx(0.0, abs=1e-12)
    assert planted.bits_of(1.0) == pytest.approx(0.971, abs=1e-3)  # H(z | y) of 60/40
    assert planted.bits_of(0.3) == pytest.approx(0.0633, abs=1e-4)
