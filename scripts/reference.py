"""Writes docs/reference/recipes.md from the models of a recipe, docs/boards from the profiles, tables of kinds from
their classes."""

from __future__ import annotations

import csv
import json
import types
import typing
from collections.abc import Iterable, Iterator

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from edgeveil.devices import profiles
from edgeveil.devices.profiles import Profile
from edgeveil.devices.published import TABLE
from edgeveil.edge_runtime.device import forms
from edgeveil.edge_runtime.kinds import SINKS, SOURCES
from edgeveil.edge_runtime.registry import Registry
from edgeveil.edge_runtime.util.atomic import write_atomic
from edgeveil.trainer.recipe.messages import members, tags
from edgeveil.trainer.recipe.schema import ALIASES, Recipe
from edgeveil.trainer.report.pictures import filled
from scripts.record import ROOT, Script, run

HOW = "run python -m scripts.reference"
PAGE = ROOT / "docs/reference/recipes.md"
KINDS = {"sources": (SOURCES, "what it is"), "sinks": (SINKS, "output")}
BOARDS = ROOT / "docs/boards"
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


def kinds_page(name: str, text: str) -> str:
    """The page ``text`` of ``sources`` or ``sinks`` with its table of kinds made anew."""
    registry, heading = KINDS[name]
    return filled(text, {name: lambda: kinds_table(registry, heading)})


def kinds_table(registry: Registry, heading: str) -> str:
    """A row for each class of a registry: its forms, its help, and what it needs where any of them needs something."""
    facts = {one.facts["forms"]: one.facts for one in registry.kinds().values()}
    columns = [registry.word, heading, *(["needs"] if any("needs" in one for one in facts.values()) else [])]
    rows = [
        [", ".join(f"`{form}`" for form in names), one["help"], one.get("needs", "")][: len(columns)]
        for names, one in facts.items()
    ]
    return "".join(
        f"| {' | '.join(row)} |\n".replace("|  |", "| |") for row in [columns, ["---"] * len(columns), *rows]
    )


def board(profile: Profile) -> str:
    """The page of one board, as Markdown."""
    return "\n".join([f"# {profile.title}", "", "<!-- recorded: board -->", *_board(profile), "<!-- end -->", ""])


def _board(profile: Profile) -> Iterator[str]:
    system = profile.system
    yield f"Made from `devices/profiles/{profile.name}.toml` by `scripts/reference.py`."
    yield ""
    yield "| | |"
    yield "| --- | --- |"
    models = ", ".join(f"`{one}`" for one in profile.models)
    yield f"| says that it is | {models or 'nothing; name the profile'} |"
    yield f"| image | {system}, {profile.architecture}, Python {profile.python} |"
    yield f"| artefacts | {', '.join(f'`{one}`' for one in profile.artefacts)} |"
    for backend in profile.backends:
        place = f" on the {backend.accelerator} (`--device {backend.device}`)" if backend.accelerator else ""
        driver = f", libedgetpu {' or '.join(backend.driver)}" if backend.driver else ""
        yield f"| interpreter | {backend.name} {backend.versions}{driver}{place} |"
    for install in profile.install:
        yield f"| install | {install.text()} |"
    yield f"| cameras | {', '.join(f'`{one}`' for one in profile.camera.sources)} |"
    for name, value in profile.service.environment.items():
        yield f"| environment | `{name}={value}` |"
    seconds = profile.service.watchdog_s
    yield f"| watchdog | {f'{seconds} s' if seconds else 'as its system sets it'} |"
    yield f"| sensors | {', '.join(profile.sensors)} |"
    yield ""
    commands = [f"edgeveil devices check --on ssh://USER@HOST --for {profile.name}"]
    if any(install.packages for install in profile.install if install.python == profile.python):
        commands.append(f"edgeveil wheels {profile.name} --out wheels")
    form = next((forms()[backend.device] for backend in profile.backends if backend.device in forms()), None)
    if form is not None and form.requantised:
        how = " --compiler-python PYTHON" if form.made[0] == "rknn" else ""
        commands.append(f"edgeveil export RUN --for {profile.name}{how} --out EXPORT")
        commands.append("edgeveil seal EXPORT --key KEY --out BUNDLE")
    commands.append(f"edgeveil flash BUNDLE --on ssh://USER@HOST --for {profile.name} --trust TRUST")
    yield from (f"{number}. `{command}`" for number, command in enumerate(commands, 1))
    yield ""
    yield "| fact | state |"
    yield "| --- | --- |"
    yield from (f"| {fact} | run |" for fact in profile.checked)
    yield from (f"| {fact} | unchecked |" for fact in profile.unchecked)
    rows = _published(profile)
    if rows:
        yield ""
        yield "Published by others ([sources](../reference/benchmarks.md#published-data)), not measured here:"
        yield ""
        yield "| network | input | precision | ms a frame | source |"
        yield "| --- | --- | --- | --- | --- |"
        yield from rows


def _published(profile: Profile) -> list[str]:
    """Rows of the published table that stand for this board, and those that its profile has beside them."""
    groups = {one.group for one in profile.calibration}
    with TABLE.open(newline="") as file:
        found = [row for row in csv.DictReader(file) if f"{row['device']}/{row['runtime']}" in groups]
    lines = {"| {model} | {input} | {precision} | {latency_ms} | {source} |".format(**row) for row in found}
    lines |= {f"| {p.network} | {p.input} | {p.precision} | {p.ms:g} | {p.source} |" for p in profile.published}
    return sorted(lines)


def boards() -> str:
    """The list of all boards."""
    lines = [f"* [{profiles.load(name).title}]({name}.md)" for name in profiles.names()]
    lines += ["", "[What of each was run, and on what](../results/boards.md); none of it on the board itself."]
    return "\n".join(["# Boards, one by one", "", "<!-- recorded: boards -->", *lines, "<!-- end -->", ""])


def main() -> None:
    """Bring the pages up to date."""
    Script(__file__, __doc__).parse_args()
    write_atomic(str(PAGE), page(PAGE.read_text(encoding="utf-8")).encode())
    for name in KINDS:
        path = ROOT / f"docs/reference/{name}.md"
        write_atomic(str(path), kinds_page(name, path.read_text(encoding="utf-8")).encode())
    for name in profiles.names():
        write_atomic(str(BOARDS / f"{name}.md"), board(profiles.load(name)).encode())
    write_atomic(str(BOARDS / "README.md"), boards().encode())


if __name__ == "__main__":
    run(main)
