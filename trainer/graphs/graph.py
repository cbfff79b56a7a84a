"""A network file as a graph, whichever format it has: for the lint, the counters and the manifest."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Tensor:
    """A tensor of the graph. ``shape`` has -1 where a size is left open; ``bytes`` is 0 unless it is a constant."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    constant: bool = False
    bytes: int = 0
    scales: tuple[float, ...] = ()
    zero_points: tuple[int, ...] = ()

    @property
    def size(self) -> int:
        return math.prod(self.shape)


@dataclass(frozen=True)
class Op:
    """One operation. ``inputs`` has None where an optional input is left out; ``version`` is TFLite's own number."""

    kind: str
    name: str
    inputs: tuple[Tensor | None, ...]
    outputs: tuple[Tensor, ...]
    version: int = 1
    domain: str = ""
    attributes: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Graph:
    """The operations in order, and the tensors in and out under the names the model gave them."""

    format: str  # "tflite" or "onnx"
    ops: tuple[Op, ...]
    inputs: Mapping[str, Tensor]
    outputs: Mapping[str, Tensor]
    subgraphs: int = 1
    min_runtime_version: str | None = None
    opset: int = 0  # ONNX only, as is ir
    ir: int = 0

    def tensors(self) -> list[Tensor]:
        """Every tensor that an operation touches, and the graph's own inputs and outputs; each once, in order."""
        found: dict[int, Tensor] = {}
        for tensor in (*self.inputs.values(), *self.outputs.values()):
            found.setdefault(id(tensor), tensor)
        for op in self.ops:
            for touched in (*op.inputs, *op.outputs):
                if touched is not None:
                    found.setdefault(id(touched), touched)
        return list(found.values())

    def weight_bytes(self) -> int:
        """How much memory the constants take, in bytes."""
        return sum(tensor.bytes for tensor in self.tensors())

    def makers(self) -> dict[int, Op]:
        """``id`` of a tensor -> the operation that makes it."""
        return {id(tensor): op for op in self.ops for tensor in op.outputs}

    def users(self) -> dict[int, list[Op]]:
        """``id`` of a tensor -> the operations that take it."""
        found: dict[int, list[Op]] = {}
        for op in self.ops:
            for tensor in op.inputs:
                if tensor is not None:
                    found.setdefault(id(tensor), []).append(op)
        return found
