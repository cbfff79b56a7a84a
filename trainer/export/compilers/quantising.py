"""What a compiler that chooses the scales itself needs besides the file, and how far its outputs may then be off."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgeveil.trainer.export import golden
from edgeveil.trainer.export.compilers.compiled import NotCompiled
from edgeveil.trainer.export.runners import RecordedRun
from edgeveil.trainer.runs.fitted import FittedPerturber


@dataclass(frozen=True)
class Quantising:
    """Perturber, the models' inputs to calibrate on, ``{model: {input: (n, ...)}}``, and the export as measured."""

    fitted: FittedPerturber
    calibration: Mapping[str, Mapping[str, np.ndarray]]
    manifest: Mapping[str, Any]
    members: Mapping[str, bytes]

    def recorded(self, artefact: str) -> dict[str, np.ndarray]:
        """The golden outputs of an artefact, by name."""
        files = self.manifest["golden"]["outputs"][artefact]
        return {name: self._array(file) for name, file in files.items()}

    def run_golden(self, runners: Mapping[str, Any], by: str) -> dict[str, np.ndarray]:
        """The outputs for the golden input on other runners of the models."""
        named = self.manifest["golden"]
        draws = {name: self._array(file) for name, file in named["draws"].items()}
        running = RecordedRun(self.fitted, runners, {"backend": by})
        try:
            return running.run(self._array(named["input"]), draws)
        finally:
            running.close()

    def tolerance(self, made: Mapping[str, np.ndarray], source: Mapping[str, np.ndarray]) -> float:
        """How far the board may be off, in units of x', from how far these outputs (n, ...) are from the source's.

        Raises ``NotCompiled`` where a golden label or code is another one: it would be on the board as well.
        """
        for output in self.fitted.outputs:
            name = output["name"]
            exact = made[name].dtype.kind in "iub" and output["kind"] != "frame"
            if exact and not np.array_equal(made[name], source[name]):
                raise NotCompiled(f"changed the {output['kind']} of golden samples: its 8 bits are too coarse here")
        return golden.tolerance(self.fitted, "int8", [(made, source)]).allowed

    def _array(self, file: str) -> np.ndarray:
        return np.asarray(np.load(io.BytesIO(self.members[file]), allow_pickle=False))
