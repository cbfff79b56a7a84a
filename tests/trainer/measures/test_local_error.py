"""What reports of devices can be worth: the numbers of the literature, before anything is trained."""

import pytest

from edgeveil.edge_runtime.stages.duchi_l2 import ball_bound
from edgeveil.edge_runtime.stages.duchi_linf import cube_bound
from edgeveil.edge_runtime.stages.hybrid import moment
from edgeveil.trainer.perturbers import local
from edgeveil.trainer.train import expected_error


def test_the_bounds_are_those_of_the_paper():
    assert cube_bound(11, 1.0) == pytest.approx(8.7932, abs=1e-4)
    assert ball_bound(11, 1.0) == pytest.approx(8.7932, abs=1e-4)
    assert cube_bound(2, 1.0) == pytest.approx(4.33, abs=0.01)  # a dummy place: less than 6.49 without


@pytest.mark.parametrize(
    ("name", "variance"), [("duchi-linf", 77.32), ("duchi-l2", 7.029), ("laplace", 968.0), ("hybrid", 57.18)]
)
def test_variances_at_eleven_values(name, variance):
    assert local.named("mean")[name].variance(11, 1.0) == pytest.approx(variance, rel=1e-3)


def test_hybrid_where_one_value_is_measured():
    # x = linspace(-.9, .8, 11) of issue and page: the mean of x^2 is .2915
    assert 11 * moment(1.0, 0.2915) - 0.2915 == pytest.approx(50.09, rel=1e-3)


def test_errors_fall_with_the_root_of_devices():
    found = expected_error(77.03, 11)
    assert found["100000"]["largest"] == pytest.approx(0.0533, rel=0.01)
    assert found["1000"]["one"] == pytest.approx(10 * found["100000"]["one"], rel=0.01)
