"""An attribute inference problem: released samples with their labels, cut so that no adversary learns on test rows."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, cast

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.datasets.base import NO_ROWS, Dataset, InputSpec, Part
from edgeveil.trainer.datasets.slicing import hold_out
from edgeveil.trainer.measures import attack_metrics
from edgeveil.trainer.measures.enough import LEARN_ROWS, LEARN_UNITS, ROWS_OF_A_VALUE

MOST_VALUES = 4096


@dataclass(frozen=True)
class Budget:
    """How hard the adversaries try.

    ``rows`` caps the training rows of the families that are slow by the row, ``macs`` the multiply-adds of one
    network's training (forward, so about three times as many in all): the time an audit takes is bounded whatever the
    data and the classifiers, and the same on every machine in what it does. ``widen`` times as wide are the layers of a
    network, so that it has about the square of that as many weights.
    """

    name: str
    seeds: int
    rows: int
    epochs: int
    patience: int
    trees: int
    macs: float
    widen: int
    every_family: bool  # also those for which a cheaper relative stands in the quick audit
    confirm: bool = False  # networks also where there are so few different releases that counting them is exact
    journal: Any = field(
        default=None, compare=False, repr=False
    )  # keeps what each attack answers (journal.py), or None


BUDGETS = {
    "quick": Budget(
        "quick", seeds=1, rows=30_000, epochs=30, patience=4, trees=120, macs=2e11, widen=1, every_family=False
    ),
    # Networks four times as large for four times as long: sixteen times the multiply-adds.
    "thorough": Budget(
        "thorough", seeds=3, rows=60_000, epochs=120, patience=16, trees=250, macs=32e11, widen=2, every_family=True
    ),
}


@dataclass(frozen=True)
class Codes:
    """Codes of a codebook: ``received`` (n,) is c' as it left, or as a receiver looks it up for a frame.

    ``sent`` (n,) is c before the ``channel`` (R, C). An attacker who has the perturber knows the channel, and ``sent``
    of their own samples. Both are None where c' = c, or where the code before the channel is not known.
    """

    received: np.ndarray
    sent: np.ndarray | None = None
    channel: np.ndarray | None = None

    def take(self, rows: np.ndarray | slice) -> Codes:
        """Some of the rows."""
        return Codes(self.received[rows], None if self.sent is None else self.sent[rows], self.channel)


@dataclass(frozen=True)
class Released:
    """Rows as they left the perturber: the frame x (n, *shape) in its own units, every other output as ``also`` (n, k),
    and the labels y (n,), z (n,) and cluster (n,) or None that the audit knows of them.

    ``raw`` (n, *shape) are the samples that they were made of, in the same order. ``codes`` are those of a codebook.
    ``row`` (n,) are their numbers in the data set. Adversaries get ``raw``, ``codes.sent`` and ``row`` of their
    training rows only. ``beside`` (n, 2, *shape) is x of the rows before and after (``rows.in_order``).
    """

    x: np.ndarray
    y: np.ndarray
    z: np.ndarray
    cluster: np.ndarray | None = None
    also: np.ndarray | None = None
    raw: np.ndarray | None = None
    codes: Codes | None = None
    row: np.ndarray | None = None
    beside: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.y)

    @cached_property
    def digest(self) -> bytes:
        """A hash of all of it."""
        codes = () if self.codes is None else (self.codes.received, self.codes.sent, self.codes.channel)
        return digest(self.x, self.y, self.z, self.cluster, self.also, self.raw, self.row, self.beside, *codes)

    def take(self, rows: np.ndarray | slice) -> Released:
        """Some of the rows, in the order of ``rows``."""
        arrays: dict[str, Any] = {name: None if value is None else value[rows] for name, value in self._arrays()}
        return Released(**arrays, codes=None if self.codes is None else self.codes.take(rows))

    def _arrays(self) -> Iterator[tuple[str, Any]]:
        """All fields but ``codes``, by name."""
        return ((one.name, getattr(self, one.name)) for one in fields(self) if one.name != "codes")

    def unperturbed(self) -> Released:
        """The samples that the rows were made of, without further outputs. ``raw`` must be there."""
        return replace(self, x=cast(np.ndarray, self.raw), also=None, raw=None, codes=None, beside=None)

    def as_received(self) -> Released:
        """The rows without ``raw`` and ``codes.sent``, which only the one who perturbed them knows."""
        codes = None if self.codes is None else replace(self.codes, sent=None)
        return replace(self, raw=None, codes=codes)


@dataclass(frozen=True)
class Problem:
    """One question to every adversary: what is z, given x' and y?

    ``fit`` and ``stop`` are the adversary's training rows (``stop`` for early stopping), ``choose`` calibrates attacks
    and picks the worst one, ``test`` is reported on. All four were perturbed by the same artefact; no cluster is in two
    of them. ``counted`` is P(z|y) on the training rows, ``theta`` the public prior, both (classes of y, classes of z).
    ``clean`` are raw rows of the first slice for the transfer adversary, ``sensitive`` the D_z that the perturber was
    trained against (a Keras model from the unit cube to logits); either is None where there is none.
    ``fold`` numbers the test rows' folds, where those of each are answered by an attack that learned from the others.
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
    fold: np.ndarray | None = None

    @cached_property
    def digest(self) -> bytes:
        """A hash of all that an attack on it depends on, but for the attack."""
        parts = (self.fit, self.stop, self.choose, self.test, self.clean)
        weights = () if self.sensitive is None else self.sensitive.get_weights()
        told = repr((self.input, self.budget, [part is None for part in parts])).encode()
        told += b"".join(part.digest for part in parts if part is not None)
        return digest(np.frombuffer(told, np.uint8), self.theta, self.counted, *weights)

    @property
    def z_classes(self) -> int:
        """How many values z can have."""
        return int(self.theta.shape[1])

    @cached_property
    def values(self) -> int:
        """How many different releases there are for the rows of ``fit``."""
        return len(set(keys(self.fit)))

    @property
    def few_values(self) -> bool:
        """Whether there are so few different releases that they can be counted instead of learned."""
        return self.values <= MOST_VALUES and len(self.fit) >= ROWS_OF_A_VALUE * self.values

    def base(self, part: Released) -> np.ndarray:
        """The counted P(z|y) of each row of ``part``, (n, classes of z)."""
        return self.counted[part.y]

    def training(self) -> Released:
        """``fit`` and ``stop`` together, for families without early stopping."""
        return joined(self.fit, self.stop)

    def capped(self, rows: int) -> Problem:
        """The same question with at most ``rows`` rows in ``fit`` (they are in random order already)."""
        return self if len(self.fit) <= rows else replace(self, fit=self.fit.take(slice(rows)))


def blank(input_: InputSpec, theta: np.ndarray, counted: np.ndarray, rows: Released, budget: Budget) -> Problem:
    """A problem like those about ``rows``, without any of them."""
    empty = rows.take(NO_ROWS)
    return Problem(input_, theta, counted, fit=empty, stop=empty, choose=empty, test=empty, budget=budget)


def pose(
    dataset: Dataset, training: Released, parts: tuple[Released, Released, Released], test: Released, budget: Budget
) -> Problem:
    """The problem of ``parts`` (``fit``, ``stop`` and ``choose``) and ``test``; P(z|y) is counted on ``training``."""
    fit, stop, choose = parts
    counted = attack_metrics.counted_prior(training.y, training.z, dataset.theta.shape)
    return Problem(dataset.input, dataset.theta, counted, fit, stop, choose, test, budget)


def cut(released: Released, seed: int) -> tuple[Released, Released, Released]:
    """Cut perturbed rows into (fit, stop, choose): about 70, 12 and 18 % of them.

    Stratified, and by whole clusters where there are any. ``stop`` and ``choose`` stay under 4,000 and 8,000 rows: more
    would only be taken from training.
    """
    n, units = len(released), units_of(released)
    if not enough(released):
        raise BadInput(
            f"Adversaries need at least {LEARN_ROWS} rows of {LEARN_UNITS} subjects or sessions to learn on; got {n} "
            f"rows of {units}. Give more data."
        )
    choose_share, stop_share = min(0.18, 8000 / n), min(0.12, 4000 / n)
    rest, choose = hold(released, choose_share, seed)
    fit, stop = hold(rest, stop_share / (1 - choose_share), seed)
    return fit, stop, choose


def enough(released: Released) -> bool:
    """Whether adversaries can learn on these rows at all."""
    return len(released) >= LEARN_ROWS and units_of(released) >= LEARN_UNITS


def units_of(released: Released) -> int:
    """How many independent units (subjects, sessions, or else rows) there are."""
    return len(released) if released.cluster is None else len(np.unique(released.cluster))


def joined(a: Released, b: Released) -> Released:
    """The rows of both, a's first. Fields that only one of them has are left out."""
    codes = None
    if a.codes is not None and b.codes is not None:
        sent = _both(a.codes.sent, b.codes.sent)
        codes = Codes(np.concatenate([a.codes.received, b.codes.received]), sent, a.codes.channel)
    arrays: dict[str, Any] = {name: _both(value, getattr(b, name)) for name, value in a._arrays()}
    return Released(**arrays, codes=codes)


def keys(part: Released) -> list[bytes]:
    """All outputs of each row as bytes, so that equal releases are found."""
    outputs = [part.x] if part.also is None else [part.x, part.also]
    columns = [np.ascontiguousarray(one).reshape(len(part), -1).view(np.uint8) for one in outputs if one.size]
    if not columns:
        return [b""] * len(part)
    rows = np.ascontiguousarray(np.hstack(columns))
    return rows.view(f"V{rows.shape[1]}")[:, 0].tolist()


def digest(*arrays: np.ndarray | None) -> bytes:
    """A hash of arrays, their types and shapes."""
    digest = hashlib.sha256()
    for array in arrays:
        if array is None:
            digest.update(b"none")
            continue
        digest.update(f"{array.dtype}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data if array.size else b"")
    return digest.digest()


def _both(a: np.ndarray | None, b: np.ndarray | None) -> np.ndarray | None:
    return None if a is None or b is None else np.concatenate([a, b])


def hold(released: Released, share: float, seed: int) -> tuple[Released, Released]:
    """All but ``share`` of the rows, and those, by whole clusters; in random order, so that the first n are any n."""
    index = np.arange(len(released))
    part = Part(released.x, released.y, released.z, released.cluster, index)
    remaining, held = hold_out(part, share=share, seed=seed)
    rng = np.random.default_rng([seed, 1])
    return released.take(rng.permutation(remaining)), released.take(rng.permutation(held))
