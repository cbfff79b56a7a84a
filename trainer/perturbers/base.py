"""The interface of every kind of perturber: a function ``fit`` in a module of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from edgeveil.trainer.datasets.base import Dataset
from edgeveil.trainer.recipe.schema import Budget, Classifiers, Limits
from edgeveil.trainer.runs.fitted import FittedPerturber
from edgeveil.trainer.runs.log import Log


@dataclass(frozen=True)
class Goal:
    """What x' must keep and hide: D_y and D_z, which read it, and the recipe's limits.

    ``target`` and ``sensitive`` are Keras models from the unit cube to logits, None for kinds that ask neither.
    ``classifiers`` says how the two were trained, for a kind that trains a classifier of its own.
    """

    limits: Limits
    classifiers: Classifiers
    target: Any = None
    sensitive: Any = None


class Fit(Protocol):
    """Trains one kind of perturber. A kind names the arguments that it uses and takes the others as ``**_``."""

    def __call__(
        self, section: Any, dataset: Dataset, *, goal: Goal, rng: np.random.Generator, budget: Budget, log: Log
    ) -> FittedPerturber:
        """Fit what ``section``, the kind's own model of ``[perturber]``, says to ``dataset`` (``for_training()``).

        Everything random comes from ``rng``. ``budget`` bounds the training, which goes on from the checkpoints that
        ``log`` has. Raises ``BadInput`` where section and data do not go together, ``LimitNotMet`` where training
        diverges.
        """
        ...
