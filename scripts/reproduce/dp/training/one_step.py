"""One step of DP-SGD on a linear model, with and without one unit, along the gradient that differs."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from edgeveil.trainer.private import dpsgd
from edgeveil.trainer.private.accounting import Claim, claim
from edgeveil.trainer.private.noise import Secret
from scripts.reproduce.dp.training.audit_case import Case, Outputs

DELTA, CLIP, UNITS = 1e-5, 1.0, 100


def step(
    sigma: float,
    rate: float,
    sums: Callable[[bool], np.ndarray],
    noisy: Callable[..., list[np.ndarray]] = dpsgd.noisy_mean,
    *,
    spread: Callable[[bool], float] = lambda _: 1.0,
) -> Case:
    """The step by ``dpsgd.lots`` and ``noisy``.

    ``sums``: the clipped sum of a lot's gradients, where the unit is in it or not. ``spread``: what multiplies the
    clip, and with it the noise.
    """
    spent = _of_one_step(sigma, rate)

    def run(runs: int) -> Outputs:
        noise, found = Secret(), {}
        for name, there in (("without the unit", False), ("with it", True)):
            steps, values = dpsgd.Plan(UNITS, round(rate * UNITS), runs, CLIP, spent), []
            for chosen in dpsgd.lots(steps, noise):
                drawn = there and bool(len(chosen)) and chosen[0] == 0
                made = dpsgd.Plan(UNITS, steps.lot, runs, CLIP * spread(drawn), spent)
                values.append(noisy([sums(drawn)], made, noise)[0])
            found[name] = np.array(values)
        return found

    return Case(f"DP-SGD, one step, q {rate:g}, sigma {sigma:g}", spent.epsilon, run, DELTA, rate == 1)


@functools.cache
def _of_one_step(sigma: float, rate: float) -> Claim:
    return claim(rate=rate, sigma=sigma, steps=1, delta=DELTA)


def clipped(drawn: bool) -> np.ndarray:
    """The sum of a lot where only one unit has a gradient, ten times the clip, cut to it."""
    return np.array([10 * CLIP / max(1, 10)]) * drawn
