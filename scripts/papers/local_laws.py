"""The local mechanisms: their exact laws, and that their estimates are unbiased.

Laws come of running the shipped stage on every value of its draws (edgeveil.trainer.measures.exact_law).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np

from edgeveil.edge_runtime.stages.hybrid import Hybrid
from edgeveil.edge_runtime.stages.mechanism import REPORT, Design, likely, odds
from edgeveil.trainer.measures import exact_law
from edgeveil.trainer.perturbers import local
from scripts.papers.shipped import Categories, Vectors

ALPHAS = (0.1, 1.0, 5.0)
VECTOR_SIZES = range(1, 7)
CATEGORIES = (2, 3, 5, 8)
SMALL_GRID = {1: 24, 2: 6}  # d -> positions of hybrid's piecewise mechanism: all their values can be run
SIZES, DRAWS, MOST_Z = (1, 2, 4, 11), 400_000, 4.5
K, DEVICES, REPEATS = 16, 200_000, 20
SLACK = 1e-9
EXPECTED = {  # variance of a coordinate at d = 11: alpha -> mechanism -> measured by the prototype
    1.0: {"duchi-linf": 77.03, "duchi-l2": 6.985, "laplace": 968.0, "hybrid": 50.09},
    5.0: {"duchi-linf": 16.67, "laplace": 38.72, "hybrid": 4.870},
}


def laws() -> Iterator[dict[str, Any]]:
    """The largest log-ratio of each mechanism at each size and alpha, and whether it is as promised."""
    for alpha in ALPHAS:
        for d in VECTOR_SIZES:
            yield _law(local.of_vector("duchi-linf", "u", d, alpha), d, alpha, least=alpha - 1e-8)
        for d, positions in SMALL_GRID.items():
            yield _law(Hybrid.design("u", d, alpha, positions=positions), d, alpha)
        for d in (1, 2, 3):
            yield _laplace(d, alpha)
        for k in CATEGORIES:
            for name in ("k-rr", "oue", "hrr"):
                yield _law(local.of_category(name, "u", k, alpha), k, alpha)


def _law(made: Design, size: int, alpha: float, *, least: float = 0.0) -> dict[str, Any]:
    output = [{"tensor": REPORT}]
    largest = exact_law.largest_ratio(made.stages, output, dict(made.tables or {}))
    return _row(made.name, size, alpha, largest.epsilon, largest.draws, least)


def _row(name: str, size: int, alpha: float, epsilon: float, draws: int, least: float = 0.0) -> dict[str, Any]:
    held = least <= epsilon <= alpha + SLACK
    return {"mechanism": name, "size": size, "alpha": alpha, "log_ratio": epsilon, "draws": draws, "held": held}


def _laplace(d: int, alpha: float) -> dict[str, Any]:
    """The stage moves every step alike, so the odds of a report are those of two numbers of steps, d times over."""
    design = local.of_vector("laplace", "u", d, alpha)
    noise, stage = design.stages
    steps = np.arange(-2 * stage["levels"], 2 * stage["levels"] + 1)
    drawn = np.repeat(steps[:, None], d, axis=1)
    reports = []
    for corner in (0.0, 1.0):
        flow = {"u": np.full((len(steps), d), corner, np.float32), "noise": drawn}
        exact_law.shipped(stage, [noise])(flow)
        reports.append(
            {tuple(report): step for report, step in zip(flow["report"].tolist(), steps.tolist(), strict=True)}
        )
    both = set(reports[0]) & set(reports[1])
    rate = Fraction(noise["denominator"], noise["numerator"])
    worst = max(abs(abs(reports[0][one]) - abs(reports[1][one])) for one in both) * rate * d
    return _row("laplace", d, alpha, float(worst), 2 * len(steps))


def published_even(alpha: float) -> float:
    """The log-ratio of duchi-linf as it is printed, for d = 2: both half cubes have their corners in common.

    With probability P a corner of the half cube {z: <z, v> >= 0}, 3 of 4, else of {z: <z, v> <= 0}, 3 of 4 too.
    """
    keep = Fraction(likely(odds(alpha)), 2**62)
    corners = [(a, b) for a in (-1, 1) for b in (-1, 1)]
    tables = []
    for v in corners:
        law = {}
        for z in corners:
            agree = z[0] * v[0] + z[1] * v[1]
            law[repr(z).encode()] = (keep * (agree >= 0) + (1 - keep) * (agree <= 0)) / 3
        tables.append(law)
    return exact_law.log_ratio(tables)


def points(name: str, d: int) -> Iterator[tuple[str, np.ndarray]]:
    """Corners and readings inside, each (d,); within the ball for duchi-l2."""
    inside = np.linspace(-0.9, 0.8, d) if d > 1 else np.array([0.35])
    for word, x in (
        ("corner", np.ones(d)),
        ("other corner", np.where(np.arange(d) % 2, 1.0, -1.0)),
        ("inside", inside),
    ):
        length = math.sqrt(float(x @ x))
        if name == "duchi-l2":
            x = x / length * (0.7 if word == "inside" else 1.0)
        yield word, x
    yield "middle", np.zeros(d)


def unbiased() -> Iterator[dict[str, Any]]:
    """For each mechanism, size and reading the largest |z| over coordinates, and the variance of a coordinate."""
    for alpha in (1.0, 5.0):
        for name in ("duchi-linf", "duchi-l2", "laplace", "hybrid"):
            for d in SIZES:
                shipped = Vectors(name, d, alpha)
                for word, x in points(name, d):
                    yield {"mechanism": name, "d": d, "alpha": alpha, "reading": word, **_moments(shipped, x)}


def _moments(shipped: Vectors, x: np.ndarray) -> dict[str, Any]:
    total, squares, n = np.zeros(len(x)), np.zeros(len(x)), 0
    while n < DRAWS:
        errors = shipped.estimates(np.repeat(x[None], min(40_000, DRAWS - n), axis=0)).astype(np.float64) - x
        total, squares, n = total + errors.sum(axis=0), squares + (errors**2).sum(axis=0), n + len(errors)
    mean, variance = total / n, squares / n - (total / n) ** 2
    z = float(np.abs(mean / np.sqrt(variance / n)).max())
    return {"largest_z": z, "variance": float(variance.mean()), "held": z <= MOST_Z}


def categories() -> Iterator[dict[str, Any]]:
    """The standard error of the share of a category that no one has, next to the theory's."""
    rng = np.random.default_rng(0)
    for name in ("k-rr", "oue", "hrr"):
        shipped, errors = Categories(name, K, 1.0), []
        for _ in range(REPEATS):
            errors.append(shipped.shares(rng.integers(0, K // 2, DEVICES))[K // 2 :])
        measured = float(np.sqrt(np.mean(np.square(errors))))
        theory = math.sqrt(local.named("share")[name].variance(K, 1.0) / DEVICES)
        held = abs(measured / theory - 1) <= 0.1
        yield {"mechanism": name, "k": K, "alpha": 1.0, "standard_error": measured, "theory": theory, "held": held}


def variances(rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The variance at d = 11 next to what was expected."""
    for alpha, by_name in EXPECTED.items():
        for name, expected in by_name.items():
            (row,) = (
                r for r in rows if (r["mechanism"], r["d"], r["alpha"], r["reading"]) == (name, 11, alpha, "inside")
            )
            held = abs(row["variance"] / expected - 1) <= 0.02
            yield {"mechanism": name, "alpha": alpha, "variance": row["variance"], "expected": expected, "held": held}
