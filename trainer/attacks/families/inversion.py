"""Reconstruction, then inference: a network learns x from pairs (x', x), and a classifier infers z from that."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from edgeveil.trainer.attacks import features
from edgeveil.trainer.attacks.families.networks import affordable, descend, logits, plain_stands_in, seen, train
from edgeveil.trainer.attacks.families.transfer import trunk_for
from edgeveil.trainer.attacks.problem import Problem, Released
from edgeveil.trainer.attacks.protocol import Adaptive, Learned


class Inversion(Adaptive):
    """Reconstruction of x, learned from pairs (x', x), then recognition by what is known of clean samples."""

    name = "inversion"
    order = 19
    seeded = True

    def why_not(self, problem: Problem) -> str | None:
        """It needs pairs (x', x) to learn from."""
        return "no pairs (x', x) were given" if problem.fit.raw is None else plain_stands_in(problem)

    def fit(self, problem: Problem, seed: int) -> Learned:
        """Learn the way back and the recogniser on the rows of ``fit``, each stopped on ``stop``, on half a budget."""
        budget = replace(problem.budget, macs=problem.budget.macs / 2)
        problem = replace(problem.capped(problem.budget.rows), budget=budget)
        reconstruct = invert(problem, seed)
        fit, stop = problem.fit.unperturbed(), problem.stop.unperturbed()
        recogniser = train(problem, trunk_for(problem), seed, fit=fit, stop=stop, rate=2e-3)

        # The recogniser sees the reconstruction and y alone.
        def probabilities(part: Released) -> np.ndarray:
            return recogniser.probabilities(replace(part, x=reconstruct(part), also=None))

        return replace(recogniser, probabilities=probabilities)


def invert(problem: Problem, seed: int) -> Callable[[Released], np.ndarray]:
    """Train the way back on the pairs of ``fit``: squared error in the unit cube.

    Returns the function from released rows to reconstructed samples (n, *shape), in units of x.
    """
    import keras

    keras.utils.set_random_seed(seed)
    fit, stop = problem.fit, problem.stop
    standard = features.Standard.fit(features.unit(problem, fit))
    goal = features.unit(problem, fit.unperturbed())
    model = _network(problem, features.side(problem, fit).shape[1], goal)
    rows, epochs = affordable(model, len(fit), problem.budget)

    learn = seen(problem, standard, fit.take(slice(rows))), goal[:rows]
    held = seen(problem, standard, stop), features.unit(problem, stop.unperturbed())
    loss = keras.losses.MeanSquaredError()
    descend(model, learn, held, loss=loss, epochs=epochs, budget=problem.budget, rate=2e-3)

    def reconstruct(part: Released) -> np.ndarray:
        u = logits(model, *seen(problem, standard, part))
        if problem.input.low is None:
            return u.astype(np.float32)
        low, high = (np.asarray(end, np.float64) for end in (problem.input.low, problem.input.high))
        return (low + np.clip(u, 0.0, 1.0) * (high - low)).astype(np.float32)

    return reconstruct


def _network(problem: Problem, side_width: int, goal: np.ndarray) -> Any:
    """The mean sample, plus a part learned from all of x' and y, plus, for pictures, one from each neighbourhood."""
    import keras
    from keras import layers

    shape = problem.input.shape
    frame = keras.Input(shape, name="frame")
    side = keras.Input((side_width,), name="side")
    whole = layers.Concatenate()([layers.Flatten()(frame), side])
    for width in (256 * problem.budget.widen**2,) * 2:
        whole = layers.ReLU()(layers.BatchNormalization(momentum=0.9)(layers.Dense(width, use_bias=False)(whole)))
    bias = keras.initializers.Constant(goal.mean(axis=0).ravel())
    whole = layers.Dense(int(np.prod(shape)), kernel_initializer="zeros", bias_initializer=bias)(whole)
    guess = layers.Reshape(shape)(whole)
    if problem.input.kind == "image":
        near = layers.Conv2D(12 * problem.budget.widen**2, 3, padding="same", activation="relu")(frame)
        near = layers.Conv2D(shape[-1], 3, padding="same", kernel_initializer="zeros")(near)
        guess = layers.Add()([guess, near])
    return keras.Model([frame, side], guess)
