"""Which networks a recipe names: those that come along, of installed packages, and of a user's own files."""

from __future__ import annotations

import hashlib
import importlib.util
import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, WrapValidator, model_validator

from edgeveil.edge_runtime.errors import BadInput, reason
from edgeveil.edge_runtime.registry import Registry


class Section(BaseModel):
    """A part of a recipe: every key known, every type exact, nothing changed once it is read."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


# The networks that come along, and those of installed packages. Of their classes only the literals are read here.
# An entry point may be a function ``build(spec)`` too, for any role and samples.
NETWORKS = Registry(
    "edgeveil.trainer.networks",
    key="names",
    group="edgeveil.networks",
    word="network",
    functions={"role": "any", "of": ("vector", "series", "image")},
)


def networks(role: str) -> tuple[str, ...]:
    """The names of all classifiers, or of all generators."""
    every = {**NETWORKS.kinds(), **NETWORKS.plugins()}
    return tuple(name for name, one in every.items() if one.facts["role"] in (role, "any"))


def own_function(architecture: str) -> tuple[Path, str] | None:
    """File and function of an architecture that is a user's own, ``FILE.py:FUNCTION``; None for a name."""
    match = re.fullmatch(r"(.+\.py):([A-Za-z_]\w*)", architecture)
    return None if match is None else (Path(match[1]), match[2])


def is_function(architecture: str) -> bool:
    """Whether an architecture is a function of a user's own: of a file, or an entry point."""
    plugin = NETWORKS.plugins().get(architecture)
    return own_function(architecture) is not None or (plugin is not None and plugin.facts is NETWORKS.functions)


def resolved(architecture: str, folder: Path) -> str:
    """An architecture with the file of a user's own, which is relative to the recipe's ``folder``."""
    own = own_function(architecture)
    return architecture if own is None else f"{(folder / own[0]).resolve()}:{own[1]}"


def code_in(section: Any) -> Iterator[str]:
    """Each ``FILE.py:FUNCTION`` in a section of a recipe, at any depth."""
    if isinstance(section, str) and own_function(section) is not None:
        yield section
    for part in section.values() if isinstance(section, dict) else section if isinstance(section, list) else ():
        yield from code_in(part)


def check_code(architecture: str, folder: Path, origin: str) -> None:
    """Raise ``BadInput`` for code that lies outside the ``folder`` of its recipe: a recipe is passed on, and names what
    is run."""
    path = Path(architecture.rpartition(":")[0])
    inside = (folder / path).resolve().is_relative_to(folder.resolve())
    if path.is_absolute() or ".." in path.parts or path.parts[0].startswith("~") or not inside:
        raise BadInput(
            f'{origin}: code of the recipe\'s own folder was expected, as in "mine.py:build"; {architecture} leads out '
            "of it. Copy the file next to the recipe, and name it so."
        )


def _name_or_own(value: Any, known: Callable[[Any], Any]) -> Any:
    if not isinstance(value, str) or not (":" in value or value.endswith(".py")):
        return known(value)
    if own_function(value) is None:
        raise ValueError('a function of a file, as in "mine.py:build"')
    return value


OR_OWN: Any = (WrapValidator(_name_or_own), PlainSerializer(str, return_type=str))
if TYPE_CHECKING:
    Architecture = str
    Generator = str
else:
    Architecture = Annotated[(Literal[(*networks("classifier"), "linear")], *OR_OWN)]
    Generator = Annotated[(Literal[networks("generator")], *OR_OWN)]

# What a model expects for an end of the data's range: of all channels, or of each, in the model's order.


def _numbers(end: Any) -> Any:
    end = end.tolist() if hasattr(end, "tolist") else end  # of an array or a tensor, in Python
    values = end if isinstance(end, list) and end else [end]
    if end is not None and not all(type(one) in (int, float) and math.isfinite(one) for one in values):
        raise ValueError("a finite number, or a list of one for each channel")
    return end


End = Annotated[float | list[float], BeforeValidator(_numbers)]
EndOrNone = Annotated[float | list[float] | None, BeforeValidator(_numbers)]


def is_range(low: float | list[float], high: float | list[float]) -> bool:
    """Whether each low is below its high."""
    count = max(len(one) if isinstance(one, list) else 1 for one in (low, high))
    both = (one if isinstance(one, list) else [one] * count for one in (low, high))
    return all(least < most for least, most in zip(*both, strict=False))


def check_channels(name: str, section: Any, channels: int) -> None:
    """Raise ``BadInput`` where the ``low`` or ``high`` of a section is a list of another length."""
    for key in ("low", "high"):
        if isinstance(end := getattr(section, key), list) and len(end) != channels:
            raise BadInput(
                f"{name}: {key} was expected to be a number, or a list of {channels}, one for each channel in the "
                f"model's order; got {len(end)}."
            )


def _size(size: Any) -> Any:
    if size is None:
        return None
    if isinstance(size, str) and (match := re.fullmatch(r"([1-9][0-9]*)x([1-9][0-9]*)", size)):
        return [int(match[2]), int(match[1])]
    if not isinstance(size, list | tuple) or len(size) != 2 or not all(type(one) is int and one > 0 for one in size):
        raise ValueError('a width and a height as "64x48", or height and width as [48, 64]')
    return list(size)


def _pair(ends: Any) -> Any:
    if isinstance(ends, str) and (match := re.fullmatch(r"(-?\d+(?:\.\d+)?):(-?\d+(?:\.\d+)?)", ends)):
        return [float(match[1]), float(match[2])]
    if ends is not None and (not isinstance(ends, list | tuple) or len(ends) != 2):
        raise ValueError('a range as "0:1", or [0.0, 1.0]')
    return ends if ends is None else list(ends)


# Height and width, and two ends of a range: a list, or a text as on the command line, where width is first.
Size = Annotated[list[int] | None, BeforeValidator(_size), Field(min_length=2, max_length=2)]
Pair = Annotated[list[float] | None, BeforeValidator(_pair), Field(min_length=2, max_length=2)]

PICKLES = ("pt", "pth", "pkl", "pickle", "joblib", "ckpt", "h5", "hdf5")


class Given(Section):
    """A classifier that you have trained, taken as it is: samples and classes in the order of the data."""

    trained: str | None = Field(
        default=None,
        min_length=1,
        description="A .keras, a .pt2 of PyTorch's torch.export or a .onnx file, relative to the recipe, that gives "
        "logits or softmax. Left out: a model is given to `edgeveil.train`.",
    )
    low: End = Field(default=0.0, description="What it expects for the smallest value of a sample, or of each channel.")
    high: End = Field(default=1.0, description="The same for the largest value.")
    colours: Literal["rgb", "bgr"] = Field(default="rgb", description="The order of colours that it takes.")
    size: Size = Field(default=None, description="Height and width that it takes. Left out: the samples' own.")

    @model_validator(mode="after")
    def _stated(self) -> Given:
        suffix = "keras" if self.trained is None else Path(self.trained).suffix[1:].lower()
        if suffix in PICKLES:
            raise ValueError(
                f"a .keras, .pt2 or .onnx file: a .{suffix} can run code of its writer's when it is read. Save it with "
                "model.save(FILE.keras); one of PyTorch with torch.export.save(torch.export.export(...), FILE.pt2)"
            )
        if suffix not in ("keras", "pt2", "onnx"):
            raise ValueError("a file of Keras, .keras, of PyTorch, .pt2, or .onnx; others are no classifiers here")
        if not is_range(self.low, self.high):
            raise ValueError("low below high")
        return self


class File(Section):
    """A file of your own that a run was trained with. `train` writes it; a recipe of yours has none."""

    file: str = Field(description="Where it was.")
    sha256: str = Field(description="Its SHA-256.")
    text: str | None = Field(default=None, description="Its text, where it is source code.")

    @classmethod
    def of(cls, path: Path) -> File:
        """The record of a file. Raises ``BadInput`` where it cannot be read."""
        try:
            data = path.read_bytes()
            text = data.decode() if path.suffix == ".py" else None
        except (OSError, UnicodeDecodeError) as error:
            raise BadInput(
                f"{path}, a file of the recipe, cannot be read ({reason(error)}). It is needed to train."
            ) from None
        return cls(file=str(path), sha256=hashlib.sha256(data).hexdigest(), text=text)


def file_of(architecture: str) -> Path | None:
    """The source file of an architecture that does not come along; None for one that does."""
    own, plugin = own_function(architecture), NETWORKS.plugins().get(architecture)
    if own is not None or plugin is None:
        return None if own is None else own[0]
    spec = importlib.util.find_spec(plugin.module)
    path = None if spec is None or spec.origin is None else Path(spec.origin)
    return path if path is not None and path.is_file() else None
