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
    """What x' must keep and hide: the classifiers D_y and D_z, and the recipe's limits.

    ``target`` and ``sensitive`` are Keras models from the unit cube to logits, None for kinds that use neither.
    ``classifiers`` are the settings of their training, for a kind that trains a classifier of its own.
    """

    limits: Limits
    classifiers: Classifiers
    target: Any = None
    sensitive: Any = None


class Fit(Protocol):
    """Trains one kind of perturber. A kind names the arguments that it uses and accepts the others as ``**_``."""

    def __call__(
        self, section: Any, dataset: Dataset, *, goal: Goal, rng: np.random.Generator, budget: Budget, log: Log
    ) -> FittedPerturber:
        """Fit the perturber of ``section``, the kind's model of ``[perturber]``, to ``dataset`` (``for_training()``).

        Everything random comes from ``rng``. ``budget`` bounds the training, which resumes from the checkpoints of
        ``log``. Raises ``BadInput`` where section and data do not fit, ``LimitNotMet`` where training diverges.
        """
        ...
