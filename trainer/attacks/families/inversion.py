"""Reconstruction, then inference: a network learns x from pairs (x', x), and a classifier reads z from that."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from edgeveil.trainer.attacks import features
from edgeveil.trainer.attacks.families.networks import (
    NetworkAttack,
    affordable,
    descend,
    logits,
    plain_stands_in,
    train,
)
from edgeveil.trainer.attacks.families.transfer import trunk_for
from edgeveil.trainer.attacks.problem import Problem, Released
from edgeveil.trainer.attacks.protocol import Kind


class Inversion:
    """Reconstruction, then recognition. The recogniser never sees a reconstruction while it learns."""

    name = "inversion"
    kind: Kind = "adaptive"
    seeded = True

    def why_not(self, problem: Problem) -> str | None:
        """Without pairs there is nothing to learn the way back from."""
        return "no pairs (x', x) were given" if problem.fit.raw is None else plain_stands_in(problem)

    def fit(self, problem: Problem, seed: int) -> InversionAttack:
        """Learn the way back and the recogniser on the rows of ``fit``, each stopped on ``stop``, on half a budget."""
        budget = replace(problem.budget, macs=problem.budget.macs / 2)
        problem = replace(problem.capped(problem.budget.rows), budget=budget)
        inverter = invert(problem, seed)
        fit, stop = original(problem.fit), original(problem.stop)
        recogniser = train(problem, trunk_for(problem), seed, fit=fit, stop=stop, rate=2e-3)
        return InversionAttack(inverter, recogniser)


@dataclass(frozen=True)
class Inverter:
    """x' to a guess at x."""

    model: Any
    problem: Problem
    standard: features.Standard

    def __call__(self, part: Released) -> np.ndarray:
        """The reconstructed samples (n, *shape), in units of x."""
        problem = self.problem
        u = logits(self.model, *_look(problem, self.standard, part))
        if problem.input.low is None:
            return u.astype(np.float32)
        low, high = (np.asarray(end, np.float64) for end in (problem.input.low, problem.input.high))
        return (low + np.clip(u, 0.0, 1.0) * (high - low)).astype(np.float32)


@dataclass(frozen=True)
class InversionAttack:
    """The recogniser on the reconstruction alone."""

    inverter: Inverter
    recogniser: NetworkAttack

    @property
    def train_samples(self) -> int:
        """Rows it learned from."""
        return self.recogniser.train_samples

    def probabilities(self, part: Released) -> np.ndarray:
        """P(z | reconstruction of x, y) of each row."""
        return self.recogniser.probabilities(replace(part, x=self.inverter(part), also=None))


def invert(problem: Problem, seed: int) -> Inverter:
    """Train the way back on the pairs of ``fit``: squared error in the unit cube."""
    import keras

    keras.utils.set_random_seed(seed)
    fit, stop = problem.fit, problem.stop
    standard = features.Standard.fit(features.unit(problem, fit))
    goal = features.unit(problem, original(fit))
    model = _network(problem, features.side(problem, fit).shape[1], goal)
    rows, epochs = affordable(model, len(fit), problem.budget)
    some = fit.take(np.arange(rows))
    descend(
        model,
        (_look(problem, standard, some), goal[:rows]),
        (_look(problem, standard, stop), features.unit(problem, original(stop))),
        loss="mse",
        epochs=epochs,
        budget=problem.budget,
        rate=2e-3,
    )
    return Inverter(model, problem, standard)


def original(part: Released) -> Released:
    """The rows of ``part`` as they were: x in place of x', nothing beside it."""
    return replace(part, x=cast(np.ndarray, part.raw), also=None, raw=None, codes=None)


def _look(problem: Problem, standard: features.Standard, part: Released) -> list[np.ndarray]:
    return [standard.apply(features.unit(problem, part)).astype(np.float32), features.side(problem, part)]


def _network(problem: Problem, side_width: int, goal: np.ndarray) -> Any:
    """The mean sample, plus what the whole of x' and y tell, plus, for pictures, what each neighbourhood tells."""
    import keras
    from keras import layers

    shape = problem.input.shape
    reading = keras.Input(shape, name="reading")
    side = keras.Input((side_width,), name="side")
    whole = layers.Concatenate()([layers.Flatten()(reading), side])
    for width in (256, 256):
        whole = layers.ReLU()(layers.BatchNormalization(momentum=0.9)(layers.Dense(width, use_bias=False)(whole)))
    bias = keras.initializers.Constant(goal.mean(axis=0).ravel())
    whole = layers.Dense(int(np.prod(shape)), kernel_initializer="zeros", bias_initializer=bias)(whole)
    guess = layers.Reshape(shape)(whole)
    if problem.input.kind == "image":
        near = layers.Conv2D(12, 3, padding="same", activation="relu")(reading)
        near = layers.Conv2D(shape[-1], 3, padding="same", kernel_initializer="zeros")(near)
        guess = layers.Add()([guess, near])
    return keras.Model([reading, side], guess)
