"""The private estimators: scikit-learn's own checks, exact privacy in one dimension, and what they refuse."""

import numpy as np
import pytest
from scipy.special import expit
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import check_estimator

from edgeveil.trainer.ext.private.estimators import (
    DPSGDClassifier,
    FunctionalLinearRegression,
    FunctionalLogisticRegression,
    PrivateHuberSVM,
    PrivateLogisticRegression,
)
from edgeveil.trainer.ext.private.estimators.perturbed_risk import Huber, Logistic, minimum, perturbation
from edgeveil.trainer.ext.private.noise import Seeded
from scripts.papers.one_dimension import log_ratio

CLASSIFIERS = [
    PrivateLogisticRegression(1.0, data_norm=10.0),
    PrivateLogisticRegression(1.0, data_norm=10.0, method="output", fit_intercept=False),
    PrivateHuberSVM(1.0, data_norm=10.0),
    FunctionalLogisticRegression(1.0, bounds=(-10, 10)),
    DPSGDClassifier(1.0, data_norm=10.0),
]
REGRESSION = FunctionalLinearRegression(1.0, bounds=(-10, 10), target_bounds=(-100, 100))


def made(n=2000, d=4, seed=0):
    """Two classes by a plane, rows of norm at most 1."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d))
    x /= np.maximum(1, np.linalg.norm(x, axis=1))[:, None]
    return x, (x[:, 0] - x[:, 1] + 0.1 * rng.normal(size=n) > 0).astype(int)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("estimator", [*CLASSIFIERS, REGRESSION], ids=lambda one: type(one).__name__)
def test_scikit_learns_checks(estimator):
    """With a seed: three of the checks want two fits alike."""
    check_estimator(clone(estimator).set_params(random_state=0))


@pytest.mark.parametrize("loss", [Logistic(), Huber(0.5)], ids=["logistic", "huber"])
@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0, 2.0])
@pytest.mark.parametrize("n_lambda", [0.1, 1.0, 10.0])
def test_objective_perturbation_keeps_epsilon_exactly(loss, epsilon, n_lambda):
    scale, more = perturbation(epsilon, 1, n_lambda, loss.curvature)
    assert log_ratio(n_lambda, scale, more, loss) <= epsilon


def test_the_form_on_the_slides_does_not():
    assert log_ratio(0.1, 1 / 0.1, 0.0, Logistic()) == pytest.approx(1.206, abs=0.06)


@pytest.mark.parametrize("loss", [Logistic(), Huber(0.5)], ids=["logistic", "huber"])
def test_the_solver_reaches_the_minimum(loss):
    x, y = made()
    rows = x * np.where(y == 1, 1.0, -1.0)[:, None]
    linear = Seeded(3).radial(4, 20.0) / len(x)
    w, left = minimum(rows, loss, 1e-4, linear)
    assert left <= 1e-9
    nearby = w + 1e-3 * np.random.default_rng(0).normal(size=(50, 4))

    def risk(w):
        return loss.value(rows @ w).mean() + 1e-4 / 2 * w @ w + linear @ w

    assert min(map(risk, nearby)) > risk(w)


def test_the_solver_ends_where_the_first_step_overshoots():
    """At 0 the hinge has no curvature: the first Newton step is the slope over the regularization."""
    rng = np.random.default_rng(0)
    sign = np.where(rng.random(400) < 0.1, 1.0, -1.0)
    x = np.hstack([np.ones((400, 1)), rng.integers(0, 2, (400, 2))])
    rows = x / np.linalg.norm(x, axis=1)[:, None] * sign[:, None]
    for regularization in (1e-5, 1e-4, 1e-3):
        assert minimum(rows, Huber(0.5), regularization, np.zeros(3))[1] <= 1e-9


@pytest.mark.parametrize("loss", [Logistic(), Huber(0.5)], ids=["logistic", "huber"])
def test_slopes_are_those_of_the_values(loss):
    margin = np.linspace(-3, 3, 6001)
    step = margin[1] - margin[0]
    assert np.allclose(np.gradient(loss.value(margin), step)[1:-1], loss.slope(margin)[1:-1], atol=2e-3)
    assert np.allclose(np.gradient(loss.slope(margin), step)[1:-1], loss.bend(margin)[1:-1], atol=loss.curvature)
    assert np.abs(loss.slope(margin)).max() <= 1
    assert loss.bend(margin).max() <= loss.curvature


@pytest.mark.parametrize("estimator", CLASSIFIERS, ids=lambda one: type(one).__name__)
def test_with_much_budget_they_learn_and_the_promise_is_said(estimator):
    x, y = made()
    if hasattr(estimator, "data_norm"):
        estimator = clone(estimator).set_params(data_norm=1.0)
    else:
        estimator = clone(estimator).set_params(bounds=(-1, 1))
    fitted = estimator.set_params(epsilon=20.0, random_state=None).fit(x, y)
    assert fitted.score(x, y) > 0.9
    assert fitted.private_
    said = str(fitted.guarantee_)
    assert ("Adding or removing" if hasattr(fitted, "plan_") else "Replacing") + " one row" in said
    assert f"at most e^{fitted.epsilon_:.4g}" in said
    assert "floating-point" in said
    if hasattr(fitted, "predict_proba"):
        assert np.allclose(fitted.predict_proba(x).sum(axis=1), 1)


def test_noise_grows_as_the_budget_falls():
    x, y = made()
    far = {}
    for epsilon in (0.05, 5.0):
        fits = [PrivateLogisticRegression(epsilon, data_norm=1.0, random_state=s).fit(x, y).coef_ for s in range(20)]
        far[epsilon] = np.std(fits, axis=0).mean()
    assert far[0.05] > 10 * far[5.0]


def test_coefficients_are_those_of_rows_as_they_come():
    x, y = made()
    one = FunctionalLogisticRegression(5.0, bounds=(-1, 1), random_state=0).fit(x, y)
    other = FunctionalLogisticRegression(5.0, bounds=(-3, 7), random_state=0).fit(5 * x + 2, y)
    assert np.allclose(one.decision_function(x), other.decision_function(5 * x + 2))
    one = PrivateLogisticRegression(5.0, data_norm=1.0, random_state=0).fit(x, y)
    other = PrivateLogisticRegression(5.0, data_norm=8.0, random_state=0).fit(8 * x, y)
    assert np.allclose(one.decision_function(x), other.decision_function(8 * x))


def test_linear_regression_without_much_noise_is_least_squares():
    x, _ = made(20_000)
    y = 3 + x @ np.array([1.0, -2.0, 0.5, 0.0])
    fitted = FunctionalLinearRegression(50.0, bounds=(-1, 1), target_bounds=(-2, 8), random_state=1).fit(x, y)
    assert fitted.score(x, y) > 0.9


def test_a_sensitive_column_gets_more_noise():
    x, y = made()

    def spread(gamma):
        settings = {"bounds": (-1, 1), "sensitive": [0], "gamma": gamma, "fit_intercept": False}
        return np.std([
            FunctionalLogisticRegression(5.0, **settings, random_state=seed).fit(x, y).coef_ for seed in range(30)
        ], axis=0)[0]  # fmt: skip

    assert spread(0.01)[0] > 2 * spread(1.0)[0]


def test_rows_beyond_the_bounds_are_counted_and_shortened():
    x, y = made()
    x[:7] *= 100
    fitted = PrivateLogisticRegression(1.0, data_norm=1.0, random_state=0).fit(x, y)
    assert fitted.shortened_ == 7
    x[:7] = np.clip(x[:7], -1, 1)
    x[:5, 0] = 3
    assert FunctionalLogisticRegression(1.0, bounds=(-1, 1), random_state=0).fit(x, y).clipped_ == 5


def test_a_seed_promises_nothing():
    x, y = made()
    for estimator in CLASSIFIERS:
        fitted = clone(estimator).set_params(random_state=3).fit(x, y)
        assert not fitted.private_
        assert fitted.guarantee_ is None


def test_a_solver_that_does_not_end_promises_nothing(monkeypatch):
    monkeypatch.setattr("edgeveil.trainer.ext.private.estimators.perturbed_risk.MOST_STEPS", 1)
    x, y = made()
    with pytest.warns(ConvergenceWarning, match="nothing is promised"):
        fitted = PrivateLogisticRegression(1.0, data_norm=1.0).fit(x, y)
    assert fitted.guarantee_ is None
    assert not fitted.private_


def test_of_three_classes_each_problem_gets_a_third():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 3000)
    x = 0.5 * np.eye(3)[y] + 0.05 * rng.normal(size=(3000, 3))
    fitted = PrivateLogisticRegression(9.0, data_norm=1.0).fit(x, y)
    assert fitted.coef_.shape == (3, 3)
    assert fitted.score(x, y) > 0.9
    assert fitted.guarantee_.epsilon == 9.0


def test_in_a_pipeline_under_cross_validation_each_fit_promises():
    x, y = made()
    model = make_pipeline(FunctionTransformer(), PrivateLogisticRegression(5.0, data_norm=1.0))
    assert cross_val_score(model, x, y, cv=3).mean() > 0.85
    found = cross_validate(model, x, y, cv=3, return_estimator=True)
    promised = [one[-1].guarantee_ for one in found["estimator"]]
    assert [one.epsilon for one in promised] == [5.0, 5.0, 5.0]


def test_chances_of_two_classes_are_the_logistic_curve():
    x, y = made(300)
    fitted = PrivateLogisticRegression(5.0, data_norm=1.0).fit(x, y)
    assert np.allclose(fitted.predict_proba(x)[:, 1], expit(fitted.decision_function(x)))
