"""A bundle and other model files, timed in turns on every interpreter of the ``bench`` environment."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from edgeveil import devices, edge_runtime
from edgeveil.edge_runtime.backends.select import kinds_of_format
from edgeveil.edge_runtime.errors import BadInput, DeviceFailed
from edgeveil.trainer.progress import say

ARTEFACTS = ("tflite-float32", "tflite-int8", "onnx-float32", "onnx-int8")
BACKENDS = {format: [kind.name for kind in kinds_of_format(format)] for format in ("tflite", "onnx")}
LIMIT_S = 3600


def bench_python() -> Path:
    """The Python of the environment with all four interpreters. Raises ``BadInput`` if there is none."""
    named = os.environ.get("EDGEVEIL_BENCH_PYTHON")
    root = Path(__file__).resolve().parent.parent
    folder = Path(os.environ.get("EDGEVEIL_VENVS", root / ".venvs"))
    python = Path(named) if named else folder / "bench" / "bin" / "python"
    if not python.is_file():
        raise BadInput(
            f"An environment with all interpreters was expected at {python}. Make it with scripts/environments/bench, "
            "or name its python in EDGEVEIL_BENCH_PYTHON."
        )
    return python


def bundle_files(bundle: Any, folder: Path) -> list[dict[str, Any]]:
    """The artefacts of a verified bundle, written to ``folder``. Raises ``BadInput`` if it has several models."""
    models = bundle.manifest.models
    if len(models) != 1:
        raise BadInput(f"A bundle with one network was expected for a comparison; this one has {len(models)}.")
    (model,) = models.values()
    found = []
    for artefact, entry in model.artefacts.items():
        if entry.format in BACKENDS and artefact in ARTEFACTS:
            path = folder / f"bundle-{artefact}"
            path.write_bytes(bundle.members[entry.file])
            found.append(_file(bundle.manifest.name, artefact, path, entry.entry, model.macs))
    if not found:
        raise BadInput(f"An artefact among {', '.join(ARTEFACTS)} was expected; the bundle has none of them.")
    return found


def model_file(path: Path) -> dict[str, Any]:
    """One .tflite or .onnx file. Raises ``BadInput`` for another file, or one with open sizes."""
    from edgeveil.trainer.export.artefact import artefact_entry
    from edgeveil.trainer.graphs.cost import read
    from edgeveil.trainer.graphs.macs import graph_macs

    if path.suffix not in (".tflite", ".onnx"):
        raise BadInput(f"A .tflite or .onnx file was expected; got {path}.")
    try:
        data = path.read_bytes()
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror}.") from None
    graph = read(data, path.suffix[1:])
    shapes = [t.shape for t in (*graph.inputs.values(), *graph.outputs.values())]
    if any(size < 1 for shape in shapes for size in shape):
        raise BadInput(f"{path} leaves sizes open ({shapes}); export it for one frame at a time.")
    dtypes = {t.dtype for t in graph.tensors() if t.constant}
    precision = "int8" if "int8" in dtypes else "float16" if "float16" in dtypes else "float32"
    names = {"inputs": list(graph.inputs), "outputs": list(graph.outputs)}
    entry = artefact_entry(data, graph, file=path.name, precision=precision, max_abs=0, **names)
    return _file(path.stem, f"{graph.format}-{precision}", path, entry, graph_macs(graph).macs)


def link_packages(folder: Path) -> Path:
    """Make ``folder`` a place from which another Python imports ``edgeveil.devices`` and ``edgeveil.edge_runtime``."""
    (folder / "edgeveil").mkdir()
    for package in (devices, edge_runtime):
        path = Path(str(package.__file__)).parent
        (folder / "edgeveil" / path.name).symlink_to(path)
    return folder


def _file(name: str, artefact: str, path: Path, entry: Any, macs: int) -> dict[str, Any]:
    return {
        "name": name,
        "artefact": artefact,
        "format": entry["format"],
        "path": str(path.resolve()),
        "entry": entry,
        "macs": macs,
        "backends": list(BACKENDS[entry["format"]]),
    }


def run(files: Sequence[dict[str, Any]], *, rounds: int, seconds: float, threads: int = 1) -> dict[str, Any]:
    """Time the files in turns: the document of ``devices.timing.compare``. Raises ``DeviceFailed`` if that fails."""
    if rounds < 3 or seconds <= 0 or threads < 1:
        raise BadInput(f"3 rounds and a time above 0 s were expected at least; got {rounds} and {seconds:g} s.")
    python = bench_python()
    spec = {"files": list(files), "rounds": rounds, "seconds": seconds, "threads": threads}
    turns = sum(len(file["backends"]) for file in files)
    say(f"timing {len(files)} artefacts on their interpreters: about {turns * seconds * (rounds + 1):.0f} s")
    with tempfile.TemporaryDirectory() as folder:
        environment = dict(os.environ, PYTHONPATH=str(link_packages(Path(folder))), OMP_NUM_THREADS=str(threads))
        path = Path(folder) / "spec.json"
        path.write_text(json.dumps(spec))
        command = [str(python), "-m", "edgeveil.devices.compare", str(path)]
        done = subprocess.run(  # noqa: S603  our own module
            command, cwd=folder, env=environment, capture_output=True, timeout=LIMIT_S, check=False
        )
    if done.returncode:
        last = (done.stderr.decode("utf-8", "replace").strip().splitlines() or ["no error message"])[-1]
        raise DeviceFailed(f"Timing side by side ended with code {done.returncode}: {last[:300]}.")
    return json.loads(done.stdout.splitlines()[-1])
