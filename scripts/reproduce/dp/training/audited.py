"""Mechanisms that ship, as the black-box audit runs them, each on several neighbours.

Neighbours are the zero row, the extremes, half of one, and a flipped label. Noise is the operating system's, but for
the functional mechanism, whose law is the same from a seed.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from sklearn.base import clone

from edgeveil.trainer.private.estimators import (
    FunctionalLogisticRegression,
    PrivateHuberSVM,
    PrivateLogisticRegression,
)
from edgeveil.trainer.private.estimators.dpsgd_classifier import clipped_sum
from edgeveil.trainer.private.estimators.functional import Scales, noisy_minimum, scales
from edgeveil.trainer.private.estimators.losses import Huber, Logistic, Loss
from edgeveil.trainer.private.estimators.minimiser import minimum
from edgeveil.trainer.private.estimators.perturbed_risk import perturbation
from edgeveil.trainer.private.estimators.sensitivity import LINEAR, LOGISTIC, Weights
from edgeveil.trainer.private.noise import Noise, Secret, Seeded
from scripts.reproduce.dp.shipped import Categories, Vectors
from scripts.reproduce.dp.training.audit_case import Case, Outputs
from scripts.reproduce.dp.training.one_step import CLIP, clipped, step

ROWS = {"one": 1.0, "flipped label": -1.0, "half a row": 0.5, "zero row": 0.0}  # one value times its label
REGULARIZATION = 0.1  # times the one row; of perturbed objectives
STIFF = 10.0  # of perturbed outputs: one row moves the minimum by nearly all that is allowed
FAR = 100.0  # a weight at which the other class is all but certain
STEEP = 60  # halvings of an interval: float64 has no more


def laplace(values: Mapping[str, list[float]], scale: float) -> Case:
    """OpenDP's noise on neighbouring values, claimed at 1 for a change of 1 in all."""

    def run(runs: int) -> Outputs:
        noise = Secret()
        return {name: noise.laplace(np.tile(at, runs), scale).reshape(runs, len(at)) for name, at in values.items()}

    return Case("Laplace", 1.0, run)


def minima(row: float, loss: Loss, regularization: float, linear: np.ndarray) -> np.ndarray:
    """``minimiser.minimum`` in one dimension with one row, for every linear term (k,), by halving; (k,)."""
    most = (np.abs(linear) + 1) / regularization
    low, high = -most, most.copy()
    for _ in range(STEEP):
        middle = (low + high) / 2
        down = row * loss.slope(row * middle) + regularization * middle + linear < 0
        low, high = np.where(down, middle, low), np.where(down, high, middle)
    return (low + high) / 2


def radial(noise: Noise, runs: int, size: int, scale: float) -> np.ndarray:
    """Vectors b (runs, size)."""
    return np.array([noise.radial(size, scale) for _ in range(runs)])


def objective(loss: Loss, epsilon: float, scale: float, more: float) -> Case:
    """Objective perturbation of one row in one dimension, for noise of that ``scale``."""

    def run(runs: int) -> Outputs:
        noise, total, found = Secret(), REGULARIZATION + more, {}
        for name, row in ROWS.items():
            linear = radial(noise, runs, 1, scale)[:, 0]
            found[name] = minima(row, loss, total, linear)[:, None]
            ships = [minimum(np.array([[row]]), loss, total, one)[0][0] for one in linear[:20, None]]
            if not np.allclose(found[name][:20, 0], ships, rtol=1e-6, atol=1e-7):
                raise AssertionError("the minimum in one dimension is not the shipped one")
        return found

    return Case(f"objective perturbation, {type(loss).__name__}, epsilon {epsilon:g}", epsilon, run)


def output(loss: Loss, d: int) -> Case:
    """Output perturbation of one row in d dimensions, epsilon 1."""

    def run(runs: int) -> Outputs:
        noise, found = Secret(), {}
        for name, row in ROWS.items():
            w, _ = minimum(np.full((1, d), row / d**0.5), loss, STIFF, np.zeros(d))
            found[name] = w + radial(noise, runs, d, 2 / STIFF)
        return found

    return Case(f"output perturbation, {type(loss).__name__}, d = {d}", 1.0, run, boosted=d > 1)


def functional(weights: Weights, d: int, gamma: float, scale: Scales) -> Case:
    """The functional mechanism on one row of d values, epsilon 1; with gamma the last attribute is sensitive."""
    touched = np.arange(d) == (d - 1 if gamma < 1 else d)

    def run(runs: int) -> Outputs:
        noise, found = Seeded(np.random.default_rng(0)), {}
        for name, row in {**ROWS, "one flipped": None}.items():
            x = np.full(d, row) if row is not None else np.where(np.arange(d) % 2, -1.0, 1.0)
            args = weights.quadratic * np.outer(x, x), -weights.linear * x, touched, scale, noise
            found[name] = np.array([noisy_minimum(*args) for _ in range(runs)])
        return found

    kind = "logistic" if weights == LOGISTIC else "linear"
    return Case(f"functional mechanism, {kind}, d = {d}, gamma {gamma:g}", 1.0, run, boosted=d > 1, times=0.5)


def local(name: str) -> Case:
    """A shipped mechanism of the device on neighbouring readings, alpha 1."""

    def run(runs: int) -> Outputs:
        if name in ("k-rr", "oue", "hrr"):
            categories = Categories(name, 4, 1.0)
            made = {str(at): categories.reports(np.full(runs, at)) for at in range(3)}
        else:
            vectors = Vectors(name, 2, 1.0)
            points = {"ones": [1, 1], "flipped": [-1, -1], "one flipped": [1, -1], "half": [0.5, 0.5], "zero": [0, 0]}
            made = {word: vectors.reports(np.tile(at, (runs, 1)).astype(float)) for word, at in points.items()}
        return {word: reports.reshape(runs, -1).astype(np.float64) for word, reports in made.items()}

    return Case(f"local, {name}", 1.0, run)


def fitted(estimator: Any) -> Case:
    """An estimator as it is called, on one row of one value."""

    def run(runs: int) -> Outputs:
        found = {}
        with warnings.catch_warnings(action="ignore"):  # of few rows
            for name, row in ROWS.items():
                x, y = np.array([[abs(row)]]), np.array([int(row > 0)])
                found[name] = np.array([clone(estimator).fit(x, y).coef_[0] for _ in range(runs)])
        return found

    return Case(f"{type(estimator).__name__}.fit", estimator.epsilon, run, times=0.05)


def of_classifier(drawn: bool) -> np.ndarray:
    """``DPSGDClassifier``'s clipped sum of a lot: of one row, where that is in it, or of none. The row's gradient is
    longer than the clip."""
    row, hot, weights = np.array([[1.0]]), np.array([[0.0, 1.0]]), np.array([[FAR], [0.0]])
    return clipped_sum(row[: int(drawn)], hot[: int(drawn)], weights, CLIP).ravel()


def shipped() -> Iterator[Case]:
    """Everything that must keep its claim."""
    settings: dict[str, Any] = {"fit_intercept": False, "classes": [0, 1]}
    yield fitted(PrivateLogisticRegression(1.0, data_norm=1.0, regularization=STIFF, **settings))
    yield fitted(PrivateHuberSVM(1.0, data_norm=1.0, regularization=STIFF, method="output", **settings))
    yield fitted(FunctionalLogisticRegression(1.0, bounds=(-1, 1), **settings))
    yield laplace({"zero": [0.0], "one": [1.0], "half": [0.5]}, 1.0)
    for loss in (Logistic(), Huber(0.5)):
        for epsilon in (0.1, 1.0):
            yield objective(loss, epsilon, *perturbation(epsilon, 1, REGULARIZATION, loss.curvature))
        yield from (output(loss, d) for d in (1, 2))
    spends = functools.partial(scales, epsilon=1.0, calibration="exact")
    yield functional(LINEAR, 1, 1.0, spends(LINEAR, 1, 0, gamma=1.0))
    yield functional(LOGISTIC, 2, 1.0, spends(LOGISTIC, 2, 0, gamma=1.0))
    yield functional(LOGISTIC, 2, 0.1, spends(LOGISTIC, 2, 1, gamma=0.1))
    yield from (step(sigma, rate, clipped) for sigma, rate in ((1.0, 1.0), (4.0, 1.0), (1.0, 0.2)))
    yield step(1.0, 1.0, of_classifier)._replace(name="DPSGDClassifier, one step, q 1, sigma 1")
    yield from map(local, ("duchi-linf", "duchi-l2", "laplace", "hybrid", "k-rr", "oue", "hrr"))
