"""Bugs that papers 002, 003 and 004 print or that are made in practice, as ``Case``s that the audit must catch."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence

import numpy as np

from edgeveil.trainer.private import dpsgd
from edgeveil.trainer.private.estimators.losses import Logistic
from edgeveil.trainer.private.estimators.minimiser import minimum
from edgeveil.trainer.private.noise import Noise
from scripts.reproduce.dp.training.audit_case import Case, Outputs
from scripts.reproduce.dp.training.audited import REGULARIZATION, ROWS, laplace, objective
from scripts.reproduce.dp.training.one_step import CLIP, clipped, step

SIGMA = 4.0
LONG, SHORT = 10 * CLIP, 0.1 * CLIP  # gradients of the unit, and of another in its lot


def as_a_whole(drawn: bool) -> np.ndarray:
    """The lot's sum cut to the clip: a long gradient turns it round, so it moves by twice the clip."""
    total = -CLIP + LONG * drawn
    return np.array([total / max(1, abs(total) / CLIP)])


def by_min(drawn: bool) -> np.ndarray:
    """g / min(1, |g| / C): a long gradient stays as it is."""
    return np.array([LONG / min(1, LONG / CLIP)]) * drawn


def median(drawn: bool) -> float:
    """C = the median of the lot's norms: one unit changes it, and the noise with it."""
    return float(np.median([SHORT, LONG] if drawn else [SHORT])) / CLIP


def clipped_to_median(drawn: bool) -> np.ndarray:
    """The sum of both gradients, the other against the unit's."""
    most = median(drawn) * CLIP
    return np.array([min(LONG, most) * drawn - min(SHORT, most)])


def divided_twice(sums: Sequence[np.ndarray], made: dpsgd.Plan, noise: Noise) -> list[np.ndarray]:
    """Noise of the mean's size, divided by the lot again."""
    deviation = made.claim.sigma * made.clip / made.lot
    return [(one + noise.gaussian(np.shape(one), deviation)) / made.lot for one in sums]


def duchi_even(runs: int) -> Outputs:
    """duchi-linf as it is printed, for two values: both half cubes have their corners in common."""
    rng, found = np.random.default_rng(0), {}
    corners = np.array([(a, b) for a in (-1, 1) for b in (-1, 1)])
    for v in corners[[3, 0, 2]]:
        sides = [corners[corners @ (sign * v) >= 0] for sign in (1, -1)]
        likely = rng.random(runs) < np.e / (np.e + 1)
        place = rng.integers(0, 3, runs)
        found[str(v.tolist())] = np.where(likely[:, None], sides[0][place], sides[1][place]).astype(np.float64)
    return found


def no_noise(runs: int) -> Outputs:
    """A fit as it is."""
    w = {name: minimum(np.array([[row]]), Logistic(), REGULARIZATION, np.zeros(1))[0] for name, row in ROWS.items()}
    return {name: np.tile(one, (runs, 1)) for name, one in w.items()}


def planted() -> Iterator[Case]:
    """All of them, each under the claim that it is sold with."""
    zero_one = {"zero": [0.0], "one": [1.0]}
    yield laplace(zero_one, 0.5)._replace(name="half the noise")
    yield laplace(zero_one, 0.1)._replace(name="Laplace(epsilon / Delta), as printed in paper 002", claimed=0.1)
    four = {"zero": 4 * [0.0], "ones": 4 * [1.0]}
    yield laplace(four, 2.0)._replace(name="Laplace noise by l2 sensitivity, as printed in paper 002")
    slides = objective(Logistic(), 0.1, 1 / 0.1, 0.0)
    yield slides._replace(name="objective perturbation as on the slides of paper 003", times=10)
    yield Case("duchi-linf for even d, as published", 1.0, duchi_even)
    sgd = functools.partial(step, SIGMA, 1.0)
    yield sgd(as_a_whole)._replace(name="DP-SGD, clipping the lot as a whole")
    yield sgd(by_min)._replace(name="DP-SGD, clipping by min")
    yield sgd(clipped_to_median, spread=median)._replace(name="DP-SGD, C the median", gaussian=False)
    yield sgd(clipped, divided_twice)._replace(name="DP-SGD, noise divided twice")
    yield Case("a fit without noise", 1.0, no_noise)
