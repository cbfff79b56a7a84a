"""An artefact compiled by a board's own compiler, in addition to the one it was compiled from.

``edgetpu_compiler`` (x86-64, proprietary) is called where it is on PATH. Its output cannot run here, so it is not
measured: golden outputs and tolerance are those of the file that it was compiled from, and the device is checked
against them when it opens the bundle.
"""

from __future__ import annotations

import copy
import hashlib
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from edgeveil.devices.profiles import Profile
from edgeveil.edge_runtime.device import EDGETPU, EDGETPU_OPERATION
from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.manifest.compiled import FOR
from edgeveil.edge_runtime.manifest.schema import check_manifest
from edgeveil.trainer.export.artefact import Artefact
from edgeveil.trainer.graphs.tflite import read_tflite

COMPILE_LIMIT_S = 600
VERSION_LIMIT_S = 30
SUFFIX = "_edgetpu.tflite"  # of the files that edgetpu_compiler writes
_TENSOR = ("shape", "dtype", "scale", "zero_point")


@dataclass
class Compiled:
    """The result of one compiler: ``files`` and ``entries`` by model, and its version ``by``; or ``why`` it failed."""

    source: str
    why: str = ""
    by: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    entries: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The artefact's name."""
        return f"{self.source}-{EDGETPU}"

    def text(self) -> str:
        """For the board's row of the artefact that is compiled."""
        return f"compiled by {self.by} as {self.name}" if self.entries else f"exported uncompiled: {self.why}"


def compile_for(profiles: Sequence[Profile], made: Sequence[Artefact]) -> dict[str, Compiled]:
    """The results of these boards' compilers for the int8 artefact, by the compiler's name."""
    source = "-".join(FOR[EDGETPU])
    one = next((one for one in made if one.name == source), None)
    wanted = {p.compiler for p in profiles if p.compiler and source in p.artefacts} if one else set()
    return {compiler: _compiled(compiler, one) for compiler in sorted(wanted) if one}


def _compiled(compiler: str, one: Artefact) -> Compiled:
    found = Compiled(one.name)
    program = shutil.which(compiler)
    if program is None:
        found.why = f"{compiler} not on PATH"
        return found
    try:
        lines = _run([program, "--version"], VERSION_LIMIT_S).strip().splitlines()
        by = lines[0].strip()[:100] if lines else compiler
        files = {model: _file(program, data) for model, data in one.data.items()}
        found.entries = {model: _entry(found, one.entries[model], files[model], by) for model in files}
        found.files, found.by = files, by
    except _NotCompiled as error:
        found.why = f"{compiler} {error}"
    return found


class _NotCompiled(Exception):
    """The end of a sentence that begins with the compiler's name."""


def _run(command: list[str], limit_s: float) -> str:
    try:
        done = subprocess.run(  # noqa: S603 - a fixed command line, and a program from a profile the user chose
            command, capture_output=True, text=True, timeout=limit_s, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _NotCompiled(f"failed ({type(error).__name__})") from None
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines()
        raise _NotCompiled(f"failed ({lines[-1] if lines else f'exit code {done.returncode}'})")
    return done.stdout


def _file(program: str, model: bytes) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "model.tflite"
        source.write_bytes(model)
        _run([program, "-s", "-o", folder, str(source)], COMPILE_LIMIT_S)
        out = Path(folder) / f"model{SUFFIX}"
        if not out.is_file():
            raise _NotCompiled(f"left no {out.name}")
        return out.read_bytes()


def _entry(found: Compiled, source: Mapping[str, Any], data: bytes, by: str) -> dict[str, Any]:
    """The manifest's entry; its tensors are the source's, under their names in this file."""
    try:
        graph = read_tflite(data)
    except BadInput:
        raise _NotCompiled("made a file that is no TFLite flatbuffer") from None
    if not any(op.kind == f"CUSTOM {EDGETPU_OPERATION.decode()}" for op in graph.ops):
        raise _NotCompiled("took none of its operations for the Edge TPU")
    entry = copy.deepcopy(dict(source))
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
                raise _NotCompiled(f"changed the tensor {tensor['tensor']}")
            tensor.update(facts[0])
    stem = source["file"].rpartition(".")[0]
    return {
        **entry,
        "file": f"{stem}-{EDGETPU}.tflite",
        "sha256": hashlib.sha256(data).hexdigest(),
        "compiled": {"for": EDGETPU, "from": found.source, "sha256": source["sha256"], "by": by},
    }


def add(
    manifest: dict[str, Any],
    members: dict[str, bytes],
    profiles: Sequence[Profile],
    compiled: Mapping[str, Compiled],
) -> None:
    """Add compiled artefacts to a manifest and its members: last in preference, but first for their own boards."""
    for compiler, one in compiled.items():
        if not one.entries:
            continue
        for model, entry in one.entries.items():
            manifest["models"][model]["artefacts"][one.name] = entry
            members[entry["file"]] = one.files[model]
        manifest["golden"]["outputs"][one.name] = dict(manifest["golden"]["outputs"][one.source])
        manifest["preference"] = [*manifest["preference"], one.name]
        for profile in profiles:
            if profile.compiler == compiler:
                facts = manifest["profiles"][profile.name]
                facts["artefacts"] = [one.name, *facts["artefacts"]]
    check_manifest(manifest, sealed=False)
