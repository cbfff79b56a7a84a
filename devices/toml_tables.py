"""TOML files as pydantic models; what is wrong in one is refused in one sentence.

A field's ``description`` says what is expected there. A ``ValueError`` of a validator does the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_origin

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from edgeveil.edge_runtime.errors import BadInput, nearest, written_text


class Table(BaseModel):
    """A table of a file: unknown keys are refused, and no value is converted to another type."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


Model = TypeVar("Model", bound=Table)
# Pydantic's kinds of problems whose own words do not suit TOML.
_EXPECTED = {
    "model_type": "a table",
    "dict_type": "a table",
    "tuple_type": "a list",
    "frozen_set_type": "a list",
    "too_short": "a list of at least one",
}


def matching(pattern: str, expected: str) -> BeforeValidator:
    """For text that must match ``pattern`` as a whole; ``expected`` says so to people."""

    def check(value: Any) -> Any:
        if not (isinstance(value, str) and re.fullmatch(pattern, value)):
            raise ValueError(expected)
        return value

    return BeforeValidator(check)


def _no_repeats(values: Any) -> Any:
    if isinstance(values, list) and any(values.count(value) > 1 for value in values):
        raise ValueError("a list without repeats")
    return values


NO_REPEATS = BeforeValidator(_no_repeats)
Text = Annotated[str, matching(r"(?s).*\S.*", "text that is not blank")]
Texts = Annotated[tuple[Text, ...], Field(strict=False), NO_REPEATS]
SomeTexts = Annotated[Texts, Field(min_length=1)]


def read_toml(path: Path, what: str, page: str) -> dict[str, Any]:
    """The document in a TOML file. ``what`` and ``page`` (its documentation) are for messages. Raises ``BadInput``."""
    import tomllib  # Python 3.11, which only the workstation needs

    text = written_text(path, f"The {what} ({page} shows one)")
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise BadInput(f"the {what} {path} is not TOML: {error}. {page} shows one.") from None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """``". Did you mean X?"`` if a known word is near, else all of them."""
    near = nearest(word, known)
    return f". Did you mean {near}?" if near else f". Known here are {', '.join(known)}."


def checked(model: type[Model], document: Any, source: str, page: str, text: str = "") -> Model:
    """``document`` as ``model``. Raises ``BadInput`` for the first thing that is wrong.

    ``source`` names the file; ``text``, its content, gives the message the number of the line.
    """
    try:
        return model.model_validate(document)
    except ValidationError as error:
        problems = error.errors(include_url=False)
    # A mistyped key also makes the right one missing: report the typing error.
    first = min(problems, key=lambda problem: problem["type"] != "extra_forbidden")
    key, known, expected = _place(model, first["loc"])
    if line := _line(text, first["loc"]):
        source = f"{source}, line {line}"
    if first["type"] == "extra_forbidden":
        raise BadInput(f"{source}: {key} is not a known key{did_you_mean(str(first['loc'][-1]), known)}")
    if first["type"] == "missing":
        must = f"; it must be {expected}" if expected else ""
        raise BadInput(f"{source}: {key} is missing{must}. See {page}.")
    if first["type"] == "value_error":
        expected = str(first["ctx"]["error"])
        if not key:  # about the document as a whole
            raise BadInput(f"{source}: {expected}")
    expected = expected or _EXPECTED.get(first["type"]) or first["msg"].removeprefix("Input should be ")
    raise BadInput(f"{source}: {key or 'the document'} must be {expected}, and is {first['input']!r}. See {page}.")


def _line(text: str, path: tuple[int | str, ...]) -> int | None:
    """The line that sets the key at ``path``, or begins its table; None where neither is found, or in a list."""
    names, table, begin = [part for part in path if part != "[key]"], list[str](), None
    for number, line in enumerate(text.splitlines(), 1):
        if head := re.match(r"\s*\[(.*?)\]", line):
            table = [quoted or bare for quoted, bare in re.findall(r"""["'](.*?)["']|([^\s."']+)""", head[1])]
            if table == names:
                return number
            begin = number if table == names[:-1] else begin
        elif (key := re.match(r"""\s*["']?([^\s"'=.]+)""", line)) and [*table, key[1]] == names:
            return number
    return begin


def _place(model: type[BaseModel], path: tuple[int | str, ...]) -> tuple[str, list[str], str]:
    """A key as it is written in the file (``backends[0].name``), the keys known next to it, and what it must be."""
    written, expected, known = "", "", list(model.model_fields)
    inside: type[BaseModel] | None = model
    by_name = False  # whether the next part is the name of a table, of any name
    for part in path:
        if isinstance(part, int) or part == "[key]":
            written += f"[{part}]" if isinstance(part, int) else ""
            continue
        written += f".{part}" if written else part
        if by_name:
            by_name = False
            continue
        fields: Mapping[str, Any] = inside.model_fields if inside else {}
        known = list(fields)
        field = fields.get(part)
        expected = (field.description or "") if field else ""
        inside = _model_in(field.annotation) if field else None
        by_name = field is not None and get_origin(field.annotation) is dict
    return written, known, expected


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """The model that a field holds: alone, optional or in a tuple."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((model for part in getattr(annotation, "__args__", ()) if (model := _model_in(part))), None)
