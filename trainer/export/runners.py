"""A perturber run on Keras or on an interpreter, by the board's pipeline, with its tensors recorded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from edgeveil.edge_runtime.backends import open_backend
from edgeveil.edge_runtime.manifest.manifest import parse
from edgeveil.edge_runtime.pipeline.pipeline import Pipeline
from edgeveil.edge_runtime.stages import kind_of, preprocess
from edgeveil.trainer.datasets.base import InputSpec
from edgeveil.trainer.interrupts import point
from edgeveil.trainer.runs.fitted import FittedPerturber

ROWS = 16  # between two places where Ctrl-C ends a run
CALIBRATION_ROWS = 256


class Recorder:
    """A runner that keeps its last inputs and outputs: ``{tensor: float32 (n, ...)}``."""

    def __init__(self, runner: Any) -> None:
        self._runner = runner
        self.inputs: dict[str, np.ndarray] = {}
        self.outputs: dict[str, np.ndarray] = {}

    def run(self, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Run and keep inputs and outputs."""
        self.inputs = dict(inputs)
        count = max((len(value) for value in inputs.values()), default=0)
        # As many as the interpreter takes at a time, or some of these: the numbers are those of one call.
        size = getattr(self._runner, "block", 0) or ROWS * getattr(self._runner, "batch", 0) or count
        parts = []
        for row in range(0, max(count, 1), max(size, 1)):
            point()
            whole = count <= size
            parts.append(self._runner.run(inputs if whole else {k: v[row : row + size] for k, v in inputs.items()}))
        names = dict.fromkeys(name for part in parts for name in part)
        self.outputs = parts[0] if len(parts) == 1 else {k: np.concatenate([one[k] for one in parts]) for k in names}
        return self.outputs

    def close(self) -> None:
        """Close the interpreter."""
        if hasattr(self._runner, "close"):
            self._runner.close()


class RecordedRun:
    """A perturber ready to run: ``run(x, draws)`` as a ``Pipeline``, and ``flow(name)``, a model's output in it."""

    def __init__(self, fitted: FittedPerturber, runners: Mapping[str, Any], info: Mapping[str, Any]) -> None:
        self._runners = {name: Recorder(runner) for name, runner in runners.items()}
        self._stages = fitted.stages
        self._pipeline = Pipeline(parse(fitted.description()), tables=dict(fitted.tables), runners=self._runners)
        self.info = dict(info)

    def run(self, x: np.ndarray, draws: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Raw samples (n, ...) in, every output (n, ...) out by name; draws are given, never fresh."""
        return self._pipeline.run(x, dict(draws))

    def model_inputs(self, model: str) -> dict[str, np.ndarray]:
        """A model's inputs in the last ``run``."""
        return self._runners[model].inputs

    def flow(self, name: str) -> np.ndarray | None:
        """The value of that name in the last ``run``, float32 (n, ...); None unless a model computed it."""
        for stage in self._stages:
            if "model" in stage:
                for tensor, value in stage["outputs"].items():
                    if value == name:
                        return self._runners[stage["model"]].outputs[tensor]
        return None

    def close(self) -> None:
        """Close the interpreters."""
        self._pipeline.close()


def on_keras(fitted: FittedPerturber) -> RecordedRun:
    """The perturber as it was trained."""
    return RecordedRun(fitted, fitted.runners(), {"backend": "keras"})


def on_backend(
    fitted: FittedPerturber,
    entries: Mapping[str, Mapping[str, Any]],
    data: Mapping[str, bytes],
    *,
    kernels: str = "production",
) -> RecordedRun:
    """The perturber on its artefacts: ``entries`` (of the manifest) and bytes by model, on the first backend here."""
    runners = {
        name: open_backend(entries[name]["format"], data[name], entries[name], kernels=kernels) for name in entries
    }
    infos = [runner.info() for runner in runners.values()]
    return RecordedRun(fitted, runners, infos[0] if infos else {"backend": "numpy"})


def recorded_draws(fitted: FittedPerturber, n: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Seeded values (n, ...) in place of those that draw stages take from the operating system's generator."""
    draws: dict[str, np.ndarray] = {}
    for stage in fitted.stages:
        if hasattr(kind := kind_of(stage), "recorded"):
            draws[stage["output"]] = kind.recorded(stage, n, rng, fitted.tables)
    return draws


def tensor_names(fitted: FittedPerturber, model: str) -> tuple[list[str], list[str]]:
    """The names of a model's inputs and outputs in its artefact stage."""
    stage = next(s for s in fitted.stages if s.get("model") == model)
    return list(stage["inputs"]), list(stage["outputs"])


def calibration(fitted: FittedPerturber, x: np.ndarray, rng: np.random.Generator) -> dict[str, dict[str, np.ndarray]]:
    """Every model's inputs, ``{model: {input: (n + 2, ...)}}``, for samples x (n, ...) on Keras.

    Two samples are added, all low and all high, with draws of 0 and 1, so that the int8 range includes the ends of the
    unit cube and its step there is exactly 1/255.
    """
    ends = np.stack([np.zeros(fitted.input.shape, np.float32), np.ones(fitted.input.shape, np.float32)])
    if fitted.input.kind == "series":
        # A sensor rests near the middle of its range, and no window is at one end of it.
        ends[:] = 0.5
        ends[0, 0, 0], ends[1, 0, 0] = 0.0, 1.0
    elif fitted.input.kind == "vector":
        # No real sample is 1 everywhere: such a row would widen every inner scale for the input's sake alone.
        ends[1] = np.arange(ends[1].size) == 0
    x = np.concatenate([x, from_unit(fitted.input, ends)])
    draws = recorded_draws(fitted, len(x), rng)
    for values in draws.values():
        if values.dtype == np.float32:
            values[-2], values[-1] = 0.0, 1.0
    keras = on_keras(fitted)
    keras.run(x, draws)
    return {name: keras.model_inputs(name) for name in fitted.models}


def from_unit(spec: InputSpec, u: np.ndarray) -> np.ndarray:
    """Raw samples for u (n, ...) in the unit cube."""
    return preprocess.to_raw(spec.dtype, spec.low, spec.high)(np.asarray(u, np.float32))
