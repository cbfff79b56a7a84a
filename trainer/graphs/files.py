"""Network files as graphs: TFLite, ONNX and numpy."""

from __future__ import annotations

import io
import math
import struct
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from edgeveil.edge_runtime import late_imports  # noqa: F401 - before onnxruntime: it turns its telemetry off
from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.graphs.macs import Graph, Op, Tensor

# Read a TFLite flatbuffer with the schema that ai-edge-litert carries; no interpreter is opened.


_SIGNATURE = "serving_default"


def read_tflite(data: bytes, shapes: Mapping[str, tuple[int, ...]] | None = None) -> Graph:
    """The main subgraph of a flatbuffer. Raises ``BadInput`` where the bytes are not one.

    ``shapes`` gives inputs other sizes, by name; of an open batch one frame runs then. None: as the file has them. In
    both, -1 where a size is open.
    """
    from ai_edge_litert import schema_py_generated as schema

    if data[4:8] != b"TFL3":
        raise BadInput("expected a TFLite flatbuffer; these bytes lack its identifier. Export the run again.")
    try:
        sizes = _sizes(data, shapes) if shapes else {}
        return _Tflite(schema.Model.GetRootAs(data), schema, sizes, one=shapes is not None).graph(0)
    except (struct.error, IndexError, TypeError, AttributeError, KeyError) as error:
        raise BadInput(f"cannot read the TFLite flatbuffer ({type(error).__name__}); export the run again.") from None


def _sizes(data: bytes, shapes: Mapping[str, tuple[int, ...]]) -> dict[int, tuple[int, ...]]:
    """The sizes of the main subgraph's tensors, by their places, for inputs of these shapes: the interpreter's, of all
    that it gives memory before it runs."""
    from ai_edge_litert import interpreter as litert

    resolver = litert.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    sizes = {}
    try:
        opened = litert.Interpreter(model_content=data, experimental_op_resolver_type=resolver)
        inputs = {one["name"]: one["index"] for one in opened.get_input_details()}
        for name, shape in shapes.items():
            opened.resize_tensor_input(inputs[input_named(name, inputs)], shape)
        opened.allocate_tensors()
    except (ValueError, RuntimeError) as error:
        first = (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
        raise BadInput(f"the model does not take inputs of these shapes ({first}).") from None
    for one in opened.get_tensor_details():
        with suppress(ValueError):
            opened.tensor(one["index"])()
            sizes[one["index"]] = tuple(int(size) for size in one["shape"])
    return sizes


def input_named(name: str, inputs: Iterable[str]) -> str:
    """The input of that name; of TFLite also by the name of the signature. Raises ``BadInput`` for another."""
    every = list(inputs)
    matches = [one for one in every if one in (name, f"serving_default_{name}:0") or one.partition(":")[0] == name]
    if len(matches) != 1:
        raise BadInput(f"--shape: an input of {', '.join(every)} was expected; got {name}.")
    return matches[0]


class _Tflite:
    """A flatbuffer's subgraphs. ``sizes`` of the main one's tensors are by their places; ``one``: one frame runs."""

    def __init__(self, model: Any, schema: Any, sizes: Mapping[int, tuple[int, ...]], *, one: bool) -> None:
        self.model, self.schema, self.sizes, self.one = model, schema, sizes, one
        self.kinds = {value: key for key, value in vars(schema.BuiltinOperator).items() if key.isupper()}
        self.dtypes = {value: key.lower() for key, value in vars(schema.TensorType).items() if key.isupper()}

    def graph(self, number: int, given: Sequence[Tensor | None] = ()) -> Graph:
        """One subgraph; 0 is the main one. ``given`` is what comes in where that is stored."""
        sub = self.model.Subgraphs(number)
        tensors = [_tensor(sub.Tensors(place), self.model, self.dtypes) for place in range(sub.TensorsLength())]
        if number == 0:
            tensors = [replace(one, shape=self.sizes.get(place, one.shape)) for place, one in enumerate(tensors)]
        for place in (sub.Inputs(i) for i in range(sub.InputsLength() if self.one and not number else 0)):
            first, *rest = tensors[place].shape or (0,)
            if first == -1 and rest:
                tensors[place] = replace(tensors[place], shape=(1, *rest))
        for place, one in enumerate(given):
            if one is not None and one.constant:
                tensors[sub.Inputs(place)] = one
        ops = tuple(self._op(sub.Operators(place), place, tensors) for place in range(sub.OperatorsLength()))
        inputs, outputs = _ends(self.model, sub, tensors, signed=number == 0)
        return Graph(
            format="tflite",
            ops=ops,
            inputs=inputs,
            outputs=outputs,
            min_runtime_version=_min_runtime_version(self.model),
            others=() if number else _others(self.model),
        )

    def _op(self, entry: Any, number: int, tensors: list[Tensor]) -> Op:
        code = self.model.OperatorCodes(entry.OpcodeIndex())
        # Old writers fill only the one-byte field, new ones both where the code fits into it.
        kind = self.kinds[max(code.BuiltinCode(), code.DeprecatedBuiltinCode())]
        if kind == "CUSTOM":
            kind = f"CUSTOM {(code.CustomCode() or b'?').decode()}"
        places = [entry.Inputs(i) for i in range(entry.InputsLength())]
        inputs = tuple(None if place < 0 else tensors[place] for place in places)
        outputs = [entry.Outputs(i) for i in range(entry.OutputsLength())]
        for place in outputs:
            tensors[place] = _followed(kind, inputs, tensors[place]) if self.one else tensors[place]
        attributes, bodies, repeats = self._options(kind, entry, inputs)
        return Op(
            kind=kind,
            name=f"{kind}-{number}",
            inputs=inputs,
            outputs=tuple(tensors[place] for place in outputs),
            version=code.Version(),
            attributes=attributes,
            bodies=bodies,
            repeats=repeats,
        )

    def _options(
        self, kind: str, entry: Any, inputs: Sequence[Tensor | None]
    ) -> tuple[dict[str, Any], tuple[Graph, ...], int | None]:
        """What the counters need of an operation's options: a turned factor, and the subgraphs that it runs."""
        words = {
            "BATCH_MATMUL": ("BatchMatMulOptions", ("AdjX",)),
            "IF": ("IfOptions", ("ThenSubgraphIndex", "ElseSubgraphIndex")),
            "WHILE": ("WhileOptions", ("CondSubgraphIndex", "BodySubgraphIndex")),
            "CALL_ONCE": ("CallOnceOptions", ("InitSubgraphIndex",)),
            "CALL": ("CallOptions", ("Subgraph",)),
        }
        if kind not in words or entry.BuiltinOptions() is None:
            return {}, (), 1
        name, fields = words[kind]
        options = getattr(self.schema, name)()
        options.Init(entry.BuiltinOptions().Bytes, entry.BuiltinOptions().Pos)
        values = [getattr(options, one)() for one in fields]
        if kind == "BATCH_MATMUL":
            return {"adj_x": int(values[0])}, (), 1
        given = inputs[1:] if kind == "IF" else ()
        if kind == "WHILE":  # a constant that its body returns as it came is one in the body
            body = self.model.Subgraphs(values[1])
            same = (body.Inputs(place) == body.Outputs(place) for place in range(len(inputs)))
            given = [one if as_it_came else None for one, as_it_came in zip(inputs, same, strict=True)]
        return {}, tuple(self.graph(one, given) for one in values), None if kind == "WHILE" else 1


_ROWS = {"GATHER", "GATHER_ND", "WHERE", "UNIQUE", "TILE", "RANGE", "FILL", "BROADCAST_TO", "SPARSE_TO_DENSE"}
_ROWS |= {"NON_MAX_SUPPRESSION_V4", "NON_MAX_SUPPRESSION_V5", "BATCH_TO_SPACE_ND", "SPACE_TO_BATCH_ND", "SCATTER_ND"}
_ROWS |= {"WHILE", "IF", "CALL"}  # these may make many rows of one frame, or none
_KEPT = {"FULLY_CONNECTED", "ADD", "MUL", "RELU", "RELU6", "LEAKY_RELU", "LOGISTIC", "TANH", "SOFTMAX", "QUANTIZE"}


def _followed(kind: str, inputs: Sequence[Tensor | None], made: Tensor) -> Tensor:
    """What an operation makes, with its one open size where that follows from what it is made of."""
    data = [one for one in inputs if one is not None and not one.constant]
    if made.shape.count(-1) != 1 or not data or -1 in data[0].shape:
        return made
    rows = data[0].shape[0] if data[0].shape else 0
    size = -1
    if kind == "RESHAPE":
        size = data[0].size // max(1, -made.size)
    elif not (kind in _ROWS or kind.startswith("CUSTOM") or any(-1 in one.shape for one in data)):
        size = rows if rows == 1 or (made.shape[0] == -1 and kind in _KEPT) else -1
    return replace(made, shape=tuple(size if one < 0 else one for one in made.shape))


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


def _ends(model: Any, sub: Any, tensors: list[Tensor], *, signed: bool) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Inputs and outputs by the names of the signature; by their own names in a subgraph without one."""
    for number in range(model.SignatureDefsLength() if signed else 0):
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


def _others(model: Any) -> tuple[str, ...]:
    signatures = (model.SignatureDefs(number) for number in range(model.SignatureDefsLength()))
    return tuple((one.SignatureKey() or b"?").decode() for one in signatures if one.SubgraphIndex())


def _min_runtime_version(model: Any) -> str | None:
    for number in range(model.MetadataLength()):
        entry = model.Metadata(number)
        if entry.Name() == b"min_runtime_version":
            return bytes(model.Buffers(entry.Buffer()).DataAsNumpy()).rstrip(b"\0").decode() or None
    return None


# A cleaner's network as plain arrays, for the numpy backend on boards without an interpreter.


def convert(model: Any) -> bytes:
    """A ``linear_cleaner`` as ``.npz`` (edge_runtime/backends/numpy_linear.py), the same bytes every time."""
    from edgeveil.models.cleaners import arrays

    if model.name != "linear_cleaner":
        raise BadInput(f"the format numpy is for linear cleaners; {model.name!r} is another network.")
    file = io.BytesIO()
    np.savez(file, **cast(Any, arrays(model)))
    return file.getvalue()


def read_arrays(data: bytes) -> Graph:
    """The same file as the graph that the backend computes: for lint, counters and tensor names."""
    with np.load(io.BytesIO(data), allow_pickle=False) as file:
        stored = {name: file[name] for name in file.files}
    features, rank = stored["encoder"].shape

    def constant(name: str, array: np.ndarray) -> Tensor:
        return Tensor(name, array.shape, array.dtype.name, constant=True, bytes=array.nbytes)

    def flow(name: str, size: int) -> Tensor:
        return Tensor(name, (1, size), "float32")

    x, c, delta, left, code, output = (
        flow(name, features if name in ("features", "output") else rank)
        for name in ("features", "c", "delta", "left", "code", "output")
    )
    before = Tensor("before", (rank, rank), "float32", constant=True)  # made when it is opened
    encoder, decoder = (constant(name, stored[name]) for name in ("encoder", "decoder"))
    encoder_bias, decoder_bias, eps = (constant(name, stored[name]) for name in ("encoder_bias", "decoder_bias", "eps"))
    ops = (
        Op("MatMul", "encoder", (x, encoder, encoder_bias), (c,)),
        Op("Square", "square", (c,), (delta,)),
        Op("MatMul", "left", (delta, before, eps), (left,)),
        Op("Shrink", "shrink", (left, delta, c), (code,)),
        Op("MatMul", "decoder", (code, decoder, decoder_bias), (output,)),
    )
    return Graph("numpy", ops, {"features": x}, {"output": output, "code": code})


def read_onnx(data: bytes) -> Graph:
    """The graph of an ONNX file that was exported here. Raises ``BadInput`` where the bytes are not one, or not a
    valid one, and where a size cannot be inferred."""
    import onnx

    with _valid("export the run again"):
        proto = onnx.load_from_string(data)
        onnx.checker.check_model(proto)
        return _graph_of(onnx.shape_inference.infer_shapes(proto, strict_mode=True))


def read_any_onnx(path: Path, shapes: Mapping[str, tuple[int, ...]]) -> tuple[Graph, Graph]:
    """The graph of anybody's ONNX file, and the same for sizes: with what follows from the inputs' sizes computed.

    ``shapes`` gives inputs their sizes, by name, where the file leaves some open. The second graph is what ONNX Runtime
    makes of the first before it runs it; it is the first where that has every size, or cannot be loaded. Raises
    ``BadInput`` where the file is none.
    """
    import onnx.inliner

    with _valid("export it again with the tool that wrote it"):
        proto = onnx.load(str(path), load_external_data=False)
        onnx.checker.check_model(str(path))
        _resize(proto, shapes)
        proto = onnx.inliner.inline_local_functions(proto) if proto.functions else proto
        as_written = _graph_of(onnx.shape_inference.infer_shapes(proto, data_prop=True))
    if not any(-1 in tensor.shape for op in as_written.walk() for tensor in op.outputs):
        return as_written, as_written
    folded = _folded(proto, path)
    return as_written, as_written if folded is None else folded


@contextmanager
def _valid(cure: str) -> Iterator[None]:
    import onnx
    from google.protobuf.message import DecodeError

    checks = onnx.checker.ValidationError, onnx.shape_inference.InferenceError
    try:
        yield
    except (DecodeError, *checks, RuntimeError, UnicodeDecodeError) as error:
        first = (str(error).strip().splitlines() or ["no message"])[0]
        raise BadInput(f"the ONNX file is not valid ({first}); {cure}.") from None


def _graph_of(proto: Any) -> Graph:
    opset = max((entry.version for entry in proto.opset_import if entry.domain in ("", "ai.onnx")), default=0)
    return replace(_graph(proto.graph, {}), opset=opset, ir=proto.ir_version)


def _folded(proto: Any, path: Path) -> Graph | None:
    """A model with its constants computed by ONNX Runtime; None where that does not load it."""
    import onnx
    import onnxruntime

    del proto.graph.value_info[:]  # sizes as they were before the inputs got theirs
    with tempfile.TemporaryDirectory() as folder:
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
        options.optimized_model_filepath = str(Path(folder) / "folded.onnx")
        options.log_severity_level = 4
        options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(path.parent))
        try:
            onnxruntime.InferenceSession(
                proto.SerializeToString(),
                options,
                providers=["CPUExecutionProvider"],
                disabled_optimizers={"CommonSubexpressionElimination"},  # it merges layers of equal weights
            )
            folded = onnx.load(options.optimized_model_filepath)
            folded.ir_version = max(folded.ir_version, 4)  # until then each weight was an input too
            return _graph_of(onnx.shape_inference.infer_shapes(folded, data_prop=True))
        except Exception:  # ONNX Runtime raises errors of its own kinds; the file was read already
            return None


def _resize(proto: Any, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Write the sizes of the inputs into a model: those of ``shapes``, and 1 where the first of several is open."""
    stored = {one.name for one in (*proto.graph.initializer, *(s.values for s in proto.graph.sparse_initializer))}
    inputs = {value.name: value for value in proto.graph.input if value.name not in stored}
    sizes = {input_named(name, inputs): shape for name, shape in shapes.items()}
    for name, value in inputs.items():
        dims = value.type.tensor_type.shape.dim
        given = sizes.get(name)
        if given is not None and len(given) != len(dims):
            raise BadInput(f"--shape: the input {name} has {len(dims)} sizes; got {len(given)}.")
        for place, dim in enumerate(dims):
            if given is not None:
                dim.dim_value = given[place]
            elif dim.dim_value < 1:  # exporters write 0 and -1 for open sizes, too
                dim.ClearField("value")
                if place == 0 and len(dims) > 1:
                    dim.dim_value = 1


def _graph(graph: Any, outer: Mapping[str, Tensor]) -> Graph:
    """A graph, or the body of an operation, which sees the tensors of the graphs around it."""
    tensors = dict(outer)
    tensors |= {one.name: _constant(one) for one in graph.initializer}
    for sparse in graph.sparse_initializer:
        tensors[sparse.values.name] = _sparse(sparse.values.name, sparse)
    constants = set(tensors) - set(outer)
    for value in (*graph.input, *graph.output, *graph.value_info):
        if value.name not in constants:
            tensors[value.name] = _value(value)
    ops = []
    for number, node in enumerate(graph.node):
        for name in (*node.input, *node.output):
            if name:  # a tensor whose shape could not be inferred
                tensors.setdefault(name, Tensor(name=name, shape=(-1,), dtype="unknown"))
        attributes, bodies, constant = _attributes(node, tensors)
        if constant is not None:
            tensors[node.output[0]] = constant
        ops.append(
            Op(
                kind=node.op_type,
                name=node.name or f"{node.op_type}-{number}",
                inputs=tuple(tensors[name] if name else None for name in node.input),
                outputs=tuple(tensors[name] for name in node.output if name),
                domain=node.domain,
                attributes=attributes,
                bodies=bodies,
                repeats=_repeats(node, tensors, bodies),
            )
        )
    return Graph(
        format="onnx",
        ops=tuple(ops),
        inputs={value.name: tensors[value.name] for value in graph.input if value.name not in constants},
        outputs={value.name: tensors[value.name] for value in graph.output},
    )


def _attributes(node: Any, tensors: Mapping[str, Tensor]) -> tuple[dict[str, Any], tuple[Graph, ...], Tensor | None]:
    """Numbers, texts and lengths of lists by name; the bodies; and the value of a Constant."""
    attributes: dict[str, Any] = {}
    bodies, constant = [], None
    for one in node.attribute:
        if one.HasField("g"):
            bodies.append(_graph(one.g, tensors))
        elif one.HasField("t") and node.op_type == "Constant":
            constant = replace(_constant(one.t), name=node.output[0])
        elif one.HasField("sparse_tensor") and node.op_type == "Constant":
            constant = _sparse(node.output[0], one.sparse_tensor)
        elif one.floats or one.ints:
            many = one.floats or one.ints
            attributes[one.name] = len(many)
            if node.op_type == "Constant":
                constant = Tensor(node.output[0], (len(many),), "float32" if one.floats else "int64", constant=True)
        elif one.HasField("s"):
            attributes[one.name] = one.s.decode("utf-8", "replace")
        elif one.HasField("i") or one.HasField("f"):
            attributes[one.name] = one.i
            if node.op_type == "Constant":
                whole = one.HasField("i")
                kind = "int64" if whole else "float32"
                constant = Tensor(node.output[0], (), kind, constant=True, number=one.i if whole else None)
    return attributes, tuple(bodies), constant


def _repeats(node: Any, tensors: Mapping[str, Tensor], bodies: Sequence[Graph]) -> int | None:
    """How often the body of a node runs; None where that is computed."""
    if node.op_type == "Loop":
        count, condition = (tensors[name] if name else None for name in (*node.input, "", "")[:2])
        (body,) = bodies
        makers, going = body.makers(), next(iter(body.outputs.values()))
        while (op := makers.get(id(going))) is not None and op.kind == "Identity" and op.inputs[0] is not None:
            going = op.inputs[0]
        # A body may end the loop by its first output; one that only passes its condition on runs to the end.
        passed = going is list(body.inputs.values())[1]
        more = 1 if condition is None else condition.number
        if count is None or count.number is None or more is None or not (passed or going.number is not None):
            return None
        return max(0, min(count.number, 1 if not passed and not going.number else count.number)) if more else 0
    if node.op_type == "Scan":
        numbers = {one.name: one for one in node.attribute}
        first = len(node.input) - numbers["num_scan_inputs"].i
        axis = next(iter(numbers["scan_input_axes"].ints), 0) if "scan_input_axes" in numbers else 0
        shape = tensors[node.input[first]].shape
        return shape[axis] if -len(shape) <= axis < len(shape) and shape[axis] >= 0 else None
    return None if node.op_type == "SequenceMap" else 1


_BITS = {"int4": 4, "uint4": 4, "float4_e2m1fn": 4, "int2": 2, "uint2": 2}  # of types that share a byte


def _constant(entry: Any) -> Tensor:
    """A stored tensor by what is written about it: its values may be in another file."""
    import onnx

    kind = onnx.helper.tensor_dtype_to_np_dtype(entry.data_type)
    size = math.prod(entry.dims)
    bits = 0 if kind.name == "object" else _BITS.get(kind.name, 8 * kind.itemsize)
    here = size == 1 and kind.name in ("int64", "bool") and entry.data_location != onnx.TensorProto.EXTERNAL
    number = int(onnx.numpy_helper.to_array(entry).item()) if here else None
    return Tensor(entry.name, tuple(entry.dims), kind.name, constant=True, bytes=-(-size * bits // 8), number=number)


def _sparse(name: str, entry: Any) -> Tensor:
    """A sparse tensor: its sizes are those of the whole, its bytes those of what is stored."""
    values = _constant(entry.values)
    return replace(values, name=name, shape=tuple(entry.dims), bytes=values.bytes + 8 * math.prod(entry.indices.dims))


def _value(entry: Any) -> Tensor:
    """A tensor by its type; a sequence, a map or an optional has no size."""
    import onnx

    kind = entry.type.tensor_type
    if not entry.type.HasField("tensor_type") or not kind.elem_type:
        return Tensor(entry.name, (), entry.type.WhichOneof("value") or "unknown")
    if not kind.HasField("shape"):
        return Tensor(entry.name, (-1,), onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type).name)
    sizes = tuple(d.dim_value if d.HasField("dim_value") else -1 for d in kind.shape.dim)
    return Tensor(entry.name, sizes, onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type).name)


# Read a TFLite, ONNX or numpy file as a graph.


def read(data: bytes, file_format: str) -> Graph:
    """The graph of a ``"tflite"``, ``"onnx"`` or ``"numpy"`` file. Raises ``BadInput`` where it is none."""
    if file_format == "numpy":
        return read_arrays(data)
    return read_tflite(data) if file_format == "tflite" else read_onnx(data)
