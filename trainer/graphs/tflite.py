"""Read a TFLite flatbuffer with the schema that ai-edge-litert carries; no interpreter is opened."""

from __future__ import annotations

import struct
from typing import Any

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.graphs.graph import Graph, Op, Tensor

_SIGNATURE = "serving_default"


def read_tflite(data: bytes) -> Graph:
    """The main subgraph of a flatbuffer. Raises ``BadInput`` where the bytes are not one."""
    from ai_edge_litert import schema_py_generated as schema

    if data[4:8] != b"TFL3":
        raise BadInput("expected a TFLite flatbuffer; these bytes lack its identifier. Export the run again.")
    try:
        return _read(schema.Model.GetRootAs(data), schema)
    except (struct.error, IndexError, TypeError, AttributeError) as error:
        raise BadInput(f"cannot read the TFLite flatbuffer ({type(error).__name__}); export the run again.") from None


def _read(model: Any, schema: Any) -> Graph:
    kinds = {value: key for key, value in vars(schema.BuiltinOperator).items() if key.isupper()}
    dtypes = {value: key.lower() for key, value in vars(schema.TensorType).items() if key.isupper()}
    sub = model.Subgraphs(0)
    tensors = [_tensor(sub.Tensors(place), model, dtypes) for place in range(sub.TensorsLength())]

    def at(place: int) -> Tensor | None:
        return None if place < 0 else tensors[place]

    ops = []
    for number in range(sub.OperatorsLength()):
        entry = sub.Operators(number)
        code = model.OperatorCodes(entry.OpcodeIndex())
        # Old writers fill only the one-byte field, new ones both where the code fits into it.
        kind = kinds[max(code.BuiltinCode(), code.DeprecatedBuiltinCode())]
        if kind == "CUSTOM":
            kind = f"CUSTOM {(code.CustomCode() or b'?').decode()}"
        ops.append(
            Op(
                kind=kind,
                name=f"{kind}-{number}",
                inputs=tuple(at(entry.Inputs(i)) for i in range(entry.InputsLength())),
                outputs=tuple(tensors[entry.Outputs(i)] for i in range(entry.OutputsLength())),
                version=code.Version(),
            )
        )
    inputs, outputs = _ends(model, sub, tensors)
    return Graph(
        format="tflite",
        ops=tuple(ops),
        inputs=inputs,
        outputs=outputs,
        min_runtime_version=_min_runtime_version(model),
    )


def _tensor(entry: Any, model: Any, dtypes: dict[int, str]) -> Tensor:
    # The signature has -1 where a size is open; the shape then has 1.
    many = entry.ShapeSignatureLength()
    shape = [entry.ShapeSignature(i) if many else entry.Shape(i) for i in range(many or entry.ShapeLength())]
    quantisation = entry.Quantization()
    scales: tuple[float, ...] = ()
    zero_points: tuple[int, ...] = ()
    size = model.Buffers(entry.Buffer()).DataLength() if entry.Buffer() else 0
    if quantisation is not None:
        scales = tuple(float(quantisation.Scale(i)) for i in range(quantisation.ScaleLength()))
        zero_points = tuple(int(quantisation.ZeroPoint(i)) for i in range(quantisation.ZeroPointLength()))
    return Tensor(
        name=entry.Name().decode(),
        shape=tuple(int(size) for size in shape),
        dtype=dtypes[entry.Type()],
        constant=size > 0,
        bytes=size,
        scales=scales,
        zero_points=zero_points,
    )


def _ends(model: Any, sub: Any, tensors: list[Tensor]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Inputs and outputs by the names of the signature; by their own names in a file without one."""
    for number in range(model.SignatureDefsLength()):
        signature = model.SignatureDefs(number)
        if (signature.SignatureKey() or b"").decode() != _SIGNATURE:
            continue
        inputs = [signature.Inputs(i) for i in range(signature.InputsLength())]
        outputs = [signature.Outputs(i) for i in range(signature.OutputsLength())]
        ins, outs = ({end.Name().decode(): tensors[end.TensorIndex()] for end in ends} for ends in (inputs, outputs))
        return ins, outs
    inputs = [tensors[sub.Inputs(i)] for i in range(sub.InputsLength())]
    outputs = [tensors[sub.Outputs(i)] for i in range(sub.OutputsLength())]
    return {tensor.name: tensor for tensor in inputs}, {tensor.name: tensor for tensor in outputs}


def _min_runtime_version(model: Any) -> str | None:
    for number in range(model.MetadataLength()):
        entry = model.Metadata(number)
        if entry.Name() == b"min_runtime_version":
            return bytes(model.Buffers(entry.Buffer()).DataAsNumpy()).rstrip(b"\0").decode() or None
    return None
