"""The Edge TPU: compiled by ``edgetpu_compiler`` (x86-64, proprietary), where it is on PATH.

Its output cannot run here, so it is not measured: golden outputs and tolerance are those of the file that it was
compiled from, and the device is checked against them when it opens the bundle.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from edgeveil.edge_runtime.device import EDGETPU, EDGETPU_OPERATION
from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.export.artefact import Artefact
from edgeveil.trainer.export.compilers.compiled import (
    COMPILE_LIMIT_S,
    VERSION_LIMIT_S,
    Compiled,
    NotCompiled,
    entry_of,
    run_compiler,
)
from edgeveil.trainer.export.compilers.quantising import Quantising
from edgeveil.trainer.export.compilers.vendors import Compiler
from edgeveil.trainer.graphs.files import read_tflite

SUFFIX = "_edgetpu.tflite"  # of the files that edgetpu_compiler writes
_TENSOR = ("shape", "dtype", "scale", "zero_point")


class EdgeTpuCompiler(Compiler):
    """Google's compiler for the Edge TPU."""

    name = "edgetpu_compiler"
    program = "edgetpu_compiler"
    devices = ("edgetpu",)
    makes_for = "an Edge TPU"

    def compile(self, one: Artefact, _device: str, program: Path, _ready: Quantising) -> Compiled:
        """An artefact compiled for the Edge TPU; the row says why not where the compiler cannot."""
        compiled = Compiled(one.name, EDGETPU)
        try:
            lines = run_compiler([str(program), "--version"], VERSION_LIMIT_S).strip().splitlines()
            by = lines[0].strip()[:100] if lines else self.name
            files = {model: _file(program, data) for model, data in one.data.items()}
            compiled.entries = {model: _entry(one.name, one.entries[model], files[model], by) for model in files}
            compiled.files, compiled.by = files, by
        except NotCompiled as error:
            compiled.why = f"{self.name} {error}"
        return compiled


def _file(program: Path, model: bytes) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "model.tflite"
        source.write_bytes(model)
        run_compiler([str(program), "-s", "-o", folder, str(source)], COMPILE_LIMIT_S)
        out = Path(folder) / f"model{SUFFIX}"
        if not out.is_file():
            raise NotCompiled(f"left no {out.name}")
        return out.read_bytes()


def _entry(name: str, source: Mapping[str, Any], data: bytes, by: str) -> dict[str, Any]:
    """The manifest's entry; its tensors are the source's, under their names in this file."""
    try:
        graph = read_tflite(data)
    except BadInput:
        raise NotCompiled("made a file that is no TFLite flatbuffer") from None
    if not any(op.kind == f"CUSTOM {EDGETPU_OPERATION.decode()}" for op in graph.ops):
        raise NotCompiled("took none of its operations for the Edge TPU")
    entry = entry_of(source, data, EDGETPU, name, by)
    for end, tensors in (("inputs", graph.inputs), ("outputs", graph.outputs)):
        for tensor in entry[end]:
            facts = [
                {
                    "tensor": one.name,
                    "shape": list(one.shape),
                    "dtype": one.dtype,
                    "scale": one.scales[0] if one.scales else None,
                    "zero_point": one.zero_points[0] if one.scales else None,
                }
                for one in tensors.values()
                if one.name == tensor["tensor"] or len(tensors) == len(entry[end]) == 1
            ]
            if len(facts) != 1 or any(facts[0][key] != tensor[key] for key in _TENSOR):
                raise NotCompiled(f"changed the tensor {tensor['tensor']}")
            tensor.update(facts[0])
    return entry
