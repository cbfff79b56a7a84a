"""Parities of bits: pairs, triples and exact ones of any size are found, and what was not there is not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from edgeveil.trainer.attacks.families import parities
from edgeveil.trainer.attacks.families.lowbits import LowBits
from edgeveil.trainer.attacks.families.parities import Parities
from edgeveil.trainer.attacks.problem import BUDGETS, Codes, Problem, Released, cut
from edgeveil.trainer.attacks.protocol import Adversary
from edgeveil.trainer.datasets.base import InputSpec
from edgeveil.trainer.measures import attack_metrics

WIDTH, PARITIES = 40, Parities()


def problem(n: int, secret: tuple[int, ...], *, classes: int = 2, noise: float = 0.0, dtype: str = "uint8") -> Problem:
    """Random vectors of which the parity of the lowest bits of ``secret`` tells the parity of z."""
    rng = np.random.default_rng(7)
    y, z = rng.integers(0, 3, n), rng.integers(0, classes, n)
    x = rng.random((n, WIDTH)).astype(dtype) if dtype == "float32" else rng.integers(0, 256, (n, WIDTH)).astype(dtype)
    bits = x.view(np.uint32) if dtype == "float32" else x
    told = (z & 1) ^ (rng.random(n) < noise)
    others = bits[:, list(secret[:-1])].sum(axis=1, dtype=np.int64) & 1
    bits[:, secret[-1]] = (bits[:, secret[-1]] & ~bits.dtype.type(1)) | (others ^ told).astype(bits.dtype)
    everything = Released(x, y, z)
    two_thirds = everything.take(np.arange(2 * n // 3))
    fit, stop, choose = cut(two_thirds, 0)
    counted = attack_metrics.counted_prior(fit.y, fit.z, (3, classes))
    test = everything.take(np.arange(2 * n // 3, n))
    spec = InputSpec("vector", (WIDTH,), dtype, 0.0, 255.0)
    theta = np.full((3, classes), 1 / classes)
    return Problem(spec, theta, counted, fit, stop, choose, test, BUDGETS["quick"])


def gain(asked: Problem, family: Adversary = PARITIES) -> float:
    """Bits on test rows."""
    p = family.fit(asked, 0).probabilities(asked.test)
    return attack_metrics.bits_beyond(asked.counted, p, asked.test.y, asked.test.z).estimate


@pytest.mark.parametrize("dtype", ["uint8", pytest.param("int16", marks=pytest.mark.nightly), "float32"])
@pytest.mark.parametrize("secret", [(3, 17), (3, 17, 30), (0, 5, 9, 14, 21, 28, 39)], ids=len)
def test_a_parity_is_found_in_integers_and_in_floats(secret, dtype):
    asked = problem(2400, secret, dtype=dtype)
    assert any(set(one) == set(secret) for one in parities.search(asked, 0))
    assert gain(asked) > 0.85


@pytest.mark.parametrize("secret", [(17,), (3, 17)], ids=len)
def test_bytes_that_were_divided_to_floats_are_read_as_bytes(secret):
    """The last bit of a float that is k / 255 is hardly that of k."""
    asked = problem(2400, secret)
    scaled = {
        part: replace(getattr(asked, part), x=(getattr(asked, part).x / np.float32(255) - 0.5).astype(np.float32))
        for part in ("fit", "stop", "choose", "test")
    }
    assert gain(replace(asked, **scaled), LowBits() if len(secret) == 1 else Parities()) > 0.85


@pytest.mark.parametrize("secret", [(3, 17), pytest.param((3, 17, 30), marks=pytest.mark.nightly)], ids=len)
def test_a_noisy_parity_is_the_first_that_is_found(secret):
    asked = problem(4000, secret, noise=0.3)
    assert parities.search(asked, 0)[0] == secret
    assert gain(asked) == pytest.approx(0.119, abs=0.04)  # 1 - H(0.3)


def test_without_a_parity_next_to_nothing_is_confirmed_and_nothing_gained():
    asked = problem(4000, (3, 17), noise=0.5)
    found = parities.search(asked, 0)
    assert len(found) == parities.KEPT
    assert len(parities.confirmed(found, asked.stop, asked)) <= 8
    assert gain(asked) < 0.01


@pytest.mark.parametrize("classes", [4, pytest.param(14, marks=pytest.mark.nightly)])
def test_z_may_have_many_values(classes):
    asked = problem(3600, (3, 17), classes=classes)
    assert (3, 17) in parities.search(asked, 0)
    assert gain(asked) > 0.6  # of 1 bit, the parity of z


def test_a_parity_with_an_output_and_a_code_is_found():
    """A code's second digit, one pixel's bit and a further output tell z together, and none of them by itself."""
    asked = problem(3000, (3, 17), noise=0.5)
    rng = np.random.default_rng(1)

    def outputs(part: Released) -> Released:
        code, also = rng.integers(0, 64, len(part)), rng.integers(0, 2, (len(part), 1))
        z = (part.x[:, 8] & 1) ^ (code >> 1 & 1) ^ also[:, 0]
        return replace(part, z=z, also=also.astype(np.float32), codes=Codes(code))

    parts = {name: outputs(getattr(asked, name)) for name in ("fit", "stop", "choose", "test")}
    assert gain(replace(asked, **parts)) > 0.85


@pytest.mark.parametrize("scale", [None, pytest.param(255, marks=pytest.mark.nightly)], ids=["bytes", "floats"])
def test_a_pair_of_any_bit_plane_is_found_and_products_are_those_of_all_rows(scale):
    """Bits 4 and 7, in one y alone; three values of z, which are set against each other one by one."""
    asked = problem(2400, (3, 17), classes=3, noise=0.5)
    rng = np.random.default_rng(2)

    def told(part: Released) -> Released:
        x = rng.integers(0, 256, part.x.shape, dtype=np.uint8)
        bit = (x[:, 5] >> 4 & 1) ^ (part.z == 2)
        x[:, 30] = np.where(part.y == 1, (x[:, 30] & 127) | (bit << 7).astype(np.uint8), x[:, 30])
        return replace(part, x=x if scale is None else (x / np.float32(scale)).astype(np.float32))

    asked = replace(asked, **{name: told(getattr(asked, name)) for name in ("fit", "stop", "choose", "test")})
    found = parities.search(asked, 0)[0]
    levels = parities.Levels.from_samples(asked.fit.x)
    fit = asked.fit.take(np.flatnonzero(asked.fit.y == 1))
    assert np.array_equal(np.abs(np.corrcoef(parities.seen(fit, [found], levels)[:, 0], fit.z == 2))[0, 1].round(6), 1)
    assert gain(asked) > 0.2


def test_a_small_budget_searches_fewer_columns_and_memory_stays_small(monkeypatch):
    """A pair far beyond the budget is still found among the columns that are searched."""
    asked = problem(2400, (3, 17), noise=0.2)
    seen = []
    signs = parities._signs
    monkeypatch.setattr(parities, "_signs", lambda bits: seen.append(bits.shape) or signs(bits))
    poor = replace(asked, budget=replace(asked.budget, macs=4e6))
    found = parities.search(poor, 0)
    assert max(rows * columns for rows, columns in seen[:4]) < 1600 * 120
    assert found
    monkeypatch.setattr(parities, "BLOCK", 1000)
    assert parities.search(asked, 0)[0] == (3, 17)


def test_equations_over_gf2_are_solved_where_they_can_be():
    rng = np.random.default_rng(3)
    system = rng.integers(0, 2, (120, 50)).astype(np.uint8)
    secret = np.array([1, 7, 19, 33, 48])
    goals = np.stack([system[:, secret].sum(axis=1) & 1, rng.integers(0, 2, 120)], axis=1).astype(np.uint8)
    solutions = parities.solve(system, goals)
    assert list(solutions) == [0]
    assert solutions[0].tolist() == secret.tolist()


def test_constant_frames_have_no_parity():
    asked = problem(600, (3, 17))
    same = {name: getattr(asked, name) for name in ("fit", "stop", "choose", "test")}
    flat = replace(asked, **{name: replace(part, x=np.full_like(part.x, 7)) for name, part in same.items()})
    assert parities.search(flat, 0) == []
    assert Parities().why_not(flat) is not None  # counting stands in
