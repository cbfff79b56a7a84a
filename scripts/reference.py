"""Writes docs/reference/recipes.md from the models of a recipe, docs/boards from the profiles, tables of kinds from
their classes."""

from __future__ import annotations

import csv
import json
import re
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from edgeveil.devices import profiles, site
from edgeveil.devices.profiles import Profile
from edgeveil.devices.published import TABLE
from edgeveil.edge_runtime.device import forms
from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.kinds import SINKS, SOURCES
from edgeveil.edge_runtime.late_imports import library
from edgeveil.edge_runtime.registry import Registry
from edgeveil.edge_runtime.stages import STAGES
from edgeveil.edge_runtime.util.atomic import write_atomic
from edgeveil.trainer.attacks.registry import FAMILIES, adversaries
from edgeveil.trainer.export.compilers.vendors import COMPILERS
from edgeveil.trainer.recipe.messages import members, tags
from edgeveil.trainer.recipe.schema import ALIASES, Recipe
from edgeveil.trainer.report.card_page import environment
from scripts.record import ROOT, Script, run

HOW = "run python -m scripts.reference"
PAGE = ROOT / "docs/reference/recipes.md"
KINDS = {"sources": (SOURCES, "what it is"), "sinks": (SINKS, "output")}
BOARDS = ROOT / "docs/boards"
SITE = ROOT / site.PAGE
FORMAT = ROOT / "docs/reference/bundle-format.md"
ATTACKS = ROOT / "docs/explanation/adversaries.md"
GLOSSARY = ROOT / "docs/reference/glossary.md"
LEARNS_FROM = {"fixed": "nothing", "transfer": "clean samples", "adaptive": "x'"}
AGAIN = 3  # keys that two sections describe alike
PLAIN = {str: "text", int: "whole number", float: "number", bool: "true or false"}


# Parts of pages that are written by scripts are between ``<!-- recorded: NAME -->`` and ``<!-- end -->``.
_PART = re.compile(r"(<!-- recorded: ([a-z0-9-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def filled(text: str, makers: Mapping[str, Callable[[], Any]]) -> str:
    """``text`` with every marked part written again. Raises ``BadInput`` for a part without a maker, or a maker without
    a part."""
    missing = [name for name in makers if f"<!-- recorded: {name} -->" not in text]

    def replacement(match: re.Match[str]) -> str:
        name = match[2]
        if name not in makers:
            raise BadInput(f"There is no table called {name}; there are {', '.join(makers)}.")
        return f"{match[1]}{makers[name]()}{match[3]}"

    out = _PART.sub(replacement, text)
    if missing:
        raise BadInput(f"The page has no part for {', '.join(missing)}: put <!-- recorded: NAME --> and <!-- end -->.")
    return out


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
    bounds = [f"{sign} {getattr(m, name)}" for m in constraints for name, sign in signs.items() if hasattr(m, name)]
    return f", {', '.join(bounds)}" if bounds else ""


def default(field: FieldInfo) -> str:
    """What is taken where the key is left out."""
    if field.is_required():
        return "required"
    return "optional" if field.default is None else f"`{value(field.default)}`"


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
            a_list = list in map(typing.get_origin, (field.annotation, *typing.get_args(field.annotation)))
            yield from sections(inner, f"{name}.{key}" if name else key, many=a_list)


def section(title: str, model: type[BaseModel], shown: dict[str, str]) -> str:
    """One section with a line for each key that is no section of its own.

    ``shown`` has the lines of the sections before, by title: keys that an earlier section describes in the same words
    are named only, where they are three or more.
    """
    lines = {
        key: f"* `{key}` ({kind(field.annotation, field.metadata)}; {default(field)}): {field.description}\n"
        for key, field in model.model_fields.items()
        if not members(field.annotation)
    }
    titles = [shown[line] for line in lines.values() if line in shown]
    out = []
    for first in dict.fromkeys(titles):
        if titles.count(first) >= AGAIN:
            again = [key for key, line in lines.items() if shown.get(line) == first]
            names = "all keys" if len(again) == len(lines) else ", ".join(f"`{key}`" for key in again)
            out.append(f"* As in {first}: {names}.\n")
            lines = {key: line for key, line in lines.items() if key not in again}
    out.extend(lines.values())
    for line in lines.values():
        shown.setdefault(line, title)
    return f"### {title}\n\n{model.__doc__}\n\n{''.join(out)}\n"


def shipped() -> str:
    """The recipes that come with EdgeVeil: a line for each that holds, the names of those to compare with."""
    names = {name: alias for alias, name in ALIASES.items()}
    recipes = {name: Recipe.find(name) for name in Recipe.names()}
    lines = [
        f"* `{name}`{f', `{names[name]}`' if name in names else ''}: {one.description}\n"
        for name, one in recipes.items()
        if one.perturber.holds
    ]
    others = [f"`{name}`" for name, one in recipes.items() if not one.perturber.holds]
    return "".join(lines) + f"* To compare with (`edgeveil recipe list --all` describes them): {', '.join(others)}.\n"


def keys() -> str:
    """Every section with a row for each key."""
    shown: dict[str, str] = {}
    return "".join(section(*one, shown) for one in sections()).rstrip() + "\n"


def page(text: str) -> str:
    """The page ``text`` with its tables made anew."""
    return filled(text, {"recipes": shipped, "keys": keys})


def families() -> str:
    """The families of attacks, a row for each, in the order of an audit."""
    ours = adversaries()[: len(FAMILIES[0].kinds())]
    texts = [(one, (one.__doc__ or "").splitlines()[0].replace("|", "\\|")) for one in ours]
    rows = (f"| {one.name} | {LEARNS_FROM[one.kind]} | {what} |\n" for one, what in texts)
    return f"| family | learns from | what it is |\n|---|---|---|\n{''.join(rows)}"


def kinds_page(name: str, text: str) -> str:
    """The page ``text`` of ``sources`` or ``sinks`` with its table of kinds made anew."""
    registry, heading = KINDS[name]
    return filled(text, {name: lambda: kinds_table(registry, heading)})


def kinds_table(registry: Registry, heading: str) -> str:
    """A row for each class of a registry: its forms, its help, and what it needs where any of them needs something."""
    facts = {one.facts["forms"]: one.facts for one in registry.kinds().values()}
    columns = [registry.word, heading, *(["needs"] if any("needs" in one for one in facts.values()) else [])]
    rows = [
        [
            ", ".join(f"`{form}`" for form in names),
            one["help"],
            ", ".join(library(need).title for need in one.get("needs", ())),
        ][: len(columns)]
        for names, one in facts.items()
    ]
    return "".join(
        f"| {' | '.join(row)} |\n".replace("|  |", "| |") for row in [columns, ["---"] * len(columns), *rows]
    )


def stages_page(text: str) -> str:
    """The page ``text`` of the format with a row for each stage kind: its class, and what the page says it makes."""
    descriptions = dict(re.findall(r"^\| `([^`]+)` \|.* \| (.+) \|$", text.partition("recorded: stages")[2], re.M))
    rows = []
    for name, kind in STAGES.kinds().items():
        one = kind.load()()
        named = {"stage", one.chooses, "output", *one.reads}
        keys = " ".join(f"`{key}`" for key in tuple(one.table()) if key not in named)
        takes = "; ".join(f"`{key}` {', '.join(kinds.split())}" for key, kinds in one.reads.items())
        takes = takes.removeprefix("`input` ")
        rows.append(f"| `{name}` | {keys} | {takes} | {descriptions.get(name, one.__doc__.splitlines()[0])} |\n")
    head = "| stage | keys | takes | makes |\n|---|---|---|---|\n"
    return filled(text, {"stages": lambda: (head + "".join(rows)).replace("|  |", "| |")})


def site_keys() -> str:
    """The keys of boards.toml: those at the top, and those of a board and of [all]."""
    keys = {**site.File.model_fields, **site.BoardTable.model_fields}
    return "".join(
        f"* `{key}`{'' if field.default in (None, ()) or field.is_required() else f' ({default(field)})'}: "
        f"{field.description}\n"
        for key, field in keys.items()
        if not members(field.annotation)
    )


def board(profile: Profile) -> str:
    """The page of one board, as Markdown."""
    return "\n".join([f"# {profile.title}", "", "<!-- recorded: board -->", *_board(profile), "<!-- end -->", ""])


def _board(profile: Profile) -> Iterator[str]:
    system = profile.system
    yield f"Made from `devices/profiles/{profile.name}.toml` by `scripts/reference.py`."
    yield ""
    models = ", ".join(f"`{one}`" for one in profile.models)
    yield f"* model: {models or 'none; name the profile'}"
    if profile.memory_mib:
        yield f"* memory: {profile.memory_mib:,} MiB or more"
    yield f"* image: {system}, {profile.architecture}, Python {profile.python}"
    yield f"* artefacts: {', '.join(f'`{one}`' for one in profile.artefacts)}"
    for backend in profile.backends:
        place = f" on the {backend.accelerator} (`--device {backend.device}`)" if backend.accelerator else ""
        driver = f", libedgetpu {' or '.join(backend.driver)}" if backend.driver else ""
        yield f"* interpreter: {backend.name} {backend.versions}{driver}{place}"
    for install in profile.install:
        yield f"* install: {install.text()}"
    yield f"* cameras: {', '.join(f'`{one}`' for one in profile.camera.sources)}"
    for name, value in profile.service.environment.items():
        yield f"* environment: `{name}={value}`"
    seconds = profile.service.watchdog_s
    yield f"* watchdog: {f'{seconds} s' if seconds else 'as its system sets it'}"
    yield f"* sensors: {', '.join(profile.sensors)}"
    yield ""
    commands = [f"edgeveil board check ssh://USER@HOST --for {profile.name}"]
    if any(install.packages for install in profile.install if install.python == profile.python):
        commands.append(f"edgeveil board wheels {profile.name} --out wheels")
    form = next((forms()[backend.device] for backend in profile.backends if backend.device in forms()), None)
    if form is not None and form.requantised:
        how = "" if COMPILERS[profile.compiler or ""].facts.get("program") else "EDGEVEIL_COMPILER_PYTHON=PYTHON "
        commands.append(f"{how}edgeveil export RUN --for {profile.name} --out EXPORT")
        commands.append("edgeveil seal EXPORT --key KEY --out BUNDLE")
    commands.append(f"edgeveil flash BUNDLE --on ssh://USER@HOST --for {profile.name} --trust TRUST")
    yield from (f"{number}. `{command}`" for number, command in enumerate(commands, 1))
    yield ""
    yield from (f"* run: {fact}" for fact in profile.checked)
    yield from (f"* unchecked: {fact}" for fact in profile.unchecked)
    groups = sorted({one.group for one in profile.calibration})
    with TABLE.open(newline="") as file:
        count = sum(f"{row['device']}/{row['runtime']}" in groups for row in csv.DictReader(file))
    if not count + len(profile.published):
        return
    yield ""
    yield "Latencies published by others ([sources](../reference/benchmarks.md#published-data)), not measured here:"
    yield ""
    if count:
        yield f"* {count} rows of `devices/published.csv`, device/runtime {', '.join(f'`{one}`' for one in groups)}"
    for source in dict.fromkeys(one.source for one in profile.published):
        rows = (one for one in profile.published if one.source == source)
        yield f"* {source}: " + "; ".join(f"{p.network} {p.input} {p.precision} {p.ms:g} ms" for p in rows)


def boards() -> str:
    """The list of all boards."""
    lines = [f"* [{profiles.load(name).title}]({name}.md)" for name in profiles.names()]
    lines += ["", "[What of each was run, and on what](../results/boards.md); none of it on the board itself."]
    return "\n".join(["# Boards, one by one", "", "<!-- recorded: boards -->", *lines, "<!-- end -->", ""])


def glossary() -> str:
    """The words of trainer/report/templates/words.html: those that pages of an audit have, and the others."""
    words: typing.Any = environment().get_template("words.html").module
    parts = ("".join(f"* **{word}**: {meaning}\n" for word, meaning in part) for part in (words.measured, words.others))
    return "\nAlso:\n\n".join(parts)


def main() -> None:
    """Bring the pages up to date."""
    Script(__file__, __doc__).parse_args()
    write_atomic(str(PAGE), page(PAGE.read_text(encoding="utf-8")).encode())
    write_atomic(str(ATTACKS), filled(ATTACKS.read_text(encoding="utf-8"), {"families": families}).encode())
    write_atomic(str(GLOSSARY), filled(GLOSSARY.read_text(encoding="utf-8"), {"words": glossary}).encode())
    write_atomic(str(FORMAT), stages_page(FORMAT.read_text(encoding="utf-8")).encode())
    write_atomic(str(SITE), filled(SITE.read_text(encoding="utf-8"), {"keys": site_keys}).encode())
    for name in KINDS:
        path = ROOT / f"docs/reference/{name}.md"
        write_atomic(str(path), kinds_page(name, path.read_text(encoding="utf-8")).encode())
    for name in profiles.names():
        write_atomic(str(BOARDS / f"{name}.md"), board(profiles.load(name)).encode())
    write_atomic(str(BOARDS / "README.md"), boards().encode())


if __name__ == "__main__":
    run(main)
