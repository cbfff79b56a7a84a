"""Hierarchies of texts: codes by their first characters, and trees of names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from edgeveil.trainer.publish.anonymity.rungs import ANY, Rung, Rungs


class Prefixes(Rungs):
    """Codes of ``length`` characters such as ZIP codes; a level for each number of characters that stay."""

    kind: Literal["prefixes"]
    length: Annotated[int, Field(ge=1)]
    keep: list[Annotated[int, Field(ge=1)]]
    alphabet: Annotated[int, Field(ge=2, description="How many characters there are: 10 for digits.")] = 10

    @model_validator(mode="after")
    def _nested(self) -> Prefixes:
        if self.keep != sorted(set(self.keep), reverse=True) or any(kept >= self.length for kept in self.keep):
            raise ValueError("numbers that fall, all below `length`")
        return self

    def rungs(self, value: str) -> list[Rung] | None:
        """As ``Rungs``."""
        if len(value) != self.length or not value.isalnum():
            return None
        kept = [(value[:keep] + ANY * (self.length - keep), float(self.alphabet) ** -keep) for keep in self.keep]
        return [(value, 0.0), *kept, (ANY, 1.0)]


class Tree(Rungs):
    """Names in groups, and groups in groups: ``["a", "b"]``, ``{ group = ["a", "b"], other = ["c"] }``, and so on."""

    kind: Literal["tree"]
    tree: Any

    @model_validator(mode="after")
    def _one_place(self) -> Tree:
        leaves = list(_leaves(self.tree))
        depths = {len(path) for path in leaves}
        if len(leaves) < 2 or len(depths) > 1:
            raise ValueError("a list of two names or more, or tables of lists that are all equally deep")
        names = [path[-1] for path in leaves]
        if twice := [name for name, count in Counter(names).items() if count > 1]:
            raise ValueError(f'each name in one group, and "{twice[0]}" stands in two')
        return self

    @cached_property
    def _paths(self) -> dict[str, tuple[str, ...]]:
        return {path[-1]: path for path in _leaves(self.tree)}

    @cached_property
    def _below(self) -> Counter[tuple[str, ...]]:
        """How many leaves each group has."""
        return Counter(path[:depth] for path in self._paths.values() for depth in range(1, len(path)))

    @cached_property
    def _places(self) -> dict[str, float]:
        return {name: float(at) for at, name in enumerate(self._paths)}

    def rungs(self, value: str) -> list[Rung] | None:
        """As ``Rungs``."""
        path = self._paths.get(value)
        if path is None:
            return None
        groups = [path[:depth] for depth in range(len(path) - 1, 0, -1)]
        return [(value, 0.0), *((one[-1], self._loss(one)) for one in groups), (ANY, 1.0)]

    def place(self, value: str) -> float:
        """As ``Rungs``: names in the order of the plan."""
        return self._places[value]

    def _loss(self, group: tuple[str, ...]) -> float:
        return (self._below[group] - 1) / (len(self._paths) - 1)


def _leaves(tree: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    if isinstance(tree, dict):
        for name, inner in tree.items():
            yield from _leaves(inner, (*path, str(name)))
    elif isinstance(tree, list) and all(isinstance(one, str) for one in tree):
        for name in tree:
            yield (*path, name)
    else:
        raise ValueError("tables, and lists of texts")
