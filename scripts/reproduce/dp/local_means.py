"""The mean of eleven values from locally private reports (the slides' example), by each mechanism."""

from __future__ import annotations

from typing import Any

import numpy as np

from edgeveil.trainer.measures.intervals import mean
from scripts.reproduce.dp.shipped import Vectors

D, SIZES, REPEATS = 11, (1_000, 10_000, 100_000), 30
CENTRE = np.linspace(-0.5, 0.5, D)
MECHANISMS = ("duchi-linf", "laplace", "hybrid")
EXPECTED = {"duchi-linf": (0.547, 0.177, 0.053), "laplace": (1.97, 0.584, 0.191)}  # at alpha 1
WITHIN = 0.12


def errors(alpha: float) -> dict[str, list[dict[str, Any]]]:
    """For each mechanism the L_inf error of the estimated mean against that of the readings' law, by n."""
    rng = np.random.default_rng(0)
    found: dict[str, list[dict[str, Any]]] = {}
    for name in MECHANISMS:
        shipped, found[name] = Vectors(name, D, alpha), []
        for n in SIZES:
            rows = np.array([_error(shipped, n, rng) for _ in range(REPEATS)])
            estimate, low, high = mean(rows)
            found[name].append({"n": n, "error": estimate, "low": low, "high": high})
    return found


def _error(shipped: Vectors, n: int, rng: np.random.Generator) -> float:
    x = np.clip(CENTRE + rng.uniform(-0.5, 0.5, (n, D)), -1, 1)
    return float(np.abs(shipped.estimates(x).astype(np.float64).mean(axis=0) - CENTRE).max())


def document() -> dict[str, Any]:
    """Errors at alpha 1 and 5, their ratios, and which claims hold."""
    by_alpha = {f"{alpha:g}": errors(alpha) for alpha in (1.0, 5.0)}
    ratios = {
        alpha: {
            other: [a["error"] / b["error"] for a, b in zip(rows[other], rows["duchi-linf"], strict=True)]
            for other in ("laplace", "hybrid")
        }
        for alpha, rows in by_alpha.items()
    }
    close = all(
        abs(row["error"] / wanted - 1) <= WITHIN
        for name, expected in EXPECTED.items()
        for row, wanted in zip(by_alpha["1"][name], expected, strict=True)
    )
    return {
        "d": D,
        "repeats": REPEATS,
        "expected": {name: list(values) for name, values in EXPECTED.items()},
        "errors": by_alpha,
        "ratios": ratios,
        "within_12_percent": close,
        "better_than_laplace": all(row > 1 for rows in ratios.values() for row in rows["laplace"]),
        "duchi_is_best": all(row >= 1 for rows in ratios.values() for row in rows["hybrid"]),
    }
