"""The tables of docs/reference/recipes.md from the pydantic models of a recipe; no key is typed twice."""

import types
import typing
from pathlib import Path

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from edgeveil.edge_runtime.storage.atomic import write_atomic
from edgeveil.trainer.recipe.messages import members, tags
from edgeveil.trainer.recipe.schema import ALIASES, Recipe
from edgeveil.trainer.report.marked import filled

HOW = "run python -m scripts.reproduce.pages.write_pages recipes"
PAGE = Path("docs/reference/recipes.md")
PLAIN = {str: "text", int: "whole number", float: "number", bool: "true or false"}


def kind(annotation: object) -> str:
    """A type as a reader of TOML would say it."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Literal:
        return " or ".join(f'`"{value}"`' for value in arguments)
    if origin is dict:
        return "tables of tables of numbers"
    if origin is list:
        return f"list of {kind(arguments[0])}s".replace("texts", "text")
    if origin in (typing.Union, types.UnionType):
        return " or ".join(kind(part) for part in arguments if part is not type(None))
    if origin is typing.Annotated:
        return kind(arguments[0])
    return PLAIN.get(annotation, str(annotation))  # type: ignore[call-overload]


def limits(field: FieldInfo) -> str:
    """The range of a number, from the constraints of its field."""
    signs = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}
    found = [f"{sign} {getattr(m, name)}" for m in field.metadata for name, sign in signs.items() if hasattr(m, name)]
    return f", {', '.join(found)}" if found else ""


def default(field: FieldInfo) -> str:
    """What is taken where the key is left out."""
    if field.is_required():
        return "required"
    value = field.default
    if value is None:
        return "left out"
    return f'`"{value}"`' if isinstance(value, str) else f"`{value}`"


def section(model: type[BaseModel], name: str) -> str:
    """One section and those inside it."""
    rows, inner = [], ""
    for key, field in model.model_fields.items():
        models = members(field.annotation)
        path = f"{name}.{key}" if name else key
        if not models:
            rows.append(
                f"| `{key}` | {kind(field.annotation)}{limits(field)} | {default(field)} | {field.description} |"
            )
            continue
        if len(models) == 1:
            inner += section(models[0], path)
            continue
        for member in models:
            inner += section(member, path)
    title = f"`[{name}]`" if name else "At the top"
    if "kind" in model.model_fields:
        title += " with " + " or ".join(f'`kind = "{kind}"`' for kind in tags(model))
    table = "| key | value | if left out | what it is |\n| --- | --- | --- | --- |\n" + "\n".join(rows) + "\n\n"
    return f"### {title}\n\n{model.__doc__}\n\n{table}{inner}"


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
    return section(Recipe, "").rstrip() + "\n"


def page(text: str) -> str:
    """The page ``text`` with its tables made anew."""
    return filled(text, {"recipes": shipped, "keys": keys})


def write() -> None:
    """Bring the page up to date."""
    write_atomic(PAGE, page(PAGE.read_text(encoding="utf-8")).encode())
