"""Noise that guards training data: float64, from a stream of AES-CTR that the operating system keys.

The generators of numpy and TensorFlow are not secret: who sees enough of their output can tell the rest of it.
``Secret`` is for every claim; ``Seeded`` has the same laws from a seed, for tests, and carries no claim.

Float64 noise is not exact: the last bits of a sum tell something of what was added to (Mironov 2012). Laplace noise and
Gaussian noise on whole numbers are OpenDP's, which are safe against that; for the others the guarantee says that it
leaves this out.
"""

from __future__ import annotations

import math
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.ext.private.per_example import Claim, Clipped, Loss, noise_for
from edgeveil.trainer.recipe.private import Private

KEY_BYTES, BLOCK_BYTES = 32, 16


class Noise(ABC):
    """Draws from the laws that private training needs."""

    private: bool  # whether a claim of privacy may rest on it

    @abstractmethod
    def uniform(self, shape: tuple[int, ...]) -> np.ndarray:
        """Independent values above 0 and up to 1, float64 ``shape``."""

    @abstractmethod
    def laplace(self, values: np.ndarray, scale: float) -> np.ndarray:
        """``values`` (n,) plus independent Laplace noise of that scale, float64 (n,)."""

    @abstractmethod
    def whole_gaussian(self, values: np.ndarray, sigma: float) -> np.ndarray:
        """Whole ``values`` (n,) plus independent discrete Gaussian noise of that deviation, int64 (n,)."""

    def gaussian(self, shape: tuple[int, ...], sigma: float) -> np.ndarray:
        """Independent normal values of mean 0 and deviation ``sigma``, by Box and Muller (1958)."""
        count = math.prod(shape)
        pairs = self.uniform((2, (count + 1) // 2))
        radius, angle = np.sqrt(-2 * np.log(pairs[0])), 2 * np.pi * pairs[1]
        values = np.concatenate([radius * np.cos(angle), radius * np.sin(angle)])
        return sigma * values[:count].reshape(shape)

    def direction(self, size: int) -> np.ndarray:
        """A unit vector (size,), every direction equally likely."""
        vector = self.gaussian((size,), 1.0)
        return vector / np.linalg.norm(vector)

    def radial(self, size: int, scale: float) -> np.ndarray:
        """A vector b (size,) of density proportional to exp(-|b| / scale): |b| ~ Gamma(size, scale)."""
        length = -scale * np.log(self.uniform((size,))).sum()  # a sum of exponentials, one for each dimension
        return length * self.direction(size)


class Secret(Noise):
    """Noise that no one can repeat."""

    private = True

    def __init__(self) -> None:
        cipher = Cipher(algorithms.AES(os.urandom(KEY_BYTES)), modes.CTR(os.urandom(BLOCK_BYTES)))
        self._stream = cipher.encryptor()

    def uniform(self, shape: tuple[int, ...]) -> np.ndarray:
        """53 bits of the stream for each value."""
        words = np.frombuffer(self._stream.update(bytes(8 * math.prod(shape))), np.uint64)
        return (((words >> np.uint64(11)).astype(np.float64) + 1) * 2.0**-53).reshape(shape)

    def laplace(self, values: np.ndarray, scale: float) -> np.ndarray:
        """OpenDP's, exact on the grid of float64, with noise of the operating system."""
        import opendp.prelude as dp

        dp.enable_features("contrib")
        space = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.l1_distance(T=float)
        return np.array(dp.m.make_laplace(*space, scale=scale)(np.asarray(values, np.float64).tolist()))

    def whole_gaussian(self, values: np.ndarray, sigma: float) -> np.ndarray:
        """OpenDP's, exact (Canonne, Kamath and Steinke, "The Discrete Gaussian for Differential Privacy", 2020)."""
        import opendp.prelude as dp

        dp.enable_features("contrib")
        space = dp.vector_domain(dp.atom_domain(T=int)), dp.l2_distance(T=float)
        return np.array(dp.m.make_gaussian(*space, scale=sigma)(np.asarray(values, np.int64).tolist()), np.int64)


class Seeded(Noise):
    """The same laws from a seed."""

    private = False

    def __init__(self, seed: int | np.random.Generator | np.random.RandomState) -> None:
        self._random = np.random.default_rng(seed) if isinstance(seed, int | np.integer) else seed

    def uniform(self, shape: tuple[int, ...]) -> np.ndarray:
        """1 less what numpy draws, which is 0 and below 1."""
        return 1 - self._random.uniform(size=shape)

    def laplace(self, values: np.ndarray, scale: float) -> np.ndarray:
        """numpy's."""
        return np.asarray(values, np.float64) + self._random.laplace(scale=scale, size=np.shape(values))

    def whole_gaussian(self, values: np.ndarray, sigma: float) -> np.ndarray:
        """numpy's, rounded: of nearly that law."""
        noise = np.rint(self._random.normal(scale=sigma, size=np.shape(values)))
        return np.asarray(values, np.int64) + noise.astype(np.int64)


def noise_of(random_state: Any) -> Noise:
    """Secret noise for None; else noise that can be repeated, and on which no claim rests."""
    if random_state is None:
        return Secret()
    from sklearn.utils import check_random_state

    return Seeded(check_random_state(random_state))


# DP-SGD as it must be: Poisson lots, gradients clipped unit by unit, noise on their sum, the expected lot's mean.
#
# Abadi et al., "Deep Learning with Differential Privacy", 2016. A *unit* is a row or a person; of a person in a lot,
# one reading is drawn. Neighbours are data sets of which one has one unit more. What paper 002 prints clips by min and
# the whole batch at once, takes the median of the gradients for the clip, and the noise of one step for all of them.


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


def clipped_sum(x: np.ndarray, hot: np.ndarray, weights: np.ndarray, clip: float) -> np.ndarray:
    """The sum (classes, d) over rows x (n, d) of each one's gradient of the cross entropy at ``weights`` (classes, d),
    cut to the length ``clip``; ``hot`` (n, classes) has a 1 at the class of each."""
    from scipy.special import softmax  # an export, which adds no noise, would load it too

    slope = softmax(x @ weights.T, axis=1) - hot
    # A row's gradient is the product of both, and so is its norm.
    norms = np.linalg.norm(slope, axis=1) * np.linalg.norm(x, axis=1)
    return np.asarray((slope / np.maximum(1, norms / clip)[:, None]).T @ x)


def readings_of(lot: np.ndarray, rows: Sequence[np.ndarray], noise: Noise) -> np.ndarray:
    """One reading of each unit in a lot: ``rows`` has the row numbers of every unit."""
    counts = np.array([len(rows[unit]) for unit in lot], np.int64)
    places = np.minimum((noise.uniform((len(lot),)) * counts).astype(np.int64), counts - 1)
    return np.array([rows[unit][place] for unit, place in zip(lot, places, strict=True)], np.int64)


class Beside(Protocol):
    """Sums that a lot gives next to its gradients, in one Gaussian mechanism with them.

    ``share`` is theirs of the squared sensitivity: gradients get noise of sigma clip / sqrt(1 - share).
    """

    share: float

    def sums(self, inputs: Any, labels: Any, mask: Any) -> list[Any]:
        """Sums over a lot, to all of which together a unit adds a vector of length at most 1."""

    def take_noisy(self, noisy: Sequence[np.ndarray]) -> None:
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
    called after each step; ``beside`` are further sums of each lot. Raises ``BadInput`` for fewer than 100 units,
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
            part_sums, more = step(x[padded], tf.nest.map_structure(lambda of, at=padded: of[at], labels), mask)
            sums = [total + np.asarray(one, np.float64) for total, one in zip(sums, part_sums, strict=True)]
            more = [np.asarray(one, np.float64) for one in more]
            further = [total + one for total, one in zip(further, more, strict=True)] if further else more
        mean = [one.astype(np.float32) for one in noisy_mean(sums, made, noise, share=1 - share)]
        optimizer.apply(mean, clipped.weights)
        if beside is not None:
            beside.take_noisy(noisy_beside(further, made, noise, share))
        after(number)


# The budget of [private], shared out: to the encoder's steps, and to the pictures of the classes.
#
# Both see the same units, so what they spend adds up: epsilon to epsilon, delta to delta.


@dataclass(frozen=True)
class Shares:
    """What each mechanism spends of what was ``asked``, for so many ``units``."""

    asked: Private
    units: int
    encoder: Plan
    pictures: Claim


def shares(asked: Private, units: int) -> Shares:
    """The least noise of both. Raises ``BadInput`` for too few units, too large lots and a delta that is no chance."""
    if units < FEWEST_UNITS:
        raise BadInput(
            f"[private] has {units} units to train the encoder on, and {FEWEST_UNITS} are the fewest: with fewer, "
            "noise drowns what is learned. Add data."
        )
    if asked.delta >= 1 / units:
        raise BadInput(
            f"`private.delta`: expected below 1 / {units:,}, one unit's share of those that train the encoder; got "
            f"{asked.delta:g}."
        )
    if asked.lot > units:
        raise BadInput(f"`private.lot`: expected at most the {units:,} units that train the encoder; got {asked.lot}.")
    epsilon, delta = asked.epsilon * asked.pictures, asked.delta * asked.pictures
    encoder = plan(
        units,
        epsilon=asked.epsilon - epsilon,
        delta=asked.delta - delta,
        lot=asked.lot,
        steps=asked.steps,
        clip=asked.clip,
    )
    pictures = noise_for(epsilon, rate=1.0, steps=1, delta=delta)
    return Shares(asked, units, encoder, pictures)


# Mean pictures of classes by the Gaussian mechanism, on sums and counts to which each unit adds a bounded share.


COUNT = 0.5  # weight of the counts next to the sums: pictures need their sums more


def noisy_means(
    u: np.ndarray, labels: np.ndarray, classes: int, rows: Sequence[np.ndarray], *, sigma: float, noise: Noise
) -> np.ndarray:
    """The means (classes, *shape) of samples u (n, *shape) in the unit cube, float32 within the cube.

    ``rows`` are the row numbers of each unit. ``sigma`` is the deviation of the noise on ``bounded_sums``.
    """
    sums = bounded_sums(u, labels, classes, rows)
    noised = (sums + noise.gaussian(sums.shape, sigma)) * np.hypot(1, COUNT)
    counts = np.maximum(noised[:, -1:] / COUNT, 1)
    means = 0.5 + noised[:, :-1] * _reach(u) / counts
    return np.clip(means, 0, 1).astype(np.float32).reshape(classes, *u.shape[1:])


def bounded_sums(u: np.ndarray, labels: np.ndarray, classes: int, rows: Sequence[np.ndarray]) -> np.ndarray:
    """Sums of each class's samples from the middle of the cube, and last its count: float64 (classes, values + 1).

    All is scaled so that a unit, whose rows share its one vote, moves it by at most 1 (Euclidean).
    """
    weight = np.empty(len(u))
    for mine in rows:
        weight[mine] = 1 / len(mine)
    hot = np.zeros((classes, len(u)))
    hot[labels, np.arange(len(u))] = weight
    sums = hot @ (u.reshape(len(u), -1).astype(np.float64) - 0.5) / _reach(u)
    return np.hstack([sums, COUNT * hot.sum(axis=1, keepdims=True)]) / np.hypot(1, COUNT)


def _reach(u: np.ndarray) -> float:
    """The distance of the cube's corners from its middle."""
    return float(np.sqrt(u[0].size) / 2)
