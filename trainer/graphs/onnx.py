"""Read an ONNX file, with every shape that can be inferred."""

from __future__ import annotations

from typing import Any

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.graphs.graph import Graph, Op, Tensor


def read_onnx(data: bytes) -> Graph:
    """The graph of an ONNX file. Raises ``BadInput`` where the bytes are not one, or not a valid one."""
    import onnx
    from google.protobuf.message import DecodeError

    try:
        proto = onnx.load_from_string(data)
        onnx.checker.check_model(proto)
        proto = onnx.shape_inference.infer_shapes(proto, strict_mode=True)
    except (DecodeError, onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        first = (str(error).strip().splitlines() or ["no message"])[0]
        raise BadInput(f"the ONNX file is not valid ({first}); export the run again.") from None
    graph = proto.graph
    tensors = {c.name: _constant(c) for c in graph.initializer}
    for value in (*graph.input, *graph.output, *graph.value_info):
        tensors.setdefault(value.name, _value(value))
    ops = []
    for number, node in enumerate(graph.node):
        for name in (*node.input, *node.output):
            if name:  # a tensor whose shape could not be inferred
                tensors.setdefault(name, Tensor(name=name, shape=(-1,), dtype="unknown"))
        ops.append(
            Op(
                kind=node.op_type,
                name=node.name or f"{node.op_type}-{number}",
                inputs=tuple(tensors[name] if name else None for name in node.input),
                outputs=tuple(tensors[name] for name in node.output if name),
                domain=node.domain,
                attributes={a.name: a.i for a in node.attribute if a.type == onnx.AttributeProto.INT},
            )
        )
    constants = {c.name for c in graph.initializer}
    return Graph(
        format="onnx",
        ops=tuple(ops),
        inputs={value.name: tensors[value.name] for value in graph.input if value.name not in constants},
        outputs={value.name: tensors[value.name] for value in graph.output},
        opset=max((entry.version for entry in proto.opset_import if entry.domain in ("", "ai.onnx")), default=0),
        ir=proto.ir_version,
    )


def _constant(entry: Any) -> Tensor:
    import onnx

    array = onnx.numpy_helper.to_array(entry)
    return Tensor(entry.name, tuple(array.shape), array.dtype.name, constant=True, bytes=array.nbytes)


def _value(entry: Any) -> Tensor:
    import onnx

    kind = entry.type.tensor_type
    sizes = tuple(d.dim_value if d.HasField("dim_value") else -1 for d in kind.shape.dim)
    return Tensor(entry.name, sizes, onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type).name)
