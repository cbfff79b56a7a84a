"""Samples before a mechanism, and what it made of them: what such an audit needs, checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.datasets.base import InputSpec, taken
from edgeveil.trainer.datasets.readings import Readings
from edgeveil.trainer.datasets.slicing import check_hidden, clusters

FEWEST_OF_A_CLASS = 5  # rows; a rarer class can hardly be in the rows to learn, to choose and to test
Order = Literal["test", "matched", "shuffled"]


@dataclass(frozen=True)
class Pairs:
    """``before`` and ``after`` as samples with labels. Row i of both is one sample, unless ``order`` is *shuffled*.

    ``order`` says whether rows are in one order: *test* it, *matched* as the user vouches, or *shuffled*: the labels of
    ``after`` are its own then, and no row of ``before`` is known to belong to one of ``after``. Where it is not
    shuffled, labels, subjects and sessions are the same in both. ``notes`` are sentences for the report: what was found
    or left out while reading.
    """

    before: Readings
    after: Readings
    order: Order = "test"
    notes: tuple[str, ...] = ()

    def take(self, rows: np.ndarray) -> Pairs:
        """Some rows of both; for rows that are not shuffled."""
        return replace(self, before=some(self.before, rows), after=some(self.after, rows))


def paired(before: Readings, x: np.ndarray, *, order: Order = "test", notes: Sequence[str] = ()) -> Pairs:
    """The pairs of labelled samples and what was made of them, ``x`` (n, ...). Raises ``BadInput``."""
    if len(x) != len(before.x):
        raise BadInput(
            f"As many rows after as before were expected; got {len(before.x):,} before and {len(x):,} after. Leave out "
            "of both what is missing in one, such that row i of both is the same sample."
        )
    kind: Literal["image", "vector"] = "vector" if x.ndim == 2 else "image"
    return Pairs(before, replace(before, x=x, kind=kind, low=None, high=None), order, tuple(notes))


def some(readings: Readings, rows: np.ndarray) -> Readings:
    """Some rows of samples, with their labels."""
    return replace(
        readings,
        x=readings.x[rows],
        y=readings.y[rows],
        z=readings.z[rows],
        subject=taken(readings.subject, rows),
        session=taken(readings.session, rows),
        attributes={},
        known={name: replace(one, values=one.values[rows]) for name, one in readings.known.items()},
        labels=None,
        consent=None,
    )


def without_rare(pairs: Pairs) -> Pairs:
    """Without the rows of a y or z that has too few of them; a note says so. Raises ``BadInput`` if nothing is left.

    Raises it too where z follows from y, or where there is one class only.
    """
    if pairs.order == "shuffled":
        for name, readings in (("before", pairs.before), ("after", pairs.after)):
            _check_classes(readings, f" {name}")
        return pairs
    before = pairs.before
    keep = np.ones(len(before.y), bool)
    notes = list(pairs.notes)
    for of, labels in (("y", before.y), ("z", before.z)):
        counts = np.bincount(labels, minlength=1)
        rare = np.flatnonzero((counts > 0) & (counts < FEWEST_OF_A_CLASS))
        if len(rare):
            keep &= ~np.isin(labels, rare)
            notes.append(
                f"{len(rare)} of {int((counts > 0).sum())} classes of {of} have fewer than {FEWEST_OF_A_CLASS} rows: "
                f"their {int(counts[rare].sum())} rows are left out."
            )
    if not keep.any():
        raise BadInput(
            f"Every class of y or z has fewer than {FEWEST_OF_A_CLASS} rows, so no adversary could learn it. Group z "
            "into fewer classes (numpy.digitize for numbers), or give more rows of each."
        )
    kept = pairs if keep.all() else pairs.take(np.flatnonzero(keep))
    kept = replace(kept, before=_renumbered(kept.before), after=_renumbered(kept.after), notes=tuple(notes))
    _check_classes(kept.before, "")
    return kept


def spec(readings: Readings, others: Sequence[Readings] = ()) -> InputSpec:
    """Kind, shape and range of samples; the range over ``others`` of the same shape too."""
    x = readings.x
    alike = [x, *(other.x for other in others if other.x.shape[1:] == x.shape[1:])]
    if readings.kind == "image" and all(one.dtype == np.uint8 for one in alike):
        return InputSpec("image", x.shape[1:], str(x.dtype), 0.0, 255.0)
    lows = np.min([one.min(axis=0).astype(np.float64) for one in alike], axis=0)
    highs = np.max([one.max(axis=0).astype(np.float64) for one in alike], axis=0)
    if readings.kind == "image":
        low, high = float(lows.min()), float(highs.max())
        return InputSpec("image", x.shape[1:], str(x.dtype), low, high if high > low else low + 1)
    highs = np.where(highs > lows, highs, lows + 1)
    return InputSpec("vector", x.shape[1:], str(x.dtype), tuple(lows.tolist()), tuple(highs.tolist()))


def units(readings: Readings) -> tuple[np.ndarray | None, str | None]:
    """The independent units (n,) of rows and what they are: subjects or sessions; None where each row is one.

    Raises ``BadInput`` where z follows from the subject and sessions are not known.
    """
    return clusters(readings.z, subject=readings.subject, session=readings.session)


def _renumbered(readings: Readings) -> Readings:
    """Class numbers without gaps."""
    y_there, y = np.unique(readings.y, return_inverse=True)
    z_there, z = np.unique(readings.z, return_inverse=True)
    return replace(
        readings,
        y=y.reshape(-1),
        z=z.reshape(-1),
        y_names=tuple(readings.y_names[i] for i in y_there),
        z_names=tuple(readings.z_names[i] for i in z_there),
    )


def _check_classes(readings: Readings, where: str) -> None:
    for of, names in (("y", readings.y_names), ("z", readings.z_names)):
        if len(names) < 2:
            raise BadInput(
                f"{of}{where} must have at least 2 classes of {FEWEST_OF_A_CLASS} rows; got {len(names)}. There is "
                "nothing to tell apart."
            )
    check_hidden(readings.y, readings.z)
