"""An exported artefact, before it is written into the folder."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from edgeveil.trainer.export import variants
from edgeveil.trainer.export.manifest_entry import artefact_entry
from edgeveil.trainer.export.runners import tensor_names
from edgeveil.trainer.graphs.graph import Graph
from edgeveil.trainer.graphs.macs import Cost, graph_macs
from edgeveil.trainer.graphs.read import read
from edgeveil.trainer.runs.fitted import FittedPerturber


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
        return variants.batch(self.name)

    def add(self, fitted: FittedPerturber, model: str, data: bytes) -> None:
        """Add one model's file. Its tolerance is set once it has run."""
        inputs, outputs = tensor_names(fitted, model)
        graph = read(data, self.format)
        self.data[model], self.graphs[model], self.costs[model] = data, graph, graph_macs(graph)
        suffix = "npz" if self.format == "numpy" else self.format
        self.entries[model] = artefact_entry(
            data,
            graph,
            file=f"artefacts/{model}.{self.name}.{suffix}",
            precision=self.precision,
            inputs=inputs,
            outputs=outputs,
            max_abs=0.0,
        )
