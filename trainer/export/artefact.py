"""An exported artefact, before it is written into the folder."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.export.runners import tensor_names
from edgeveil.trainer.graphs.files import read
from edgeveil.trainer.graphs.macs import Cost, Graph, Tensor, graph_macs, keras_macs
from edgeveil.trainer.recipe.perturber import of_kind
from edgeveil.trainer.runs.fitted import FittedPerturber, GivenFile

# The manifest's entry for one artefact: its tensors, read from the file that ships.


def artefact_entry(
    data: bytes, graph: Graph, *, file: str, precision: str, inputs: list[str], outputs: list[str], max_abs: float
) -> dict[str, Any]:
    """ARTEFACT of the manifest (docs/reference/bundle-format.md) for the bytes ``data`` that ``graph`` was read from.

    ``inputs`` and ``outputs`` are the names that the artefact stage uses, in its order. ``tensor`` is the
    *interpreter's* name: in TFLite that of the flatbuffer's tensor (``serving_default_image:0``), which does not depend
    on signatures (interpreters before 2.5 have none); in ONNX the graph's.
    ``max_abs`` is the self-test's tolerance, in units of x'.
    """
    return {
        "file": file,
        "format": graph.format,
        "precision": precision,
        "sha256": hashlib.sha256(data).hexdigest(),
        "weight_bytes": graph.weight_bytes(),
        "inputs": [_tensor(name, graph.inputs) for name in inputs],
        "outputs": [_tensor(name, graph.outputs) for name in outputs],
        "tolerance": {"max_abs": float(max_abs)},
    }


def _tensor(name: str, tensors: Any) -> dict[str, Any]:
    if name not in tensors:
        raise BadInput(f"the artefact has no tensor {name!r}; it has {', '.join(sorted(tensors))}.")
    tensor: Tensor = tensors[name]
    return {
        "name": name,
        "tensor": tensor.name,
        "shape": list(tensor.shape),
        "dtype": tensor.dtype,
        "scale": tensor.scales[0] if tensor.scales else None,
        "zero_point": tensor.zero_points[0] if tensor.scales else None,
    }


def network_macs(network: Any) -> Cost:
    """The cost of a perturber's Keras model, or of the file in its place. Raises ``BadInput`` as both counters do."""
    if isinstance(network, GivenFile):
        return graph_macs(read(network.data, network.entry["format"]))
    return keras_macs(network)


# The artefact variants (format, precision, batch) that a kind of perturber can have.


BATCH = 256
NUMPY = "numpy-float32"


def why_not(kind: str, artefact: str) -> str | None:
    """Why a perturber of that kind has no artefact of that name (``tflite-int8``); None where it may."""
    if base(artefact).split("-")[1] != "float32":
        return of_kind(kind).only_float32
    return None


def variants_for(kind: str, wanted: Sequence[str]) -> list[str]:
    """The artefacts of this kind for boards that run ``wanted``, best first.

    Kinds of few operations are exported in batches too; a cleaner can run without an interpreter.
    """
    names = [name for name in wanted if why_not(kind, name) is None]
    section = of_kind(kind)
    if section.batched:
        names += [f"{name}-batch{BATCH}" for name in names]
    return [*names, NUMPY] if section.without_interpreter else names


def base(artefact: str) -> str:
    """The name without its batch, as in board profiles."""
    return artefact.partition("-batch")[0]


def batch(artefact: str) -> int:
    """How many frames an artefact of that name takes at a time."""
    return int(artefact.partition("-batch")[2] or 1)


def runs_on(artefact: str, artefacts: Sequence[str]) -> bool:
    """Whether a board that runs ``artefacts`` runs this one: every board has numpy."""
    return artefact == NUMPY or base(artefact) in artefacts


@dataclass
class Artefact:
    """One name (``tflite-int8``), and for each model the file, its graph, the manifest's entry and the cost."""

    name: str
    data: dict[str, bytes] = field(default_factory=dict)
    graphs: dict[str, Graph] = field(default_factory=dict)
    entries: dict[str, dict[str, Any]] = field(default_factory=dict)
    costs: dict[str, Cost] = field(default_factory=dict)

    @property
    def format(self) -> str:
        return self.name.split("-")[0]

    @property
    def precision(self) -> str:
        return self.name.split("-")[1]

    @property
    def batch(self) -> int:
        """How many frames it takes at a time."""
        return batch(self.name)

    def add(self, fitted: FittedPerturber, model: str, data: bytes) -> None:
        """Add one model's file. Its tolerance is set once it has run."""
        inputs, outputs = tensor_names(fitted, model)
        graph = read(data, self.format)
        self.data[model], self.graphs[model], self.costs[model] = data, graph, graph_macs(graph)
        file = f"artefacts/{model}.{self.name}.{'npz' if self.format == 'numpy' else self.format}"
        network = fitted.models[model]
        if isinstance(network, GivenFile):
            self.entries[model] = {**network.entry, "file": file, "tolerance": {"max_abs": 0.0}}
            return
        self.entries[model] = artefact_entry(
            data, graph, file=file, precision=self.precision, inputs=inputs, outputs=outputs, max_abs=0.0
        )
