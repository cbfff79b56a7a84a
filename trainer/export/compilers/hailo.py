"""A Hailo-8, Hailo-8L or Hailo-10H: compiled by Hailo's Dataflow Compiler, by its own commands where they are on PATH.

The compiler is proprietary and was never run here: the commands are those of its user guide (``hailo parser``,
``hailo optimize``, ``hailo compiler``). It quantises anew, and nothing here computes what it made; so the board may be
off by as much as the int8 TFLite file of the same network is, twice over, from the float one. The self-test holds that.
"""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

import numpy as np
from packaging.specifiers import SpecifierSet

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

# 3.x is for the Hailo-8 family; 5.x for the Hailo-10H and Hailo-15 (github.com/hailo-ai/hailo_model_zoo, README.rst).
_EIGHT, _TEN = (SpecifierSet(">=3.27,<4"), "the Hailo-8 and Hailo-8L"), (SpecifierSet(">=5,<6"), "the Hailo-10H")
VERSIONS = {"hailo8": _EIGHT, "hailo8l": _EIGHT, "hailo10h": _TEN}
MAGIC = b"\x01HEF"
MEASURE = "tflite-int8"
_NUMBER = re.compile(r"\d+\.\d+(\.\d+)?")


class Hailo(Compiler):
    """Hailo's Dataflow Compiler."""

    name = "hailo"
    program = "hailo"
    devices = ("hailo8", "hailo8l", "hailo10h")
    makes_for = "a Hailo"

    def compile(self, one: Artefact, device: str, program: Path, ready: Quantising) -> Compiled:
        """An artefact compiled for a Hailo; the row says why not where the compiler cannot."""
        compiled = Compiled(one.name, device)
        try:
            by = f"Hailo Dataflow Compiler {_version(program, device)}"
            if MEASURE not in ready.manifest["golden"]["outputs"]:
                raise NotCompiled(f"needs {MEASURE} next to it, to say how far 8 bits may be off: export it as well")
            allowed = ready.tolerance(ready.recorded(MEASURE), ready.recorded(one.name))
            for model, data in one.data.items():
                file = _file(program, data, device, list(ready.calibration[model].values()))
                compiled.files[model] = file
                compiled.entries[model] = {
                    **entry_of(one.entries[model], file, device, one.name, by),
                    "tolerance": {"max_abs": allowed},
                }
        except NotCompiled as error:
            return Compiled(one.name, device, why=f"hailo {error}")
        compiled.by = by
        return compiled


def _version(program: Path, device: str) -> str:
    output = run_compiler([str(program), "--version"], VERSION_LIMIT_S)
    number = _NUMBER.search(output)
    if number is None:
        raise NotCompiled("does not say its version")
    versions, chips = VERSIONS[device]
    if number[0] not in versions:
        raise NotCompiled(f"is {number[0]}; {versions} was expected, which is for {chips}")
    return number[0]


def _file(program: Path, model: bytes, device: str, calibration: list[np.ndarray]) -> bytes:
    if len(calibration) != 1:
        raise NotCompiled("was not tried with a network of several inputs, such as one with noise")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "model.tflite").write_bytes(model)
        np.save(folder / "calibration.npy", calibration[0].astype(np.float32))
        chip = ["--hw-arch", device]
        for command in (
            ["parser", "tf", "model.tflite", *chip, "-y"],
            ["optimize", "model.har", *chip, "--calib-set-path", "calibration.npy"],
            ["compiler", "model_optimized.har", *chip],
        ):
            run_compiler([str(program), *command], COMPILE_LIMIT_S, cwd=folder)
        path = folder / "model.hef"
        if not path.is_file():
            raise NotCompiled("left no model.hef")
        data = path.read_bytes()
    if not data.startswith(MAGIC):
        raise NotCompiled("made a file that is no HEF")
    return data
