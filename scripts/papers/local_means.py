"""The mean of eleven values from locally private reports (the slides' example), by each mechanism.

An error's spread over repeats is a fifth of it, so a ratio of two errors is known to some 5 % by 200 of them.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Any

import numpy as np

from edgeveil.trainer.measures.intervals import mean
from scripts.papers.shipped import Vectors

D, SIZES, REPEATS = 11, (1_000, 10_000, 100_000), 200
CENTRE = np.linspace(-0.5, 0.5, D)
MECHANISMS = ("duchi-linf", "laplace", "hybrid")
EXPECTED = {"duchi-linf": (0.547, 0.177, 0.053), "laplace": (1.97, 0.584, 0.191)}  # at alpha 1
WITHIN = 0.12
# Alpha, the error above, the error below, and the ends of what their ratio should be.
RATIOS = (
    (1.0, "laplace", "duchi-linf", 3.1, 3.9),
    (1.0, "duchi-linf", "hybrid", 1.0, math.inf),
    (5.0, "laplace", "duchi-linf", 1.4, 1.65),
    (5.0, "duchi-linf", "hybrid", 1.7, 2.0),
)
_Z = NormalDist().inv_cdf(0.975)

Errors = dict[str, list[np.ndarray]]  # by mechanism, for each of SIZES the error of each repeat


def errors(alpha: float) -> Errors:
    """For each mechanism and n the L_inf errors of the estimated mean against that of the readings' law."""
    rng = np.random.default_rng(0)
    by_mechanism: Errors = {}
    for name in MECHANISMS:
        shipped = Vectors(name, D, alpha)
        by_mechanism[name] = [np.array([_error(shipped, n, rng) for _ in range(REPEATS)]) for n in SIZES]
    return by_mechanism


def _error(shipped: Vectors, n: int, rng: np.random.Generator) -> float:
    x = np.clip(CENTRE + rng.uniform(-0.5, 0.5, (n, D)), -1, 1)
    return float(np.abs(shipped.estimates(x).astype(np.float64).mean(axis=0) - CENTRE).max())


def rows_of(found: Errors) -> dict[str, list[dict[str, Any]]]:
    """The mean errors with their 95 % intervals."""
    named = {name: [mean(of) for of in by_size] for name, by_size in found.items()}
    return {
        name: [{"n": n, "error": e.estimate, "low": e.low, "high": e.high} for n, e in zip(SIZES, by_size, strict=True)]
        for name, by_size in named.items()
    }


def ratio(above: np.ndarray, below: np.ndarray) -> tuple[float, float, float]:
    """The ratio of two means of independent samples, with its 95 % interval by the delta method on its logarithm."""
    estimate = float(above.mean() / below.mean())
    relative = [float(one.std(ddof=1) / one.mean()) / math.sqrt(len(one)) for one in (above, below)]
    factor = math.exp(_Z * math.hypot(*relative))
    return estimate, estimate / factor, estimate * factor


def ratios_of(by_alpha: dict[float, Errors]) -> list[dict[str, Any]]:
    """Each ratio by n, in its range or not; ``refuted``: its whole interval lies outside."""
    rows = []
    for alpha, above, below, least, most in RATIOS:
        for at, n in enumerate(SIZES):
            estimate, low, high = ratio(by_alpha[alpha][above][at], by_alpha[alpha][below][at])
            row = {"alpha": alpha, "above": above, "below": below, "n": n, "ratio": estimate, "low": low, "high": high}
            ends = {"least": least, "most": None if math.isinf(most) else most}
            rows.append(row | ends | {"inside": least <= estimate <= most, "refuted": high < least or low > most})
    return rows


def document() -> dict[str, Any]:
    """Errors at alpha 1 and 5, their ratios, and which claims hold."""
    by_alpha = {alpha: errors(alpha) for alpha in (1.0, 5.0)}
    told = {f"{alpha:g}": rows_of(found) for alpha, found in by_alpha.items()}
    ratios = ratios_of(by_alpha)
    close = all(
        abs(row["error"] / wanted - 1) <= WITHIN
        for name, expected in EXPECTED.items()
        for row, wanted in zip(told["1"][name], expected, strict=True)
    )
    return {
        "d": D,
        "repeats": REPEATS,
        "expected": {name: list(values) for name, values in EXPECTED.items()},
        "errors": told,
        "ratios": ratios,
        "within_12_percent": close,
        "better_than_laplace": all(row["low"] > 1 for row in ratios if row["above"] == "laplace"),
        "duchi_is_best": all(row["high"] <= 1 for row in ratios if row["below"] == "hybrid"),
    }
