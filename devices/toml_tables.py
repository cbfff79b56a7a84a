"""TOML files as pydantic models; what is wrong in one is refused in one sentence.

A field's ``description`` says what is expected there. A ``ValueError`` of a validator does the same.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from edgeveil.edge_runtime.errors import BadInput, nearest


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

    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise BadInput(f"cannot read the {what} {path}: {reason}. {page} shows one.") from None
    except tomllib.TOMLDecodeError as error:
        raise BadInput(f"the {what} {path} is not TOML: {error}. {page} shows one.") from None


def checked(model: type[Model], document: Any, source: str, page: str) -> Model:
    """``document`` as ``model``. ``source`` names the file. Raises ``BadInput`` for the first thing that is wrong."""
    try:
        return model.model_validate(document)
    except ValidationError as error:
        problems = error.errors(include_url=False)
    # A mistyped key also makes the right one missing: report the typing error.
    first = min(problems, key=lambda problem: problem["type"] != "extra_forbidden")
    key, known, expected = _place(model, first["loc"])
    if first["type"] == "extra_forbidden":
        near = nearest(str(first["loc"][-1]), known)
        hint = f"Did you mean {near}?" if near else f"Known here are {', '.join(known)}."
        raise BadInput(f"{source}: {key} is not a known key. {hint}")
    if first["type"] == "missing":
        must = f"; it must be {expected}" if expected else ""
        raise BadInput(f"{source}: {key} is missing{must}. See {page}.")
    if first["type"] == "value_error":
        expected = str(first["ctx"]["error"])
        if not key:  # about the document as a whole
            raise BadInput(f"{source}: {expected}")
    expected = expected or _EXPECTED.get(first["type"]) or first["msg"].removeprefix("Input should be ")
    raise BadInput(f"{source}: {key or 'the document'} must be {expected}, and is {first['input']!r}. See {page}.")


def _place(model: type[BaseModel], path: tuple[int | str, ...]) -> tuple[str, list[str], str]:
    """A key as it is written in the file (``backends[0].name``), the keys known next to it, and what it must be."""
    written, expected, known = "", "", list(model.model_fields)
    inside: type[BaseModel] | None = model
    for part in path:
        if isinstance(part, int):
            written += f"[{part}]"
            continue
        written += f".{part}" if written else part
        fields: Mapping[str, Any] = inside.model_fields if inside else {}
        known = list(fields)
        field = fields.get(part)
        expected = (field.description or "") if field else ""
        inside = _model_in(field.annotation) if field else None
    return written, known, expected


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """The model that a field holds: alone, optional or in a tuple."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for part in getattr(annotation, "__args__", ()) if (found := _model_in(part))), None)
