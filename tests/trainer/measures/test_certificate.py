"""The certificate covers what it claims, the best attacker reaches its plug-in value, and counting noise is shown."""

import numpy as np
import pytest

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.measures.certificate import (
    bayes_accuracy,
    capacity,
    certify,
    chosen,
    count,
    information,
    null_distribution,
    released_counts,
    shared,
    upper,
)


def population(z_classes: int, leak: float, seed: int = 0) -> np.ndarray:
    """P(y, c, z) of 2 classes of y, 3 codes each (c tells y-hat), z uniform but for ``leak``."""
    rng = np.random.default_rng(seed)
    p = np.zeros((2, 6, z_classes))
    for y in range(2):
        tilt = (1 - leak) / z_classes + leak * rng.dirichlet(np.ones(z_classes) * 0.3, 3)
        p[y, 3 * y : 3 * y + 3] = 0.5 * rng.dirichlet(np.ones(3) * 5)[:, None] * tilt
    return p / p.sum()


def drawn(p: np.ndarray, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    y, c, z = np.unravel_index(rng.choice(p.size, n, p=p.ravel()), p.shape)
    return y, c, z


def run(y, c, z, z_classes: int, **changes):
    settings = {"channel": np.eye(6), "classes": (2, z_classes), "chance": 1 / z_classes, "shuffles": 20, "tried": 1}
    return certify(y, c, z, **{**settings, "rng": np.random.default_rng(1), **changes})


@pytest.mark.nightly  # by day a leak and none, below
@pytest.mark.parametrize(("z_classes", "slack"), [(2, "McDiarmid"), (38, "self-bounding")])
def test_the_bound_holds_at_least_as_often_as_it_says(z_classes, slack):
    p = population(z_classes, 0.2)
    truth, rng, held = bayes_accuracy(p), np.random.default_rng(2), 0
    for _ in range(300):
        rows = drawn(p, 400, rng)
        counts = count(*rows, shape=p.shape)
        held += upper(bayes_accuracy(counts), np.ones(400), delta=0.05, slack=slack) >= truth
    assert held / 300 >= 0.95


def looked_at(n: int, looks: int, rng: np.random.Generator) -> np.ndarray:
    """How often z is counted right from ``looks`` configurations and from one more, built from what these showed.

    A row is of one of ``looks`` - 1 parts and has two bits, each of which is z with probability .6. A configuration
    says for each part which of them is sent. The first takes the one in all parts, the next ones the other in one part
    each; the last takes in each part what leaked less by the look at it.
    """
    part, z = rng.integers(0, looks - 1, n), rng.integers(0, 2, n)
    one, other = (np.where(rng.random(n) < 0.6, z, 1 - z) for _ in range(2))

    def look(swapped: np.ndarray) -> float:
        sent = np.where(swapped[part], other, one)
        return bayes_accuracy(count(np.zeros(n, int), sent, z, shape=(1, 2, 2)))

    first = look(np.zeros(looks - 1, bool))
    others = [look(swap) for swap in np.eye(looks - 1, dtype=bool)]
    return np.array([first, *others, look(np.array(others) < first)])


def bounds(right: np.ndarray, n: int, shares: list[float]) -> np.ndarray:
    """The bound on each of these configurations, whose error is divided by so much."""
    return np.array(
        [upper(f, np.ones(n), delta=0.05 / share, slack="McDiarmid") for f, share in zip(right, shares, strict=True)]
    )


@pytest.mark.parametrize(("n", "looks"), [(2000, 24), (17_500, 24), (2000, 100)])
def test_the_bound_covers_a_configuration_that_was_built_from_looks_and_the_best_of_all(n, looks):
    rng = np.random.default_rng(4)
    draws = [looked_at(n, looks, rng) for _ in range(4000 // looks)]
    charged = np.array([bounds(right, n, [shared(1, k) for k in range(looks + 1)]) for right in draws])
    assert (charged[:, -1] >= 0.6).mean() >= 0.95
    assert (charged.min(axis=1) >= 0.6).mean() >= 0.95
    # As if all had been fixed beforehand, which they were not.
    fixed = np.array([bounds(right[-1:], n, [shared(looks + 1)]) for right in draws])
    assert (fixed >= 0.6).mean() < 0.93


def test_all_that_looks_may_have_led_to_share_one_error():
    assert sum(2.0**looks / shared(1, looks) for looks in range(900)) == pytest.approx(1, abs=1e-3)
    assert all(shared(1, looks) < shared(1, looks + 1) for looks in range(100))
    assert shared(8, 3) == 8 * shared(1, 3)
    with pytest.raises(BadInput, match="audited more than 900 times: cut others, by another `seed`"):
        shared(1, 901)


def test_what_shares_the_confidence_is_said():
    assert chosen(1, 0) == ""
    assert chosen(8, 0) == "8 configurations tried, if fixed beforehand"
    assert chosen(1, 1) == (
        "another configuration was audited on these rows before: it may have been built from one yes or no of each"
    )
    assert chosen(8, 2).startswith(
        "8 configurations tried, if fixed beforehand; 2 other configurations were audited on"
    )
    y, c, z = drawn(population(4, 0.1), 1000, np.random.default_rng(6))
    first, third = run(y, c, z, 4), run(y, c, z, 4, looks=2)
    assert third.bound > first.bound
    assert third.needed > first.needed
    few = np.arange(1000) // 2
    assert "2 other configurations were audited" in run(y, c, z, 4, looks=2, cluster=few).sentence()


def test_the_best_attacker_on_the_true_channel_reaches_the_plug_in():
    p, rng = population(2, 0.5), np.random.default_rng(3)
    q = np.kron(np.eye(2), np.full((3, 3), 0.1) + 0.7 * np.eye(3))
    y, c, z = drawn(p, 60_000, rng)
    out = (q[c].cumsum(axis=1) > rng.random(len(c))[:, None]).argmax(axis=1)
    posterior = released_counts(p, q)
    attacked = (posterior[y, out].argmax(axis=1) == z).mean()
    found = run(y, c, z, 2, channel=q)
    assert attacked == pytest.approx(found.plug_in, abs=0.006)
    assert found.plug_in < bayes_accuracy(count(y, c, z, shape=p.shape))  # the channel helps
    assert found.bound > found.plug_in


def test_nothing_leaks_and_the_null_says_so():
    y, c, z = drawn(population(8, 0.0), 2000, np.random.default_rng(4))
    found = run(y, c, z, 8)
    # Chi-squared of 28 degrees of freedom over 4000 ln 2: four standard deviations.
    assert found.bits == pytest.approx(found.null_bits, abs=4 * np.sqrt(2 * 28) / (2 * 2000 * np.log(2)))
    assert found.bits < 2 * found.null_bits_high
    assert found.null > 1 / 8  # what counting noise alone shows


def test_a_planted_leak_stands_out_of_the_null():
    y, c, z = drawn(population(8, 0.4), 2000, np.random.default_rng(5))
    found = run(y, c, z, 8)
    assert found.bits > 3 * found.null_bits_high
    assert found.bits == pytest.approx(information(population(8, 0.4)), abs=0.1)


def test_more_tries_and_fewer_units_widen_the_bound():
    y, c, z = drawn(population(4, 0.1), 1000, np.random.default_rng(6))
    alone = run(y, c, z, 4)
    assert run(y, c, z, 4, tried=10).bound > alone.bound
    of_ten = run(y, c, z, 4, cluster=np.arange(1000) // 10)
    assert of_ten.units == 100
    assert of_ten.bound - of_ten.plug_in == pytest.approx(np.sqrt(10) * (alone.bound - alone.plug_in))
    assert "Too few recordings" in of_ten.sentence("recordings")
    assert "100 were counted, and at least 156 are needed" in of_ten.sentence("recordings")
    assert "at least 156" in run(y, c, z, 4, cluster=np.arange(1000) // 50).sentence()


def test_clusters_swap_their_z_as_a_whole():
    """Codes that follow the recording look like a leak of z unless recordings are what is shuffled."""
    rng = np.random.default_rng(7)
    cluster = np.repeat(np.arange(40), 25)
    y, z, c = (cluster % 2), rng.integers(0, 2, 40)[cluster], (cluster % 6)
    settings = {"q": np.eye(6), "classes": (2, 2), "shuffles": 100, "rng": rng}
    by_row = null_distribution(y, c, z, **settings)[:, 1].mean()
    by_cluster = null_distribution(y, c, z, cluster=cluster, **settings)[:, 1].mean()
    assert by_cluster > 5 * by_row


def test_strata_keep_what_the_design_fixes():
    """A light that occurs once per person cannot be shuffled over lights."""
    light = np.tile(np.arange(3), 10)
    z = np.repeat(np.arange(10), 3)
    settings = {"q": np.eye(3), "classes": (1, 10), "shuffles": 30, "rng": np.random.default_rng(8)}
    found = null_distribution(np.zeros(30, int), light, z, strata=light, **settings)
    assert found[:, 1] == pytest.approx(0, abs=1e-9)  # every code has every person once, as the design says
    assert null_distribution(np.zeros(30, int), light, z, **settings)[:, 1].mean() > 0.5


def test_capacity_is_of_the_worst_class():
    assert capacity(np.eye(6), groups=2) == 3  # all of three codes leaves
    independent = np.tile([0.2, 0.8], (2, 1))
    assert capacity(independent, groups=1) == pytest.approx(1)
    half = np.full((2, 2), 0.25) + 0.5 * np.eye(2)
    both = np.zeros((4, 4))
    both[:2, :2], both[2:, 2:] = independent, half
    assert capacity(both, groups=2) == pytest.approx(1.5)


def test_the_self_bounding_slack_is_the_tighter_one_for_small_f():
    sizes = np.ones(500)
    small = [upper(0.03, sizes, delta=0.05, slack=kind) for kind in ("self-bounding", "McDiarmid")]
    large = [upper(0.6, sizes, delta=0.05, slack=kind) for kind in ("self-bounding", "McDiarmid")]
    assert small[0] < small[1]
    assert large[0] > large[1]


def test_rows_that_do_not_match_are_refused():
    with pytest.raises(BadInput, match="got 2, 1 and 2 of them"):
        run(np.zeros(2, int), np.zeros(2, int), np.zeros(1, int), 2)
    with pytest.raises(BadInput, match="does not have equally many for 2"):
        run(*[np.zeros(2, int)] * 3, 2, channel=np.eye(5))
    with pytest.raises(BadInput, match="tried >= 1"):
        run(*[np.zeros(2, int)] * 3, 2, tried=0)
