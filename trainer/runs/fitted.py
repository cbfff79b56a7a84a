"""A trained perturber: what every ``fit`` returns, a run keeps and an export ships."""

from __future__ import annotations

import importlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.edge_runtime.manifest.manifest import parse
from edgeveil.edge_runtime.pipeline import preprocess
from edgeveil.edge_runtime.pipeline.pipeline import Pipeline
from edgeveil.trainer.datasets.base import InputSpec
from edgeveil.trainer.recipe.renamed import KINDS
from edgeveil.trainer.runs.prediction import predict

HIDES_NOTHING = (
    "Train it with more `budget.epochs`, a larger `perturber.distance` (where the recipe has one) or another `seed`."
)


@dataclass(frozen=True)
class FittedPerturber:
    """A trained perturber as the manifest describes it: stages, the networks they name, and tables.

    ``stages``, ``outputs`` and ``input`` are the manifest's own (docs/reference/bundle-format.md), so the pipeline that
    runs on the board runs here too, with Keras in place of an interpreter. ``models`` maps a model's name to a Keras
    model whose input and output *names* are those the artefact stage uses. ``tables`` maps a name to an array.
    ``stream`` is the manifest's too: None for single releases.
    """

    kind: str
    input: InputSpec
    stages: tuple[dict[str, Any], ...]
    outputs: tuple[dict[str, Any], ...]
    models: Mapping[str, Any] = field(default_factory=dict)
    tables: Mapping[str, np.ndarray] = field(default_factory=dict)
    identity_allowed: bool = False
    substituted: bool = False
    stream: Mapping[str, Any] | None = None

    def description(self) -> dict[str, Any]:
        """The manifest's part that does not depend on how the networks are exported."""
        return {
            "perturber": {
                "kind": self.kind,
                "identity_allowed": self.identity_allowed,
                "substituted": self.substituted,
            },
            "input": {"name": "x", **json.loads(json.dumps(asdict(self.input)))},
            "stream": None if self.stream is None else dict(self.stream),
            "stages": list(self.stages),
            "outputs": list(self.outputs),
        }

    def perturb(self, x: np.ndarray, tracks: np.ndarray | None = None) -> dict[str, np.ndarray]:
        """Samples (n, ...) in, every output (n, ...) out by name, through the board's own pipeline code on Keras.

        ``tracks`` (n,) says whose frames of a stream they are, in order of time; None: each stands for a whole track.
        """
        pipeline = Pipeline(
            parse(self.description()),
            tables=dict(self.tables),
            runners=self.runners(),
        )
        return pipeline.run(x, tracks=None if tracks is None else tracks.tolist())

    def runners(self) -> dict[str, KerasRunner]:
        """Its networks as the pipeline runs them."""
        return {name: KerasRunner(model) for name, model in self.models.items()}

    def save(self, folder: Path) -> None:
        """Write ``perturber.json``, ``NAME.keras`` and ``NAME.npy`` into an existing empty folder."""
        for name, model in self.models.items():
            model.save(folder / f"{name}.keras")
        for name, table in self.tables.items():
            np.save(folder / f"{name}.npy", table, allow_pickle=False)
        text = self.description() | {"models": sorted(self.models), "tables": sorted(self.tables)}
        (folder / "perturber.json").write_text(json.dumps(text, indent=1))

    @classmethod
    def load(cls, folder: Path) -> FittedPerturber:
        """Read back what ``save`` wrote into ``folder``."""
        import keras

        importlib.import_module("edgeveil.models.layers")  # registers the layers that saved networks name
        text = json.loads((folder / "perturber.json").read_text())
        spec: dict[str, Any] = {
            k: tuple(v) if isinstance(v, list) else v for k, v in text["input"].items() if k != "name"
        }
        return cls(
            kind=KINDS.get(text["perturber"]["kind"], text["perturber"]["kind"]),
            input=InputSpec(**spec),
            stages=tuple(text["stages"]),
            outputs=tuple(text["outputs"]),
            models={name: keras.models.load_model(folder / f"{name}.keras") for name in text["models"]},
            tables={name: np.load(folder / f"{name}.npy", allow_pickle=False) for name in text["tables"]},
            identity_allowed=text["perturber"]["identity_allowed"],
            substituted=text["perturber"]["substituted"],
            stream=text.get("stream"),
        )


def preprocess_stage(spec: InputSpec) -> dict[str, Any]:
    """The first stage of every perturber: raw x to u in the unit cube."""
    return {"stage": "preprocess", "input": "x", "output": "u", "low": _plain(spec.low), "high": _plain(spec.high)}


def output_stage(spec: InputSpec) -> dict[str, Any]:
    """The last stage: v in the unit cube to x_out, of x's own kind."""
    ends = {"low": _plain(spec.low), "high": _plain(spec.high)}
    return {"stage": "output", "input": "v", "output": "x_out", **ends, "dtype": spec.dtype}


def frame_output(spec: InputSpec) -> dict[str, Any]:
    """The output that is a perturbed sample."""
    return {"name": "frame", "kind": "frame", "tensor": "x_out", "shape": list(spec.shape), "dtype": spec.dtype}


def unchanged(spec: InputSpec, x: np.ndarray, out: np.ndarray, allowed: float = 0.0) -> np.ndarray:
    """Which readings x (n, ...) came out, as ``out``, like from a model that does nothing: bool (n,).

    No value may be further off than rounding and ``allowed`` (in units of x). A constant reading (a blank picture) may
    stay as it is and says nothing: it is never counted.
    """
    same = preprocess.to_raw(spec.dtype, spec.low, spec.high)(preprocess.to_unit(spec.dtype, spec.low, spec.high)(x))
    whole = np.dtype(spec.dtype).kind in "iu"
    slack = 0.0 if whole else spec.span / 510  # as edgeveil.edge_runtime.pipeline.passthrough has it
    beyond = np.abs(out.astype(np.float64) - same) - slack
    return (beyond.reshape(len(x), -1).max(axis=1) <= allowed) & ~constant(x)


def constant(x: np.ndarray) -> np.ndarray:
    """Which readings x (n, ...) have one value everywhere: bool (n,)."""
    flat = x.reshape(len(x), -1)
    return flat.min(axis=1) == flat.max(axis=1)


def _plain(value: float | tuple[float, ...] | None) -> float | list[float] | None:
    return list(value) if isinstance(value, tuple) else value


class KerasRunner:
    """A Keras model behind the pipeline's runner interface: named float32 batches in and out."""

    def __init__(self, model: Any, batch: int = 512) -> None:
        self._model, self._batch = model, batch

    def run(self, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Named float32 batches (n, ...) in, named batches out."""
        names = [t.name for t in self._model.inputs]
        values = [inputs[name] for name in names]
        out = predict(self._model, values, batch=self._batch)
        outs = out if isinstance(out, list) else [out]
        return dict(zip(self._model.output_names, (np.asarray(o) for o in outs)))


def decoded(code: np.ndarray, decoder: np.ndarray) -> np.ndarray:
    """x~ (n, features) of a code (n, r), as a receiver computes it; float32."""
    return code.astype(np.float32) @ decoder[:-1] + decoder[-1]
