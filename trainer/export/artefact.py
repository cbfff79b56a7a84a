"""An exported artefact, before it is written into the folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from edgeveil.trainer.export import variants
from edgeveil.trainer.export.manifest_entry import artefact_entry
from edgeveil.trainer.export.runners import tensor_names
from edgeveil.trainer.graphs.graph import Graph
from edgeveil.trainer.graphs.macs import Cost
from edgeveil.trainer.graphs.read import read
from edgeveil.trainer.runs.fitted import FittedPerturber

_SUFFIX = {"numpy": "npz"}


@dataclass
class Artefact:
    """One name (``tflite-int8``), and for each model the bytes, the manifest's entry and the cost."""

    name: str
    data: dict[str, bytes] = field(default_factory=dict)
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
        """How many frames it takes at a time: 1, or what its name ends with (``onnx-float32-batch256``)."""
        return variants.batch(self.name)

    def add(self, fitted: FittedPerturber, model: str, data: bytes, cost: Cost) -> None:
        """One model's file. Its tolerance is not known before it has run."""
        inputs, outputs = tensor_names(fitted, model)
        self.data[model], self.costs[model] = data, cost
        self.entries[model] = artefact_entry(
            data,
            self.graph(model),
            file=f"artefacts/{model}.{self.name}.{_SUFFIX.get(self.format, self.format)}",
            precision=self.precision,
            inputs=inputs,
            outputs=outputs,
            max_abs=0.0,
        )

    def graph(self, model: str) -> Graph:
        """What a reader of the file finds in it."""
        return read(self.data[model], self.format)

    def files(self) -> dict[str, bytes]:
        """``{file name: bytes}``, without folders."""
        return {Path(self.entries[model]["file"]).name: data for model, data in self.data.items()}


def by_format(format_: str, artefacts: Sequence[Artefact]) -> list[Artefact]:
    """Those of ``artefacts`` in one format."""
    return [one for one in artefacts if one.format == format_]
