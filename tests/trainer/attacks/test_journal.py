"""An attack whose answer is kept does not learn again, and what comes out is the same."""

from dataclasses import asdict, replace

import numpy as np
import pytest

from edgeveil.trainer.attacks.families.code_counts import CodeCounts
from edgeveil.trainer.attacks.families.lda import ShrinkageLDA
from edgeveil.trainer.attacks.families.logistic import Logistic
from edgeveil.trainer.attacks.findings import Journal
from edgeveil.trainer.attacks.problem import BUDGETS
from edgeveil.trainer.attacks.rows import question_of
from edgeveil.trainer.attacks.run_all import attack_all
from tests.trainer.attacks.test_question import NONE, made, released


class Interrupted(ShrinkageLDA):
    def fit(self, problem, seed):
        raise KeyboardInterrupt


class Never(Logistic):
    """As logistic regression to a journal; it must not learn."""

    def fit(self, problem, seed):
        raise AssertionError


def asked(journal, leak=0.4, **changes):
    dataset = made(1000)
    budget = replace(BUDGETS["quick"], journal=journal, **changes)
    return question_of(dataset, released(dataset, leak, everywhere=True), budget, NONE, seed=0)


def attack(question, *families, curve=False):
    return attack_all(question, families=families, seed=3, curve=curve)


def without_times(findings):
    return [{**asdict(row), "seconds": 0} for row in findings.rows], findings.curve, findings.permutation


def test_what_is_resumed_is_what_was_not_interrupted(tmp_path):
    told = []
    journal = Journal(tmp_path / "kept", begins=told.append)
    with pytest.raises(KeyboardInterrupt):
        attack(asked(journal), Logistic(), CodeCounts(), Interrupted())
    kept = len(journal)
    assert kept == 3 + 3 + 5  # in three settings; counting crossed too, in five folds
    told.clear()
    resumed = attack(asked(journal), Logistic(), CodeCounts(), ShrinkageLDA(), curve=True)
    assert set(told) <= {ShrinkageLDA.name, resumed.curve.name}  # the learning curve trains on less
    whole = attack(asked(None), Logistic(), CodeCounts(), ShrinkageLDA(), curve=True)
    np.testing.assert_equal(without_times(resumed), without_times(whole))


@pytest.mark.parametrize(
    "other",
    [
        {"leak": 0.3},
        *(
            pytest.param(one, marks=pytest.mark.nightly)
            for one in ({"rows": 29_999}, {"made_by": "numpy 3"}, {"seed": 4})
        ),
    ],
)
def test_an_answer_to_another_question_is_not_taken(tmp_path, other):
    attack(asked(Journal(tmp_path)), Logistic())
    before = len(Journal(tmp_path))
    asked_for = {"seed": 3, "made_by": "", **other}
    changed = Journal(tmp_path, made_by=asked_for.pop("made_by"))
    seed = asked_for.pop("seed")
    attack_all(asked(changed, **asked_for), families=(Logistic(),), seed=seed, curve=False)
    assert len(changed) == 2 * before


def test_an_answer_of_other_code_is_not_taken(tmp_path):
    attack(asked(Journal(tmp_path)), Logistic())
    with pytest.raises(AssertionError):
        attack(asked(Journal(tmp_path)), Never())


def test_a_damaged_answer_is_computed_again(tmp_path):
    first = attack(asked(Journal(tmp_path)), Logistic())
    for path in tmp_path.iterdir():
        path.write_bytes(path.read_bytes()[:-40])
    np.testing.assert_equal(without_times(attack(asked(Journal(tmp_path)), Logistic())), without_times(first))
