"""What an attacker sees of each unit: its frames, its columns, and both.

Where a pseudonym links rows and z is a person's, the unit is a person: the mean and the deviation of their frames and
columns, for a mean takes noise away that each frame has of its own. Where z changes from row to row the unit is a row,
with the same figures of the person's other rows next to it. Where nothing links rows, it is a row alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from edgeveil.trainer.attacks.problem import Released
from edgeveil.trainer.audit.pairs import spec_of
from edgeveil.trainer.datasets.base import InputSpec
from edgeveil.trainer.ext.publish.levels import as_number
from edgeveil.trainer.ext.publish.published import Published
from edgeveil.trainer.measures.intervals import count

MOST_VALUES = 64  # of a column, each with a feature of its own; rarer ones share one
Unit = Literal["person", "row"]
View = tuple[InputSpec, Released]


@dataclass(frozen=True)
class Units:
    """``views`` by name: ``columns``, and where there are frames ``frames`` and ``both``. ``single`` are the frames one
    by one, to sum up what is read of each: None where there is nothing to sum."""

    unit: Unit
    views: Mapping[str, View]
    single: View | None


def units(published: Published, y: np.ndarray, z: np.ndarray) -> Units:
    """Of labels (rows,); a person's y is that of most rows."""
    person = published.person
    often = np.bincount(person)
    first = np.unique(person, return_index=True)[1]
    linked = published.linked and int(often.max()) > 1
    whole = linked and bool((z == z[first][person]).all())
    values = {name: _flat(array) for name, array in published.outputs.items()}
    frame = next((name for name, array in published.outputs.items() if array.ndim > 1), None)
    beside = [values[name] for name in values if name != frame]
    cells = np.concatenate([_encoded(column) for column in published.columns.values()], axis=1)
    if whole:
        labels = (_usual(y, person), z[first])
        count = np.log(often)[:, None].astype(np.float32)
        of_columns = np.concatenate([*_moments(cells, person), count], axis=1)
        views = {"columns": _view(of_columns, *labels, None)}
        if frame is None:
            return Units("person", views, None)
        mean, deviation = _moments(values[frame], person)
        also = np.concatenate([deviation, count, *(part for one in beside for part in _moments(one, person))], axis=1)
        x = mean.reshape(-1, *published.outputs[frame].shape[1:])
        single = _view(published.outputs[frame], labels[0][person], z, person, _joined(beside))
        return Units("person", {**views, **_both(x, labels, None, also, of_columns)}, single)
    if linked:
        beside += [part[person] for one in values.values() for part in _moments(one, person)]
        cells = np.concatenate([cells, *(part[person] for part in _moments(cells, person))], axis=1)
    cluster = person if int(often.max()) > 1 else None
    views = {"columns": _view(cells, y, z, cluster)}
    if frame is not None:
        views |= _both(published.outputs[frame], (y, z), cluster, _joined(beside), cells)
    return Units("row", views, None)


def _both(
    x: np.ndarray,
    labels: tuple[np.ndarray, np.ndarray],
    cluster: np.ndarray | None,
    also: np.ndarray | None,
    columns: np.ndarray,
) -> dict[str, View]:
    side = columns if also is None else np.concatenate([also, columns], axis=1)
    return {"frames": _view(x, *labels, cluster, also), "both": _view(x, *labels, cluster, side)}


def _view(
    x: np.ndarray, y: np.ndarray, z: np.ndarray, cluster: np.ndarray | None, also: np.ndarray | None = None
) -> View:
    if x.ndim not in (2, 4):
        x = x.reshape(len(x), -1)
    shown = None if also is None else _standard(also)
    return spec_of(x, image=x.ndim == 4), Released(x, y, z, cluster, also=shown)


def _flat(array: np.ndarray) -> np.ndarray:
    """Values of an output as features (rows, d) float32; a whole number is a class, with a feature for each."""
    if array.ndim == 1 and array.dtype.kind in "iu":
        return _classes([str(one) for one in array.tolist()])
    return array.reshape(len(array), -1).astype(np.float32)


def _encoded(column: Sequence[str]) -> np.ndarray:
    """A column as features (rows, d) float32: a number is itself."""
    numbers = [as_number(cell) for cell in column]
    if all(one is not None for one in numbers) and len(set(numbers)) > MOST_VALUES:
        return np.array(numbers, np.float32)[:, None]
    return _classes(column)


def _classes(column: Sequence[str]) -> np.ndarray:
    often = Counter(column)
    known = sorted(often, key=lambda name: (-often[name], name))[:MOST_VALUES]
    place = {name: at for at, name in enumerate(known)}
    at = np.array([place.get(name, len(known)) for name in column])
    return np.eye(len(known) + 1, dtype=np.float32)[at]


def _moments(values: np.ndarray, person: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and deviation (people, d) of each person's rows."""
    order = np.argsort(person, kind="stable")
    begins = np.searchsorted(person[order], np.arange(int(person.max()) + 1))
    often = np.bincount(person)[:, None]
    mean = np.add.reduceat(values[order].astype(np.float64), begins) / often
    square = np.add.reduceat(values[order].astype(np.float64) ** 2, begins) / often
    return mean.astype(np.float32), np.sqrt(np.maximum(square - mean**2, 0)).astype(np.float32)


def _usual(y: np.ndarray, person: np.ndarray) -> np.ndarray:
    """The label that most rows of each person have, the smallest of several."""
    return count(person, y, shape=(int(person.max()) + 1, int(y.max()) + 1)).argmax(axis=1)


def _standard(features: np.ndarray) -> np.ndarray:
    """Mean 0 and deviation 1: frames in units of their own would hide what stands next to them."""
    spread = features.std(axis=0)
    return ((features - features.mean(axis=0)) / np.where(spread > 1e-7, spread, 1.0)).astype(np.float32)


def _joined(parts: Sequence[np.ndarray]) -> np.ndarray | None:
    return np.concatenate(parts, axis=1) if parts else None
