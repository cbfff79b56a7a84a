"""LPSGD: the slope of each loss, clipped; the descent by hand; theta from simulated and from recorded reports."""

import numpy as np
import pytest

from edgeveil.edge_runtime.manifest.manifest import parse
from edgeveil.edge_runtime.pipeline.pipeline import Pipeline
from edgeveil.trainer.datasets.base import InputSpec
from edgeveil.trainer.ext.local import lpsgd
from edgeveil.trainer.perturbers import local
from edgeveil.trainer.perturbers.local import Local
from edgeveil.trainer.runs.fitted import decoded

THETA = np.array([2.0, -1.5])
LOSSES = {
    "logistic": lambda s, y: np.logaddexp(0, s) - y * s,
    "squared": lambda s, y: (s - y) ** 2 / 2,
    "median": lambda s, y: np.abs(s - y),
}


def people(n, seed=1):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2))
    return x, (rng.random(n) < 1 / (1 + np.exp(-x @ THETA))).astype(np.float64)


def duchi(alpha):
    """The shipped duchi-linf on vectors of two values: encoded reports, and the decoder."""
    section = Local(kind="local", of="reading", mechanism="duchi-linf", epsilon=alpha)
    fitted = local.reading(section, InputSpec("vector", (2,), "float32", (-1.0, -1.0), (1.0, 1.0)))
    pipeline = Pipeline(parse(fitted.description()), tables=dict(fitted.tables), runners={})
    return lambda x: pipeline.run(x.astype(np.float32))["report"], fitted.tables[local.DECODER]


@pytest.mark.parametrize("loss", LOSSES)
def test_gradients_are_the_slope_of_the_loss(loss):
    x, y = people(200)
    theta = np.array([0.7, -1.1])
    found = lpsgd.clipped_gradients(x, y, theta, loss=loss, clip=1e6)
    for place, step in enumerate(1e-6 * np.eye(2)):
        slope = (LOSSES[loss](x @ (theta + step), y) - LOSSES[loss](x @ (theta - step), y)) / 2e-6
        assert found[:, place] == pytest.approx(slope, abs=1e-4)


def test_gradients_are_clipped_value_by_value():
    x, y = people(200)
    whole, found = (lpsgd.clipped_gradients(x, y, THETA, loss="squared", clip=clip) for clip in (1e6, 0.5))
    assert (np.abs(whole) > 0.5).mean() > 0.3
    assert found == pytest.approx(np.clip(whole, -0.5, 0.5))


def test_a_large_score_makes_no_nan():
    x = np.array([[1e6, -1e6], [1e6, 1e6]])
    for loss in LOSSES:
        assert np.isfinite(lpsgd.clipped_gradients(x, np.zeros(2), np.array([1e6, -1e6]), loss=loss, clip=1.0)).all()


def test_the_estimate_is_the_mean_of_the_later_half_and_theta_stays_in_its_bound():
    descent = lpsgd.Descent(1, rounds=3, step=1.0, most=1.5)
    assert descent.estimate() is None
    thetas = []
    for _ in range(3):
        descent.take(np.array([[-1.0], [-1.0]]))
        thetas.append(descent.theta[0])
    assert thetas == pytest.approx([1.0, 1.5, 1.5])
    assert descent.estimate() == pytest.approx([1.5])


def test_a_round_without_reports_leaves_theta():
    descent = lpsgd.Descent(2, rounds=2, step=1.0)
    descent.take(np.array([[1.0, 2.0]]))
    descent.take(np.zeros((0, 2)))
    assert descent.theta.tolist() == [-1.0, -2.0]


def test_private_gradients_of_simulated_users_find_the_direction():
    encode, decoder = duchi(4.0)
    x, y = people(20_000)
    asked = []

    def report(vectors):
        asked.append(len(vectors))
        assert np.abs(vectors).max() <= 1
        return decoded(encode(vectors), decoder).astype(np.float64)

    found = lpsgd.fit(x, y, report, clip=2.0, rounds=200, step=4.0)
    assert sum(asked) == len(x)  # each user once
    assert found @ THETA / np.linalg.norm(found) / np.linalg.norm(THETA) > 0.9
    assert np.linalg.norm(found) > 1.0


def test_recorded_reports_give_the_same_theta_again():
    encode, decoder = duchi(2.0)
    x, y = people(3_000)
    recorded = []

    def report(vectors):
        recorded.append(encode(vectors))
        return decoded(recorded[-1], decoder).astype(np.float64)

    found = lpsgd.fit(x, y, report, rounds=50, step=2.0, most=3.0)
    replayed = lpsgd.Descent(2, rounds=50, step=2.0, most=3.0)
    for one in recorded:
        replayed.take(decoded(one, decoder).astype(np.float64))
    assert replayed.estimate() == pytest.approx(found)
