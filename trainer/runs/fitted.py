"""A trained perturber: every ``fit`` returns one, a run keeps it, and an export ships it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.edge_runtime.backends import open_backend
from edgeveil.edge_runtime.manifest.manifest import parse
from edgeveil.edge_runtime.pipeline.pipeline import Pipeline
from edgeveil.edge_runtime.stages import preprocess
from edgeveil.trainer.datasets.base import InputSpec
from edgeveil.trainer.graphs import keras_file
from edgeveil.trainer.graphs.prediction import predict
from edgeveil.trainer.recipe.messages import KINDS

# What a receiver makes of a perturber's outputs: codes and reports decoded into samples.


Declared = list[Mapping[str, Any]]


def as_received(
    outputs: Sequence[Mapping[str, Any]],
    input_: Mapping[str, Any],
    tables: Mapping[str, np.ndarray],
    values: Mapping[str, np.ndarray],
) -> tuple[Declared, dict[str, np.ndarray]]:
    """The declared ``outputs`` and their ``values`` (n, ...), with all that has a decoder as a frame.

    ``outputs`` and ``input_`` are the manifest's, ``tables`` its arrays. Pictures come within the range of x, of its
    type; vectors as they are decoded, float32.
    """
    declared: Declared = []
    received = dict(values)
    for output in outputs:
        if "decoder" in output:
            decoder = tables[output["decoder"]]
            if output["shape"]:
                frame = _as_x(decoded(values[output["name"]], decoder), input_)
                if input_["kind"] == "image":  # rounded and clipped: an adversary has the report itself, too
                    received["frame"] = frame
                    declared.append({"name": "frame", "kind": "frame"})
                else:
                    received[output["name"]] = frame
                    output = {**output, "kind": "frame"}
            else:  # the number of a code, which an adversary has next to the sample that is drawn of it
                received["frame"] = drawn(values[output["name"]], decoder, np.random.default_rng(0))
                declared.append({"name": "frame", "kind": "frame"})
        declared.append(output)
    return declared, received


def decoded(code: np.ndarray, decoder: np.ndarray) -> np.ndarray:
    """x~ (n, features) of a code (n, r), as a receiver computes it; float32."""
    return code.astype(np.float32) @ decoder[:-1] + decoder[-1]


def drawn(code: np.ndarray, decoder: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """x' (n, *shape) of the numbers of codes (n,), as a receiver draws it: evenly of ``decoder`` (codes, m, *shape)."""
    return decoder[code, rng.integers(0, decoder.shape[1], len(code))]


def _as_x(x: np.ndarray, input_: Mapping[str, Any]) -> np.ndarray:
    """x (n, features) in the shape of the input; pictures clipped to its range and of its type."""
    x = x.reshape(len(x), *input_["shape"])
    if input_["kind"] != "image":
        return x
    x = np.clip(x, input_["low"], input_["high"])
    whole = np.dtype(input_["dtype"]).kind in "iu"
    return (np.rint(x) if whole else x).astype(input_["dtype"])


HIDES_NOTHING = (
    "Train it with more `budget.epochs`, a larger `perturber.distance` (where the recipe has one) or another `seed`."
)


@dataclass(frozen=True)
class FittedPerturber:
    """A trained perturber as the manifest describes it: stages, the networks they name, and tables.

    ``stages``, ``outputs`` and ``input`` are the manifest's own (docs/reference/bundle-format.md), so the pipeline that
    runs on the board runs here too, with Keras in place of an interpreter. ``models`` maps a model's name to a Keras
    model whose input and output *names* are those the artefact stage uses, or to a ``GivenFile``. ``tables`` maps a
    name to an array.
    ``stream`` is the manifest's too: None for single releases; and so are ``spending`` and ``training``: None without a
    promise, about releases and about the people it was trained on.
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
    spending: Mapping[str, Any] | None = None
    training: Mapping[str, Any] | None = None

    def description(self) -> dict[str, Any]:
        """The manifest's part that does not depend on how the networks are exported."""
        return {
            "perturber": {
                "kind": self.kind,
                "identity_allowed": self.identity_allowed,
                "substituted": self.substituted,
            },
            "input": {"name": "x", **self.input.as_json()},
            "stream": None if self.stream is None else dict(self.stream),
            "stages": list(self.stages),
            "outputs": list(self.outputs),
            **({} if self.spending is None else {"spending": dict(self.spending)}),
            **({} if self.training is None else {"training": {**self.training, "marks": self.marks()}}),
        }

    def marks(self) -> dict[str, Any]:
        """How each of its ``models`` and ``tables``, and its ``range``, depend on training data.

        "public", "private: MECHANISM, SHARE of the budget", or "data", which is also what nothing else was said of.
        """
        told: Mapping[str, Any] = {} if self.training is None else self.training["marks"]
        parts = {"models": self.models, "tables": self.tables}
        return {
            **{kind: {name: told.get(kind, {}).get(name, "data") for name in names} for kind, names in parts.items()},
            "range": told.get("range", "data"),
        }

    def perturb(self, x: np.ndarray, tracks: np.ndarray | None = None) -> dict[str, np.ndarray]:
        """Every output (n, ...) by name for samples (n, ...), through the board's pipeline code on Keras.

        ``tracks`` (n,) numbers the tracks of a stream's frames, in order of time; None: each frame is a whole track.
        """
        pipeline = Pipeline(parse(self.description()), tables=dict(self.tables), runners=self.runners())
        return pipeline.run(x, tracks=None if tracks is None else tracks.tolist())

    def frames(self, x: np.ndarray) -> np.ndarray:
        """What a receiver makes of the outputs for samples x (n, ...), in units of x: (n, *shape).

        Where nothing is or can be decoded into a frame, every frame is the middle of the range.
        """
        facts = self.description()
        declared, values = as_received(facts["outputs"], facts["input"], self.tables, self.perturb(x))
        for output in declared:
            if output["kind"] == "frame":
                return values[output["name"]]
        middle = np.full((len(x), *self.input.shape), 0.5, np.float32)
        return preprocess.to_raw(self.input.dtype, self.input.low, self.input.high)(middle)

    @property
    def given(self) -> str | None:
        """The one artefact that it can have (``tflite-float32``), where a file of that format ships as it was given."""
        return next((model.artefact for model in self.models.values() if isinstance(model, GivenFile)), None)

    def runners(self) -> dict[str, Any]:
        """Its networks behind the pipeline's interface."""
        return {
            name: model.runner() if isinstance(model, GivenFile) else KerasRunner(model)
            for name, model in self.models.items()
        }

    def save(self, folder: Path) -> None:
        """Write ``perturber.json``, ``NAME.keras`` (or a given file) and ``NAME.npy`` into an existing empty folder."""
        for name, model in self.models.items():
            model.save(folder / f"{name}.keras")
        for name, table in self.tables.items():
            np.save(folder / f"{name}.npy", table, allow_pickle=False)
        text = self.description() | {"models": sorted(self.models), "tables": sorted(self.tables)}
        (folder / "perturber.json").write_text(json.dumps(text, indent=1))

    @classmethod
    def load(cls, folder: Path) -> FittedPerturber:
        """Read back what ``save`` wrote into ``folder``."""
        text = json.loads((folder / "perturber.json").read_text())
        facts = text["perturber"]
        return cls(
            kind=KINDS.get(facts["kind"], facts["kind"]),
            input=InputSpec.from_json(text["input"]),
            stages=tuple(text["stages"]),
            outputs=tuple(text["outputs"]),
            models={
                name: keras_file.read(path)
                if (path := folder / f"{name}.keras").is_file()
                else GivenFile.load(path.with_suffix(".json"))
                for name in text["models"]
            },
            tables={name: np.load(folder / f"{name}.npy", allow_pickle=False) for name in text["tables"]},
            identity_allowed=facts["identity_allowed"],
            substituted=facts["substituted"],
            stream=text.get("stream"),
            spending=text.get("spending"),
            training=text.get("training"),
        )


def preprocess_stage(spec: InputSpec) -> dict[str, Any]:
    """The first stage of every perturber: raw x to u in the unit cube."""
    return {"stage": "preprocess", "input": "x", "output": "u", **_range(spec)}


def output_stage(spec: InputSpec) -> dict[str, Any]:
    """The last stage: v in the unit cube to x_out, of x's own kind."""
    return {"stage": "output", "input": "v", "output": "x_out", **_range(spec), "dtype": spec.dtype}


def _range(spec: InputSpec) -> dict[str, Any]:
    return {
        name: list(end) if isinstance(end, tuple) else end for name, end in (("low", spec.low), ("high", spec.high))
    }


def frame_output(spec: InputSpec) -> dict[str, Any]:
    """The output that is a perturbed sample."""
    return {"name": "frame", "kind": "frame", "tensor": "x_out", "shape": list(spec.shape), "dtype": spec.dtype}


def unchanged(spec: InputSpec, x: np.ndarray, out: np.ndarray, allowed: float = 0.0) -> np.ndarray:
    """Which samples x (n, ...) equal their output ``out``, up to rounding and ``allowed`` (in units of x): bool (n,).

    A constant sample (a blank picture) is never counted: it may stay unchanged.
    """
    same = preprocess.to_raw(spec.dtype, spec.low, spec.high)(preprocess.to_unit(spec.dtype, spec.low, spec.high)(x))
    whole = np.dtype(spec.dtype).kind in "iu"
    slack = 0.0 if whole else spec.span / 510  # as edgeveil.edge_runtime.pipeline.perturber has it
    beyond = np.abs(out.astype(np.float64) - same) - slack
    return (beyond.reshape(len(x), -1).max(axis=1) <= allowed) & ~constant(x)


def constant(x: np.ndarray) -> np.ndarray:
    """Which samples x (n, ...) have one value everywhere: bool (n,)."""
    flat = x.reshape(len(x), -1)
    return flat.min(axis=1) == flat.max(axis=1)


@dataclass(frozen=True)
class GivenFile:
    """A network that ships byte for byte as it was given, in place of a Keras model.

    ``entry`` is the manifest's of that artefact: its tensors have the names that the artefact stage uses.
    """

    data: bytes
    entry: Mapping[str, Any]

    @property
    def artefact(self) -> str:
        """Its name as an artefact: ``tflite-int8``."""
        return f"{self.entry['format']}-{self.entry['precision']}"

    def runner(self, kernels: str = "production") -> Any:
        """The file on the first interpreter here. Raises ``DeviceFailed`` where none opens it."""
        return open_backend(self.entry["format"], self.data, self.entry, kernels=kernels)

    def save(self, path: Path) -> None:
        """Write it next to ``path``, where a Keras model would be: the file, and its entry as JSON."""
        path.with_suffix(f".{self.entry['format']}").write_bytes(self.data)
        path.with_suffix(".json").write_text(json.dumps(dict(self.entry)))

    @classmethod
    def load(cls, entry: Path) -> GivenFile:
        """Read back what ``save`` wrote; ``entry`` is the path of the JSON."""
        facts = json.loads(entry.read_text())
        return cls(entry.with_suffix(f".{facts['format']}").read_bytes(), facts)


class KerasRunner:
    """A Keras model behind the pipeline's runner interface."""

    def __init__(self, model: Any) -> None:
        self._model = model

    def run(self, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Named float32 batches (n, ...) in, named batches out."""
        out = predict(self._model, [inputs[tensor.name] for tensor in self._model.inputs], batch=512)
        return dict(zip(self._model.output_names, out if isinstance(out, list) else [out]))
