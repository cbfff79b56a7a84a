"""TFLite models that a signing key may bring and no board should suffer from, written with the format's own library.

Each takes an image (1, 8, 8, 1) and noise (1, 16), and says to give an image; all bytes are the same every time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema

_TYPES = {"float32": schema.TensorType.FLOAT32, "int32": schema.TensorType.INT32, "bool": schema.TensorType.BOOL}
_CODES = schema.BuiltinOperator
_OPTIONS = schema.BuiltinOptions
IMAGE, NOISE, OUTPUT = "image", "noise", "output"


class Subgraph:
    """One subgraph of a file: ``tensor`` and ``operate`` add to it and return the number of a tensor."""

    def __init__(self, file: File, name: str) -> None:
        self._file, self.made = file, schema.SubGraphT()
        self.made.name, self.made.tensors, self.made.operators = name, [], []
        self.made.inputs, self.made.outputs = [], []

    def tensor(self, name: str, shape: list[int], kind: str = "float32", data: Any = None) -> int:
        one = schema.TensorT()
        one.name, one.shape, one.type, one.buffer = name, shape, _TYPES[kind], 0
        if data is not None:
            one.buffer = self._file.buffer(np.asarray(data, kind).tobytes())
        self.made.tensors.append(one)
        return len(self.made.tensors) - 1

    def operate(self, code: str, inputs: list[int], output: int, options: Any = None) -> int:
        one = schema.OperatorT()
        one.opcodeIndex, one.inputs, one.outputs = self._file.code(code), inputs, [output]
        if options is not None:
            one.builtinOptionsType = getattr(_OPTIONS, type(options).__name__[:-1])
            one.builtinOptions = options
        self.made.operators.append(one)
        return output


class File:
    """A model: ``main`` is its first subgraph, with the inputs and, once ``finish`` was called, an output of 0.5."""

    def __init__(self) -> None:
        self.model = schema.ModelT()
        self.model.version, self.model.operatorCodes, self.model.subgraphs = 3, [], []
        self.model.buffers = [schema.BufferT()]
        self.main = self.subgraph("main")
        self.image = self.main.tensor(IMAGE, [1, 8, 8, 1])
        self.main.made.inputs = [self.image, self.main.tensor(NOISE, [1, 16])]

    def subgraph(self, name: str) -> Subgraph:
        made = Subgraph(self, name)
        self.model.subgraphs.append(made.made)
        return made

    def buffer(self, data: bytes) -> int:
        one = schema.BufferT()
        one.data = np.frombuffer(data, np.uint8)
        self.model.buffers.append(one)
        return len(self.model.buffers) - 1

    def code(self, name: str) -> int:
        one = schema.OperatorCodeT()
        number = getattr(_CODES, name, _CODES.CUSTOM)
        one.builtinCode, one.deprecatedBuiltinCode, one.version = number, min(number, 127), 1
        one.customCode = name if number == _CODES.CUSTOM else None
        self.model.operatorCodes.append(one)
        return len(self.model.operatorCodes) - 1

    def finish(self, depends_on: int | None = None) -> bytes:
        """The file's bytes. ``depends_on`` is a tensor of ``main`` of one value that goes into the output."""
        main, nothing, half = self.main, schema.MulOptionsT(), schema.AddOptionsT()
        zero = main.tensor("zero", [1], data=[0])
        none = main.operate("MUL", [self.image, zero], main.tensor("none", [1, 8, 8, 1]), nothing)
        if depends_on is not None:
            none = main.operate("ADD", [none, depends_on], main.tensor("more", [1, 8, 8, 1]), half)
        output = main.tensor(OUTPUT, [1, 8, 8, 1])
        main.made.outputs = [main.operate("ADD", [none, main.tensor("half", [1], data=[0.5])], output, half)]
        return self.packed()

    def packed(self) -> bytes:
        builder = flatbuffers.Builder(0)
        builder.Finish(self.model.Pack(builder), b"TFL3")
        return bytes(builder.Output())


def good() -> bytes:
    return File().finish()


def _fill(shape: list[int]) -> bytes:
    """A constant of this shape that is written down as one number."""
    file, main = File(), None
    main = file.main
    size = main.tensor("size", [len(shape)], "int32", shape)
    large = main.operate("FILL", [size, main.tensor("value", [], data=0)], main.tensor("large", []))
    axes = main.tensor("axes", [len(shape)], "int32", list(range(len(shape))))
    total = main.operate("SUM", [large, axes], main.tensor("total", [1]), schema.ReducerOptionsT())
    return file.finish(total)


def giant_constant() -> bytes:
    return _fill([2**20, 2**20])


def constant_beyond_the_limit() -> bytes:
    """2 GiB, which many a machine has."""
    return _fill([2**15, 2**14])


def constant_whose_size_overflows() -> bytes:
    return _fill([2**30, 2**30, 2**6])


def giant_input() -> bytes:
    file = File()
    file.main.made.inputs.append(file.main.tensor("third", [1, 65535, 65535, 64]))
    return file.finish()


def size_known_at_run_time() -> bytes:
    """The size of a constant comes from the picture, so that no memory is asked for before one runs."""
    file, main = File(), None
    main = file.main
    count = main.operate("CAST", [file.image], main.tensor("count", [1, 8, 8, 1], "int32"), _cast())
    flat = main.operate(
        "RESHAPE", [count, main.tensor("flat", [1], "int32", [64])], main.tensor("f", [64], "int32"), None
    )
    begin, size = main.tensor("begin", [1], "int32", [0]), main.tensor("two", [1], "int32", [2])
    two = main.operate("SLICE", [flat, begin, size], main.tensor("dims", [2], "int32"), schema.SliceOptionsT())
    least = main.tensor("least", [2], "int32", [2**20, 2**20])
    large = main.operate("MAXIMUM", [two, least], main.tensor("s", [2], "int32"), schema.MaximumMinimumOptionsT())
    made = main.operate("FILL", [large, main.tensor("value", [], data=0)], main.tensor("large", []))
    axes = main.tensor("axes", [2], "int32", [0, 1])
    return file.finish(main.operate("SUM", [made, axes], main.tensor("total", [1]), schema.ReducerOptionsT()))


def _cast() -> Any:
    options = schema.CastOptionsT()
    options.inDataType, options.outDataType = _TYPES["float32"], _TYPES["int32"]
    return options


def _while(file: File, subgraph: Subgraph, condition: int, body: int) -> int:
    options = schema.WhileOptionsT()
    options.condSubgraphIndex, options.bodySubgraphIndex = condition, body
    begin = subgraph.tensor("begin", [1], data=[0])
    return subgraph.operate("WHILE", [begin], subgraph.tensor("end", [1]), options)


def _always(file: File) -> None:
    """A subgraph that says to go on, whatever comes."""
    one = file.subgraph("go on")
    one.made.inputs = [one.tensor("value", [1])]
    less = [one.made.inputs[0], one.tensor("most", [1], data=[np.inf])]
    one.made.outputs = [one.operate("LESS", less, one.tensor("more", [1], "bool"), schema.LessOptionsT())]


def _same(file: File) -> None:
    one = file.subgraph("body")
    one.made.inputs = [one.tensor("value", [1])]
    add = [one.made.inputs[0], one.tensor("zero", [1], data=[0])]
    one.made.outputs = [one.operate("ADD", add, one.tensor("next", [1]), schema.AddOptionsT())]


def endless_while() -> bytes:
    file = File()
    end = _while(file, file.main, 1, 2)
    _always(file)
    _same(file)
    return file.finish(end)


def subgraph_that_runs_itself() -> bytes:
    file = File()
    end = _while(file, file.main, 1, 2)
    _always(file)
    one = file.subgraph("body")
    one.made.inputs = [one.tensor("value", [1])]
    one.made.outputs = [_while(file, one, 1, 2)]
    return file.finish(end)


def main_that_runs_itself() -> bytes:
    file, once = File(), schema.CallOnceOptionsT()
    once.initSubgraphIndex = 0
    one = schema.OperatorT()
    one.opcodeIndex, one.inputs, one.outputs = file.code("CALL_ONCE"), [], []
    one.builtinOptionsType, one.builtinOptions = _OPTIONS.CallOnceOptions, once
    file.main.made.operators.append(one)
    return file.finish()


def subgraph_that_is_not_there() -> bytes:
    file = File()
    return file.finish(_while(file, file.main, 77, 78))


def operation_of_its_own() -> bytes:
    file = File()
    return file.finish(file.main.operate("HostileOperation", [file.image], file.main.tensor("made", [1])))


def operation_that_writes_files() -> bytes:
    file = File()
    return file.finish(file.main.operate("FlexWriteFile", [file.image], file.main.tensor("made", [1])))


def _changed(change: Callable[[File], object]) -> bytes:
    file = File()
    file.finish()
    change(file)
    return file.packed()


def tensor_that_is_not_there() -> bytes:
    return _changed(lambda file: file.main.made.operators[0].inputs.__setitem__(0, 9999))


def tensor_before_the_first() -> bytes:
    return _changed(lambda file: file.main.made.operators[0].inputs.__setitem__(0, -7))


def output_that_is_not_there() -> bytes:
    return _changed(lambda file: file.main.made.outputs.__setitem__(0, 9999))


def buffer_that_is_not_there() -> bytes:
    return _changed(lambda file: setattr(file.main.made.tensors[-1], "buffer", 9999))


def operation_that_is_not_there() -> bytes:
    return _changed(lambda file: setattr(file.main.made.operators[0], "opcodeIndex", 9999))


def constant_that_is_short() -> bytes:
    return _changed(lambda file: setattr(file.main.made.tensors[2], "shape", [2**16]))


def _elsewhere(offset: int, size: int) -> bytes:
    """The constant 0.5 lies outside the format's tables, where large models have theirs, at this offset."""
    file = File()
    file.finish()
    last = file.model.buffers[-1]
    last.data, last.offset, last.size = None, offset, size
    return file.packed()


def offset_behind_the_end() -> bytes:
    return _elsewhere(2**40, 4)


def offset_that_wraps_around() -> bytes:
    return _elsewhere(2**64 - 2**30, 2**30 + 4)


def data_in_another_file() -> bytes:
    file = File()
    file.finish()
    group, one = schema.ExternalBufferGroupT(), schema.ExternalBufferT()
    group.name = "/etc/passwd"
    one.id, one.group, one.offset, one.length = 1, 0, 0, 4
    file.model.externalBufferGroups, file.model.externalBuffers = [group], [one]
    half = next(tensor for tensor in file.main.made.tensors if tensor.name == "half")
    half.buffer, half.externalBuffer = 0, 1
    return file.packed()


def root_behind_the_end() -> bytes:
    return b"\xf0\xff\xff\x7f" + good()[4:]


def half_a_file() -> bytes:
    data = good()
    return data[: len(data) // 2]
