"""The bound for every code holds as often as it says, by unit where rows depend, and is checked against libqif."""

import numpy as np
import pytest

from edgeveil.trainer.measures.per_code import DRAWS, drawn_counts, ends, per_code

SHAPE = (2, 8, 3)


def population(leak: float, seed: int) -> np.ndarray:
    """P(y, c, z): two classes of y, four codes to each, three values of z."""
    rng = np.random.default_rng(seed)
    p = np.zeros(SHAPE)
    for y in range(2):
        tilt = (1 - leak) * np.array([0.5, 0.3, 0.2]) + leak * rng.dirichlet(np.ones(3), 4)
        p[y, 4 * y : 4 * y + 4] = rng.dirichlet(np.full(4, 6.0))[:, None] * tilt
    return p / p.sum()


def factor_of(p: np.ndarray) -> float:
    given, prior = p / np.maximum(p.sum(axis=2, keepdims=True), 1e-300), p.sum(axis=1) / p.sum(axis=(1, 2))[:, None]
    return float((given / prior[:, None, :]).max())


def drawn(p: np.ndarray, n: int, rng: np.random.Generator) -> list[np.ndarray]:
    return list(np.unravel_index(rng.choice(p.size, n, p=p.ravel()), p.shape))


@pytest.mark.parametrize("leak", [0.0, 0.3])
def test_the_bound_holds_at_least_as_often_as_it_says(leak):
    rng = np.random.default_rng(3)
    held = 0
    for number in range(60):
        p = population(leak, number)
        found = per_code(*drawn(p, 1500, rng), shape=SHAPE, rng=rng)
        held += found.factor >= factor_of(p)
    assert held >= 57


def test_more_rows_bring_the_bound_to_the_truth():
    p, rng = population(0.3, 1), np.random.default_rng(0)
    truth = factor_of(p)
    few, many = (per_code(*drawn(p, n, rng), shape=SHAPE, rng=rng).factor for n in (1_000, 400_000))
    assert truth < many < 1.1 * truth < few


def test_one_code_that_tells_all_is_found_though_the_average_hides_it():
    p, rng = population(0.0, 0), np.random.default_rng(0)
    p[0, 2] = p[0, 2].sum() * np.array([0, 0, 1])
    found = per_code(*drawn(p, 50_000, rng), shape=SHAPE, rng=rng)
    assert found.worst == (0, 2, 2)
    assert found.factor > 0.95 * factor_of(p)
    assert np.nanmax(np.delete(found.factors, 2, axis=1)) < 2


def test_rows_of_one_unit_count_once():
    """Twenty copies of every row say no more than one."""
    p, rng = population(0.2, 2), np.random.default_rng(0)
    y, c, z = drawn(p, 600, rng)
    alone = per_code(y, c, z, shape=SHAPE, rng=rng)
    repeated = [np.repeat(labels, 20) for labels in (y, c, z)]
    copies = per_code(*repeated, shape=SHAPE, rng=rng, cluster=np.repeat(np.arange(600), 20))
    by_row = per_code(*repeated, shape=SHAPE, rng=rng)
    assert copies.units == alone.units == 600
    assert copies.factor >= alone.factor > by_row.factor


def test_the_bound_of_dependent_rows_holds_too():
    """Ten rows a unit, whose codes and z hang together within the unit."""
    rng, held = np.random.default_rng(5), 0
    for number in range(30):
        p = population(0.3, number)
        y, c, z = drawn(p, 300, rng)
        stays = rng.random((300, 10)) < 0.8
        others = drawn(p, 3000, rng)
        rows = [np.where(stays, own[:, None], new.reshape(300, 10)).ravel() for own, new in zip((y, c, z), others)]
        found = per_code(*rows, shape=SHAPE, rng=rng, cluster=np.repeat(np.arange(300), 10))
        held += found.factor >= factor_of(p)
    assert held >= 28


def test_a_draw_takes_one_row_of_each_unit():
    rng = np.random.default_rng(0)
    y, c, z = (rng.integers(0, n, 500) for n in SHAPE)
    counts = drawn_counts(y, c, z, shape=SHAPE, cluster=rng.integers(0, 40, 500), rng=rng)
    assert counts.shape == (DRAWS, *SHAPE)
    assert (counts.sum(axis=(1, 2, 3)) == 40).all()
    assert len({one.tobytes() for one in counts}) > 1


def test_ends_are_those_of_clopper_and_pearson():
    hits, trials = np.array([[0.0, 3.0, 10.0]]), np.array([[10.0, 10.0, 10.0]])
    low, high = ends(hits, trials, 0.025)
    np.testing.assert_allclose(high, [0.308497, 0.652453, 1.0], atol=1e-6)
    np.testing.assert_allclose(low, [0.0, 0.066740, 0.691503], atol=1e-6)


def test_a_code_never_seen_is_counted_as_such():
    rng = np.random.default_rng(0)
    y, z = rng.integers(0, 2, 4000), rng.integers(0, 3, 4000)
    found = per_code(y, 4 * y, z, shape=SHAPE, rng=rng)
    assert found.unseen == 14
    assert np.isnan(found.factors).sum() == 14
    assert found.factor < 1.3


def test_linked_releases_are_bounded_by_the_posterior_of_independent_ones():
    p, rng = population(0.2, 4), np.random.default_rng(0)
    found = per_code(*drawn(p, 200_000, rng), shape=SHAPE, rng=rng)
    y, length = 0, 4
    joint, prior = p[y] / p[y].sum(), p[y].sum(axis=0) / p[y].sum()
    channel = (joint / joint.sum(axis=0)).T  # P(c | z)
    codes = np.array(np.meshgrid(*[range(4)] * length)).reshape(length, -1)
    likelihood = np.prod(channel[:, codes], axis=1) * prior[:, None]
    truth = (likelihood / likelihood.sum(axis=0) / prior[:, None]).max()
    assert found.linked(1) <= found.factor + 1e-9
    assert truth <= found.linked(length) <= 1 / prior.min() * 1.1


def test_capacity_is_that_of_libqif():
    qif = pytest.importorskip("qif", reason="libqif's own numbers; it is among the development packages")
    p, rng = population(0.4, 6), np.random.default_rng(0)
    y, c, z = drawn(p, 20_000, rng)
    found = per_code(y, c, z, shape=SHAPE, rng=rng)
    counts = np.zeros(SHAPE)
    np.add.at(counts, (y, c, z), 1)
    channels = [(counts[k] / counts[k].sum(axis=0)).T for k in range(2)]
    assert found.capacity == pytest.approx(max(qif.measure.bayes_vuln.mult_capacity(each) for each in channels))
    assert found.capacity <= found.capacity_high
