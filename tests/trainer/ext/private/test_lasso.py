"""The private lasso: its law in one dimension, exactly; the minimum that the law is of; and utility on the census."""

from __future__ import annotations

import gzip
import itertools
import math

import numpy as np
import pytest
from scipy.spatial.distance import pdist
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Lasso
from sklearn.utils.estimator_checks import check_estimator

from edgeveil.trainer.datasets.readings import checked_path
from edgeveil.trainer.ext.private.estimators import FunctionalLinearRegression, PrivateLasso, lasso
from edgeveil.trainer.ext.private.estimators.fitting import Unbounded

ROWS = list(itertools.product((-1.0, -0.4, 0.0, 0.7, 1.0), (-1.0, 0.3, 1.0)))  # (x, y) within the bounds


def law(row, l1, radius, scale, ridge):
    """log P of w = -R, 0 and R, and the log-density at points between, of one row with one value.

    w is the minimum where b = -((xw - y) x + ridge w + l1 sign(w)), in order the other way round; at the ends and at 0
    it stays for all b of an interval.
    """
    x, y = row
    w = np.concatenate([part * np.linspace(1e-9, radius - 1e-9, 4001) for part in (-1, 1)])

    def b(w, sign):
        return -((x * w - y) * x + ridge * w + l1 * sign)

    def upto(b):  # of the Laplace law
        return 0.5 * math.exp(b / scale) if b < 0 else 1 - 0.5 * math.exp(-b / scale)

    low, high = b(0.0, 1), b(0.0, -1)
    atoms = [1 - upto(b(-radius, -1)), upto(high) - upto(low), upto(b(radius, 1))]
    density = -np.abs(b(w, np.sign(w))) / scale - math.log(2 * scale) + math.log(x**2 + ridge)
    with np.errstate(divide="ignore"):
        return np.concatenate([np.log(atoms), density])


def spent(epsilon, l1, radius, least_ridge=0.0, *, less=1.0):
    scale, ridge = lasso.perturbation(epsilon, radius, least_ridge)
    laws = [law(row, l1, radius, scale * less, ridge) for row in ROWS]
    with np.errstate(invalid="ignore"):  # no row has an atom at 0 without l1
        return max(float(np.nanmax(one - other)) for one in laws for other in laws)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
@pytest.mark.parametrize("l1", [0.0, 0.3, 2.0])
@pytest.mark.parametrize("radius", [0.5, 1.0, 4.0])
def test_one_row_in_one_dimension_spends_no_more_exactly(epsilon, l1, radius):
    assert spent(epsilon, l1, radius) <= epsilon
    assert spent(epsilon, l1, radius, 10.0) <= epsilon


def test_with_half_of_its_noise_it_spends_more():
    assert spent(1.0, 0.3, 0.5, less=0.5) > 1.0


@pytest.mark.parametrize("radius", [0.1, 0.5, 1.0, 2.0, 5.0])
def test_no_two_gradients_are_further_apart_and_some_are_as_far(radius):
    """Over rows on a fine grid of the disc, and over rows and weights of five values at random."""
    angle, length = np.meshgrid(np.linspace(0, 2 * np.pi, 721), (0.3, 0.9, 1.0))
    x = np.stack([length * np.cos(angle), length * np.sin(angle)], axis=-1).reshape(-1, 2)
    furthest = 0.0
    for share in (0.0, 0.5, 1.0):
        gradients = np.vstack([(x[:, :1] * share * radius - y) * x for y in (-1.0, 0.0, 1.0)])
        furthest = max(furthest, float(pdist(gradients).max()))
    assert furthest <= lasso.most_moved(radius) + 1e-12
    assert furthest >= lasso.most_moved(radius) * (1 - 1e-4)
    rng = np.random.default_rng(0)
    for _ in range(20):
        x, w = rng.normal(size=(500, 5)), rng.normal(size=5)
        x /= np.linalg.norm(x, axis=1, keepdims=True)
        gradients = (x @ (w / np.linalg.norm(w) * radius) - rng.choice([-1, 1], 500))[:, None] * x
        assert pdist(gradients).max() <= lasso.most_moved(radius)


def problem(seed=0, n=400, d=6):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    return x, x @ np.array([0.8, -0.4, 0.0, 0.0, 0.3, 0.0][:d]) + 0.05 * rng.normal(size=n)


@pytest.mark.parametrize("radius", [0.2, 5.0])
def test_the_solver_is_as_near_as_it_says(radius):
    """Against no step of thousands around it, and against scikit-learn's where the ball does not bind."""
    x, y = problem()
    n, d = x.shape
    l1, ridge, linear = np.full(d, 8.0), 1e-3, -(x.T @ y)
    w, away = lasso.minimum(x.T @ x, linear, l1, radius, ridge)
    assert away <= lasso.CLOSE
    assert np.linalg.norm(w) <= radius + 1e-12

    def risk(w):
        return 0.5 * w @ (x.T @ x + ridge * np.eye(d)) @ w + linear @ w + (l1 * np.abs(w)).sum()

    steps = 1e-3 * np.random.default_rng(1).normal(size=(3000, d))
    there = w + steps
    there *= np.minimum(1, radius / np.linalg.norm(there, axis=1))[:, None]
    assert min(map(risk, there)) >= risk(w) - 1e-12
    if radius == 5.0:
        theirs = Lasso(alpha=8.0 / n, fit_intercept=False, tol=1e-12, max_iter=100_000).fit(x, y).coef_
        assert w == pytest.approx(theirs, abs=1e-4)
        assert ((w == 0) == (theirs == 0)).all()
        assert 0 < (w == 0).sum() < d


def test_with_a_large_budget_it_is_the_lasso():
    x, y = problem(n=20_000)
    settings = {"data_norm": 1.0, "target_bounds": (-1, 1), "radius": 2.0, "fit_intercept": False}
    ours = PrivateLasso(50.0, l1=0.02, **settings).fit(x, y)
    theirs = Lasso(alpha=0.02, fit_intercept=False).fit(x, y)
    assert ours.coef_[0] == pytest.approx(theirs.coef_, abs=0.03)
    assert np.count_nonzero(ours.coef_) < 6
    assert ours.private_
    said = str(ours.guarantee_)
    assert "Replacing one row" in said
    assert "e^50" in said
    assert "public bounds" in said


def test_units_of_rows_and_values_do_not_matter():
    x, y = problem()
    one = PrivateLasso(20.0, data_norm=1.0, target_bounds=(-1, 1), random_state=0).fit(x, y)
    other = PrivateLasso(20.0, data_norm=7.0, target_bounds=(0, 10), random_state=0).fit(7 * x, 5 * y + 5)
    assert other.predict(7 * x) == pytest.approx(5 * one.predict(x) + 5, abs=1e-5)


@pytest.mark.filterwarnings("ignore")
def test_scikit_learns_checks():
    check_estimator(PrivateLasso(1.0, data_norm=10.0, target_bounds=(-100, 100), random_state=0))


def test_a_solver_that_does_not_end_promises_nothing(monkeypatch):
    monkeypatch.setattr(lasso, "MOST_STEPS", 1)
    x, y = problem()
    with pytest.warns(ConvergenceWarning, match="nothing is promised"):
        fitted = PrivateLasso(1.0, data_norm=1.0, target_bounds=(-1, 1)).fit(x, y)
    assert fitted.guarantee_ is None


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"data_norm": None}, "public bound on the Euclidean norm"),
        ({"target_bounds": None}, "target_bounds"),
        ({"l1": -1.0}, "l1 of 0 to 1e"),
        ({"radius": 0.0}, "radius of 1e-06 to 1e"),
        ({"epsilon": 0.0}, "epsilon above 0"),
        ({"ridge": math.nan}, "ridge of 0 to"),
    ],
)
def test_what_it_cannot_do_without(settings, words):
    x, y = problem()
    with pytest.raises(Unbounded, match=words):
        PrivateLasso(**{"data_norm": 1.0, "target_bounds": (-1, 1), **settings}).fit(x, y)


# Adult: 48,842 people of the US census of 1994 (B. Becker, R. Kohavi, UCI 1996, doi 10.24432/C5XW20, CC BY 4.0).
ADULT = {
    "adult/adult.data.gz": "c7a2b4716a97f930123e0baf879188d701e798172631a654fc703d4b082907f3",
    "adult/adult.test.gz": "8a2c1bffa6e7ce5abfa43881ae5e87c4311ebc2b3cd526c9c40a43f19f06f799",
}
TEXTS = (1, 3, 5, 6, 7, 8, 9, 13)  # columns with one of a list of values; the first is the age


def census():
    """Complete rows one-hot of eight texts, of norm sqrt(8), and ages; the first 30,162 rows are to train."""
    files = (checked_path(name, sha256=digest, source="archive.ics.uci.edu/2/adult") for name, digest in ADULT.items())
    lines = [line for file in files for line in gzip.decompress(file.read_bytes()).decode().splitlines()]
    columns = np.array([line.split(", ") for line in lines if line and line[0] != "|" and "?" not in line]).T
    coded = (np.unique(columns[at], return_inverse=True) for at in TEXTS)
    return np.hstack([np.eye(len(names))[number] for names, number in coded]), columns[0].astype(np.float64)


def test_ages_of_the_census_next_to_the_lasso_without_noise(data_folder):
    """R^2 on the published test rows: 0.40 without noise; of 0.37 at epsilon 8 and 0.32 at 1 the spread is left off."""
    x, y = census()
    train, test = slice(0, 30_162), slice(30_162, None)
    assert Lasso(alpha=0.02).fit(x[train], y[train]).score(x[test], y[test]) == pytest.approx(0.404, abs=0.001)
    settings = {"data_norm": math.sqrt(8), "target_bounds": (17, 90)}
    found = {one: PrivateLasso(one, l1=1e-3, **settings).fit(x[train], y[train]) for one in (1.0, 8.0)}
    right = {one: model.score(x[test], y[test]) for one, model in found.items()}
    assert right[8.0] > 0.34
    assert right[1.0] > 0.24
    assert np.count_nonzero(found[8.0].coef_) < 40  # of 99
    # The functional mechanism has noise on thousands of coefficients, and no l1 term.
    functional = FunctionalLinearRegression(8.0, bounds=(0, 1), target_bounds=(17, 90)).fit(x[train], y[train])
    assert functional.score(x[test], y[test]) < right[1.0]
