"""Writes the pages of docs/results from records, as scripts/tables/NAME.toml describes each; no number is typed.

    python -m scripts.pages              every page and their index
    python -m scripts.pages table-2      one page

A description has a ``title``, ``records`` (a name in expressions: a path or pattern below docs/results), parts, and
``papers``: which part of a paper the page shows, and what has it here. A
part has a ``heading``, a ``text`` (a Jinja template), and a table: ``rows``, loops such as ``row in record.rows``, the
later ones inside the earlier; ``where``, a condition; ``columns``, a Jinja expression for each heading. ``given`` holds
what other people published. Expressions see the records, ``given``, the loops' names and the filters of this module.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
import tomllib

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.util.atomic import write_atomic
from edgeveil.trainer.measures import intervals
from scripts.record import RESULTS, ROOT, Script, run

DESCRIPTIONS = ROOT / "scripts/tables"
INDEX = RESULTS / "README.md"
# The commits that have the scripts which a record names and which are not here: of scripts/reproduce the first.
COMMITS = ("baecb1ef", "df500fa2", "8946c796")
ESTIMATES = ("accuracy", "estimate", "mean", "median", "correlation", "auc", "error")


def at(value: Any, path: str) -> Any:
    """What lies at ``a.b.0`` in a record; None where it is not there."""
    for key in path.split("."):
        try:
            value = value[int(key) if isinstance(value, list) else key]
        except (KeyError, IndexError, TypeError, ValueError):
            return None
    return value


def fixed(value: float | None, digits: int = 1) -> str:
    """A number with so many decimals; - for none."""
    return "-" if value is None else f"{value:,.{digits}f}"


def percent(value: float | None, digits: int = 1) -> str:
    """A share in %; - for none."""
    return "-" if value is None else f"{100 * value:.{digits}f}"


def span(value: Mapping[str, Any] | None, digits: int = 2, scale: float = 1) -> str:
    """An estimate with the ends of its interval; - for none."""
    if value is None:
        return "-"
    estimate = next(value[name] for name in ESTIMATES if name in value)
    low, high = (scale * value[end] for end in ("low", "high"))
    return f"{scale * estimate:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"


def rate(value: Mapping[str, Any] | None, digits: int = 1) -> str:
    """``span`` in %."""
    return span(value, digits, 100)


def over(rows: Sequence[Any], path: str) -> dict[str, float] | None:
    """Of the intervals at ``path`` of several rows: the mean, the lowest and the highest end; None of none."""
    known = [one for one in (at(row, path) for row in rows) if one is not None]
    if not known:
        return None
    estimates = [next(one[name] for name in ESTIMATES if name in one) for one in known]
    low, high = min(one["low"] for one in known), max(one["high"] for one in known)
    return {"mean": sum(estimates) / len(estimates), "low": low, "high": high}


def average(values: Sequence[float]) -> float | None:
    """The mean; None of none."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def guess(chance: Mapping[str, float]) -> str:
    """How often z is guessed from y alone, in %: by the stated prior or by counting, whichever is right more often."""
    return percent(max(chance.values()))


def strongest(rows: Sequence[Mapping[str, Any]], kind: str) -> Mapping[str, Any] | None:
    """The adversary of that kind which was right most often; None where none ran."""
    return max((row for row in rows if row["kind"] == kind), key=lambda row: row["accuracy"], default=None)


def strongest_of(records: Sequence[Mapping[str, Any]], kind: str) -> list[dict[str, Any]]:
    """``strongest`` of each record's audit, as rows with ``found``."""
    return [{"found": strongest(one["audit"]["adversaries"], kind)} for one in records]


def alike(rows: Sequence[Mapping[str, Any]], *keys: str) -> list[list[Mapping[str, Any]]]:
    """The rows in groups that have the same at these paths, in order."""
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault(json.dumps([at(row, key) for key in keys]), []).append(row)
    return list(groups.values())


def across(values: Sequence[float]) -> dict[str, float] | None:
    """Mean and 95 % interval (Student's t) of one share of every split; None of fewer than two."""
    if len(values) < 2:
        return None
    interval = intervals.mean(np.array(values, float))
    return {"estimate": interval.estimate, "low": max(0.0, interval.low), "high": min(1.0, interval.high)}


def best_of(rows: Sequence[Mapping[str, float] | None]) -> str:
    """``across`` in %, of the attackers' family that was right most often on average."""
    known = [row for row in rows if row is not None]
    families = set.intersection(*(set(row) for row in known)) if known else set()
    best = max(sorted(families), key=lambda family: sum(row[family] for row in known), default=None)
    return "-" if best is None else rate(across([row[best] for row in known]))


def found_of(rows: Sequence[Mapping[str, Any]]) -> str:
    """How many releases an audit found to leak."""
    return f"{sum(row['found'] for row in rows)}/{len(rows)}"


def settings_of(settings: Mapping[str, Any]) -> str:
    """The settings of a point of a sweep, but for its seed."""
    return ", ".join(f"{key.rpartition('.')[2]} {value}" for key, value in settings.items() if key != "seed")


def code(text: str) -> str:
    """Text in Markdown's code quotes."""
    return f"`{text}`"


def held(value: bool) -> str:
    """Whether what was asked for came about."""
    return "yes" if value else "**no**"


FILTERS = (
    at,
    fixed,
    percent,
    span,
    rate,
    over,
    average,
    guess,
    strongest,
    strongest_of,
    alike,
    across,
    best_of,
    found_of,
    settings_of,
    code,
    held,
)


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, autoescape=False, trim_blocks=True)  # noqa: S701 - Markdown
    environment.filters.update({one.__name__: one for one in FILTERS})
    return environment


def value_of(expression: str, names: Mapping[str, Any]) -> Any:
    """The value of an expression. Raises ``BadInput`` where it cannot be computed."""
    try:
        computed = _environment().compile_expression(expression, undefined_to_none=False)(**names)
        if isinstance(computed, jinja2.Undefined):
            str(computed)  # raises, and names what is missing
        return computed
    except (jinja2.TemplateError, TypeError, KeyError, IndexError, ZeroDivisionError) as error:
        raise BadInput(f"scripts/tables: {expression!r} has no value: {error}.") from error


def looped(loops: Sequence[str], names: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The names of every turn of nested loops, each ``NAME in EXPRESSION`` or ``KEY, VALUE in EXPRESSION``."""
    if not loops:
        yield dict(names)
        return
    targets, _, expression = loops[0].partition(" in ")
    for one in value_of(expression, names):
        bound = dict(zip(targets.split(", "), one, strict=True)) if "," in targets else {targets: one}
        yield from looped(loops[1:], {**names, **bound})


def table(part: Mapping[str, Any], names: Mapping[str, Any]) -> Iterator[str]:
    """The lines of a part's table, of every turn of its loops that ``where`` lets through."""
    columns = part["columns"]
    yield f"| {' | '.join(columns)} |"
    yield f"|{'---|' * len(columns)}"
    for turn in looped(part["rows"], names):
        if value_of(part.get("where", "true"), turn):
            cells = (value_of(expression, turn) for expression in columns.values())
            yield f"| {' | '.join('-' if cell is None else str(cell) for cell in cells)} |"


def described(name: str) -> dict[str, Any]:
    """The description of a page. Raises ``BadInput`` where there is none."""
    path = DESCRIPTIONS / f"{name}.toml"
    if not path.is_file():
        raise BadInput(f"A page of {', '.join(names_of_pages())} was expected; came {name}.")
    return tomllib.loads(path.read_text())


def names_of_pages() -> list[str]:
    """Every page that is described."""
    return sorted(path.stem for path in DESCRIPTIONS.glob("*.toml"))


def paths_of(pattern: str, root: Path = ROOT) -> list[Path]:
    """The records of a path or pattern below docs/results. Raises ``BadInput`` where there is none."""
    paths = sorted((root / RESULTS).glob(pattern))
    if not paths:
        raise BadInput(f"A record was expected at {RESULTS / pattern}.")
    return paths


@cache
def read(path: Path) -> Any:
    """A record; it is not to be changed."""
    return json.loads(path.read_text())


def records_of(description: Mapping[str, Any], root: Path = ROOT) -> dict[str, Any]:
    """Each record of a description by its name; of a pattern the list of all."""
    by_name: dict[str, Any] = {}
    for name, pattern in description["records"].items():
        documents = [read(path) for path in paths_of(pattern, root)]
        by_name[name] = documents if "*" in pattern else documents[0]
    return by_name


def made_by(path: Path) -> str:
    """The script that a record names, as a tree of ``COMMITS`` or this one has it."""
    return shlex.split(read(path)["made_by"])[0]


def of_commit(script: str) -> str:
    """A script that is not here, as ``git show`` takes it."""
    last = script == "scripts/measure/mutants.py"
    return f"{COMMITS[2 if last else script.startswith(('scripts/papers/', 'scripts/measure/'))]}:{script}"


def here_now(script: str) -> str | None:
    """Where that script is today; None where it is not here any more."""
    name = script.rpartition("/")[2]
    places = (script, *(f"scripts/{folder}/{name}" for folder in ("papers", "measure", "environments")))
    return next((place for place in places if (ROOT / place).is_file()), None)


def footer(description: Mapping[str, Any]) -> str:
    """Which records a page is of, and what made them."""
    links, now, gone = [], dict[str, None](), dict[str, None]()
    for name, pattern in description["records"].items():
        links.append(f"[{name}]({pattern.partition('*')[0].rpartition('/')[0] if '*' in pattern else pattern})")
        for script in map(made_by, paths_of(pattern)):
            place = here_now(script)
            (gone if place is None else now)[place or script] = None
    scripts = [f"`{place}`" for place in now] + [f"`{of_commit(place)}`" for place in gone]
    return f"Records: {', '.join(links)}; made by {', '.join(scripts)}."


def parts(description: Mapping[str, Any], records: Mapping[str, Any]) -> Iterator[str]:
    """The text and tables of a page, one after the other."""
    names = {**records, "given": description.get("given", {})}
    for part in description["part"]:
        if "heading" in part:
            yield f"## {part['heading']}"
        if "text" in part:
            try:
                yield _environment().from_string(part["text"]).render(**names).strip()
            except jinja2.TemplateError as error:
                raise BadInput(f"scripts/tables: {part['text']!r} cannot be written: {error}.") from error
        if "columns" in part:
            yield "\n".join(table(part, names))


def page(name: str) -> str:
    """The page of that name as Markdown."""
    description = described(name)
    body = [f"# {description['title']}", *parts(description, records_of(description)), footer(description)]
    return "\n\n".join(body) + "\n"


def index() -> str:
    """The list of pages, and of records that no page shows."""
    shown, others = set[Path](), dict[str, list[str]]()
    lines = ["# Results", "", "| page | records |", "|---|---|"]
    papers = []
    for name in names_of_pages():
        description = described(name)
        patterns = list(description["records"].values())
        shown |= {path for pattern in patterns for path in paths_of(pattern)}
        text = ", ".join(pattern.removesuffix(".json").replace("*", "\\*") for pattern in patterns)
        lines.append(f"| [{description['title']}]({name}.md) | {text} |")
        papers += [f"| {' | '.join(row)} | [{name}]({name}.md) |" for row in description.get("papers", [])]
    for path in sorted((ROOT / RESULTS).rglob("*.json")):
        if path not in shown:
            others.setdefault(path.parent.relative_to(ROOT / RESULTS).as_posix(), []).append(path.stem)
    shown_by = " or ".join(f"`git show {commit}:SCRIPT`" for commit in COMMITS)
    lines += ["", "## The five papers", "", "| paper | part | by | shown in |", "|---|---|---|---|", *sorted(papers)]
    text = f"`made_by` of a record names its script. If it is not here, {shown_by} shows it."
    lines += ["", text, "", "Records without a page:", ""]
    lines += [f"* [{folder}]({folder}): {', '.join(names)}" for folder, names in sorted(others.items())]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Write the pages that are named, or all of them and the index."""
    script = Script(__file__, __doc__, "table-2 mnist")
    script.add_argument("pages", nargs="*", metavar="PAGE", help="names of descriptions (default: all, and the index)")
    options = script.parse_args()
    written = {RESULTS / f"{name}.md": page(name) for name in options.pages or names_of_pages()}
    if not options.pages:
        written[INDEX] = index()
    for path, text in written.items():
        write_atomic(str(ROOT / path), text.encode())


if __name__ == "__main__":
    run(main)
