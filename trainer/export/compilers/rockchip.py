"""A Rockchip NPU: compiled by rknn-toolkit2, which also simulates what the NPU computes.

The toolkit is run by a Python of its own (``rockchip_worker``), since it needs packages of another age. Its simulator
computes what the file was quantised to; no board was ever asked whether its NPU does the same.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np
from packaging.specifiers import SpecifierSet

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.export.artefact import Artefact
from edgeveil.trainer.export.compilers import rockchip_worker
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

VERSIONS = SpecifierSet(">=2.3,<3")
MAGIC = b"RKNN"
_ROW = re.compile(r"^D RKNN: \S+ +\d+ +(?P<kind>\w+) +\w+ +(?P<place>NPU|CPU) ", re.MULTILINE)
_MISSING = re.compile(r"No lowering found for: [^,]*, node type = (\w+)")
_ENDS = ("InputOperator", "OutputOperator")  # the toolkit's own, which only move memory


@dataclass(frozen=True)
class Simulation:
    """One file of the toolkit's, what its simulator computed, and where each operation would run."""

    file: bytes
    outputs: Mapping[str, np.ndarray]
    on_npu: int
    on_cpu: tuple[str, ...]


def version(python: Path) -> str:
    """The toolkit's version in that Python. Raises ``BadInput`` where it has none, or one that is not supported."""
    script = f"import importlib.metadata as m; print(m.version({Rockchip.name!r}))"
    try:
        done = subprocess.run(  # noqa: S603 - the Python that the user named, and fixed words
            [str(python.absolute()), "-I", "-c", script],
            capture_output=True,
            text=True,
            timeout=VERSION_LIMIT_S,
            check=False,
        )
        installed = done.stdout.strip() if done.returncode == 0 else None
    except (OSError, subprocess.TimeoutExpired):
        installed = None
    if installed is None:
        raise BadInput(
            f"A Python with {Rockchip.name} was expected; {python} has none. Make one: uv venv rknn --python 3.11, "
            f"then uv pip install --python rknn/bin/python {Rockchip.name} 'setuptools<80', and name rknn/bin/python."
        )
    if installed not in VERSIONS:
        raise BadInput(
            f"{Rockchip.name} {VERSIONS} was expected; {python} has {installed}. Install another version there."
        )
    return installed


def simulate(
    python: Path, chip: str, model: bytes, calibration: Mapping[str, np.ndarray], rows: Mapping[str, np.ndarray]
) -> Simulation:
    """Compile an ONNX file and compute ``rows``; both arrays (n, ...) are float32 by the names of the model's inputs.

    Raises ``NotCompiled`` where the toolkit fails, or has no code for an operation, which it says only in passing.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "model.onnx").write_bytes(model)
        np.savez(folder / "calibration.npz", **cast(Any, calibration))
        np.savez(folder / "rows.npz", **cast(Any, rows))
        # Not resolved: a virtual environment's Python is a link.
        command = [str(python.absolute()), "-I", str(Path(rockchip_worker.__file__).resolve()), str(folder), chip]
        log = run_compiler(command, COMPILE_LIMIT_S, cwd=folder)
        if missing := sorted(set(_MISSING.findall(log))):
            raise NotCompiled(f"has no code for {', '.join(missing)} on the {chip}")
        try:
            file = (folder / "model.rknn").read_bytes()
            with np.load(folder / "outputs.npz") as arrays:
                outputs = {one: arrays[one] for one in arrays.files}
        except OSError:
            raise NotCompiled("left no model.rknn") from None
    if not file.startswith(MAGIC):
        raise NotCompiled("made a file that is no RKNN model")
    places = [(one["kind"], one["place"]) for one in _ROW.finditer(log) if one["kind"] not in _ENDS]
    if not places:
        raise NotCompiled("does not say where it put the operations; another version was expected")
    left = tuple(kind for kind, place in places if place == "CPU")
    return Simulation(file, outputs, len(places) - len(left), left)


@dataclass
class Simulator:
    """A runner of a pipeline: what the simulator computes of one model's artefact, described by its manifest entry."""

    python: Path
    chip: str
    model: bytes
    entry: Mapping[str, Any]
    calibration: Mapping[str, np.ndarray]
    last: Simulation | None = field(default=None, init=False)

    def run(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Real float32 arrays ``{name: (n, ...)}`` in, float32 (n, ...) out."""
        names = {one["name"]: one["tensor"] for one in self.entry["inputs"]}

        def given(values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
            return {tensor: np.asarray(values[name], np.float32) for name, tensor in names.items()}

        self.last = simulate(self.python, self.chip, self.model, given(self.calibration), given(inputs))
        return {
            one["name"]: self.last.outputs[one["tensor"]].reshape(-1, *one["shape"][1:])
            for one in self.entry["outputs"]
        }

    def info(self) -> dict[str, Any]:
        """As a backend's."""
        return {"backend": Rockchip.simulator, "version": version(self.python), "threads": 1, "kernels": "simulated"}

    def close(self) -> None:
        """Nothing is open between runs."""


class Rockchip(Compiler):
    """Rockchip's toolkit, with its simulator."""

    name = "rknn-toolkit2"
    devices = ("rk3588",)
    makes_for = "a Rockchip NPU"
    simulator = "rknn-toolkit2's simulator"

    def version(self, python: Path) -> str:
        """The toolkit and its version in that Python. Raises ``BadInput`` as ``version``."""
        return f"{self.name} {version(python)}"

    def runner(
        self, python: Path, chip: str, model: bytes, entry: Mapping[str, Any], calibration: Mapping[str, np.ndarray]
    ) -> Simulator:
        """The simulator of an ONNX file."""
        return Simulator(python, chip, model, entry, calibration)

    def compile(self, one: Artefact, chip: str, python: Path, ready: Quantising) -> Compiled:
        """An artefact compiled for a chip, with the simulator's golden outputs. Raises ``BadInput`` as ``version``."""
        by = self.version(python)
        compiled = Compiled(one.name, chip)
        runners = {
            model: Simulator(python, chip, data, one.entries[model], ready.calibration[model])
            for model, data in one.data.items()
        }
        try:
            golden_outputs = ready.run_golden(runners, by)
            allowed = ready.tolerance(golden_outputs, ready.recorded(one.name))
        except NotCompiled as error:
            compiled.why = f"{self.name} {error}"
            return compiled
        for model, runner in runners.items():
            if runner.last is None:
                compiled.why = f"the golden samples do not reach {model}"
                return compiled
            compiled.files[model] = runner.last.file
            compiled.left += runner.last.on_cpu
            compiled.entries[model] = {
                **entry_of(one.entries[model], runner.last.file, chip, one.name, by),
                "tolerance": {"max_abs": allowed},
            }
        compiled.by, compiled.golden = by, dict(golden_outputs)
        return compiled
