"""Linear cleaners: the paper's toy example, its theorem on every vector, and agreement with its literal loop."""

import numpy as np
import pytest

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.linear import algorithm1, approximate, exact, merged, scale_for, shrink
from edgeveil.trainer.measures.predictor_metrics import e_utility, promised


def operators(features: int, wanted: int, hidden: int, seed: int = 0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(features, wanted)), rng.normal(size=(features, hidden))


def literal(cleaner, x: np.ndarray) -> np.ndarray:
    """Steps 4 to 7 of Algorithm 1 as printed, one vector, one direction at a time."""
    out = []
    for row in x:
        a = cleaner.encoder.T @ row
        spent, kept = 0.0, a.copy()
        for i, delta in enumerate(a**2):
            if spent + delta < cleaner.eps:
                kept[i] = 0
                spent += delta
                continue
            kept[i] -= np.sqrt((cleaner.eps - spent) / delta) * a[i]
            break
        out.append(cleaner.decoder @ kept)
    return np.array(out)


def test_toy_example():
    x = np.array([[3.0, 1.0], [4.0, 2.0], [5.0, 1.0]])
    cleaned = exact(np.array([[1.0], [-1.0]])).clean(x)
    np.testing.assert_allclose(cleaned, [[1, -1], [1, -1], [2, -2]], atol=1e-12, rtol=0)


@pytest.mark.parametrize("eps", [0.0, 1e-6, 0.01, 1.0, 1e3])
@pytest.mark.parametrize(("features", "wanted", "hidden"), [(20, 1, 5), (20, 3, 3), (20, 5, 1), (6, 6, 2), (7, 2, 1)])
def test_theorem_holds_for_every_vector(features, wanted, hidden, eps):
    a_d, a_c = operators(features, wanted, hidden)
    x = np.random.default_rng(1).normal(size=(500, features))
    x[0] = 0  # nothing to remove
    x[1] -= np.linalg.pinv(a_d.T) @ (a_d.T @ x[1])  # in the null space: all but nothing to pay
    x[2] *= 1e-9
    for cleaner in (algorithm1(a_d, a_c, eps=eps), approximate(a_d, eps=eps)):
        error = np.abs(e_utility(a_d, x, cleaner.clean(x)) - promised(a_d, x, eps))
        assert error.max() <= 1e-11
        small = x.astype(np.float32)
        error = np.abs(e_utility(a_d, small, cleaner.clean(small)) - promised(a_d, small, eps))
        assert error.max() <= 1e-5 * max(1, eps)


def test_float32_stays_float32():
    a_d, a_c = operators(20, 3, 3)
    assert algorithm1(a_d, a_c, eps=0.1).clean(np.ones((2, 20), np.float32)).dtype == np.float32


def test_equals_the_literal_loop():
    a_d, a_c = operators(20, 5, 3)
    cleaner = algorithm1(a_d, a_c, eps=3.0)
    x = np.random.default_rng(2).normal(size=(300, 20))
    np.testing.assert_allclose(cleaner.clean(x), literal(cleaner, x), atol=1e-12)


def test_blocks_do_not_show():
    a_d, a_c = operators(8, 3, 2)
    cleaner = algorithm1(a_d, a_c, eps=1.0)
    x = np.random.default_rng(3).normal(size=(10_000, 8))
    one_by_one = np.concatenate([cleaner.clean(row[None]) for row in x[::500]])
    np.testing.assert_allclose(cleaner.clean(x)[::500], one_by_one, atol=1e-12)
    assert cleaner.clean(x[:0]).shape == (0, 8)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("eps", [0.0, 1e-6, 0.3, 5.0, 1e6])
def test_one_vector_is_cleaned_as_in_a_batch(dtype, eps):
    cleaner = algorithm1(*operators(12, 5, 4), eps=eps).astype(dtype)
    x = np.random.default_rng(1).normal(size=(40, 12)).astype(dtype)
    x[0] = 0
    alone = np.concatenate([cleaner.clean(one[None]) for one in x])
    assert alone.dtype == dtype
    rounding = 200 * np.finfo(dtype).eps * np.abs(x).max()
    np.testing.assert_allclose(alone, cleaner.clean(x), atol=rounding, rtol=0)


def test_directions_solve_the_pencil():
    a_d, a_c = operators(12, 4, 4)
    cleaner = algorithm1(a_d, a_c, eps=0.1)
    s = cleaner.decoder
    np.testing.assert_allclose(cleaner.encoder.T @ s, np.eye(4), atol=1e-12)
    np.testing.assert_allclose((a_d.T @ s).T @ (a_d.T @ s), np.eye(4), atol=1e-12)
    hidden = (a_c.T @ s).T @ (a_c.T @ s)
    np.testing.assert_allclose(hidden - np.diag(np.diag(hidden)), 0, atol=1e-6 * hidden.max())
    gamma = 1 / np.diag(hidden)
    assert (np.diff(gamma) > 0).all()


def test_algorithm1_hides_more_than_the_approximate_cleaner():
    a_d, a_c = operators(12, 5, 1)
    x = np.random.default_rng(4).normal(size=(2000, 12))
    moved = [np.mean(((x - c.clean(x)) @ a_c) ** 2) for c in (algorithm1(a_d, a_c, eps=1), approximate(a_d, eps=1))]
    assert moved[0] > moved[1]


def test_approximate_goes_by_increasing_weight():
    cleaned = approximate(np.diag([3.0, 1.0, 2.0, 0.0])[:, :3], eps=1.0).clean(np.ones((1, 4)))
    np.testing.assert_allclose(cleaned, [[1, 0, 1, 0]], atol=1e-12)


def test_algorithm1_goes_by_what_is_seen_then_by_weight():
    a_c = np.array([[0.0], [1.0], [0.0]])
    cleaner = algorithm1(np.diag([2.0, 3.0, 1.0]), a_c, eps=9.0 + 1.0)
    np.testing.assert_allclose(cleaner.clean(np.ones((1, 3))), [[1, 0, 0]], atol=1e-6)


def test_cleaning_twice_pays_twice():
    """A cleaner is no projection: what it leaves may be cleaned again, and costs again."""
    a_d, a_c = operators(12, 3, 3)
    cleaner = algorithm1(a_d, a_c, eps=0.5)
    once = cleaner.clean(np.random.default_rng(5).normal(size=(100, 12)))
    twice = cleaner.clean(once)
    np.testing.assert_allclose(e_utility(a_d, once, twice), promised(a_d, once, 0.5), atol=1e-12)


def test_merged_operator_keeps_every_error():
    rng = np.random.default_rng(6)
    a_d = rng.normal(size=(10, 3)) @ rng.normal(size=(3, 7))
    x = rng.normal(size=(50, 10))
    small = merged(a_d)
    assert small.shape == (10, 3)
    np.testing.assert_allclose(np.sum((x @ small) ** 2, 1), np.sum((x @ a_d) ** 2, 1), rtol=1e-10)
    cleaned = approximate(small, eps=0.3).clean(x)
    np.testing.assert_allclose(e_utility(a_d, x, cleaned), promised(a_d, x, 0.3), atol=1e-11)


def test_shrink_ends_are_exact():
    c = np.array([[0.1, 1.0, 5.0]])
    np.testing.assert_array_equal(shrink(c, 0.0), c)
    np.testing.assert_array_equal(shrink(c, 100.0), [[0, 0, 0]])
    for eps in (0.0, 1.0, 1e12):
        with np.errstate(all="raise"):
            kept = shrink(np.array([[0.0, 1e-10, 3.0], [3.0, 1e9, 1e-12]], np.float32), eps)
        assert np.isfinite(kept).all()


def test_laplace_makes_the_same_error():
    a_d, _ = operators(20, 3, 1)
    noise = np.random.default_rng(7).laplace(scale=scale_for(a_d, eps=0.02), size=(40_000, 20))
    assert e_utility(a_d, np.zeros_like(noise), noise).mean() == pytest.approx(0.02, rel=0.03)


BAD = {
    "empty": (np.empty((3, 0)), "shape"),
    "a vector": (np.ones(3), "shape"),
    "zero": (np.zeros((3, 1)), "rank 0"),
    "rank-deficient": (np.ones((3, 2)), "rank 1"),
    "more outputs than features": (np.eye(2, 3), "rank 2"),
    "nan": (np.array([[1.0], [np.nan]]), "finite"),
    "text": (np.array([["a"], ["b"]]), "finite numbers"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_operator_is_refused(name):
    a_d, word = BAD[name]
    with pytest.raises(BadInput, match=word):
        approximate(a_d, eps=0.1)


@pytest.mark.parametrize("eps", [-1.0, -1e-9, np.nan, np.inf])
def test_bad_eps_is_refused(eps):
    a_d, a_c = operators(5, 2, 1)
    with pytest.raises(BadInput, match="eps"):
        algorithm1(a_d, a_c, eps=eps)
    with pytest.raises(BadInput, match="eps"):
        scale_for(a_d, eps=eps)


def test_exact_cleaner_without_null_space_is_refused():
    with pytest.raises(BadInput, match="null space is empty"):
        exact(np.eye(3))


def test_operators_of_other_features_are_refused():
    with pytest.raises(BadInput, match="A_c has 4 features and A_d 5"):
        algorithm1(np.eye(5, 2), np.eye(4, 1), eps=0.1)
