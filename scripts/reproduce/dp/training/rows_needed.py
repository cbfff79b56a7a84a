"""Paper 003: how many rows objective perturbation needs for 5 % excess error, over dimensions and epsilon.

Records docs/results/dp/erm-rows.json. Rows lie on the unit sphere, no nearer than ``MARGIN`` to a plane that separates
two classes, so the best error is 0. The slides' table has d / (margin epsilon error) rows, so slopes of 1 in d and of
-1 in epsilon on logarithmic scales. Regularization is the best of ``REGULARIZATIONS`` for each number of rows, and each
slope is that of one seed; intervals are over seeds. Noise is seeded, of the laws that ship.
"""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.trainer.measures.intervals import mean
from edgeveil.trainer.private.estimators.losses import Logistic
from edgeveil.trainer.private.estimators.minimiser import minimum
from edgeveil.trainer.private.estimators.perturbed_risk import perturbation
from edgeveil.trainer.private.noise import Seeded
from scripts.reproduce import record

RESULT = Path("docs/results/dp/erm-rows.json")
MARGIN, EXCESS = 0.1, 0.05
DIMENSIONS, EPSILONS = (4, 8, 16, 32), (0.25, 0.5, 1.0, 2.0)
DIMENSION, EPSILON = 8, 1.0  # where the other one varies
REGULARIZATIONS = (1e-3, 3e-3, 1e-2, 3e-2, 0.1)
FIRST, STEP, MOST = 64, 2**0.5, 2**18  # numbers of rows that are tried
DRAWS, TEST = 8, 2_000


def people(n: int, d: int, rng: np.random.Generator) -> np.ndarray:
    """Rows (n, d) of norm 1 times their labels; the first value tells the class."""
    found = np.empty((0, d))
    while len(found) < n:
        rows = rng.normal(size=(4 * n, d))
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        found = np.vstack([found, rows[np.abs(rows[:, 0]) >= MARGIN]])
    found = found[:n]
    return np.asarray(found * np.sign(found[:, :1]))


def error(n: int, d: int, epsilon: float, rng: np.random.Generator) -> float:
    """Mean over draws of the noise, at the best regularization."""
    rows, test, loss = people(n, d, rng), people(TEST, d, rng), Logistic()
    found = []
    for regularization in REGULARIZATIONS:
        scale, more = perturbation(epsilon, n, regularization, loss.curvature)
        noise, w, wrong = Seeded(rng), np.zeros(d), []
        for _ in range(DRAWS):
            w, _ = minimum(rows, loss, regularization + more, noise.radial(d, scale) / n, start=w)
            wrong.append(float((test @ w <= 0).mean()))
        found.append(float(np.mean(wrong)))
    return min(found)


def needed(d: int, epsilon: float, rng: np.random.Generator) -> float:
    """The number of rows at which the error crosses ``EXCESS``, between two that were tried, or infinity."""
    n, before = float(FIRST), math.inf
    while n <= MOST:
        now = error(round(n), d, epsilon, rng)
        if now <= EXCESS:
            share = 1.0 if math.isinf(before) else (before - EXCESS) / (before - now)
            return n / STEP ** (1 - share)
        n, before = n * STEP, now
    return math.inf


def slope(values: tuple[float, ...], rows: list[float]) -> float:
    """Of log rows over log values, by least squares."""
    return float(np.polyfit(np.log(values), np.log(rows), 1)[0])


def main() -> None:
    """Run all, and write the record."""
    script = record.Script(__file__, __doc__, "--seeds 3", out=RESULT)
    script.add_argument("--seeds", type=int, default=6, help="independent data and noise (default: 6)")
    asked = script.parse_args()
    if asked.seeds < 2:
        script.error(f"2 seeds or more were expected, for an interval; came {asked.seeds}")
    began = time.monotonic()
    by_dimension: list[list[float]] = []
    by_epsilon: list[list[float]] = []
    for seed in range(asked.seeds):
        rng = np.random.default_rng(seed)
        by_dimension.append([needed(d, EPSILON, rng) for d in DIMENSIONS])
        by_epsilon.append([needed(DIMENSION, epsilon, rng) for epsilon in EPSILONS])
        print(seed, by_dimension[-1], by_epsilon[-1], flush=True)
    document = {
        **record.here(),
        "seed": "0 and up",
        "margin": MARGIN,
        "excess": EXCESS,
        "seeds": asked.seeds,
        "dimension": _found(DIMENSIONS, by_dimension, at=EPSILON, slides=1.0),
        "epsilon": _found(EPSILONS, by_epsilon, at=float(DIMENSION), slides=-1.0),
        "wall_s": round(time.monotonic() - began),
    }
    record.write(asked.out, script.made_by(asked), document)


def _found(values: tuple[float, ...], rows: list[list[float]], *, at: float, slides: float) -> dict[str, Any]:
    """Rows and slope over one thing, where the other one is ``at``."""
    over = [
        {"value": value, "rows": mean(np.array(mine))._asdict()}
        for value, mine in zip(values, zip(*rows, strict=True), strict=True)
    ]
    slopes = mean(np.array([slope(values, one) for one in rows]))
    return {"at": at, "over": over, "slope": slopes._asdict(), "slides": slides}


if __name__ == "__main__":
    record.run(main)
