"""Converters: the interface of one, how they are found, and which of them makes the files of an export.

A converter is a class of this folder with a ``name``, which a profile's ``converters`` has; an entry point of the group
``edgeveil.converters`` adds a user's own. It makes bytes alone: lint, parity, golden vectors and manifest are one way
for all. A module of PyTorch is a Keras model by then (``trainer.networks.torch_models``).
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from edgeveil.devices.profiles import CONVERTERS as USUAL
from edgeveil.devices.profiles import Profile
from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.registry import Kind, Registry
from edgeveil.trainer.interrupts import point
from edgeveil.trainer.progress import say
from edgeveil.trainer.runs.run import package_versions

CONVERTERS = Registry(__package__, key="name", group="edgeveil.converters", word="converter")
PRECISIONS = ("float32", "float16", "int8")
_ADD = "name keras-litert in the `converters` of their profiles, or leave --keep-float out"


class Converter:
    """The interface of a converter: Keras to files of one ``format``.

    ``modules`` must be there, and ``install`` brings them. ``packages`` are those whose versions an export records.
    ``opset`` is the newest of ONNX that all boards of the export read. One that ``keeps_float`` leaves operations of an
    int8 file in float32: those of ``keep_float`` that it has, by their names in the float32 file. ``precisions`` are
    what it makes.
    """

    name: str
    format: str
    modules: tuple[str, ...]
    install: str = "pip install 'edgeveil[trainer]'"
    packages: tuple[str, ...]
    precisions: tuple[str, ...] = ("float32", "float16", "int8")
    keeps_float = False
    keep_float: tuple[str, ...] = ()

    def __init__(self, opset: int | None = None) -> None:
        self.opset = opset

    def convert(
        self,
        model: Any,
        precisions: Sequence[str],
        calibration: Mapping[str, np.ndarray] | None = None,
        *,
        batch: int = 1,
    ) -> dict[str, bytes]:
        """The model as a file in each precision, the same bytes every time; ``batch`` frames go through at a time.

        ``model`` is a Keras model with named inputs and outputs. ``calibration`` maps an input name to float32
        (n, ...): real inputs of the model, n rows that belong together, needed for int8 alone.
        """
        raise NotImplementedError

    def made_by(self) -> dict[str, Any]:
        """Its name and the versions of its packages, for export.json."""
        return {"name": self.name, "packages": package_versions(self.packages)}


def choose(
    profiles: Sequence[Profile], artefacts: Sequence[str], keep_float: Sequence[str] = ()
) -> dict[str, Converter]:
    """The converter of the format of each of these artefacts (``tflite-int8``, or ``tflite`` for its usual precisions).

    It is the first of the boards' own that all of them take, that makes these precisions, and that is here.

    A board that names none of a format takes the usual ones. With ``keep_float`` it is one that leaves these
    operations in float32. Raises ``BadInput`` where no converter is for all boards,
    or where none of these is installed.
    """
    precisions: dict[str, list[str]] = {}
    for form, _, precision in (name.partition("-") for name in artefacts):
        precisions.setdefault(form, []).append(precision)
    return {form: _converter(profiles, form, needed, keep_float) for form, needed in precisions.items()}


def _converter(
    profiles: Sequence[Profile], form: str, precisions: Sequence[str], keep_float: Sequence[str]
) -> Converter:
    taking = [profile for profile in profiles if any(name.startswith(f"{form}-") for name in profile.artefacts)]
    lists = {profile.name: _of_format(profile.converters, form) or _of_format(USUAL, form) for profile in taking}
    first = next(iter(lists.values()), _of_format(USUAL, form))
    common = [name for name in first if all(name in names for names in lists.values())]
    if not common:
        each = "; ".join(f"{board}: {', '.join(names)}" for board, names in lists.items())
        raise BadInput(
            f"One converter to {form} was expected for all boards of an export; these take no same one ({each}). "
            "Export for each of them into a folder of its own."
        )
    kept = tuple(keep_float)
    kinds = [CONVERTERS[name] for name in common]
    if kept and not any(kind.facts.get("keeps_float") for kind in kinds):
        raise BadInput(f"--keep-float: {', '.join(common)} cannot keep operations of an int8 file in float32: {_ADD}.")
    kinds = [kind for kind in kinds if kind.facts.get("keeps_float") or not kept]
    unmade = {name for name in precisions if name} - {name for kind in kinds for name in kind.facts["precisions"]}
    if unmade:
        missing = ", ".join(f"{form}-{name}" for name in sorted(unmade))
        raise BadInput(
            f"{missing} is made by none of {', '.join(common)}: name keras-litert in the `converters` of "
            f"{', '.join(lists) or 'a profile'}, or leave it out of the `artefacts`."
        )
    kinds = [kind for kind in kinds if all(name in kind.facts["precisions"] for name in precisions if name)]
    here = [kind for kind in kinds if not _missing(kind)]
    if not here:
        raise BadInput(" ".join(_not_here(kind) for kind in kinds))
    if here[0] is not kinds[0]:
        say(f"{_not_here(kinds[0])} {here[0].name} makes the {form} files in its place.")
    opsets = [profile.onnx.opset for profile in taking if profile.onnx is not None] if form == "onnx" else []
    converter: Converter = here[0].load()(min(opsets, default=None))
    converter.keep_float = kept
    return converter


def _of_format(names: Sequence[str], form: str) -> list[str]:
    return [name for name in names if CONVERTERS[name].facts["format"] == form]


def _missing(kind: Kind) -> list[str]:
    return [name for name in kind.facts["modules"] if importlib.util.find_spec(name) is None]


def _not_here(kind: Kind) -> str:
    return f"{kind.name} needs {', '.join(_missing(kind))}: {kind.facts['install']}."


# A Keras model as a function of named tensors of a fixed batch, and calibration rows, for all of them.


def calibration_rows(calibration: Mapping[str, np.ndarray] | None) -> Callable[[], Iterator[dict[str, np.ndarray]]]:
    """Gives inputs (n, ...) by name as n batches of one row, float32; Ctrl-C ends between two of them.

    Raises ``ValueError`` without any.
    """
    if not calibration:
        raise ValueError("int8 needs calibration rows")

    def rows() -> Iterator[dict[str, np.ndarray]]:
        for row in range(len(next(iter(calibration.values())))):
            point()
            yield {name: np.asarray(values[row : row + 1], np.float32) for name, values in calibration.items()}

    return rows


def input_shapes(model: Any, batch: int = 1) -> dict[str, tuple[int, ...]]:
    """(batch, ...) of every input by name, in order.

    Raises ``BadInput`` where a size is left open: a board's compiler needs all of them.
    """
    shapes = {}
    for tensor in model.inputs:
        shape = tuple(tensor.shape[1:])
        if None in shape:
            raise BadInput(
                f"the model {model.name!r} leaves a size of its input {tensor.name!r} open, {shape}: "
                "build it with every size given."
            )
        shapes[tensor.name] = (batch, *shape)
    return shapes


def input_specs(model: Any, batch: int = 1) -> list[Any]:
    """``tf.TensorSpec`` (batch, ...) float32 for every input, named as in the model. Raises as ``input_shapes``."""
    import tensorflow as tf

    return [tf.TensorSpec(shape, tf.float32, name=name) for name, shape in input_shapes(model, batch).items()]


def function(model: Any, batch: int = 1) -> Any:
    """A ``tf.function`` over the model's inputs, in order, to ``{output name: tensor}``; dropout off."""
    import tensorflow as tf

    names = list(model.output_names)

    def call(*tensors: Any) -> dict[str, Any]:
        value = model(tensors[0] if len(tensors) == 1 else list(tensors), training=False)
        return dict(zip(names, value if isinstance(value, (list, tuple)) else [value], strict=True))

    # No layer has Python's control flow over tensors, which to look for takes longer than to trace the rest.
    return tf.function(call, input_signature=input_specs(model, batch), autograph=False)
