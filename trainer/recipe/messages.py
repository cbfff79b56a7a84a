"""Errors of a TOML file in one sentence: the key, what was expected, what came, and the nearest known key."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from edgeveil.edge_runtime import errors
from edgeveil.edge_runtime.errors import BadInput

# Names that have changed: an old one is refused with its new name; and keys that were deleted.


KINDS = {"release": "codebook"}
RECIPES = {
    "digits-release": "digits-codebook",
    "mnist-release": "mnist-codebook",
    "faces-release": "faces-codebook",
    "wifi-release": "wifi-codebook",
    "depth-release": "depth-codebook",
    "depth-release-frame": "depth-codebook-frame",
    "depth-release-movement": "depth-codebook-movement",
}

_ROUNDS = (
    "training by rounds over MQTT was deleted: report readings and estimate their mean with edgeveil local collect, or "
    "train on recorded or simulated private gradients with edgeveil.trainer.ext.local.lpsgd; commit baecb1ef has it"
)
# By section, kind and key, and by a value of a key: what replaces it.
GONE = {'perturber.local.of="gradient"': _ROUNDS, "perturber.local.loss": _ROUNDS, "perturber.local.clip": _ROUNDS}
# What no recipe ever had, and people look for: anywhere in a recipe.
_TORCH = (
    "no key is needed for PyTorch: name the function that returns an nn.Module, as in classifiers.architecture = "
    '"mine.py:build" and perturber.generator.architecture, or a .pt2 in classifiers.target.trained'
)
NEVER = {"framework": _TORCH}


def refuse_old(word: object, names: Mapping[str, str], what: str, *, cure: str = "") -> None:
    """Raise ``BadInput`` if ``word`` is an old name in ``names`` of ``what``; ``cure`` says what to do."""
    new = names.get(word) if isinstance(word, str) else None
    if new is not None:
        raise BadInput(f'{what} "{word}" is called "{new}" since 0.2{cure}.')


def nearest(word: str, known: Iterable[str]) -> str:
    """``" (did you mean X?)"`` if a known word is near, else an empty text."""
    near = errors.nearest(word, known)
    return f' (did you mean "{near}"?)' if near else ""


def sentence(error: ValidationError, model: type[BaseModel], origin: str) -> str:
    """The first error of a recipe, and the number of the others."""
    more = f" ({error.error_count() - 1} more after that.)" if error.error_count() > 1 else ""
    return f"{origin}: {problem(error, model)}. `edgeveil recipe show digits` prints a valid one.{more}"


def problem(error: ValidationError, model: type[BaseModel], what: str = "a recipe") -> str:
    """The first error of a model, as a clause; ``what`` the file is."""
    # A mistyped key also makes its right spelling missing: report the mistyped one.
    first = min(error.errors(include_url=False), key=lambda d: d["type"] != "extra_forbidden")
    return _problem(first, model, what)


def members(annotation: Any) -> list[type[BaseModel]]:
    """The models a field may hold: itself, or every member of a union."""
    if isinstance(annotation, type):
        return [annotation] if issubclass(annotation, BaseModel) else []
    return [model for part in get_args(annotation) for model in members(part)]


def tags(model: type[BaseModel]) -> tuple[str, ...]:
    """Every ``kind`` of a member of a union."""
    return tuple(str(kind) for kind in get_args(model.model_fields["kind"].annotation))


def _walk(model: type[BaseModel], loc: tuple[Any, ...]) -> tuple[str, list[type[BaseModel]], str]:
    """The key as written in TOML, its models and its description, from pydantic's path.

    Pydantic's path has the ``kind`` of a union's member; the key in TOML does not.
    """
    written: list[str] = []
    models, description = [model], ""
    for part in loc:
        if len(models) > 1:
            models = [m for m in models if part in tags(m)]
            continue
        written.append(str(part))
        if isinstance(part, int):  # one of a list, of which all are alike
            continue
        field = models[0].model_fields.get(part) if models and isinstance(part, str) else None
        models, description = (members(field.annotation), field.description or "") if field else ([], description)
    return ".".join(written), models, description


def _problem(detail: ErrorDetails, model: type[BaseModel], what: str) -> str:
    kind, got = detail["type"], _show(detail["input"])
    key, models, description = _walk(model, detail["loc"])
    path = ".".join(map(str, detail["loc"]))
    gone = GONE.get(path if kind == "extra_forbidden" else f"{path}={got}")
    if kind == "extra_forbidden":
        gone = gone or NEVER.get(str(detail["loc"][-1]))
    if gone is not None:
        return f"`{key}`: {gone}"
    if kind == "extra_forbidden":
        _, (section,), _ = _walk(model, detail["loc"][:-1])
        known = sorted(section.model_fields)
        near = nearest(str(detail["loc"][-1]), known)
        return f"`{key}` is not a key of {what}{near}; expected here: {', '.join(known)}"
    if kind == "missing":
        described = f"; expected: {description[:1].lower()}{description[1:].rstrip('.')}" if description else ""
        return f"`{key}` is missing{described}"
    if kind in ("union_tag_invalid", "union_tag_not_found"):
        kinds = [kind for m in models for kind in tags(m)]
        came = detail["input"].get("kind") if isinstance(detail["input"], dict) else None
        near = nearest(came, kinds) if isinstance(came, str) else ""
        return f"`{key}.kind`: expected {', '.join(kinds)}; got {'none' if came is None else _show(came)}{near}"
    if kind == "value_error" and not key:  # of the recipe as a whole
        return f"expected {detail['ctx']['error']}"
    if kind == "value_error":
        of_section = isinstance(detail["input"], dict)  # which keys do not go together, the error says itself
        return f"`{key}`: expected {detail['ctx']['error']}" + ("" if of_section else f"; got {got}")
    if kind == "string_pattern_mismatch":
        return f"`{key}`: expected a name of a-z, 0-9, dot, dash and underscore, the first a letter or digit; got {got}"
    if kind in ("model_type", "model_attributes_type", "dict_type"):
        return f"`{key}`: expected a table, as in [{key}]; got {got}"
    if kind in ("too_short", "too_long"):
        least, most = (detail["ctx"].get(name) for name in ("min_length", "max_length"))
        return f"`{key}`: expected {f'at most {most}' if least is None else f'at least {least}'}; got {got}"
    expected = detail["msg"].removeprefix("Input should be ")
    return f"`{key}`: expected {expected[:1].lower()}{expected[1:]}; got {got}"


def _show(value: Any) -> str:
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list):
        return f"an array of {len(value)}"
    return (
        f'"{value[:60]}"' if isinstance(value, str) else str(value).lower() if isinstance(value, bool) else str(value)
    )
