"""The slides' LPSGD as it must be, each user's own gradient privatised once, and the same without privacy.

Records docs/results/dp/federated.json. x ~ N(0, I) of two values, y = 1 with probability 1 / (1 + exp(-theta.x)),
theta = (6, -5). Each user's gradient of the logistic loss is clipped to the l_inf ball of radius 1 and reported by the
shipped duchi-linf; 500 lots of n / 500 users, every user once; the estimate is the mean of the second half of the
iterates.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.trainer.ext.local import lpsgd
from edgeveil.trainer.measures.intervals import mean
from scripts import record
from scripts.papers.shipped import Vectors

RESULT = Path("docs/results/dp/federated.json")
THETA, LOTS, CLIP = np.array([6.0, -5.0]), 500, 1.0
SIZES, ALPHAS, STEPS = (7_000, 70_000, 700_000), (None, 4.0, 2.0, 1.0, 0.5), (2.0, 8.0)
TEST = 50_000
SLIDE_LOT, SLIDE_USERS = 100, 7_000


def sigmoid(t: np.ndarray) -> np.ndarray:
    """1 / (1 + exp(-t)), without overflow."""
    return 0.5 * (1 + np.tanh(t / 2))


def people(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """x (n, 2) and y (n,) of n users."""
    x = rng.normal(size=(n, 2))
    return x, (rng.random(n) < sigmoid(x @ THETA)).astype(np.float64)


def learn(x: np.ndarray, y: np.ndarray, mechanism: Vectors | None, step: float) -> np.ndarray:
    """theta (2,) after one pass; ``mechanism`` None: gradients as they are, clipped alike."""

    def report(gradients: np.ndarray) -> np.ndarray:
        return gradients if mechanism is None else mechanism.estimates(gradients).astype(np.float64)

    return lpsgd.fit(x, y, report, clip=CLIP, rounds=LOTS, step=step)


def rows(repeats: int, sizes: tuple[int, ...] = SIZES) -> list[dict[str, Any]]:
    """L_inf error and accuracy of every setting, with 95 % intervals over repeats."""
    rng = np.random.default_rng(0)
    test_x, test_y = people(TEST, rng)
    best = float(((test_x @ THETA > 0) == test_y).mean())
    entries = []
    for step in STEPS:
        for alpha in ALPHAS:
            mechanism = None if alpha is None else Vectors("duchi-linf", 2, alpha)
            for n in sizes:
                thetas = [learn(*people(n, rng), mechanism, step) for _ in range(repeats)]
                error = mean(np.array([np.abs(theta - THETA).max() for theta in thetas]))
                right = mean(np.array([((test_x @ theta > 0) == test_y).mean() for theta in thetas]))
                about = {"step": step, "alpha": alpha, "n": n, "best_accuracy": best}
                entries.append({**about, "error": error._asdict(), "accuracy": right._asdict()})
    return entries


def main() -> None:
    """Run all, and write the record."""
    script = record.Script(__file__, __doc__, "--repeats 3", out=RESULT)
    script.add_argument("--repeats", type=int, default=10, help="runs of each setting (default: 10)")
    options = script.parse_args()
    began = time.monotonic()
    document = {
        **record.here(),
        "lots": LOTS,
        "clip": CLIP,
        "repeats": options.repeats,
        "rows": rows(options.repeats),
        "slide": {"lot": SLIDE_LOT, "users": SLIDE_USERS, "lots": LOTS, "uses": LOTS * SLIDE_LOT / SLIDE_USERS},
        "wall_s": round(time.monotonic() - began),
    }
    record.write(options.out, script.made_by(options), document)


if __name__ == "__main__":
    record.run(main)
