"""What each class of people must have: k of them, and sensitive values that tell little of any one.

l-diversity: Machanavajjhala et al., "l-diversity" (2007), distinct and entropy. t-closeness: Li et al. (2007), with the
earth mover's distance for equal, ordered and hierarchical ground distances.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.publish.anonymity.frequency import Classes, Frequencies
from edgeveil.trainer.publish.anonymity.levels import Levels

Distance = Literal["equal", "ordered", "hierarchical"]
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Sensitive:
    """What is asked of a sensitive column; None for what is not. ``levels`` are those of its values, whose base codes
    the people have; "ordered" takes their order and "hierarchical" their levels."""

    levels: Levels
    distinct_l: int | None = None
    entropy_l: float | None = None
    t: float | None = None
    distance: Distance = "equal"


@dataclass(frozen=True)
class Criteria:
    """At least ``k`` people in each class, and what is asked of each of the ``sensitive`` columns."""

    k: int
    sensitive: Mapping[str, Sensitive] = field(default_factory=dict)

    def require_monotone(self, frequencies: Frequencies, *, budget: int) -> None:
        """Raise ``BadInput`` where pruning would be wrong, because entropy l or t can fail after a step upward.

        Suppression: classes (10, 10) and (12, 0) need 12 people suppressed for an entropy l of 2, and joined all 32.
        The link ``none`` with several rows a person: the people of two joined classes are no mixture of both.
        """
        asked = [name for name, one in self.sensitive.items() if one.entropy_l is not None or one.t is not None]
        if not asked:
            return
        if budget > 0:
            raise BadInput(
                f'Entropy l-diversity and t-closeness of "{asked[0]}" are not monotone under suppression, so no search '
                f"for them is exact: set `suppress` to 0 (it is {budget}), or ask for a distinct l."
            )
        if frequencies.link == "none" and len(frequencies.person) > len(frequencies.weight):
            raise BadInput(
                f'Entropy l-diversity and t-closeness of "{asked[0]}" are not monotone where rows of one person are '
                'counted once and not linked: publish one row a person or link = "person", or ask for a distinct l.'
            )

    def measured(self, frequencies: Frequencies, classes: Classes) -> dict[str, np.ndarray]:
        """``k`` and, for each that is asked, ``NAME.distinct_l``, ``.entropy_l`` and ``.t``: a value for each class."""
        weight = frequencies.weight[classes.person]
        found = {"k": np.bincount(classes.number, weights=weight, minlength=len(classes)).astype(np.int64)}
        for name, asked in self.sensitive.items():
            values = frequencies.sensitive[name]
            size = asked.levels.size(0)
            cells = np.bincount(
                classes.number * size + values[classes.person], weights=weight, minlength=len(classes) * size
            ).reshape(len(classes), size)
            if asked.distinct_l is not None:
                found[f"{name}.distinct_l"] = (cells > 0).sum(axis=1)
            if asked.entropy_l is not None:
                found[f"{name}.entropy_l"] = entropy_l(cells)
            if asked.t is not None:
                everyone = np.bincount(values, weights=frequencies.weight, minlength=size)
                found[f"{name}.t"] = closeness(cells, everyone, asked.distance, asked.levels)
        return found

    def failing(self, frequencies: Frequencies, classes: Classes) -> np.ndarray:
        """Mask (classes,) of those that do not have what is asked."""
        found = self.measured(frequencies, classes)
        failing = found["k"] < self.k
        for name, asked in self.sensitive.items():
            if asked.distinct_l is not None:
                failing |= found[f"{name}.distinct_l"] < asked.distinct_l
            if asked.entropy_l is not None:
                failing |= found[f"{name}.entropy_l"] < asked.entropy_l - _ROUNDING
            if asked.t is not None:
                failing |= found[f"{name}.t"] > asked.t + _ROUNDING
        return failing


def entropy_l(cells: np.ndarray) -> np.ndarray:
    """e to the entropy of each row of counts (classes, values): the l of entropy l-diversity, as a number of values."""
    share = cells / cells.sum(axis=1, keepdims=True)
    return np.exp(-np.sum(share * np.log(np.where(share > 0, share, 1)), axis=1))


def closeness(cells: np.ndarray, everyone: np.ndarray, distance: Distance, levels: Levels) -> np.ndarray:
    """The earth mover's distance, 0 to 1, of each row of counts (classes, values) from those of everyone (values,)."""
    extra = cells / cells.sum(axis=1, keepdims=True) - everyone / everyone.sum()
    if distance == "equal":
        return np.abs(extra).sum(axis=1) / 2
    if distance == "ordered":
        steps = extra.shape[1] - 1
        return np.abs(np.cumsum(extra, axis=1)).sum(axis=1) / steps if steps else np.zeros(len(extra))
    cost = np.zeros(len(extra))
    for level in range(1, len(levels)):
        below, above = levels.codes[level - 1], levels.codes[level]
        parent = np.empty(levels.size(level - 1), np.int64)
        parent[below] = above
        flow = _summed(extra, below, levels.size(level - 1))
        gain = _summed(np.maximum(flow, 0), parent, levels.size(level))
        want = _summed(np.maximum(-flow, 0), parent, levels.size(level))
        cost += np.minimum(gain, want).sum(axis=1) * level / (len(levels) - 1)
    return cost


def _summed(columns: np.ndarray, into: np.ndarray, size: int) -> np.ndarray:
    """Columns (n, m) added up by their numbers ``into`` (m,), as (n, size)."""
    out = np.zeros((size, len(columns)))
    np.add.at(out, into, columns.T)
    return out.T
