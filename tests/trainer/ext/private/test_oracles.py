"""Ours beside other people's implementations, where their environment is (scripts/environments/oracles)."""

import numpy as np
import pytest

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.ext.private.estimators.perturbed_risk import Logistic
from tests.support.checkout import ROOT
from tests.support.objective_law import log_ratio
from tests.support.oracles import oracles

there = [
    pytest.mark.oracles,
    pytest.mark.skipif(oracles.python() is None, reason="no .venvs/oracles: run scripts/environments/oracles"),
]


def asked(test):
    """With both marks."""
    for mark in there:
        test = mark(test)
    return test


@asked
def test_private_regression_errs_as_that_of_diffprivlib_does():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(8_000, 5))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    sign = np.where(rows[:, 0] > 0.3 * rng.normal(size=8_000), 1.0, -1.0)
    found = list(oracles.regression(rows, sign, [[0.4, 1e-2], [2.0, 1e-2]], draws=8))
    assert all(row["held"] for row in found), found
    assert found[0]["ours"] > found[1]["ours"]  # noise shows


@asked
def test_what_diffprivlib_spends_beyond_norm_1_is_found():
    found = oracles.beyond_norm_1(draws=20_000)
    assert found["spent"] == pytest.approx(oracles.SPENT, rel=0.05)
    assert found["spent"] > found["claimed"] >= found["ours_spends"]


@asked
@pytest.mark.parametrize("mechanism", ["k-rr", "oue"])
def test_the_collector_reads_from_reports_what_multi_freq_ldpy_does(mechanism):
    found = oracles.shares(mechanism, k=8, epsilon=1.0, units=3_000)
    assert found["held"], found


@asked
def test_pycanon_counts_k_and_l_of_a_published_table_as_we_do(tmp_path):
    found = oracles.published(tmp_path, people=400)
    assert found["held"], found


def test_the_mechanism_of_diffprivlib_as_published_spends_more_than_it_claims():
    """By its formulas, without it: c R in place of c R^2."""
    norm, curvature = oracles.NORM, 0.25
    left = 1 - 2 * np.log1p(curvature * norm)
    more = curvature * norm / np.expm1(1 / 4) - 1 if left <= 0 else 0.0
    scale = 2 * norm / (left if left > 0 else 0.5)
    assert log_ratio(1.0, scale, more, Logistic(), reach=norm) == pytest.approx(oracles.SPENT, abs=0.01)


def test_an_environment_that_is_not_there_is_said(monkeypatch, tmp_path):
    monkeypatch.setenv("EDGEVEIL_VENVS", str(tmp_path))
    with pytest.raises(BadInput, match="scripts/environments/oracles"):
        oracles.ask("table", {})


def test_the_lock_is_what_the_script_of_locks_asks_for():
    (asked_for,) = (
        line for line in (ROOT / "scripts/lock").read_text().replace("\\\n", "").splitlines() if "apart oracles" in line
    )
    locked = oracles.LOCK.read_text()
    pins = [word.strip('"') for word in asked_for.split() if "==" in word]
    assert len(pins) == 8
    assert all(f"{pin} \\" in locked for pin in pins)
