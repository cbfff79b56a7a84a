"""The labels that a data set knows besides y, as an audit asks about them: rare classes together, numbers in ranges."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from edgeveil.trainer.attacks.rows import to_learn
from edgeveil.trainer.attacks.scores.groupings import MOST_CLASSES
from edgeveil.trainer.datasets.base import Dataset, Known

TO_LEARN, TO_TEST = 20, 5  # rows of each class; rarer ones are put together
BINS, MOST_ATTRIBUTES = 10, 6
TO = " to "  # between the ends of a range of an ordered label


class Label(NamedTuple):
    """A label to attack: class numbers ``values`` (N,), their ``names``, and which questions to ask about it."""

    name: str
    values: np.ndarray
    names: tuple[str, ...]
    ordered: bool
    grouped: bool


@dataclass(frozen=True)
class Labelled:
    """Rows (N,) with y and z, what else is known of them, and the numbers of those to learn on and to test on."""

    y: np.ndarray
    z: np.ndarray
    z_names: tuple[str, ...]
    known: Mapping[str, Known]
    attributes: Mapping[str, np.ndarray]
    learn: np.ndarray
    test: np.ndarray

    @classmethod
    def of(cls, dataset: Dataset) -> Labelled:
        """All rows of a data set."""
        about = dataset.y, dataset.z, dataset.z_names, dataset.known, dataset.attributes
        return cls(*about, learn=to_learn(dataset), test=dataset.slices.test)


def labels_of(rows: Labelled) -> tuple[list[Label], list[dict[str, str]]]:
    """What is asked about, z first, and what is not, with the reason."""
    known = {name: (one.values, one.names, one.ordered, True) for name, one in rows.known.items()}
    name_of_z = next((name for name, one in known.items() if np.array_equal(one[0], rows.z)), "z")
    known.pop(name_of_z, None)
    for name, values in list(rows.attributes.items())[:MOST_ATTRIBUTES]:
        if np.ptp(values) > 0 and name not in known:
            known[name] = (*_binned(values), True, False)
    ordered = name_of_z in rows.known and rows.known[name_of_z].ordered
    asked, skipped = [Label(name_of_z, rows.z, rows.z_names, ordered, True)], []
    for name, (values, names, ordered, grouped) in known.items():
        if np.array_equal(values, rows.y):
            continue
        reason, label = _why_not(rows, values), None
        if reason is None:
            label = _merged(rows, Label(name, values, names, ordered, grouped))
            reason = _too_few(rows, values) if label is None else None
        if label is None:
            skipped.append({"name": name, "reason": str(reason)})
        else:
            asked.append(label)
    for coarse in asked[1:]:
        fine = next((one for one in asked[1:] if _asks(one, coarse)), None)
        if fine is not None:
            asked = [one for one in asked if one is not coarse]
            skipped.append({"name": coarse.name, "reason": f"it is one of the groupings of {fine.name}"})
    return asked, skipped


def _why_not(rows: Labelled, values: np.ndarray) -> str | None:
    if _follows(values, rows.y):
        return "y alone tells it"
    if _follows(values, rows.z) and _follows(rows.z, values):
        return "it is z under another name"
    return None


def _follows(values: np.ndarray, of: np.ndarray) -> bool:
    """Whether ``values`` (N,) are a function of ``of`` (N,)."""
    return len(np.unique(np.stack([of, values]), axis=1).T) == len(np.unique(of))


def _asks(fine: Label, coarse: Label) -> bool:
    """Whether ``coarse`` is one of the questions about ``fine``."""
    if fine is coarse or not fine.grouped or not len(coarse.names) < len(fine.names) <= MOST_CLASSES:
        return False
    return len(coarse.names) == 2 and _follows(coarse.values, fine.values)


def _binned(values: np.ndarray) -> tuple[np.ndarray, tuple[str, ...]]:
    """Classes of a number, and their names: its values where they are few, else ranges of equally many rows."""
    different = np.unique(values)
    if len(different) > BINS:
        different = np.unique(np.quantile(values, np.linspace(0, 1, BINS + 1)[:-1], method="lower"))
    return np.searchsorted(different, values, side="right") - 1, tuple(f"{value:.4g}" for value in different)


def _merged(rows: Labelled, label: Label) -> Label | None:
    """The label with its rare classes put together; None where fewer than two classes are left."""
    learn, test = _counts(rows, label)
    order = np.arange(len(learn)) if label.ordered else np.argsort(learn, kind="stable")
    groups: list[list[int]] = [[]]
    for number in order:
        if groups[-1] and learn[groups[-1]].sum() >= TO_LEARN and test[groups[-1]].sum() >= TO_TEST:
            groups.append([])
        groups[-1].append(int(number))
    if len(groups) > 1 and (learn[groups[-1]].sum() < TO_LEARN or test[groups[-1]].sum() < TO_TEST):
        groups[-2:] = [groups[-2] + groups[-1]]
    if len(groups) < 2 or (learn[groups[0]].sum() < TO_LEARN or test[groups[0]].sum() < TO_TEST):
        return None
    groups.sort(key=min)
    number_of = np.empty(len(learn), np.int64)
    for place, group in enumerate(groups):
        number_of[group] = place
    names = tuple(label.names[group[0]] if len(group) == 1 else _together(label, group) for group in groups)
    return label._replace(values=number_of[label.values], names=names)


def _together(label: Label, group: list[int]) -> str:
    if label.ordered:
        return f"{label.names[group[0]]}{TO}{label.names[group[-1]]}"
    commonest = label.names[group[-1]]
    return f"{commonest} or {'a rarer one' if len(group) == 2 else f'{len(group) - 1} rarer ones'}"


def _counts(rows: Labelled, label: Label) -> tuple[np.ndarray, np.ndarray]:
    """Rows of each class to learn on and to test on."""
    learn, test = (np.bincount(label.values[of], minlength=len(label.names)) for of in (rows.learn, rows.test))
    return learn, test


def _too_few(rows: Labelled, values: np.ndarray) -> str:
    fewest = []
    for of, needed in ((rows.learn, TO_LEARN), (rows.test, TO_TEST)):
        rest = len(of) - np.bincount(values[of]).max()
        fewest.append(np.ceil(len(of) * needed / max(1, rest)))
    return (
        f"cannot tell: all but its commonest value need {TO_LEARN} rows to learn on and {TO_TEST} to test on; about "
        f"{int(fewest[0]):,} and {int(fewest[1]):,} rows in all would be needed"
    )
