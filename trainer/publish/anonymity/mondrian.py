"""Mondrian (LeFevre, DeWitt, Ramakrishnan, ICDE 2006), strict: each class is cut in two as long as both parts will do.

A column with an order is cut at its median, a column of names between the groups below its present one. The column of
the largest loss within the class is tried first. A class is published with the smallest range, or lowest group, that
holds its values.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from edgeveil.edge_runtime.errors import BadInput, LimitNotMet
from edgeveil.trainer.publish.anonymity.criteria import Criteria
from edgeveil.trainer.publish.anonymity.frequency import Classes, Frequencies
from edgeveil.trainer.publish.anonymity.levels import Levels


@dataclass(frozen=True)
class Cell:
    """What a class shows of one column, and its loss in [0, 1]."""

    label: str
    loss: float


def partition(frequencies: Frequencies, criteria: Criteria) -> list[np.ndarray]:
    """The rows (numbers into ``frequencies.person``) of each class, none of which can be cut further.

    Raises ``BadInput`` where a person has several rows that a pseudonym links; ``LimitNotMet`` where all rows together
    do not meet the criteria.
    """
    if frequencies.link == "person" and len(frequencies.person) > len(frequencies.weight):
        raise BadInput(
            'Mondrian cuts rows, and a pseudonym links several rows of a person: take method = "incognito", or '
            'link = "none".'
        )
    everything = np.arange(len(frequencies.person))
    if not _enough(frequencies, criteria, [everything]):
        raise LimitNotMet(
            "All people in one class do not meet the criteria: ask for less, or for criteria that the table can meet."
        )
    todo, done = [everything], []
    while todo:
        rows = todo.pop()
        parts = next((cut for cut in _cuts(frequencies, rows) if _enough(frequencies, criteria, cut)), None)
        if parts is None:
            done.append(rows)
        else:
            todo += parts
    return done


def cell(levels: Levels, codes: np.ndarray) -> Cell:
    """What holds the base codes (rows,) of a class most closely."""
    if levels.positions is None:
        level = _lowest(levels, codes)
        code = levels.codes[level][codes[0]]
        return Cell(levels.labels[level][code], float(levels.losses[level][code]))
    low, high = int(codes.min()), int(codes.max())
    if low == high:
        return Cell(levels.labels[0][low], 0.0)
    span = float(levels.positions[high] - levels.positions[low])
    return Cell(f"{levels.labels[0][low]}..{levels.labels[0][high]}", span)


def _cuts(frequencies: Frequencies, rows: np.ndarray) -> Iterator[list[np.ndarray]]:
    """The parts that each column would cut a class into, the column of the largest loss first."""
    held = [codes[rows] for codes in frequencies.codes]
    losses = [cell(levels, codes).loss for levels, codes in zip(frequencies.levels, held, strict=True)]
    for column in sorted(range(len(held)), key=lambda at: (-losses[at], at)):
        if losses[column] > 0:
            yield _parts(frequencies.levels[column], held[column], rows)


def _parts(levels: Levels, codes: np.ndarray, rows: np.ndarray) -> list[np.ndarray]:
    if levels.positions is None:
        below = levels.codes[_lowest(levels, codes) - 1][codes]
        left = np.isin(below, _half(*np.unique(below, return_counts=True)))
        return [rows[left], rows[~left]]
    middle = np.partition(codes, (len(codes) - 1) // 2)[(len(codes) - 1) // 2]
    if middle == codes.max():  # more than half are the largest: the cut is below it
        middle -= 1
    return [rows[codes <= middle], rows[codes > middle]]


def _half(groups: np.ndarray, counts: np.ndarray) -> list[int]:
    """Some of the groups, with about half of what they count: the larger first, each to the side that has less."""
    sides: tuple[list[int], list[int]] = ([], [])
    sizes = [0, 0]
    for at in np.argsort(-counts, kind="stable"):
        side = int(sizes[1] < sizes[0])
        sides[side].append(int(groups[at]))
        sizes[side] += int(counts[at])
    return sides[0]


def _lowest(levels: Levels, codes: np.ndarray) -> int:
    """The lowest level at which all codes are one label."""
    return next(level for level, up in enumerate(levels.codes) if len(codes) and (up[codes] == up[codes[0]]).all())


def _enough(frequencies: Frequencies, criteria: Criteria, parts: Sequence[np.ndarray]) -> bool:
    """Whether every part meets the criteria."""
    number = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    person = frequencies.person[np.concatenate(parts)]
    pairs = np.unique(number * len(frequencies.weight) + person)
    classes = Classes(pairs // len(frequencies.weight), pairs % len(frequencies.weight))
    return not criteria.failing(frequencies, classes).any()
