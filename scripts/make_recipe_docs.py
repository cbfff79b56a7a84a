"""Writes docs/reference/recipes.md from the pydantic models of a recipe; nothing in it is typed twice."""

import types
import typing
from pathlib import Path

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from trainer.recipe import ALIASES, Recipe
from trainer.recipe_errors import members, tags

PAGE = Path("docs/reference/recipes.md")
PLAIN = {str: "text", int: "whole number", float: "number", bool: "true or false"}

HEAD = """\
# Recipes

A recipe is one TOML file that says what is trained on which data, and all that is needed to repeat it.
`edgeveil recipe list` names those that come along, `edgeveil recipe show NAME` prints one to start from, and
`edgeveil recipe new --data npz:FILE --out FILE.toml` writes one for [your own data](bring-your-own-data.md).
`edgeveil train RECIPE --out RUN` takes a name or a path; `--budget quick` takes `[budget.quick]`.
A key that is not listed here is refused, with the nearest one that is.

<!-- Written by scripts/make_recipe_docs.py from trainer/recipe.py and trainer/perturbers/sections.py. -->

"""


def kind(annotation: object) -> str:
    """A type as a reader of TOML would say it."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Literal:
        return " or ".join(f'`"{value}"`' for value in arguments)
    if origin is dict:
        return "tables of tables of numbers"
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
    return f"## {title}\n\n{model.__doc__}\n\n{table}{inner}"


def page() -> str:
    """The whole page as Markdown."""
    names = {name: alias for alias, name in ALIASES.items()}
    shipped = "".join(
        f"| `{name}`{f', `{names[name]}`' if name in names else ''} | {Recipe.find(name).description} |\n"
        for name in Recipe.names()
    )
    return f"{HEAD}| recipe | what it trains |\n| --- | --- |\n{shipped}\n{section(Recipe, '')}".rstrip() + "\n"


def main() -> None:
    """Write the page."""
    PAGE.write_text(page())


if __name__ == "__main__":
    main()
