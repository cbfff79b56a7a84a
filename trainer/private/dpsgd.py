"""DP-SGD as it must be: Poisson lots, gradients clipped unit by unit, noise on their sum, the expected lot's mean.

Abadi et al., "Deep Learning with Differential Privacy", 2016. A *unit* is a row or a person; of a person in a lot, one
reading is drawn. Neighbours are data sets of which one has one unit more. What paper 002 prints clips by min and the
whole batch at once, takes the median of the gradients for the clip, and the noise of one step for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.private.accounting import Claim, noise_for
from edgeveil.trainer.private.noise import Noise
from edgeveil.trainer.private.per_example import Clipped, Loss

FEWEST_UNITS = 100
SPARE = 4  # deviations of a lot's size: how much room a compiled step has; larger lots take two


@dataclass(frozen=True)
class Plan:
    """``steps`` lots of ``lot`` of ``units`` on average, gradients clipped to ``clip``, and what it all spends."""

    units: int
    lot: int
    steps: int
    clip: float
    claim: Claim

    @property
    def room(self) -> int:
        """Units that one compiled step takes."""
        return min(self.units, int(self.lot + SPARE * self.lot**0.5) + 1)


def plan(units: int, *, epsilon: float, delta: float, lot: int, steps: int, clip: float) -> Plan:
    """The least noise that spends ``epsilon`` at ``delta``. Raises ``BadInput`` for settings that mean nothing."""
    if not 0 < delta < 1 / units:
        raise BadInput(f"Expected a delta above 0 and below 1 / {units:,}, one unit's share; got {delta}.")
    if not 1 <= lot <= units:
        raise BadInput(f"Expected lots of 1 to {units:,} units; got {lot}.")
    if not clip > 0:
        raise BadInput(f"Expected a clip above 0; got {clip}.")
    return Plan(units, lot, steps, clip, noise_for(epsilon, rate=lot / units, steps=steps, delta=delta))


def lots(made: Plan, noise: Noise) -> Iterator[np.ndarray]:
    """The units of each lot (k,): every one with probability lot / units, whatever the others do."""
    for _ in range(made.steps):
        yield np.flatnonzero(noise.uniform((made.units,)) <= made.claim.rate)


def noisy_mean(sums: Sequence[np.ndarray], made: Plan, noise: Noise, *, share: float = 1.0) -> list[np.ndarray]:
    """Clipped sums plus Gaussian noise of sigma times the clip, over the expected lot.

    ``share`` is theirs of the squared sensitivity, where other sums take the rest.
    """
    deviation = made.claim.sigma * made.clip / share**0.5
    return [(one + noise.gaussian(np.shape(one), deviation)) / made.lot for one in sums]


def readings_of(lot: np.ndarray, rows: Sequence[np.ndarray], noise: Noise) -> np.ndarray:
    """One reading of each unit in a lot: ``rows`` has the row numbers of every unit."""
    counts = np.array([len(rows[unit]) for unit in lot], np.int64)
    places = np.minimum((noise.uniform((len(lot),)) * counts).astype(np.int64), counts - 1)
    return np.array([rows[unit][place] for unit, place in zip(lot, places, strict=True)], np.int64)


class Beside(Protocol):
    """Sums that a lot gives beside its gradients, in one Gaussian mechanism with them.

    ``share`` is theirs of the squared sensitivity: gradients get noise of sigma clip / sqrt(1 - share).
    """

    share: float

    def sums(self, inputs: Any, labels: Any, mask: Any) -> list[Any]:
        """Sums over a lot, to all of which together a unit adds a vector of length at most 1."""

    def told(self, noisy: Sequence[np.ndarray]) -> None:
        """The same with noise, once for each lot: the next one's loss may depend on them."""


def noisy_beside(sums: Sequence[np.ndarray], made: Plan, noise: Noise, share: float) -> list[np.ndarray]:
    """Sums of length at most 1 a unit, with the noise that leaves the rest of the sensitivity to gradients."""
    deviation = made.claim.sigma / share**0.5
    return [one + noise.gaussian(np.shape(one), deviation) for one in sums]


def train(
    model: Any,
    x: np.ndarray,
    labels: Any,
    loss: Loss,
    made: Plan,
    *,
    rows: Sequence[np.ndarray],
    optimizer: Any,
    noise: Noise,
    after: Callable[[int], None] = lambda _: None,
    beside: Beside | None = None,
) -> None:
    """Train a Keras ``model`` in place on samples x (n, ...) and ``labels``, arrays (n, ...) or a dict of them.

    ``rows`` are the row numbers of each unit. The weights after the last step are kept; none is chosen. ``after`` is
    told each step that is done; ``beside`` are further sums of each lot. Raises ``BadInput`` for fewer than 100 units,
    and for layers that mix the examples of a lot.
    """
    import tensorflow as tf

    if made.units < FEWEST_UNITS:
        raise BadInput(f"Expected at least {FEWEST_UNITS} units to train privately on; got {made.units}.")
    clipped = Clipped(model)
    optimizer.build(clipped.weights)
    share = 0.0 if beside is None else beside.share

    @tf.function
    def step(inputs: Any, of: Any, mask: Any) -> tuple[list[Any], list[Any]]:
        more = [] if beside is None else beside.sums(inputs, of, mask)
        return clipped.sums(inputs, of, loss, made.clip, mask)[0], more

    for number, lot in enumerate(lots(made, noise), 1):
        sums: list[Any] = [0.0] * len(clipped.weights)
        further: list[Any] = []
        chosen = readings_of(lot, rows, noise)
        for start in range(0, max(1, len(chosen)), made.room):
            part = chosen[start : start + made.room]
            mask = (np.arange(made.room) < len(part)).astype(np.float32)
            padded = np.resize(part, made.room) if len(part) else np.zeros(made.room, np.int64)
            found, more = step(x[padded], tf.nest.map_structure(lambda of, at=padded: of[at], labels), mask)
            sums = [total + np.asarray(one, np.float64) for total, one in zip(sums, found, strict=True)]
            more = [np.asarray(one, np.float64) for one in more]
            further = [total + one for total, one in zip(further, more, strict=True)] if further else more
        mean = [one.astype(np.float32) for one in noisy_mean(sums, made, noise, share=1 - share)]
        optimizer.apply(mean, clipped.weights)
        if beside is not None:
            beside.told(noisy_beside(further, made, noise, share))
        after(number)
