"""What an adversary is given: released readings with their labels, cut so that it never meets the test rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from edge_runtime.errors import BadInput
from trainer.datasets.base import InputSpec, Part
from trainer.datasets.slicing import hold_out

FEWEST_ROWS = 60  # to train adversaries on; below it no family has anything to learn from
FEWEST_UNITS = 10  # subjects or sessions, where rows belong to some: to train, to stop and to choose on different ones


@dataclass(frozen=True)
class Budget:
    """How hard the adversaries try. ``rows`` caps the training rows of the families that are slow by the row."""

    name: str
    seeds: int
    rows: int
    epochs: int
    patience: int
    trees: int
    every_family: bool  # also those for which a cheaper relative stands in the quick audit


BUDGETS = {
    "quick": Budget("quick", seeds=1, rows=30_000, epochs=30, patience=4, trees=150, every_family=False),
    "thorough": Budget("thorough", seeds=3, rows=1_000_000, epochs=100, patience=10, trees=500, every_family=True),
}


@dataclass(frozen=True)
class Released:
    """Rows as they left the perturber: the frame x (n, *shape) in its own units, every other output as ``also`` (n, k),
    and the labels y (n,), z (n,) and cluster (n,) or None that the audit knows of them."""

    x: np.ndarray
    y: np.ndarray
    z: np.ndarray
    cluster: np.ndarray | None = None
    also: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.y)

    def take(self, rows: np.ndarray) -> Released:
        """Some of the rows, in the order of ``rows``."""
        return Released(
            self.x[rows],
            self.y[rows],
            self.z[rows],
            None if self.cluster is None else self.cluster[rows],
            None if self.also is None else self.also[rows],
        )


@dataclass(frozen=True)
class Problem:
    """One question to every adversary: who is z, given x' and y?

    ``fit`` and ``stop`` are the adversary's training rows (``stop`` for early stopping), ``choose`` calibrates attacks
    and picks the worst one, ``test`` is reported on. All four were perturbed by the same artefact; no cluster straddles
    them. ``counted`` is P(z|y) on the training rows, ``theta`` the public prior, both (classes of y, classes of z).
    ``clean`` are raw rows of the first slice for the transfer adversary, ``sensitive`` the D_z that the perturber was
    trained against (a Keras model from the unit cube to logits); either is None where there is none.
    """

    input: InputSpec
    theta: np.ndarray
    counted: np.ndarray
    fit: Released
    stop: Released
    choose: Released
    test: Released
    budget: Budget
    clean: Released | None = None
    sensitive: Any = None

    @property
    def z_classes(self) -> int:
        """How many values z can have."""
        return int(self.theta.shape[1])

    def base(self, part: Released) -> np.ndarray:
        """The counted P(z|y) of each row of ``part``, (n, classes of z)."""
        return self.counted[part.y]

    def training(self) -> Released:
        """``fit`` and ``stop`` together, for families without early stopping."""
        return joined(self.fit, self.stop)

    def capped(self, rows: int) -> Problem:
        """The same question with at most ``rows`` rows in ``fit`` (they are in random order already)."""
        return self if len(self.fit) <= rows else replace(self, fit=self.fit.take(np.arange(rows)))


def cut(released: Released, seed: int) -> tuple[Released, Released, Released]:
    """Cut the perturbed rows of the first two slices into (fit, stop, choose): about 70, 12 and 18 % of them.

    Stratified, and by whole clusters where there are any. ``stop`` and
    ``choose`` stay under 4,000 and 8,000 rows: more would only be taken from training.
    """
    n = len(released)
    units = n if released.cluster is None else len(np.unique(released.cluster))
    if n < FEWEST_ROWS or units < FEWEST_UNITS:
        raise BadInput(
            f"Adversaries need at least {FEWEST_ROWS} rows of {FEWEST_UNITS} subjects or sessions in the first two "
            f"slices together, and there are {n} rows of {units}: give more data."
        )
    choose_share, stop_share = min(0.18, 8000 / n), min(0.12, 4000 / n)
    rest, choose = _held_out(released, choose_share, seed)
    fit, stop = _held_out(rest, stop_share / (1 - choose_share), seed)
    return fit, stop, choose


def joined(a: Released, b: Released) -> Released:
    """The rows of both, a's first."""
    return Released(
        np.concatenate([a.x, b.x]),
        np.concatenate([a.y, b.y]),
        np.concatenate([a.z, b.z]),
        None if a.cluster is None or b.cluster is None else np.concatenate([a.cluster, b.cluster]),
        None if a.also is None or b.also is None else np.concatenate([a.also, b.also]),
    )


def _held_out(released: Released, share: float, seed: int) -> tuple[Released, Released]:
    """All but ``share`` of the rows, and those, in random order so that the first n of them are any n."""
    index = np.arange(len(released))
    part = Part(released.x, released.y, released.z, released.cluster, index)
    kept, held = hold_out(part, share=share, seed=seed)
    rng = np.random.default_rng([seed, 1])
    return released.take(rng.permutation(kept)), released.take(rng.permutation(held))
