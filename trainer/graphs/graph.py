"""A network file of any format as a graph: for the lint, the counters and the manifest."""

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
    """The operations in order, and the inputs and outputs by the model's names for them."""

    format: str  # "tflite" or "onnx"
    ops: tuple[Op, ...]
    inputs: Mapping[str, Tensor]
    outputs: Mapping[str, Tensor]
    min_runtime_version: str | None = None
    opset: int = 0  # ONNX only, as is ir
    ir: int = 0

    def tensors(self) -> list[Tensor]:
        """Every tensor of an operation, and the graph's inputs and outputs; each once, in order."""
        of_ops = (tensor for op in self.ops for tensor in (*op.inputs, *op.outputs))
        every = (*self.inputs.values(), *self.outputs.values(), *of_ops)
        return list({id(tensor): tensor for tensor in every if tensor is not None}.values())

    def weight_bytes(self) -> int:
        """The size of the constants in bytes."""
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
