"""What a private head spends, by fitting it: sound ones hold, and less noise than promised is proved for each kind."""

import functools

import numpy as np
import pytest
from pydantic import TypeAdapter

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.audit.sections import head as head_spending
from edgeveil.trainer.audit.sections import training as training_spending
from edgeveil.trainer.audit.text import measured_spending
from edgeveil.trainer.ext.private import noise as dpsgd
from edgeveil.trainer.ext.private.noise import Secret, Seeded
from edgeveil.trainer.ext.private.per_example import claim
from edgeveil.trainer.recipe.private import Head

CONFIDENCE = 1 - 1e-6
LOGISTIC = {"kind": "logistic", "regularization": 0.01}
HUBER = {"kind": "huber-svm", "regularization": 0.01, "fit_intercept": False}
FUNCTIONAL = {"kind": "functional-logistic"}
FACTS = {"rows": 2000, "promise": {"epsilon": 1.0}}


@functools.cache
def steps():
    """Of a run with a head by DP-SGD; the accountant takes a second, which collecting tests must not take."""
    return {**claim(rate=0.2, sigma=1.0, steps=20, delta=1e-4).as_dict(), "clip": 0.5, "lot": 400}


@pytest.fixture(autouse=True)
def _fewer_runs(monkeypatch):
    monkeypatch.setattr(head_spending, "FITS", 600)
    monkeypatch.setattr(training_spending, "STEPS", 100_000)


def measured(head, classes=2, **facts):
    section = TypeAdapter(Head).validate_python(head)
    return head_spending.measured({**FACTS, **facts}, section, classes, CONFIDENCE)


@pytest.mark.parametrize(
    ("head", "classes"),
    [(LOGISTIC, 3), ({**HUBER, "data_norm": 1.5}, 2), ({**FUNCTIONAL, "sensitive": [5], "gamma": 0.5}, 2)],
    ids=["logistic", "Huber", "functional"],
)
def test_what_a_fit_promises_is_not_exceeded(head, classes, monkeypatch):
    monkeypatch.setattr(head_spending, "FITS", 150)
    row = measured(head, classes)
    assert row.more["holds"]
    assert (row.figure, row.more["claimed"], row.rows) == ("epsilon", 1.0, 50)
    assert 0 <= row.value <= 1
    assert "epsilon is 1 as claimed" in measured_spending({"findings": [row.as_json()]})[0]


@pytest.mark.parametrize(
    "head", [HUBER, pytest.param({**HUBER, "method": "output"}, marks=pytest.mark.nightly)], ids=["objective", "output"]
)
def test_a_tenth_of_the_noise_of_a_fit_is_proved(head, monkeypatch):
    radial = Secret.radial
    monkeypatch.setattr(Secret, "radial", lambda self, size, scale: radial(self, size, scale / 10))
    row = measured(head)
    assert not row.more["holds"]
    (line,) = measured_spending({"findings": [row.as_json()]}, broken=True)
    assert "the claim does not hold" in line


@pytest.mark.nightly  # by day of a Huber SVM, above
def test_a_tenth_of_the_functional_mechanisms_noise_is_proved(monkeypatch):
    seeded = Seeded(0)
    monkeypatch.setattr(Secret, "laplace", lambda self, values, scale: seeded.laplace(values, scale / 10))
    assert not measured(FUNCTIONAL).more["holds"]


def test_a_fit_without_noise_has_no_bound(monkeypatch):
    monkeypatch.setattr(head_spending, "FITS", 10)
    monkeypatch.setattr(Secret, "radial", lambda self, size, scale: np.zeros(size))
    row = measured(LOGISTIC)
    assert (row.value, row.more["holds"]) == (None, False)
    assert "at least any number" in measured_spending({"findings": [row.as_json()]}, broken=True)[0]


def test_a_step_of_a_head_of_dp_sgd_is_run_with_its_own_noise_and_clip(monkeypatch):
    head = {"kind": "dp-sgd"}
    row = measured(head, 3, steps=steps())
    assert (row.figure, row.more["claimed"], row.more["holds"]) == ("mu", 1.0, True)
    assert row.value > 0.9
    sums = head_spending.clipped_sum
    with monkeypatch.context() as patch:
        patch.setattr(head_spending, "clipped_sum", lambda x, hot, weights, clip: sums(x, hot, weights, 2 * clip))
        assert not measured(head, 3, steps=steps()).more["holds"]
    noisy = dpsgd.noisy_mean
    plan = dpsgd.Plan(2000, 400, 1, 0.5, claim(rate=0.2, sigma=0.5, steps=20, delta=1e-4))
    monkeypatch.setattr(training_spending, "noisy_mean", lambda sums, made, noise: noisy(sums, plan, noise))
    assert not measured(head, 3, steps=steps()).more["holds"]


def test_a_run_that_says_nothing_of_its_steps_is_trained_again():
    with pytest.raises(BadInput, match="train again"):
        measured({"kind": "dp-sgd"})
