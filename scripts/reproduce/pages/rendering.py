"""What pages are made with: the templates' environment, and one page from one record."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import jinja2

from edgeveil.edge_runtime.storage.atomic import write_atomic
from edgeveil.trainer.measures.intervals import Interval

TEMPLATES = Path(__file__).parent / "templates"


def rate(value: dict[str, Any] | None) -> str:
    """An accuracy in % with its 95 % interval; - for none."""
    if value is None:
        return "-"
    return f"{100 * value['accuracy']:.1f} [{100 * value['low']:.1f}, {100 * value['high']:.1f}]"


def share(value: float) -> str:
    """A share in %."""
    return f"{100 * value:.1f}"


def strongest(document: dict[str, Any], kind: str) -> dict[str, Any] | None:
    """The adversary of that kind which was right most often; None where none ran."""
    rows = (row for row in document["adversaries"] if row["kind"] == kind)
    return max(rows, key=lambda row: row["accuracy"], default=None)


def command(made_by: str) -> str:
    """What to type after ``.venv/bin/`` to make a record."""
    path, *words = made_by.split(" ")
    return " ".join(["python -m", path.removesuffix(".py").replace("/", "."), *words])


def interval(value: Interval) -> str:
    """A share in % with its 95 % interval."""
    return f"{100 * value.estimate:.1f} [{100 * value.low:.1f}, {100 * value.high:.1f}]"


def alike(rows: list[dict[str, Any]], *keys: str) -> list[list[dict[str, Any]]]:
    """The rows in groups that have the same of these keys, in order."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault(json.dumps([row[key] for key in keys]), []).append(row)
    return list(groups.values())


def recipes(rows: list[dict[str, Any]]) -> str:
    """The names of these rows' recipes."""
    return ", ".join(row["recipe"] for row in rows)


def render(template: str, /, filters: Mapping[str, Callable[..., str]] = MappingProxyType({}), **values: Any) -> str:
    """The page of ``template``, a name without ``.md.j2``; ``filters`` are its own ways to write values."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        trim_blocks=True,
        keep_trailing_newline=True,
        autoescape=jinja2.select_autoescape(),
    )
    shared = {one.__name__: one for one in (rate, share, strongest, interval, command)}
    environment.filters.update({**shared, **filters})
    return environment.get_template(f"{template}.md.j2").render(**values)


def write_from(record: Path, target: Path, make: Callable[[dict[str, Any]], str]) -> dict[str, Any] | None:
    """Write one page from one record. Returns the record, or None where it is not there and nothing was written."""
    if not record.is_file():
        return None
    found: dict[str, Any] = json.loads(record.read_text())
    write_atomic(target, make(found).encode())
    return found
