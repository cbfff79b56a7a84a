"""How every neural adversary is trained: a trunk reads x', what is known beside it joins late, and it stops early.

The logits start from log P(z|y), counted: the network has to learn only what x' tells beyond y, and one that learns
nothing is exactly at chance.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable

import numpy as np
from scipy import special

from trainer.audit import views
from trainer.audit.problem import Problem, Released

Trunk = Callable[[Any], Any]  # a Keras tensor of readings (batch, *shape) -> features (batch, width)


@dataclass(frozen=True)
class NetworkAttack:
    """A trained network with the standardisation of its inputs."""

    model: Any
    problem: Problem
    standard: views.Standard
    train_samples: int

    def probabilities(self, part: Released) -> np.ndarray:
        """P(z | x', y) of each row."""
        return special.softmax(logits(self.model, *inputs(self.problem, self.standard, part)), axis=1)


def train(problem: Problem, trunk: Trunk, seed: int, *, fit: Released, stop: Released, rate: float) -> NetworkAttack:
    """Train on ``fit``, halve the step when ``stop`` gets no better, keep the best weights there."""
    import keras

    keras.utils.set_random_seed(seed)
    standard = views.Standard.of(views.unit(problem, fit))
    model = build(problem, trunk, side_width=views.side(problem, fit).shape[1])
    # XLA does not pay on a CPU: compiling takes longer than it saves, and the compiled steps are slower here.
    model.compile(
        keras.optimizers.Adam(rate),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        jit_compile=False,
        steps_per_execution=8,
    )
    patience = problem.budget.patience
    model.fit(
        inputs(problem, standard, fit),
        fit.z,
        batch_size=int(np.clip(len(fit) // 40, 32, 128)),
        epochs=problem.budget.epochs,
        validation_data=(inputs(problem, standard, stop), stop.z),
        validation_batch_size=1024,
        callbacks=[
            keras.callbacks.EarlyStopping("val_loss", patience=patience, restore_best_weights=True),
            keras.callbacks.ReduceLROnPlateau("val_loss", factor=0.4, patience=max(1, patience // 3)),
        ],
        verbose=0,
    )
    return NetworkAttack(model, problem, standard, len(fit) + len(stop))


def build(problem: Problem, trunk: Trunk, side_width: int) -> Any:
    """Readings (batch, *shape), side (batch, k) and log P(z|y) (batch, classes) to logits (batch, classes of z)."""
    import keras

    reading = keras.Input(problem.input.shape, name="reading")
    side = keras.Input((side_width,), name="side")
    start = keras.Input((problem.z_classes,), name="start")
    late = keras.layers.Concatenate()([trunk(reading), side])
    late = keras.layers.Dense(64, activation="relu")(late)
    learned = keras.layers.Dense(problem.z_classes, kernel_initializer="zeros")(late)
    return keras.Model([reading, side, start], keras.layers.Add()([learned, start]))


def logits(model: Any, *arrays: np.ndarray, rows_at_once: int = 2048) -> np.ndarray:
    """The model's answers, float64 (n, classes). Called directly: ``predict`` would trace a graph for every model."""
    pieces = []
    for start in range(0, len(arrays[0]), rows_at_once):
        chunk = [array[start : start + rows_at_once] for array in arrays]
        pieces.append(np.asarray(model(chunk if len(chunk) > 1 else chunk[0], training=False), np.float64))
    return np.concatenate(pieces)


def inputs(problem: Problem, standard: views.Standard, part: Released) -> list[np.ndarray]:
    """What the network reads of each row."""
    return [
        standard.apply(views.unit(problem, part)).astype(np.float32),
        views.side(problem, part),
        np.log(problem.base(part)).astype(np.float32),
    ]
