"""How far each operation of an int8 file is from the float32 file of the same network, largest first."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from edgeveil.devices.profiles import Profile
from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.export.artefact import Artefact
from edgeveil.trainer.graphs.files import read
from edgeveil.trainer.interrupts import point

ROWS = 16
STEPS = ("QUANTIZE", "DEQUANTIZE", "QuantizeLinear", "DequantizeLinear")
SHOWN = 3  # in the text


def by_model(made: Sequence[Artefact], inputs: Mapping[str, Mapping[str, np.ndarray]]) -> list[dict[str, Any]]:
    """For each model of which TFLite files of both precisions were made: its operations' errors, largest first.

    ``inputs`` are the models' inputs by name, float32 (n, ...), of validation samples.
    """
    files = {one.name: one.data for one in made}
    both = files.get("tflite-float32", {}).keys() & files.get("tflite-int8", {}).keys()
    return [
        {"model": model, "layers": errors(files["tflite-float32"][model], files["tflite-int8"][model], inputs[model])}
        for model in inputs
        if model in both
    ]


def errors(float32: bytes, int8: bytes, rows: Mapping[str, np.ndarray]) -> list[dict[str, Any]]:
    """``operation``, ``tensor`` and ``error`` of each operation whose output has the same name in both files.

    The error is the root of the mean squared difference over that of the float32 values, over ``ROWS`` rows at most:
    of the int8 file as a whole up to there, so what an operation adds is its step from the one before.
    """
    exact, rough = _outputs(float32, rows), _outputs(int8, rows)
    # Of the float32 file, in whose order nothing changes where operations are kept in float32.
    makers = {op.outputs[0].name: op.name for op in read(float32, "tflite").ops if op.outputs}
    found = []
    for name, operation in makers.items():
        if name in exact and name in rough and exact[name].shape == rough[name].shape:
            scale = float(np.sqrt(np.mean(exact[name] ** 2)))
            off = float(np.sqrt(np.mean((rough[name] - exact[name]) ** 2)))
            found.append({"operation": operation, "tensor": name, "error": off / scale if scale else off})
    return sorted(found, key=lambda one: -one["error"])


def check_mixed(
    operations: Sequence[str], profiles: Sequence[Profile], made: Sequence[Artefact], *, given: bool
) -> None:
    """Raise ``BadInput`` where these are to stay in float32, and no int8 file is made or a board cannot mix."""
    if not operations:
        return
    if given or not any(one.precision == "int8" for one in made):
        why = "the file that was given ships as it is" if given else "none of these boards has one of this perturber"
        raise BadInput(f"--keep-float is of the int8 files that export makes, and {why}: leave it out.")
    for one in profiles:
        backend = next((b for b in one.backends if b.accelerator and "tflite-int8" in b.artefacts), None)
        if backend is not None:
            raise BadInput(
                f"--keep-float: the {backend.accelerator} of {one.name} takes int8 alone, and {', '.join(operations)} "
                "would end what runs there: leave --keep-float or that board out."
            )


def check_kept(operations: Sequence[str], made: Sequence[Artefact]) -> None:
    """Raise ``BadInput`` for the name of an operation that no network of the int8 files has."""
    known = []
    for one in (one for one in made if one.precision == "int8"):
        # With steps between int8 and float32 the numbers are others: those of the float32 file, or of the rest.
        exact = next((other for other in made if other.name == one.name.replace("int8", "float32")), None)
        for graph in (one if exact is None else exact).graphs.values():
            kinds = [op.name.rpartition("-")[0] for op in graph.ops if op.kind not in STEPS]
            known += [f"{kind}-{number}" for number, kind in enumerate(kinds)]
    for name in operations:
        if name not in known:
            raise BadInput(f"--keep-float: expected an operation of {', '.join(dict.fromkeys(known))}; got {name}.")


def text(report: Sequence[Mapping[str, Any]]) -> list[str]:
    """A line for each model."""
    return [
        f"int8 of {one['model']} is furthest from float32 in "
        + ", ".join(f"{layer['operation']} ({layer['error']:.1%})" for layer in one["layers"][:SHOWN])
        for one in report
        if one["layers"]
    ]


def _outputs(data: bytes, rows: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Every tensor that is computed, in real float32, by name: (n, ...)."""
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    plain = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES  # in which every tensor is computed as the file has it
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        opened = Interpreter(
            model_content=data, experimental_op_resolver_type=plain, experimental_preserve_all_tensors=True
        )
    opened.allocate_tensors()
    computed = {op.outputs[0].name for op in read(data, "tflite").ops if op.outputs}
    tensors = [one for one in opened.get_tensor_details() if one["name"] in computed]
    runner = opened.get_signature_runner()
    ends = runner.get_input_details()
    values: dict[str, list[np.ndarray]] = {one["name"]: [] for one in tensors}
    for row in range(min(ROWS, *(len(one) for one in rows.values()))):
        point()
        runner(**{name: _stored(ends[name], one[row : row + 1]) for name, one in rows.items()})
        for one in tensors:
            scale, zero = one["quantization"]
            value = np.array(opened.get_tensor(one["index"]), np.float32)
            values[one["name"]].append((value - zero) * scale if scale else value)
    return {name: np.concatenate(one) for name, one in values.items()}


def _stored(end: Mapping[str, Any], values: np.ndarray) -> np.ndarray:
    scale, zero = end["quantization"]
    if not scale:
        return np.asarray(values, np.float32)
    low, high = np.iinfo(end["dtype"]).min, np.iinfo(end["dtype"]).max
    return np.clip(np.round(values / scale + zero), low, high).astype(end["dtype"])
