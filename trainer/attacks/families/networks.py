"""Training of neural adversaries: a trunk on x', side information joined late, early stopping.

The logits start from log P(z|y), counted: the network only learns what x' tells beyond y, and one that learns nothing
is exactly at chance.
"""

from __future__ import annotations

from typing import Any, Callable

import numpy as np
from scipy import special

from edgeveil.trainer.attacks import features
from edgeveil.trainer.attacks.problem import Budget, Problem, Released
from edgeveil.trainer.attacks.protocol import Adaptive, Learned
from edgeveil.trainer.graphs import fitting
from edgeveil.trainer.graphs.prediction import predict

Trunk = Callable[[Any, int], Any]  # a Keras tensor of frames (batch, *shape), Budget.widen -> features (batch, width)
Look = Callable[[Released], "list[np.ndarray]"]  # rows -> the network's inputs
Told = tuple["list[np.ndarray]", np.ndarray]  # a network's inputs and what it is to answer

FEWEST_EPOCHS = 4  # a network too large for its budget sees fewer rows before it sees them less often than this
FEWEST_NETWORK_ROWS = 256
MUCH_DATA = 1e7  # values of the training rows; with more the quick audit leaves costly variations out


class Learner(Adaptive):
    """A family that learns for long: where x' takes few values, counting is exact and replaces it."""

    seeded = True

    def why_not(self, problem: Problem) -> str | None:
        """Counting is exact where few values occur."""
        return counting_stands_in(problem)


class Network(Learner):
    """A family of neural adversaries: an architecture and the first step of its optimiser."""

    trunk: Trunk
    rate: float
    confirms = False  # also attacks where counting is exact, in a thorough audit

    def why_not(self, problem: Problem) -> str | None:
        """Vectors have no neighbourhoods to convolve; and where x' takes few values, counting is exact."""
        if self.of not in (None, problem.input.kind):
            return f"x is a {problem.input.kind}, not a picture"
        return None if self.confirms and problem.budget.every_family else counting_stands_in(problem)

    def fit(self, problem: Problem, seed: int) -> Learned:
        """Train on ``fit``, stopped on ``stop``."""
        problem = problem.capped(problem.budget.rows)
        return train(problem, self.trunk, seed, fit=problem.fit, stop=problem.stop, rate=self.rate)


def counting_stands_in(problem: Problem) -> str | None:
    """Why networks do not run where the output takes few values: counts are exact there."""
    if problem.budget.confirm or not problem.few_values:
        return None
    return f"the output takes {problem.values:,} values: code counts are exact there and replace it"


def plain_stands_in(problem: Problem) -> str | None:
    """Why the quick audit of much data leaves out variations on a network that attacks anyway."""
    rows = min(len(problem.fit), problem.budget.rows)
    if not problem.budget.every_family and rows * float(np.prod(problem.input.shape)) > MUCH_DATA:
        return "on this much data the plain networks replace it in the quick audit"
    return counting_stands_in(problem)


def train(problem: Problem, trunk: Trunk, seed: int, *, fit: Released, stop: Released, rate: float) -> Learned:
    """A new network on ``trunk``, trained on ``fit`` and stopped on ``stop``."""
    import keras

    keras.utils.set_random_seed(seed)
    standard = features.Standard.fit(features.unit(problem, fit))

    def look(part: Released) -> list[np.ndarray]:
        return [*seen(problem, standard, part), np.log(problem.base(part)).astype(np.float32)]

    frame = keras.Input(problem.input.shape, name="frame")
    model = join_late(problem, frame, trunk(frame, problem.budget.widen), features.side(problem, fit).shape[1])
    return learn(model, look, fit, stop, problem.budget, rate=rate)


def learn(model: Any, look: Look, fit: Released, stop: Released, budget: Budget, *, rate: float) -> Learned:
    """Fit a classifier of z to as many rows of ``fit`` as the budget allows; ``look`` makes rows its inputs."""
    import keras

    rows, epochs = affordable(model, len(fit), budget)
    if rows < len(fit):
        # A network this large would spend more on all stopping rows than on learning.
        fit, stop = fit.take(slice(rows)), stop.take(slice(max(FEWEST_NETWORK_ROWS, rows // 3)))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    descend(model, (look(fit), fit.z), (look(stop), stop.z), loss=loss, epochs=epochs, budget=budget, rate=rate)
    return Learned(lambda part: special.softmax(logits(model, *look(part)), axis=1), len(fit) + len(stop))


def affordable(model: Any, rows: int, budget: Budget) -> tuple[int, int]:
    """(rows, epochs) that keep one training within the budget's multiply-adds, the same on every machine."""
    from edgeveil.trainer.graphs.macs import keras_macs

    visits = budget.macs / max(1, keras_macs(model).macs)
    epochs = min(budget.epochs, int(visits // rows))
    if epochs >= min(FEWEST_EPOCHS, budget.epochs):
        return rows, epochs
    epochs = min(FEWEST_EPOCHS, budget.epochs)
    return min(rows, max(FEWEST_NETWORK_ROWS, int(visits // epochs))), epochs


def descend(model: Any, fit: Told, stop: Told, *, loss: Any, epochs: int, budget: Budget, rate: float) -> None:
    """Adam from ``rate`` down to 0 as a cosine; the weights with the smallest loss on ``stop`` are kept."""
    import keras

    rows = len(fit[1])
    batch = int(np.clip(rows // 40, 32, 128))
    schedule = keras.optimizers.schedules.CosineDecay(rate, epochs * -(-rows // batch))
    optimizer = keras.optimizers.Adam(schedule)
    fitting.fit(model, *fit, loss, optimizer, batch=batch, epochs=epochs, stop=stop, patience=budget.patience)


def join_late(problem: Problem, frame: Any, features: Any, side_width: int, already: Any = None) -> Any:
    """The model from ``frame`` (batch, *shape), side (batch, k) and log P(z|y) (batch, classes of z) to logits.

    Logits are log P(z|y), plus ``already`` where given, plus what is learned from ``features`` of the frame and side.
    """
    import keras

    side = keras.Input((side_width,), name="side")
    start = keras.Input((problem.z_classes,), name="start")
    late = keras.layers.Concatenate()([features, side])
    late = keras.layers.Dense(64 * problem.budget.widen, activation="relu")(late)
    learned = keras.layers.Dense(problem.z_classes, kernel_initializer="zeros")(late)
    terms = [learned, start] if already is None else [learned, start, already]
    return keras.Model([frame, side, start], keras.layers.Add()(terms))


def logits(model: Any, *arrays: np.ndarray) -> np.ndarray:
    """The model's answers, float64 (n, classes)."""
    return np.asarray(predict(model, arrays, batch=2048), np.float64)


def seen(problem: Problem, standard: features.Standard, part: Released) -> list[np.ndarray]:
    """The standardised frame and what else the adversary knows, as a network's inputs."""
    return [standard.apply(features.unit(problem, part)).astype(np.float32), features.side(problem, part)]
