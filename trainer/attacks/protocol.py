"""The interface of adversaries: a family of attribute inference attacks, and a trained attack."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from edgeveil.trainer.attacks.problem import Problem, Released

Kind = Literal["fixed", "transfer", "adaptive"]


class Attack(Protocol):
    """A trained attack."""

    @property
    def train_samples(self) -> int:
        """How many rows it learned from, those for early stopping included."""
        ...

    def probabilities(self, part: Released) -> np.ndarray:
        """P(z | x', y) of each row, (n, classes of z), rows summing to 1."""
        ...


@dataclass(frozen=True)
class Learned:
    """An ``Attack`` that is one function."""

    probabilities: Callable[[Released], np.ndarray]
    train_samples: int


class Adversary(Protocol):
    """One family of attacks.

    ``kind`` is what it learns from: *fixed* is the classifier the perturber was trained against, *transfer* another
    one trained on clean data, *adaptive* learns from perturbed data. Only the last is evidence of privacy.

    A class of ``families`` also has an ``order``. It is the place in the table, and what runs first: in a quick audit
    an attack that reads nearly all of z ends the search, so of the slow ones the strongest come first. Optional facts
    of any class, as literals: ``of`` ("image" or "series", the only kind of sample that it attacks), ``counts`` (it
    counts codes, and learns on crossed rows too), ``needs_d_z`` (it needs the classifier that the perturber was trained
    against), ``swept`` (strong for its time: a sweep runs it).
    """

    @property
    def name(self) -> str:
        """Its name in the table."""
        ...

    @property
    def kind(self) -> Kind:
        """What it learns from."""
        ...

    @property
    def seeded(self) -> bool:
        """Whether another seed gives another attack."""
        ...

    def why_not(self, problem: Problem, /) -> str | None:
        """Why this family cannot attack here, or None; the reason is printed in its row."""
        ...

    def fit(self, problem: Problem, seed: int, /) -> Attack:
        """Learn from ``problem``'s training rows; never from ``choose`` or ``test``."""
        ...


class Adaptive:
    """Defaults of a family that learns from perturbed data: it attacks any sample, and one seed is enough."""

    kind: Kind = "adaptive"
    seeded = False
    of: str | None = None

    def why_not(self, _problem: Problem, /) -> str | None:
        """None: any sample can be attacked."""
        return None
