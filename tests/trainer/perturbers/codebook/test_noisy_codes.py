"""Codes from noisy counts: what a unit adds is bounded, and without noise the codes keep T and not z."""

import keras
import numpy as np
import pytest
from scipy import stats

from edgeveil.models import encoders
from edgeveil.trainer.ext.private import noise as dpsgd
from edgeveil.trainer.ext.private.noise import Seeded
from edgeveil.trainer.ext.private.per_example import Claim
from edgeveil.trainer.perturbers.codebook import Codebook
from edgeveil.trainer.perturbers.codebook.private_fit import REACH, SHARE, NoisyCodes, fixed_kept

CODES, FEATURES = 4, 8
RNG = np.random.default_rng(0)


def section(**changes):
    return Codebook(**{"kind": "codebook", "keep": ["pixels"], "codes": CODES, "synthesis": "centroid", **changes})


def made(steps=30, **changes):
    keras.utils.set_random_seed(0)
    head = encoders.code_head(FEATURES, 2, CODES, width=16)
    return head, NoisyCodes(head, section(**changes), classes=(2, 3), size=2, steps=steps)


def test_a_unit_moves_counts_and_sums_by_at_most_one():
    _, codes = made()
    h = RNG.normal(size=(40, FEATURES)).astype(np.float32) * 50  # sure of their code, so that q is longest
    t = RNG.normal(size=(40, 2))
    t = (REACH * t / np.linalg.norm(t, axis=1, keepdims=True)).astype(np.float32)
    labels = {"y": RNG.integers(0, 2, 40).astype(np.int32), "z": RNG.integers(0, 3, 40).astype(np.int32), "kept": t}
    moved = []
    for at in range(40):
        mask = (np.arange(40) == at).astype(np.float32)
        moved.append(np.sqrt(sum((np.array(one) ** 2).sum() for one in codes.sums(h, labels, mask))))
    assert max(moved) <= 1 + 1e-5
    assert max(moved) > 0.99, "the bound is not used"
    together = codes.sums(h, labels, np.ones(40, np.float32))
    assert float(together[0].numpy().sum()) == pytest.approx(40 / 2**0.5, rel=1e-4)


def test_running_sums_are_of_what_was_told_in_its_own_units():
    _, codes = made()
    counts, sums = np.zeros((2, 3, CODES)), np.zeros((2, CODES, 2))
    counts[1, 2, 3], sums[0, 1, 1] = 10 / 2**0.5, 0.5
    codes.take_noisy([counts, sums])
    kept, totals, done = (one.numpy() for one in codes.variables)
    assert kept[1, 2, 3] == pytest.approx(10)
    assert totals[0, 1, 1] == pytest.approx(0.5 * REACH * 2**0.5)
    assert done == 1


def test_t_is_within_reach_and_the_same_for_everybody():
    u = RNG.random((50, 12, 12, 1)).astype(np.float32)
    for keep in (["pixels"], ["moments"], ["ink", "slant"]):
        kept = fixed_kept(section(keep=keep, weights=None), u)
        assert np.linalg.norm(kept, axis=1).max() <= REACH + 1e-6
        assert np.array_equal(fixed_kept(section(keep=keep), u[7:8])[0], kept[7])  # nothing is fitted to the others
    assert fixed_kept(section(keep=["pixels"]), RNG.random((5, 40)).astype(np.float32)).shape == (5, 16)


def test_gradients_and_sums_share_one_mechanism():
    """Each gets sigma over the root of its share: a unit's whole vector, scaled alike, has length at most 1."""
    sigma, clip, size = 0.7, 2.0, 20_000
    plan = dpsgd.Plan(1000, 100, 1, clip, Claim(1.0, 1e-5, 0.1, sigma, 1, rdp=1.0, pld=1.0, grid=1e-4, accountant=""))
    (mean,) = dpsgd.noisy_mean([np.zeros(size)], plan, Seeded(0), share=1 - SHARE)
    (told,) = dpsgd.noisy_beside([np.zeros(size)], plan, Seeded(1), SHARE)
    for noise, deviation in ((mean * 100, sigma * clip / (1 - SHARE) ** 0.5), (told, sigma / SHARE**0.5)):
        assert stats.kstest(noise / deviation, stats.norm.cdf).pvalue > 1e-4
    lengths = {"gradient": clip / (sigma * clip / (1 - SHARE) ** 0.5), "sums": 1 / (sigma / SHARE**0.5)}
    assert np.hypot(*lengths.values()) == pytest.approx(1 / sigma)


def test_codes_are_learned_and_a_price_on_z_hides_it():
    """With hardly any noise: T has a part that tells z and one that does not; a high price leaves the second."""
    rng = np.random.default_rng(1)
    n = 3000
    y, z = rng.integers(0, 2, n).astype(np.int32), rng.integers(0, 3, n).astype(np.int32)
    t = np.stack([0.8 * (z - 1) + 0.05 * rng.normal(size=n), 0.4 * rng.normal(size=n)], axis=1).astype(np.float32)
    t *= np.minimum(1, REACH / np.linalg.norm(t, axis=1, keepdims=True))
    h = np.hstack([t, y[:, None], rng.normal(size=(n, FEATURES - 3))]).astype(np.float32)
    claim = Claim(1.0, 1e-5, 0.2, 0.02, 150, rdp=1.0, pld=1.0, grid=1e-4, accountant="")
    told = {}
    for price in (0.0, 20.0):
        head, codes = made(150, price=price)
        labels = {"y": y, "z": z, "kept": t, "start": codes.starting(t, np.random.default_rng(0)).astype(np.int32)}
        given = {"rows": np.arange(n)[:, None], "optimizer": keras.optimizers.Adam(0.02), "noise": Seeded(0)}
        dpsgd.train(head, h, labels, codes.loss, dpsgd.Plan(n, 600, 150, 1.0, claim), beside=codes, **given)
        code = np.array(head(h)).reshape(n, 2, CODES)[np.arange(n), y].argmax(axis=1)
        table = np.zeros((CODES, 3))
        np.add.at(table, (code, z), 1 / n)
        given_code = table[table > 0] * np.log2((table / table.sum(1, keepdims=True).clip(1e-12))[table > 0] * 3)
        told[price] = given_code.sum()
    assert told[0.0] > 0.5
    assert told[20.0] < 0.5 * told[0.0]
