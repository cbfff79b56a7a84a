"""Paper 002, case study I: DP-SGD on simulated data, how far theta is off, and errors of the slides.

Records docs/results/dp/case-study.json. x ~ N(0, I) of two values, y = 1 with probability 1 / (1 + exp(-theta.x)),
theta = (6, -5). Poisson lots, gradients clipped row by row, noise for all steps; theta is the mean of the second half
of the steps. "none" is the same without noise. Noise is seeded, of the laws that ship. Ten repeats scatter widely, so
``scatter`` has many of them at once, with the noise of each accountant.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy import optimize
from scipy.special import expit

from edgeveil.trainer.measures.intervals import mean
from edgeveil.trainer.private import dpsgd
from edgeveil.trainer.private.accounting import Claim, by_rdp
from edgeveil.trainer.private.noise import Seeded
from scripts.reproduce import record

RESULT = Path("docs/results/dp/case-study.json")
THETA, CLIP, RATE, STEPS, DELTA = np.array([6.0, -5.0]), 0.5, 8.0, 300, 1e-5
SIZES, EPSILONS = (500, 5_000), (None, 8.0, 1.0, 0.5, 0.1)
TEST = 50_000
MANY, TEN = 200, 10  # repeats, and as many as others averaged over

Gradients = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]  # x (k, 2), y (k,), theta (2,) -> (k, 2)


def likelihood(x: np.ndarray, y: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """Of minus the log-likelihood, for each row."""
    return (expit(x @ theta) - y)[:, None] * x


def wrong_sigmoid(x: np.ndarray, y: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """With the slides' 1 / (1 + exp(+theta.x)) put into the gradient of the right one."""
    return (expit(-(x @ theta)) - y)[:, None] * x


def ascent(x: np.ndarray, y: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """Of the log-likelihood that is printed, which the printed step then makes smaller."""
    return -likelihood(x, y, theta)


def clipped_by_row(gradients: np.ndarray) -> np.ndarray:
    """The sum of g / max(1, |g| / C)."""
    norms = np.linalg.norm(gradients, axis=1, keepdims=True)
    return np.asarray((gradients / np.maximum(1, norms / CLIP)).sum(axis=0))


def clipped_by_min(gradients: np.ndarray) -> np.ndarray:
    """g / min(1, |g| / C), as it is printed: short gradients are made longer, and long ones stay."""
    norms = np.linalg.norm(gradients, axis=1, keepdims=True)
    return np.asarray((gradients / np.minimum(1, np.maximum(norms, 1e-12) / CLIP)).sum(axis=0))


def people(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """x (n, 2) and y (n,)."""
    x = rng.normal(size=(n, 2))
    return x, (rng.random(n) < expit(x @ THETA)).astype(np.float64)


def learn(
    x: np.ndarray,
    y: np.ndarray,
    epsilon: float | None,
    noise: Seeded,
    *,
    gradients: Gradients = likelihood,
    clipped: Callable[[np.ndarray], np.ndarray] = clipped_by_row,
) -> np.ndarray:
    """theta (2,)."""
    n = len(y)
    lot = lot_of(n)
    if epsilon is None:
        made = dpsgd.Plan(n, lot, STEPS, CLIP, Claim(math.inf, DELTA, lot / n, 0.0, STEPS, math.inf, math.inf, 0.0, ""))
    else:
        made = dpsgd.plan(n, epsilon=epsilon, delta=DELTA, lot=lot, steps=STEPS, clip=CLIP)
    theta, later = np.zeros(2), []
    for step, chosen in enumerate(dpsgd.lots(made, noise)):
        total = clipped(gradients(x[chosen], y[chosen], theta))
        theta = theta - RATE * dpsgd.noisy_mean([total], made, noise)[0]
        if step >= STEPS // 2:
            later.append(theta)
    return np.mean(later, axis=0)


def measured(n: int, epsilon: float | None, repeats: int, **way: Any) -> dict[str, Any]:
    """L_inf error and accuracy, with intervals over repeats."""
    test_x, test_y = people(TEST, np.random.default_rng(0))
    thetas = [
        learn(*people(n, np.random.default_rng([1, one])), epsilon, Seeded(np.random.default_rng([2, one])), **way)
        for one in range(repeats)
    ]
    error = mean(np.array([np.abs(theta - THETA).max() for theta in thetas]))
    right = mean(np.array([((test_x @ theta > 0) == test_y).mean() for theta in thetas]))
    return {"n": n, "epsilon": epsilon, "error": error._asdict(), "accuracy": right._asdict()}


def errors(repeats: int) -> Iterator[dict[str, Any]]:
    """What the printed algorithm does without any noise, one error at a time."""
    ways: dict[str, dict[str, Any]] = {
        "none of them": {},
        "the sign in the sigmoid": {"gradients": wrong_sigmoid},
        "descent on the log-likelihood": {"gradients": ascent},
        "clip by min": {"clipped": clipped_by_min},
    }
    for name, way in ways.items():
        yield {"mistake": name, **measured(SIZES[-1], None, repeats, **way)}


def scatter(n: int, epsilon: float | None) -> Iterator[dict[str, Any]]:
    """L_inf error over ``MANY`` repeats, and where means over ten lie: with the noise that ships, and with more of it,
    by the Rényi bound alone."""
    lot = lot_of(n)
    if epsilon is None:
        noises = {"none": 0.0}
    else:
        ships = dpsgd.plan(n, epsilon=epsilon, delta=DELTA, lot=lot, steps=STEPS, clip=CLIP).claim.sigma
        log = optimize.brentq(lambda one: by_rdp(lot / n, math.exp(one), STEPS, DELTA) - epsilon, -1.5, 6, xtol=1e-4)
        noises = {"smaller of both bounds": ships, "RDP": math.exp(log)}
    for accountant, sigma in noises.items():
        off = np.abs(_at_once(n, sigma, np.random.default_rng(3)) - THETA).max(axis=1)
        tens = off.reshape(-1, TEN).mean(axis=1)
        low, high = np.quantile(tens, [0.05, 0.95])
        about = {"n": n, "epsilon": epsilon, "accountant": accountant, "sigma": sigma}
        yield {**about, "error": mean(off)._asdict(), "mean_of_ten": {"low": float(low), "high": float(high)}}


def lot_of(n: int) -> int:
    """The slides' q n, a whole number."""
    return round(n * min(1, 50 / n + 0.02))


def _at_once(n: int, sigma: float, rng: np.random.Generator) -> np.ndarray:
    """theta (MANY, 2) of ``learn``, over repeats in one array."""
    x, lot = rng.normal(size=(MANY, n, 2)), lot_of(n)
    y = rng.random((MANY, n)) < expit(x @ THETA)
    theta, total = np.zeros((MANY, 2)), np.zeros((MANY, 2))
    for step in range(STEPS):
        repeat, row = np.nonzero(rng.random((MANY, n)) < lot / n)
        here = x[repeat, row]
        slope = (expit((here * theta[repeat]).sum(axis=1)) - y[repeat, row])[:, None] * here
        slope /= np.maximum(1, np.linalg.norm(slope, axis=1) / CLIP)[:, None]
        sums = np.stack([np.bincount(repeat, column, MANY) for column in slope.T], axis=1)
        noise = rng.normal(scale=sigma * CLIP, size=theta.shape) if sigma else 0.0
        theta = theta - RATE * (sums + noise) / lot
        if step >= STEPS // 2:
            total += theta
    return np.asarray(total / (STEPS - STEPS // 2))


def main() -> None:
    """Run all, and write the record."""
    script = record.Script(__file__, __doc__, "--repeats 3", out=RESULT)
    script.add_argument("--repeats", type=int, default=10, help="runs of each setting (default: 10)")
    asked = script.parse_args()
    if asked.repeats < 2:
        script.error(f"2 repeats or more were expected, for an interval; came {asked.repeats}")
    began = time.monotonic()
    test_x, test_y = people(TEST, np.random.default_rng(0))
    document = {
        **record.here(),
        "seed": "the number of the repeat",
        "clip": CLIP,
        "steps": STEPS,
        "delta": DELTA,
        "best_accuracy": float(((test_x @ THETA > 0) == test_y).mean()),
        "repeats": asked.repeats,
        "rows": [measured(n, epsilon, asked.repeats) for n in SIZES for epsilon in EPSILONS],
        "many": MANY,
        "scatter": [row for n in SIZES for epsilon in EPSILONS for row in scatter(n, epsilon)],
        "mistakes": list(errors(asked.repeats)),
        "wall_s": round(time.monotonic() - began),
    }
    record.write(asked.out, script.made_by(asked), document)


if __name__ == "__main__":
    record.run(main)
