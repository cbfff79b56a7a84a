"""The gradient stage: the slope of its loss, clipped, at parameters from without, and a report that is unbiased."""

import math

import numpy as np
import pytest

from edgeveil.edge_runtime.errors import DeviceFailed
from edgeveil.edge_runtime.pipeline.mechanisms.gradients import compile_gradient
from edgeveil.edge_runtime.pipeline.perturber import Perturber
from tests.support import bundles
from tests.support.promised import gradient_examples as gradients
from tests.support.promised import local_examples

LOSSES = {
    "logistic": lambda s, y: np.logaddexp(0, s) - y * s,
    "squared": lambda s, y: (s - y) ** 2 / 2,
    "median": lambda s, y: np.abs(s - y),
}
LARGE = 1e6  # a bound that clips nothing


def people(n=200, seed=1):
    rng = np.random.default_rng(seed)
    return np.column_stack([rng.uniform(-3.9, 3.9, (n, 2)), rng.integers(0, 2, n)]).astype(np.float32)


def gradient(x, theta, **more):
    """g (n, 2), decoded from the stage's output in the unit cube."""
    parts = gradients.document(**more)
    low, high = (np.array(parts["input"][end], np.float32) for end in ("low", "high"))
    stage = gradients.manifest(**more).stages[2]
    flow = {"u": (x - low) / (high - low), "theta": np.broadcast_to(np.float32(theta), (len(x), 2))}
    compile_gradient(stage, None)(flow)
    assert flow["g"].dtype == np.float32
    assert ((flow["g"] >= 0) & (flow["g"] <= 1)).all()
    return (flow["g"].astype(np.float64) * 2 - 1) * stage.clip


@pytest.mark.parametrize("loss", LOSSES)
def test_it_is_the_slope_of_the_loss(loss):
    x, theta = people(), np.array([0.7, -1.1])
    found = gradient(x, theta, loss=loss, clip=100.0)
    features, y = x[:, :2].astype(np.float64), x[:, 2]
    for place in range(2):
        step = np.zeros(2)
        step[place] = 1e-6
        slope = (LOSSES[loss](features @ (theta + step), y) - LOSSES[loss](features @ (theta - step), y)) / 2e-6
        assert found[:, place] == pytest.approx(slope, abs=1e-4)


def test_it_is_clipped_value_by_value():
    x, theta = people(), np.array([3.0, 1.0])
    whole = gradient(x, theta, loss="squared", clip=LARGE)
    found = gradient(x, theta, loss="squared", clip=0.5)
    assert (np.abs(whole) > 0.5).mean() > 0.3
    assert found == pytest.approx(np.clip(whole, -0.5, 0.5), abs=0.2)
    assert np.abs(found).max() <= 0.5


def test_the_largest_parameters_and_samples_make_no_nan():
    x = np.array([[4, 4, 1], [-4, 4, 0], [0, 0, 1]], np.float32)
    for loss in LOSSES:
        assert np.isfinite(gradient(x, [1e6, -1e6], loss=loss)).all()


def test_parameters_come_from_without_and_are_0_before():
    made, x = gradients.pipeline(alpha=20.0, clip=4.0), people(1)
    _, draws = gradients.golden(gradients.document(alpha=20.0), 1)
    del draws["theta"]
    recorded = {name: np.repeat(values, 400, axis=0) for name, values in draws.items()}
    recorded |= local_examples.recorded(gradients.document(alpha=20.0)["stages"], 400)

    def mean(theta):
        made.set_parameters(np.array(theta, np.float32))
        recorded["theta"] = made.parameters["theta"] + np.zeros((400, 1), np.float32)
        return made.run(np.repeat(x, 400, axis=0), recorded)["report"].mean(axis=0)

    assert made.parameters["theta"].tolist() == [0, 0]
    assert not np.array_equal(mean([5, 5]), mean([-5, -5]))


def test_the_report_is_unbiased_for_the_clipped_gradient():
    made, n = gradients.pipeline(alpha=2.0), 100_000
    x = np.repeat(np.array([[0.5, -3.0, 1.0]], np.float32), n, axis=0)
    made.set_parameters(np.array([0.3, 0.2], np.float32))
    score = 0.5 * 0.3 - 3 * 0.2
    truth = np.clip((1 / (1 + math.exp(-score)) - 1) * np.array([0.5, -3.0]), -1, 1)
    table = gradients.table(gradients.document(alpha=2.0))
    values = made.run(x)["report"].astype(np.float64) @ table[:-1] + table[-1]
    error = values.std(axis=0) / math.sqrt(n)
    assert (np.abs(values.mean(axis=0) - truth) < 5.5 * error).all()  # less than once in a million


def test_the_self_test_knows_another_arithmetic(tmp_path):
    manifest, members = gradients.example()
    x, draws = gradients.golden(gradients.document())
    other = gradients.pipeline(loss="squared").run(x, draws)["report"]
    assert (other != np.load(__import__("io").BytesIO(members["golden/numpy.report.npy"]))).any()
    made = bundles.make_bundle(tmp_path / "good", example=(manifest, members))
    Perturber.open(str(made.path), trust=str(made.trust)).close()
    members["golden/numpy.report.npy"] = bundles.npy(other)
    made = bundles.make_bundle(tmp_path / "bad", example=(manifest, members))
    with pytest.raises(DeviceFailed, match="golden self-test"):
        Perturber.open(str(made.path), trust=str(made.trust))
