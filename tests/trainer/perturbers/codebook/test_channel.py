"""The channel as it ships: integers that sum to a power of two, and a bound on the posterior that they keep."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.linalg import block_diag

from edgeveil.edge_runtime.errors import BadInput, LimitNotMet
from edgeveil.edge_runtime.pipeline.random_draws import Channel
from edgeveil.trainer.measures import channels
from edgeveil.trainer.perturbers.codebook import channel


def example(k: int = 6, z: int = 2, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    place = rng.normal(size=(k, 2))
    return rng.dirichlet(np.ones(z), k) * rng.dirichlet(np.ones(k))[:, None], ((place[:, None] - place[None]) ** 2).sum(
        2
    )


@pytest.mark.parametrize("bound", [0.0, 0.05, 0.5])
def test_the_posterior_stays_within_the_bound_and_c_prime_is_distributed_as_c(bound):
    joint, distance = example()
    q = channel.least_noise(joint, distance, bound=bound)
    assert q.sum(axis=1) == pytest.approx(1)
    assert channels.posterior_shift(joint, q) <= bound + 1e-3
    p = joint.sum(axis=1) / joint.sum()
    assert p @ q == pytest.approx(p, abs=1e-5)
    if bound:
        assert channels.posterior_shift(joint, q) > bound / 2  # no more noise than is needed


def test_a_looser_bound_costs_less_and_no_bound_is_the_identity():
    joint, distance = example()
    p = joint.sum(axis=1)
    cost = [
        (p[:, None] * channel.least_noise(joint, distance, bound=b) * distance).sum() for b in (0.0, 0.1, 1.0, 20.0)
    ]
    assert cost == sorted(cost, reverse=True)
    assert cost[-1] == pytest.approx(0, abs=1e-5)
    independent = (p[:, None] * channel.independent(p) * distance).sum()
    assert cost[0] < independent  # two values of z leave freedom among six codes


def test_as_many_z_as_codes_leave_nothing_but_independence():
    joint, distance = example(k=4, z=4, seed=3)
    q = channel.least_noise(joint, distance, bound=0.0)
    assert channels.total_variation(q) < 1e-3


def test_a_rare_code_is_sent_as_the_nearest_that_is_not():
    distance = np.abs(np.arange(4.0)[:, None] - np.arange(4.0)) ** 2
    q = channel.merged(np.array([30, 2, 0, 9]), distance, fewest=9)
    assert q.argmax(axis=1).tolist() == [0, 0, 3, 3]
    assert (q.sum(axis=1) == 1).all()
    assert (channel.merged(np.array([1, 0, 2, 3]), distance, fewest=0) == np.eye(4)).all()
    with pytest.raises(BadInput, match="the most frequent has 3"):
        channel.merged(np.array([1, 0, 2, 3]), distance, fewest=4)


def test_a_code_that_never_occurs_sends_what_the_others_send():
    joint, distance = example()
    joint[2] = 0
    q = channel.least_noise(joint, distance, bound=0.1)
    assert q[2] == pytest.approx(joint.sum(axis=1) / joint.sum())


def test_a_z_that_alone_has_a_rare_code_does_not_stop_the_solver():
    joint = np.array([[100.0, 50.0, 50.0], [0.0, 0.0, 2.0], [0.0, 0.0, 1.0]])
    q = channel.least_noise(joint, 1 - np.eye(3), bound=0.0)
    assert channels.posterior_shift(joint, q) < 1e-3


def test_a_solver_that_gives_up_is_an_error_that_says_what_to_set(monkeypatch):
    monkeypatch.setattr("scipy.optimize.linprog", lambda *_, **__: SimpleNamespace(x=None, message="Time is up."))
    with pytest.raises(LimitNotMet, match=r"`perturber.bound` = 0.1.*Time is up\. Set another bound"):
        channel.least_noise(*example(), bound=0.1)


def test_a_negative_bound_is_refused():
    with pytest.raises(BadInput, match="must be 0 or more; got -1"):
        channel.least_noise(*example(), bound=-1.0)


def test_the_shipped_integers_are_a_channel_and_close():
    joint, distance = example(k=5, z=3)
    q = channel.least_noise(joint, distance, bound=0.2)
    table = channel.integers(q)
    Channel(table)  # the runtime's own check
    assert (table.sum(axis=1) == 2**16).all()
    assert np.abs(table / 2**16 - q).max() <= 2**-16
    assert channels.posterior_shift(joint, table.astype(float)) <= 0.2 + 0.01


def test_an_independent_channel_stays_exactly_independent():
    table = channel.integers(channel.independent(np.array([1, 1, 1, 4.0])))
    assert (table == table[0]).all()
    assert channels.total_variation(table.astype(float)) == 0
    with pytest.raises(BadInput, match="at most 65536 codes; got 65537"):
        channel.integers(np.ones((1, 2**16 + 1)))


def test_zero_stays_zero_in_blocks():
    table = channel.integers(block_diag(channel.independent(np.array([0.3, 0.7])), np.eye(3)))
    assert table.shape == (5, 5)
    assert not table[:2, 2:].any()
    assert (table[2:, 2:] == 2**16 * np.eye(3, dtype=np.uint32)).all()


def test_donors_are_picked_evenly():
    table = channel.donors_within(2, 4)
    Channel(table)
    assert table.tolist() == [[1, 1, 1, 1, 0, 0, 0, 0], [0, 0, 0, 0, 1, 1, 1, 1]]
    with pytest.raises(BadInput, match="power of two; got 3"):
        channel.donors_within(2, 3)
