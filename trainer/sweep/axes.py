"""``--axis recipe.key=v1,v2``: the points of a sweep, each checked against the recipe's schema."""

from __future__ import annotations

import hashlib
import itertools
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tomllib
from pydantic import BaseModel

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.recipe.messages import nearest
from edgeveil.trainer.recipe.schema import Recipe


@dataclass(frozen=True)
class Axis:
    """A key of recipes as written in TOML (``perturber.price``), and its values."""

    key: str
    values: tuple[Any, ...]


@dataclass(frozen=True)
class Point:
    """One recipe with one value of each axis: the recipe to train, and the settings made in it."""

    recipe: Recipe
    settings: Mapping[str, Any]

    @property
    def name(self) -> str:
        """A file name with the settings, unique to this recipe."""
        text = self.recipe.name + "".join(f"+{key.rsplit('.')[-1]}={value}" for key, value in self.settings.items())
        digest = hashlib.sha256(self.recipe.model_dump_json().encode()).hexdigest()[:10]
        return f"{re.sub(r'[^a-zA-Z0-9.=+_-]', '_', text)[:80]}-{digest}"


def parse(text: str) -> Axis:
    """``key=v1,v2``: values are TOML (numbers, true, "text", [lists]); bare words are text. Raises ``BadInput``."""
    key, equals, values = text.partition("=")
    key = key.strip().removeprefix("recipe.")
    if not equals or not re.fullmatch(r"[a-z][a-z0-9_-]*(\.[a-z][a-z0-9_-]*)*", key) or not values.strip():
        raise BadInput(f'--axis: expected KEY=VALUE,VALUE such as perturber.price=0.5,1,2; got "{text}".')
    try:
        found = tomllib.loads(f"values = [{values}]")["values"]
    except tomllib.TOMLDecodeError:
        found = [_value(part.strip()) for part in values.split(",")]
    if len({json.dumps(value) for value in found}) != len(found):
        raise BadInput(f'--axis {key}: each value may be given once; got "{values}".')
    return Axis(key, tuple(found))


def points(recipes: Sequence[Recipe], axes: Sequence[Axis]) -> list[Point]:
    """Every recipe at every combination of the axes whose key it has; a recipe without any is one point.

    Raises ``BadInput`` for a key that no recipe has, for a key given twice, and for a value that a recipe refuses.
    """
    keys = [axis.key for axis in axes]
    for key in keys:
        if keys.count(key) > 1:
            raise BadInput(f"--axis {key}: give each key once, with all of its values.")
        if not any(has(recipe, key) for recipe in recipes):
            known = sorted({name for recipe in recipes for name in _keys(recipe)})
            names = ", ".join(recipe.name for recipe in recipes)
            raise BadInput(
                f"--axis {key}: no such key in {names}{nearest(key, known)}. `edgeveil recipe show {recipes[0].name}` "
                "prints the keys."
            )
    found = []
    for recipe in recipes:
        mine = [axis for axis in axes if has(recipe, axis.key)]
        for values in itertools.product(*(axis.values for axis in mine)):
            settings = {axis.key: value for axis, value in zip(mine, values, strict=True)}
            found.append(Point(with_settings(recipe, settings), settings))
    return found


def with_settings(recipe: Recipe, settings: Mapping[str, Any]) -> Recipe:
    """The recipe with some keys set. Raises ``BadInput`` that names the key, what was expected and what came."""
    table = recipe.model_dump(exclude_none=True)
    for key, value in settings.items():
        *path, last = key.split(".")
        section = table
        for part in path:
            section = section.setdefault(part, {})
        section[last] = value
    return Recipe.check(table, origin=recipe.name)


def has(recipe: Recipe, key: str) -> bool:
    """Whether this recipe, with the kind of perturber that it has, knows the key."""
    section: Any = recipe
    *path, last = key.split(".")
    for part in path:
        section = getattr(section, part, None) if isinstance(section, BaseModel) else None
    return isinstance(section, BaseModel) and last in type(section).model_fields


def _value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _keys(section: BaseModel, before: str = "") -> list[str]:
    found = []
    for name in type(section).model_fields:
        value = getattr(section, name)
        if isinstance(value, BaseModel):
            found += _keys(value, f"{before}{name}.")
        else:
            found.append(before + name)
    return found
