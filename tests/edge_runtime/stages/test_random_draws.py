"""stages.random_draws: exact draws, checked by feeding every random word, and by chi-square on the real generator."""

import inspect

import numpy as np
import pytest
from scipy import stats

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.stages import random_draws

UNLIKELY = 1e-9  # of a right generator to be called wrong; every bias tried below is far beyond it


def seeded(seed=0):
    return np.random.default_rng(seed).bytes


def chi_square(counts, expected):
    return stats.chisquare(counts, np.asarray(expected) / np.sum(expected) * np.sum(counts)).pvalue


@pytest.mark.parametrize("bound", [1, 2, 3, 5, 6, 10, 256, 1000])
def test_integers_are_uniform(bound):
    for source in (seeded(), None):
        options = {"random_bytes": source} if source else {}
        values = random_draws.integers(bound, 40_000, **options)
        assert values.shape == (40_000,)
        assert values.min() >= 0
        assert values.max() < bound
        assert bound == 1 or chi_square(np.bincount(values, minlength=bound), np.ones(bound)) > UNLIKELY


def test_a_remainder_would_be_caught_by_that_test():
    words = np.random.default_rng(0).integers(0, 8, 40_000) % 6
    assert chi_square(np.bincount(words, minlength=6), np.ones(6)) < UNLIKELY


def test_words_outside_the_bound_are_drawn_again():
    words = iter([[6, 7, 5, 2], [7, 1], [0]])

    def random_bytes(count):
        return np.array(next(words), np.uint64).tobytes()[:count]

    assert random_draws.integers(6, 4, random_bytes=random_bytes).tolist() == [5, 2, 1, 0]


@pytest.mark.parametrize("bound", [0, -1, 2**63 + 1])
def test_a_bound_out_of_range_is_refused(bound):
    with pytest.raises(BadInput, match="bound"):
        random_draws.integers(bound, 1)


def test_the_largest_bounds_hold():
    assert (random_draws.integers(2**63, 1000) >= 0).all()
    assert (random_draws.integers(2**63 - 1, 1000) >= 0).all()


def test_floats_lie_in_the_unit_interval_and_reach_its_ends():
    def last(count):
        return b"\xff" * count

    def first(count):
        return b"\0" * count

    assert random_draws.uniform((2,), random_bytes=last).tolist() == [1 - 2**-24] * 2
    assert random_draws.uniform((2,), random_bytes=first).tolist() == [0, 0]
    values = random_draws.uniform((3, 20_000))
    assert values.dtype == np.float32
    assert values.max() < 1
    for row in values:
        assert chi_square(np.histogram(row, 50, (0, 1))[0], np.ones(50)) > UNLIKELY
    assert abs(np.corrcoef(values)[0, 1]) < 0.05


def laplace_pmf(scale, most):
    """P(k) of k = -most .. most, its ends with all that lies beyond them."""
    k = np.arange(-most, most + 1)
    q = np.exp(-1 / scale)
    p = (1 - q) / (1 + q) * q ** np.abs(k)
    p[[0, -1]] = q**most / (1 + q)
    return p


def counted(values, most):
    return np.bincount(np.clip(values, -most, most) + most, minlength=2 * most + 1)


@pytest.mark.parametrize(("numerator", "denominator"), [(1, 10), (1, 1), (2, 3), (61, 8), (255 * 1024, 4300)])
def test_discrete_laplace_is_what_it_says(numerator, denominator):
    scale = numerator / denominator
    most = max(1, int(4 * scale))
    for source in (seeded(), None):
        options = {"random_bytes": source} if source else {}
        values = random_draws.discrete_laplace((20, 5000), numerator=numerator, denominator=denominator, **options)
        assert (values.shape, values.dtype) == ((20, 5000), np.int64)
        assert chi_square(counted(values.reshape(-1), most), laplace_pmf(scale, most)) > UNLIKELY
        assert scale < 1 or abs(np.corrcoef(values[0], values[1])[0, 1]) < 0.1


@pytest.mark.nightly  # by day its exact law, above; that library takes seconds to load
def test_discrete_laplace_is_opendps():
    """Two samples of the same law: the board's, and the workstation's differential-privacy library's."""
    dp = pytest.importorskip("opendp.prelude")
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64")
    theirs = np.array(dp.m.make_laplace(*space, scale=7.625)([0] * 60_000))
    ours = random_draws.discrete_laplace((60_000,), numerator=61, denominator=8)
    table = np.stack([counted(theirs, 40), counted(ours, 40)])
    assert stats.chi2_contingency(table).pvalue > UNLIKELY
    assert np.abs(theirs).max() > 40 < np.abs(ours).max()


@pytest.mark.parametrize("wrong", ["zero twice", "scale"])
def test_a_wrong_laplace_would_be_caught_by_that_test(wrong):
    rng = np.random.default_rng(0)
    if wrong == "zero twice":
        values = rng.geometric(1 - np.exp(-8 / 61), 100_000) - 1
        values *= rng.choice([-1, 1], 100_000)
    else:
        values = np.rint(rng.laplace(0, 1.05 * 61 / 8, 100_000)).astype(int)
    assert chi_square(counted(values, 30), laplace_pmf(61 / 8, 30)) < UNLIKELY


def test_exponential_coins_are_exact():
    """Every word once in the first round: of 16 tries at most 5/16 come up heads the first time."""

    def words(count):
        return np.arange(count // 8, dtype=np.uint64).tobytes()

    coins = random_draws._exponential_coins(np.zeros(16, np.int64), 16, words)
    assert coins.all()  # exp(0) = 1
    seen = random_draws._exponential_coins(np.full(100_000, 5, np.int64), 16, seeded())
    assert abs(seen.mean() - np.exp(-5 / 16)) < 5 * 0.5 / np.sqrt(100_000)


@pytest.mark.parametrize("scale", [(0, 1), (1, 0), (2**40 + 1, 1), (1, 2**41)])
def test_a_scale_out_of_range_is_refused(scale):
    with pytest.raises(BadInput, match=r"two whole numbers of 1 to 2\*\*40"):
        random_draws.discrete_laplace((3,), numerator=scale[0], denominator=scale[1])


def test_the_largest_scale_holds():
    values = random_draws.discrete_laplace((1000,), numerator=2**40, denominator=1)
    assert 2**37 < np.abs(values).mean() < 2**43
    assert (random_draws.discrete_laplace((1000,), numerator=1, denominator=2**40) == 0).all()


TABLE = np.array([[8, 0, 4, 4], [1, 13, 1, 1]], np.uint32)


def test_a_channel_is_exact():
    """Every one of the 16 words once: each code comes out exactly as often as its row says."""

    def every_word(count):
        return np.arange(count // 8, dtype=np.uint64).tobytes()

    for row, expected in enumerate(TABLE):
        out = random_draws.Channel(TABLE).draw(np.full(16, row), random_bytes=every_word)
        assert np.bincount(out, minlength=4).tolist() == expected.tolist()


def test_a_channel_on_the_real_generator():
    codes = np.tile([0, 1], 30_000)
    out = random_draws.Channel(TABLE).draw(codes)
    assert not (out[codes == 0] == 1).any()
    for row, expected in enumerate(TABLE):
        counts = np.bincount(out[codes == row], minlength=4)
        assert chi_square(counts[expected > 0], expected[expected > 0]) > UNLIKELY


def test_a_channel_of_the_largest_total():
    table = np.array([[2**31, 2**31], [2**32 - 1, 1]], np.uint32)
    out = random_draws.Channel(table).draw(np.zeros(1000, np.int64))
    assert 0 < out.mean() < 1
    assert random_draws.Channel(table).draw(np.ones(1000, np.int64)).sum() == 0


@pytest.mark.parametrize(
    "table",
    [
        np.array([[3, 4]], np.uint32),
        np.array([[4, 4], [2, 2]], np.uint32),
        np.array([[0, 0]], np.uint32),
        np.array([[4, 4]], np.int64),
        np.array([4, 4], np.uint32),
        np.zeros((0, 4), np.uint32),
        np.array([[2**32 - 1, 2**32 - 1, 2]], np.uint32),
    ],
)
def test_a_table_that_is_no_channel_is_refused(table):
    with pytest.raises(BadInput, match=r"power of two|uint32"):
        random_draws.Channel(table)


def test_the_default_is_the_operating_systems_generator():
    import os

    for function in (
        random_draws.integers,
        random_draws.uniform,
        random_draws.discrete_laplace,
        random_draws.Channel.draw,
    ):
        assert inspect.signature(function).parameters["random_bytes"].default is os.urandom
    source = inspect.getsource(random_draws)
    assert "np.random" not in source
    assert "import random" not in source
