"""A regularization that is chosen within the guarantee: disjoint parts, and the exponential mechanism."""

import itertools

import numpy as np
import pytest
from scipy import stats

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.ext.private.estimators import PrivateHuberSVM, PrivateLogisticRegression
from edgeveil.trainer.ext.private.estimators.perturbed_risk import drawn, parts
from edgeveil.trainer.ext.private.noise import Secret, Seeded


def made(n=6000, seed=0):
    """Two classes by a plane, rows of norm at most 1."""
    x = np.random.default_rng(seed).normal(size=(n, 4))
    x /= np.maximum(1, np.linalg.norm(x, axis=1))[:, None]
    return x, (x[:, 0] > x[:, 1]).astype(int)


def test_the_law_is_that_of_the_exponential_mechanism_and_keeps_epsilon():
    epsilon, noise = 1.5, Seeded(0)
    mistakes = [3, 5, 4, 30]
    law = np.exp(-epsilon / 2 * np.array(mistakes))
    law /= law.sum()
    counts = np.bincount([drawn(mistakes, epsilon, noise) for _ in range(4000)], minlength=4)
    assert counts[3] <= 2
    assert stats.chisquare(counts[:3], law[:3] / law[:3].sum() * counts[:3].sum()).pvalue > 1e-4
    for moved in itertools.product((-1, 0, 1), repeat=4):  # by one other row of the part that judges
        other = np.exp(-epsilon / 2 * (np.array(mistakes) + moved))
        assert np.abs(np.log(law / (other / other.sum()))).max() <= epsilon + 1e-12


def test_parts_are_disjoint_and_have_every_row():
    found = parts(1003, 4, Secret())
    assert sorted(np.concatenate(found)) == list(range(1003))
    assert [len(part) for part in found] == [201, 201, 201, 200, 200]


def test_a_fit_learns_with_the_one_that_does_well_from_a_part_of_the_rows(monkeypatch):
    x, y = made()
    seen = []
    solve = PrivateLogisticRegression._solve

    def watched(self, rows, *about):
        seen.append(len(rows))
        return solve(self, rows, *about)

    monkeypatch.setattr(PrivateLogisticRegression, "_solve", watched)
    settings = {"data_norm": 1.0, "choose": [1e-6, 0.05], "method": "output"}
    fitted = PrivateLogisticRegression(4.0, **settings, random_state=0).fit(x, y)
    assert fitted.regularization_ == 0.05  # the other one gives noise alone
    assert seen == [2000, 2000]
    assert fitted.score(x, y) > 0.9
    fitted = PrivateLogisticRegression(4.0, **settings).fit(x, y)
    assert fitted.regularization_ in settings["choose"]
    assert fitted.guarantee_.epsilon == 4.0
    assert "drawn from public ones, on rows of its own" in str(fitted.guarantee_)
    assert "not chosen on these data" not in str(fitted.guarantee_)


def test_one_fit_that_does_not_end_takes_the_promise_away(monkeypatch):
    monkeypatch.setattr("edgeveil.trainer.ext.private.estimators.perturbed_risk.MOST_STEPS", 1)
    with pytest.warns(UserWarning, match="nothing is promised"):
        assert PrivateHuberSVM(4.0, data_norm=1.0, choose=[1e-4, 1.0]).fit(*made()).guarantee_ is None


@pytest.mark.parametrize("choose", [[], [1e-3], [1e-3, 1e-3], [1e-3, 0.0], [1e-3, float("inf")], 1e-3])
def test_candidates_that_mean_nothing_are_refused(choose):
    with pytest.raises(BadInput, match="two or more different numbers above 0"):
        PrivateLogisticRegression(1.0, data_norm=1.0, choose=choose).fit(*made(200))


def test_too_few_rows_for_a_part_each_are_said_or_refused():
    x, y = made(240)
    with pytest.warns(UserWarning, match="80 rows are few"):
        PrivateLogisticRegression(1.0, data_norm=1.0, choose=[1e-3, 1e-2]).fit(x, y)
    with (
        pytest.warns(UserWarning, match="0 rows are few"),
        pytest.raises(BadInput, match="more rows than the 2 settings"),
    ):
        PrivateLogisticRegression(1.0, data_norm=1.0, choose=[1e-3, 1e-2]).fit(x[:2], y[:2])
