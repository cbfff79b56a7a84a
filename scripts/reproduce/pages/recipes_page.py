"""The tables of docs/reference/recipes.md from the pydantic models of a recipe; no key is typed twice."""

import json
import types
import typing
from collections.abc import Iterable, Iterator
from pathlib import Path

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from edgeveil.edge_runtime.storage.atomic import write_atomic
from edgeveil.trainer.recipe.messages import members, tags
from edgeveil.trainer.recipe.schema import ALIASES, Recipe
from edgeveil.trainer.report.marked import filled

NAME = "recipes"
HOW = "run python -m scripts.reproduce.pages.write_pages recipes"
PAGE = Path("docs/reference/recipes.md")
PLAIN = {str: "text", int: "whole number", float: "number", bool: "true or false"}


def kind(annotation: object, constraints: Iterable[object] = ()) -> str:
    """A type with its limits, as a reader of TOML would say it."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return kind(arguments[0], [*constraints, *_constraints(arguments[1:])])
    if origin is typing.Literal:
        return " or ".join(f"`{value(one)}`" for one in arguments)
    if origin is dict:
        return "tables of tables of numbers"
    if origin in (typing.Union, types.UnionType):
        return " or ".join(kind(part, constraints) for part in arguments if part is not type(None))
    if origin is list:
        name, _, inner = kind(arguments[0]).partition(", ")
        if name.startswith("list of "):
            return f"list of {name.replace('list', 'lists', 1)}"
        return f"list of {_count(constraints)}{name}s" + (f", each {inner}" if inner else "")
    return PLAIN[annotation] + limits(constraints)  # type: ignore[index]


def value(one: object) -> str:
    """A value as TOML writes it, which is as JSON does."""
    return json.dumps(one)


def limits(constraints: Iterable[object]) -> str:
    """The range of a number."""
    signs = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}
    found = [f"{sign} {getattr(m, name)}" for m in constraints for name, sign in signs.items() if hasattr(m, name)]
    return f", {', '.join(found)}" if found else ""


def default(field: FieldInfo) -> str:
    """What is taken where the key is left out."""
    if field.is_required():
        return "required"
    return "left out" if field.default is None else f"`{value(field.default)}`"


def _constraints(metadata: Iterable[object]) -> list[object]:
    """The constraints of an annotation, those within a ``Field`` of it too."""
    return [one for part in metadata for one in (part.metadata if isinstance(part, FieldInfo) else [part])]


def _count(constraints: Iterable[object]) -> str:
    ends = {
        name: getattr(one, name) for one in constraints for name in ("min_length", "max_length") if hasattr(one, name)
    }
    return f"{ends['min_length']} " if len(set(ends.values())) == 1 and len(ends) == 2 else ""


def sections(
    model: type[BaseModel] = Recipe, name: str = "", *, many: bool = False
) -> Iterator[tuple[str, type[BaseModel]]]:
    """(heading, model) of every section, the outer ones first; ``many``: of which there is a list."""
    title = (f"`[[{name}]]`" if many else f"`[{name}]`") if name else "At the top"
    if "kind" in model.model_fields and model.model_fields["kind"].is_required():  # a member of a union by its kind
        title += " with " + " or ".join(f'`kind = "{kind}"`' for kind in tags(model))
    yield title, model
    for key, field in model.model_fields.items():
        for inner in members(field.annotation):
            a_list = typing.get_origin(field.annotation) is list
            yield from sections(inner, f"{name}.{key}" if name else key, many=a_list)


def section(title: str, model: type[BaseModel]) -> str:
    """One section with a row for each key that is no section of its own."""
    rows = [
        f"| `{key}` | {kind(field.annotation, field.metadata)} | {default(field)} | {field.description} |\n"
        for key, field in model.model_fields.items()
        if not members(field.annotation)
    ]
    head = "| key | value | if left out | what it is |\n| --- | --- | --- | --- |\n"
    return f"### {title}\n\n{model.__doc__}\n\n{head}{''.join(rows)}\n"


def shipped() -> str:
    """The recipes that come along, a row for each."""
    names = {name: alias for alias, name in ALIASES.items()}
    rows = "".join(
        f"| `{name}`{f', `{names[name]}`' if name in names else ''} | {Recipe.find(name).description} |\n"
        for name in Recipe.names()
    )
    return f"| recipe | what it trains |\n| --- | --- |\n{rows}"


def keys() -> str:
    """Every section with a row for each key."""
    return "".join(section(*one) for one in sections()).rstrip() + "\n"


def page(text: str) -> str:
    """The page ``text`` with its tables made anew."""
    return filled(text, {"recipes": shipped, "keys": keys})


def write() -> None:
    """Bring the page up to date."""
    write_atomic(PAGE, page(PAGE.read_text(encoding="utf-8")).encode())
