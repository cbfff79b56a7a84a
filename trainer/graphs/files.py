"""Network files of any format as graphs: TFLite, ONNX, numpy, and Keras files as models."""

from __future__ import annotations

import io
import math
import struct
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.graphs.macs import Graph, Op, Tensor

# Read a TFLite flatbuffer with the schema that ai-edge-litert carries; no interpreter is opened.


_SIGNATURE = "serving_default"


def read_tflite(data: bytes, shapes: Mapping[str, tuple[int, ...]] | None = None) -> Graph:
    """The main subgraph of a flatbuffer. Raises ``BadInput`` where the bytes are not one.

    ``shapes`` gives inputs other sizes, by name, and the interpreter those of all tensors; empty: as they are written.
    None: with -1 where a size is open.
    """
    from ai_edge_litert import schema_py_generated as schema

    if data[4:8] != b"TFL3":
        raise BadInput("expected a TFLite flatbuffer; these bytes lack its identifier. Export the run again.")
    try:
        sizes = _sizes(data, shapes) if shapes else {}
        return _Tflite(schema.Model.GetRootAs(data), schema, sizes, opened=shapes is None).graph(0)
    except (struct.error, IndexError, TypeError, AttributeError, KeyError) as error:
        raise BadInput(f"cannot read the TFLite flatbuffer ({type(error).__name__}); export the run again.") from None


def _sizes(data: bytes, shapes: Mapping[str, tuple[int, ...]]) -> dict[int, tuple[int, ...]]:
    """The sizes of the main subgraph's tensors, by their places, for inputs of these shapes."""
    from ai_edge_litert import interpreter as litert

    resolver = litert.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    try:
        opened = litert.Interpreter(model_content=data, experimental_op_resolver_type=resolver)
        inputs = {one["name"]: one["index"] for one in opened.get_input_details()}
        for name, shape in shapes.items():
            opened.resize_tensor_input(inputs[_input_named(name, inputs)], shape)
        opened.allocate_tensors()
    except (ValueError, RuntimeError) as error:
        first = (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
        raise BadInput(f"the model does not take inputs of these shapes ({first}).") from None
    return {one["index"]: tuple(int(size) for size in one["shape"]) for one in opened.get_tensor_details()}


def _input_named(name: str, inputs: Iterable[str]) -> str:
    """The input of that name; of TFLite also by the name of the signature. Raises ``BadInput`` for another."""
    every = list(inputs)
    found = [one for one in every if one in (name, f"serving_default_{name}:0") or one.partition(":")[0] == name]
    if len(found) != 1:
        raise BadInput(f"--shape: an input of {', '.join(every)} was expected; got {name}.")
    return found[0]


class _Tflite:
    """A flatbuffer's subgraphs. ``sizes`` of tensors of the main one are by their places; ``opened``: -1 where one is
    left open, else what is written there."""

    def __init__(self, model: Any, schema: Any, sizes: Mapping[int, tuple[int, ...]], *, opened: bool) -> None:
        self.model, self.schema, self.sizes, self.opened = model, schema, sizes, opened
        self.kinds = {value: key for key, value in vars(schema.BuiltinOperator).items() if key.isupper()}
        self.dtypes = {value: key.lower() for key, value in vars(schema.TensorType).items() if key.isupper()}

    def graph(self, number: int) -> Graph:
        """One subgraph; 0 is the main one."""
        sub = self.model.Subgraphs(number)
        tensors = [
            _tensor(sub.Tensors(place), self.model, self.dtypes, opened=self.opened)
            for place in range(sub.TensorsLength())
        ]
        if number == 0:
            tensors = [replace(one, shape=self.sizes.get(place, one.shape)) for place, one in enumerate(tensors)]
        inputs, outputs = _ends(self.model, sub, tensors, signed=number == 0)
        return Graph(
            format="tflite",
            ops=tuple(self._op(sub.Operators(place), place, tensors) for place in range(sub.OperatorsLength())),
            inputs=inputs,
            outputs=outputs,
            min_runtime_version=_min_runtime_version(self.model),
        )

    def _op(self, entry: Any, number: int, tensors: list[Tensor]) -> Op:
        code = self.model.OperatorCodes(entry.OpcodeIndex())
        # Old writers fill only the one-byte field, new ones both where the code fits into it.
        kind = self.kinds[max(code.BuiltinCode(), code.DeprecatedBuiltinCode())]
        if kind == "CUSTOM":
            kind = f"CUSTOM {(code.CustomCode() or b'?').decode()}"
        attributes, bodies, repeats = self._options(kind, entry)
        places = [entry.Inputs(i) for i in range(entry.InputsLength())]
        return Op(
            kind=kind,
            name=f"{kind}-{number}",
            inputs=tuple(None if place < 0 else tensors[place] for place in places),
            outputs=tuple(tensors[entry.Outputs(i)] for i in range(entry.OutputsLength())),
            version=code.Version(),
            attributes=attributes,
            bodies=bodies,
            repeats=repeats,
        )

    def _options(self, kind: str, entry: Any) -> tuple[dict[str, Any], tuple[Graph, ...], int | None]:
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
        return {}, tuple(self.graph(one) for one in values), None if kind == "WHILE" else 1


def _tensor(entry: Any, model: Any, dtypes: dict[int, str], *, opened: bool) -> Tensor:
    # The signature has -1 where a size is open; the shape then has 1.
    many = entry.ShapeSignatureLength() if opened else 0
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
        found = {name: file[name] for name in file.files}
    features, rank = found["encoder"].shape

    def constant(name: str, array: np.ndarray) -> Tensor:
        return Tensor(name, array.shape, array.dtype.name, constant=True, bytes=array.nbytes)

    def flow(name: str, size: int) -> Tensor:
        return Tensor(name, (1, size), "float32")

    x, c, delta, left, code, output = (
        flow(name, features if name in ("features", "output") else rank)
        for name in ("features", "c", "delta", "left", "code", "output")
    )
    before = Tensor("before", (rank, rank), "float32", constant=True)  # made when it is opened
    encoder, decoder = (constant(name, found[name]) for name in ("encoder", "decoder"))
    encoder_bias, decoder_bias, eps = (constant(name, found[name]) for name in ("encoder_bias", "decoder_bias", "eps"))
    ops = (
        Op("MatMul", "encoder", (x, encoder, encoder_bias), (c,)),
        Op("Square", "square", (c,), (delta,)),
        Op("MatMul", "left", (delta, before, eps), (left,)),
        Op("Shrink", "shrink", (left, delta, c), (code,)),
        Op("MatMul", "decoder", (code, decoder, decoder_bias), (output,)),
    )
    return Graph("numpy", ops, {"features": x}, {"output": output, "code": code})


# Read an ONNX file, with every shape that can be inferred.


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
        found = _graph_of(onnx.shape_inference.infer_shapes(proto, data_prop=True))
    if not any(-1 in tensor.shape for op in found.walk() for tensor in op.outputs):
        return found, found
    folded = _folded(proto, path)
    return found, found if folded is None else folded


@contextmanager
def _valid(cure: str) -> Iterator[None]:
    import onnx
    from google.protobuf.message import DecodeError

    try:
        yield
    except (DecodeError, onnx.checker.ValidationError, onnx.shape_inference.InferenceError, RuntimeError) as error:
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
            onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
            folded = onnx.load(options.optimized_model_filepath)
            return _graph_of(onnx.shape_inference.infer_shapes(folded, data_prop=True))
        except Exception:  # ONNX Runtime raises errors of its own kinds; the file was read already
            return None


def _resize(proto: Any, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Write the sizes of the inputs into a model: those of ``shapes``, and 1 where only the first is left open."""
    stored = {one.name for one in (*proto.graph.initializer, *proto.graph.sparse_initializer)}
    inputs = {value.name: value for value in proto.graph.input if value.name not in stored}
    sizes = {_input_named(name, inputs): shape for name, shape in shapes.items()}
    for name, value in inputs.items():
        dims = value.type.tensor_type.shape.dim
        given = sizes.get(name)
        if given is not None and len(given) != len(dims):
            raise BadInput(f"--shape: the input {name} has {len(dims)} sizes; got {len(given)}.")
        for place, dim in enumerate(dims):
            if given is not None:
                dim.dim_value = given[place]
            elif place == 0 and not dim.dim_value:
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
                repeats=_repeats(node, graph, tensors),
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
    found: dict[str, Any] = {}
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
            found[one.name] = len(many)
            if node.op_type == "Constant":
                constant = Tensor(node.output[0], (len(many),), "float32" if one.floats else "int64", constant=True)
        elif one.HasField("s"):
            found[one.name] = one.s.decode("utf-8", "replace")
        elif one.HasField("i") or one.HasField("f"):
            found[one.name] = one.i
            if node.op_type == "Constant":
                constant = Tensor(node.output[0], (), "int64" if one.HasField("i") else "float32", constant=True)
    return found, tuple(bodies), constant


def _repeats(node: Any, graph: Any, tensors: Mapping[str, Tensor]) -> int | None:
    """How often the body of a node runs; None where that is computed."""
    import onnx

    if node.op_type == "Loop":
        condition = node.input[1] if len(node.input) > 1 else ""
        made = {one.output[0]: one for one in graph.node if one.op_type == "Constant"}
        stored = {one.name: one for one in graph.initializer}
        count = stored.get(node.input[0])
        if count is None and node.input[0] in made:
            count = next((one.t for one in made[node.input[0]].attribute if one.name == "value"), None)
        # A body may end itself by its first output; one that only passes a condition on runs to the end.
        body = next(one.g for one in node.attribute if one.name == "body")
        passed = body.output[0].name
        kept = {one.output[0]: one for one in body.node}
        while passed in kept and kept[passed].op_type == "Identity":
            passed = kept[passed].input[0]
        fixed = passed == body.input[1].name or (passed in kept and kept[passed].op_type == "Constant")
        if count is None or not fixed or not (condition == "" or condition in stored or condition in made):
            return None
        return int(onnx.numpy_helper.to_array(count))
    if node.op_type == "Scan":
        scanned = next(one.i for one in node.attribute if one.name == "num_scan_inputs")
        shape = tensors[node.input[len(node.input) - scanned]].shape
        return shape[0] if shape and shape[0] >= 0 else None
    return None if node.op_type == "SequenceMap" else 1


def _constant(entry: Any) -> Tensor:
    """A stored tensor by what is written about it: its values may be in another file."""
    import onnx

    kind = onnx.helper.tensor_dtype_to_np_dtype(entry.data_type)
    return Tensor(
        entry.name,
        tuple(entry.dims),
        kind.name,
        constant=True,
        bytes=0 if kind.name == "object" else math.prod(entry.dims) * kind.itemsize,
    )


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


# Read a TFLite, ONNX or numpy file as a graph, or a Keras file as a model.


def read(data: bytes, file_format: str) -> Graph:
    """The graph of a ``"tflite"``, ``"onnx"`` or ``"numpy"`` file. Raises ``BadInput`` where it is none."""
    if file_format == "numpy":
        return read_arrays(data)
    return read_tflite(data) if file_format == "tflite" else read_onnx(data)


def read_keras(path: Path, shapes: Mapping[str, tuple[int, ...]] | None = None) -> Any:
    """A saved Keras model, without its optimiser. Raises ``BadInput`` where the file is none.

    ``shapes`` gives inputs their sizes, the batch among them, by name.
    """
    import keras

    import edgeveil.models.layers  # noqa: F401  registers its layers with Keras

    try:
        model = keras.saving.load_model(path, compile=False)
        if not shapes:
            return model
        names = [one.name for one in model.inputs]
        given = {_input_named(name, names): shape for name, shape in shapes.items()}
        sized = [keras.Input(batch_shape=given.get(one.name, one.shape), name=one.name) for one in model.inputs]
        many = isinstance(model.input, list | tuple)
        return keras.models.clone_model(model, input_tensors=sized if many else sized[0])
    except (OSError, ValueError, TypeError) as error:
        first = (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
        raise BadInput(
            f"{path} cannot be read as a Keras model ({first}); write it with model.save(FILE.keras)."
        ) from None
