"""Counting codes crossed is tested in every audit, whichever attack won on the rows to choose by."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from edgeveil.trainer.attacks.families.code_counts import CodeCounts
from edgeveil.trainer.attacks.findings import Findings
from edgeveil.trainer.attacks.problem import BUDGETS, Problem, Released
from edgeveil.trainer.attacks.protocol import Adaptive, Adversary
from edgeveil.trainer.attacks.rows import Question, question_of
from edgeveil.trainer.attacks.run_all import attack_all, counting_test
from edgeveil.trainer.audit.document import attacked
from edgeveil.trainer.audit.verdict import LEAKS, SIGNIFICANT, judge
from edgeveil.trainer.datasets import slicing
from edgeveil.trainer.datasets.base import Dataset, InputSpec
from edgeveil.trainer.measures.certificate import shuffled_labels

PRIOR = np.array([[0.6, 0.4], [0.4, 0.6]])


class Lucky(Adaptive):
    """It knows much of z on the rows to choose by, and nothing on test rows."""

    name, train_samples = "lucky", 1

    def fit(self, problem: Problem, _seed: int) -> Lucky:
        self._choose = problem.choose
        return self

    def probabilities(self, part: Released) -> np.ndarray:
        one = 0.5 + 0.4 * (part.z - 0.5) * (part is self._choose)
        return np.stack([1 - one, one], axis=1)


def question(
    rows: int,
    leak: float,
    seed: int,
    *,
    codes: int = 8,
    people: int | None = None,
    other: tuple[np.ndarray, np.ndarray] | None = None,
) -> Question:
    """A code of each row that is z in a share ``leak`` of them. Rows of one of ``people`` share y, z and code.

    ``other``: numbers of rows, and the z that they have instead.
    """
    rng = np.random.default_rng(seed)
    person = np.arange(rows) % (people or rows)
    y = rng.integers(0, 2, rows)[person]
    z = (rng.random(rows)[person] < PRIOR[y, 1]).astype(np.int64)
    code = np.where(rng.random(rows) < leak, z, rng.integers(0, codes, rows)[person])
    cluster = None if people is None else person
    slices = slicing.cut(y, z, cluster=cluster, rng=rng)
    if other is not None:
        z[other[0]] = other[1]
    spec = InputSpec("vector", (1,), "float32", (0.0,), (1.0,))
    x = np.zeros((rows, 1), np.float32)
    data = Dataset("coded", x, y, z, ("a", "b"), ("c", "d"), PRIOR, spec, slices, cluster=cluster)
    part = data.rows(slices.rows())
    left = Released(part.x, part.y, part.z, part.cluster, np.eye(codes, dtype=np.float32)[code[slices.rows()]])
    return question_of(data, left, BUDGETS["quick"], {"sensitive": None}, seed=0)


def found(asked: Question, *families: Adversary) -> Findings:
    return attack_all(asked, families=families, curve=False)


def test_a_code_that_tells_z_leaks_though_another_attack_won_on_validation():
    findings = found(question(1800, 0.15, 0), CodeCounts(), Lucky())
    assert "lucky" in (findings.most_bits.name, *findings.most_bits.members.split(" on "))
    assert findings.permutation.p > SIGNIFICANT
    document = {"findings": [one.as_json() for one in attacked(findings, "z")], "data": {"sensitive": "z"}}
    shown = [one for one in judge(document, {"bits": 0.001})["reasons"] if "surely gains" in one]
    assert len(shown) == 1
    assert shown[0].startswith("code counts surely gains")
    assert "permutation test, p = 0.001" in shown[0]
    assert judge(document, {"bits": 0.001})["word"] == LEAKS
    alone = attacked(replace(findings, counting=None), "z")
    document["findings"] = [one.as_json() for one in alone]
    assert judge(document, {"bits": 0.001})["word"] != LEAKS  # nothing else shows it


def test_where_counting_crossed_won_the_test_of_the_winner_is_this_one():
    for seed, won in ((0, False), (2, True)):
        findings = found(question(1800, 0.15, seed), CodeCounts())
        assert (findings.most_bits.learned_on == "crossed") == won
        assert (findings.permutation == findings.counting) == won


def test_outputs_that_are_no_codes_are_not_counted():
    assert found(question(1800, 0.2, 0, codes=900), CodeCounts(), Lucky()).counting is None
    assert found(question(1800, 0.2, 0), Lucky()).counting is None


def test_each_shuffle_counts_as_if_z_had_been_so():
    """With answers kept while z is shuffled, p would be too small: they were learned from the z of other folds."""
    asked = question(1800, 0.15, 0)
    tested, seed = asked.crossed.whole.test, 5
    found = counting_test(asked.crossed, shuffles=1, rng=np.random.default_rng(seed))
    rng = np.random.default_rng(seed)
    (shuffled,) = shuffled_labels(tested.z, tested.y, shuffles=1, rng=rng, cluster=None)
    again = question(1800, 0.15, 0, other=(tested.row, shuffled))
    assert counting_test(again.crossed, shuffles=1, rng=rng).gain == pytest.approx(found.null_high)
    assert found.gain > found.null_high + 0.01


@pytest.mark.nightly  # by day one shuffle, above
@pytest.mark.parametrize(("codes", "rows", "people"), [(32, 390, None), (8, 600, 120)])
def test_it_fires_as_often_as_its_level_says_where_nothing_leaks(codes, rows, people):
    tries = 120
    p = np.empty(tries)
    for seed in range(tries):
        asked = question(rows, 0.0, seed, codes=codes, people=people)
        p[seed] = counting_test(asked.crossed, shuffles=39, rng=np.random.default_rng(seed)).p
    assert 0.03 < (p <= 0.1).mean() < 0.2
