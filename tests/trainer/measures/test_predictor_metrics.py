"""What the audit counts about cleaners, on cases worked by hand; LEACE against its own promise."""

import numpy as np
import pytest

from edgeveil.trainer.measures import predictor_metrics
from edgeveil.trainer.measures.predictor_metrics import BoostedRefit, LinearRefit, binary, e_utility, mean_auc, promised


def test_e_utility_by_hand():
    a_d = np.array([[1.0, 0.0], [0.0, 2.0], [0.0, 0.0]])
    x = np.array([[3.0, 1.0, 9.0]])
    assert e_utility(a_d, x, np.array([[1.0, 0.5, 0.0]])) == pytest.approx(4 + 1)
    assert promised(a_d, x, 100.0) == pytest.approx(9 + 4)
    assert promised(a_d, x, 2.0) == pytest.approx(2)


def test_linear_refit_is_least_squares_with_intercept():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(50, 3)) @ np.array([[1.0, 0, 1], [0, 1, 1], [0, 0, 0]])  # rank 2, as cleaned vectors are
    labels = x @ rng.normal(size=(3, 2)) + np.array([5.0, -2.0])
    np.testing.assert_allclose(LinearRefit(x, labels).predict(x), labels, atol=1e-10)


def test_boosted_refit_sees_what_a_linear_one_cannot():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(1200, 2))
    hidden = (x[:, :1] * x[:, 1:]) > 0
    train, test = slice(0, 800), slice(800, None)
    linear = LinearRefit(x[train], hidden[train].astype(float)).predict(x[test])
    assert mean_auc(linear, hidden[test]) < 0.6
    assert mean_auc(BoostedRefit(x[train], hidden[train], seed=0).predict(x[test]), hidden[test]) > 0.9


def test_binary_labels():
    signs = np.array([[-1.0], [1.0], [1.0]])
    np.testing.assert_array_equal(binary(signs, signs), signs > 0)
    codes = np.array([[0.0], [0.0], [0.0], [3.0], [5.0]])
    np.testing.assert_array_equal(binary(codes, codes), codes > 0)


def test_mean_auc_skips_labels_with_one_value():
    scores = np.array([[0.1, 0.5], [0.9, 0.1]])
    assert mean_auc(scores, np.array([[False, True], [True, True]])) == 1.0
    assert np.isnan(mean_auc(scores, np.ones((2, 2), bool)))


def test_leace_leaves_no_linear_trace_and_changes_least():
    rng = np.random.default_rng(2)
    labels = rng.normal(size=(500, 2))
    x = rng.normal(size=(500, 6)) @ rng.normal(size=(6, 6)) + labels @ rng.normal(size=(2, 6))
    x = np.hstack([x, x[:, :1]])  # singular covariance
    eraser = predictor_metrics.fit(x, labels)
    cleaned = eraser.clean(x)
    centred = labels - labels.mean(axis=0)
    np.testing.assert_allclose(cleaned.T @ centred / 500, 0, atol=1e-9)
    np.testing.assert_allclose(eraser.clean(cleaned), cleaned, atol=1e-9)
    # The plain alternative, regressing x on the labels away, knows the labels; without them, projecting out the
    # columns of the cross-covariance does the job too, at a higher price.
    basis = np.linalg.qr((x - x.mean(axis=0)).T @ centred)[0]
    projected = x - (x - x.mean(axis=0)) @ basis @ basis.T
    np.testing.assert_allclose(projected.T @ centred / 500, 0, atol=1e-9)
    assert np.sum((cleaned - x) ** 2) < np.sum((projected - x) ** 2)


def test_leace_of_constant_labels_changes_nothing():
    x = np.random.default_rng(3).normal(size=(20, 3))
    np.testing.assert_array_equal(predictor_metrics.fit(x, np.ones((20, 1))).clean(x), x)
