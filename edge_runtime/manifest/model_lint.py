"""Rules for every model: it may not draw random numbers, keep a value between frames, or be two files in one.

They hold at every door that another program's file can come in by: ``bundle.reader.read_bundle`` for bundles,
``trainer.export.folder.ExportFolder.open`` for export folders, and the export itself. A network that draws its own
noise from a seed can have it taken away again; one that keeps a value may reveal an earlier frame. A graph of TFLite is
one without branches; those of ONNX are looked into.

Files that a vendor's compiler made (HEF, RKNN, and the part of a TFLite file that is for the Edge TPU) cannot be looked
into. The model that they were made of is a variant of the same manifest, and that one is.
"""

import io
import struct
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Set, Tuple

from edgeveil.edge_runtime.device import EDGETPU_OPERATION
from edgeveil.edge_runtime.errors import BundleRefused

# A TFLite file's bytes, read without a library: how many graphs it has, its operations, and what it keeps.
#
# Field numbers are those of TFLite's schema.fbs, the layout that of FlatBuffers: a table begins with the distance back
# to its vtable, which says where each field is.


IDENTIFIER = b"TFL3"
CUSTOM = 32
_INT, _UINT, _SHORT, _BYTE, _LONG = (struct.Struct("<" + code) for code in "iIHbQ")


class TfliteFile(NamedTuple):
    """``codes`` are the numbers of built-in operations, ``custom`` the names of others, ``variables`` the number of
    tensors that keep their values between two runs, ``early`` that of tensors that are used before they are written."""

    subgraphs: int
    codes: Set[int]
    custom: List[str]
    variables: int
    early: int


class Damaged(Exception):
    """These bytes are no model. The text is the end of a sentence."""


def read(data: bytes) -> TfliteFile:
    """What a file has; raises ``Damaged``. The time is that of its tensors and operations, not of its weights."""
    if data[4:8] != IDENTIFIER:
        raise Damaged("it lacks the identifier of a TFLite file")
    model = _to(data, 0)
    codes, custom = set(), []
    for entry in _tables(data, _field(data, model, 1)):
        old, new, name = (_field(data, entry, number) for number in (0, 3, 1))
        # Old writers fill only the field of one byte, which has a sign, new ones both; interpreters take the larger.
        both = (_BYTE.unpack(_get(data, old, 1)) if old else (0,)) + (_INT.unpack(_get(data, new, 4)) if new else (0,))
        number = max(both)
        codes.add(number)
        if number == CUSTOM:
            custom.append(_get(data, *_vector(data, name)).decode("utf-8", "replace"))
    graphs = _tables(data, _field(data, model, 2))
    tensors = [tensor for graph in graphs for tensor in _tables(data, _field(data, graph, 0))]
    variables = [_field(data, tensor, 5) for tensor in tensors]
    filled = [_filled(data, buffer) for buffer in _tables(data, _field(data, model, 4))]
    early = sum(_early(data, graph, filled) for graph in graphs)
    return TfliteFile(len(graphs), codes, custom, sum(bool(at and _get(data, at, 1)[0]) for at in variables), early)


def _filled(data: bytes, buffer: int) -> bool:
    """Whether a buffer has bytes, by the interpreter's rule: its own, or those at an offset; one of 0 or 1 is none."""
    behind = [_LONG.unpack(_get(data, at, 8))[0] if at else 0 for at in (_field(data, buffer, n) for n in (1, 2))]
    return _vector(data, _field(data, buffer, 0))[1] > 0 or min(behind) > 1


def _early(data: bytes, graph: int, filled: List[bool]) -> int:
    """How many tensors of a graph are read before they are written, or written twice: they hold an earlier frame's."""
    steps = [
        [_numbers(data, _field(data, operation, number)) for number in (1, 2)]
        for operation in _tables(data, _field(data, graph, 3))
    ]
    results = {number for _, made in steps for number in made}
    written = {-1} | _numbers(data, _field(data, graph, 1))  # an input that is left out
    for place, tensor in enumerate(_tables(data, _field(data, graph, 0))):
        at = _field(data, tensor, 2)
        buffer = _UINT.unpack(_get(data, at, 4))[0] if at else 0
        nothing = place not in results and 0 in _numbers(data, _field(data, tensor, 0))  # a constant without values
        if nothing or (buffer < len(filled) and filled[buffer]):
            written.add(place)
    early: Set[int] = set()
    for read, writes in steps:
        early.update((read - written) | (writes & written))
        written |= writes
    return len(early | (_numbers(data, _field(data, graph, 2)) - written))


def _get(data: bytes, at: int, size: int) -> bytes:
    if at < 0 or at + size > len(data):
        raise Damaged("it is damaged: a place in it lies outside")
    return data[at : at + size]


def _to(data: bytes, at: int) -> int:
    """Where the offset at ``at`` leads."""
    return at + int(_UINT.unpack(_get(data, at, 4))[0])


def _field(data: bytes, table: int, number: int) -> int:
    """Where a field of a table is; 0 where it is left out."""
    vtable = table - _INT.unpack(_get(data, table, 4))[0]
    size = _SHORT.unpack(_get(data, vtable, 2))[0]
    place = 4 + 2 * number
    offset = _SHORT.unpack(_get(data, vtable + place, 2))[0] if place + 2 <= size else 0
    return table + int(offset) if offset else 0


def _vector(data: bytes, field: int) -> Tuple[int, int]:
    """Where the entries of a vector begin, and how many there are; (0, 0) where the field is left out."""
    vector = _to(data, field) if field else 0
    return vector + 4, int(_UINT.unpack(_get(data, vector, 4))[0]) if field else 0


def _tables(data: bytes, field: int) -> List[int]:
    """The tables of a vector of tables."""
    begin, count = _vector(data, field)
    _get(data, begin, 4 * count)
    return [_to(data, begin + 4 * place) for place in range(count)]


def _numbers(data: bytes, field: int) -> Set[int]:
    begin, count = _vector(data, field)
    return {number for (number,) in _INT.iter_unpack(_get(data, begin, 4 * count))}


# An ONNX file's bytes, read without a library: its nodes, and whether its weights lie in other files.
#
# ONNX Runtime opens whatever path such a file names, and what it reads there becomes part of what is sent. A signed
# artefact is one file. Field numbers are those of onnx.proto, the wire format that of protocol buffers.


_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_MOST_DEPTH = 64  # protocol buffers take 100; graphs nest where operations have bodies, as If and Loop have
# message: the fields that are messages, and which; of the others, none holds a tensor
_INNER: Dict[str, Dict[int, str]] = {
    "model": {7: "graph", 20: "training", 25: "function"},
    "training": {1: "graph", 2: "graph"},
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "function": {7: "node", 11: "attribute"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse"},
    "sparse": {1: "tensor", 2: "tensor"},
    "tensor": {},
}
_NONE, _ELSEWHERE = "it is damaged, or no ONNX model", "its weights are in another file"
_EXTERNAL_DATA, _DATA_LOCATION = 13, 14


class OnnxNode(NamedTuple):
    """One node of a graph, a function or a branch: every operation and domain that it names (of a field that is there
    twice, readers differ in which they take), how many inputs, and whether ``training_mode`` is set."""

    kinds: Set[str]
    domains: Set[str]
    inputs: int
    trains: bool


def _elsewhere(model: bytes, begin: int, end: int) -> bool:
    """Whether the tensor whose message is there lies in another file."""
    fields = _fields(model, begin, end)
    return any(field == _EXTERNAL_DATA or (field == _DATA_LOCATION and value) for field, _, value, _ in fields)


def messages(model: bytes) -> Iterator[Tuple[str, int, int]]:
    """Name (of ``_INNER``), begin and end of every message that may hold a node or a tensor, at any depth.

    Raises ``Damaged``.
    """
    waiting = [("model", 0, len(model), 0)]
    while waiting:
        message, begin, end, depth = waiting.pop()
        if depth > _MOST_DEPTH:
            raise Damaged("its graphs are nested deeper than {} messages".format(_MOST_DEPTH))
        yield message, begin, end
        inner = _INNER[message]
        for field, kind, value, length in _fields(model, begin, end) if inner else ():
            if field in inner and kind == _BYTES:
                waiting.append((inner[field], value, value + length, depth + 1))


def node_of(model: bytes, begin: int, end: int) -> OnnxNode:
    """The node whose message is there."""
    kinds: Set[str] = set()
    domains: Set[str] = set()
    inputs, trains = 0, False
    for field, kind, value, length in _fields(model, begin, end):
        if kind != _BYTES:
            continue
        if field == 1:
            inputs += 1
        elif field in (4, 7):
            (kinds if field == 4 else domains).add(model[value : value + length].decode("utf-8", "replace"))
        elif field == 5:
            trains = trains or _sets_training(model, value, value + length)
    return OnnxNode(kinds, domains, inputs, trains)


def _sets_training(model: bytes, begin: int, end: int) -> bool:
    """Whether an attribute is a ``training_mode`` other than 0."""
    name, number = b"", 0
    for field, kind, value, length in _fields(model, begin, end):
        if field == 1 and kind == _BYTES:
            name = model[value : value + length]
        elif field == 3 and kind == _VARINT:
            number = number or value
    return name == b"training_mode" and number != 0


def _fields(data: bytes, at: int, end: int) -> Iterator[Tuple[int, int, int, int]]:
    """Number, kind, value and length of each field of one message; the value of bytes is where they begin."""
    while at < end:
        key, at = _varint(data, at, end)
        field, kind = (key & 0xFFFFFFFF) >> 3, key & 7  # C++ reads 32 bits of it
        value, length = at, 0
        if kind == _VARINT:
            value, at = _varint(data, at, end)
        elif kind == _BYTES:
            length, value = _varint(data, at, end)
            at = value + length
        elif kind in (_FIXED32, _FIXED64):
            at += 4 if kind == _FIXED32 else 8
        else:
            raise Damaged(_NONE)
        if at > end:
            raise Damaged(_NONE)
        yield field, kind, value, length


def _varint(data: bytes, at: int, end: int) -> Tuple[int, int]:
    value = 0
    for place in range(10):
        if at >= end:
            break
        value |= (data[at] & 0x7F) << 7 * place
        at += 1
        if data[at - 1] < 0x80:
            return value, at
    raise Damaged(_NONE)


# Of a tolerance, the most of the range of what it applies to. Exports allow twice what two kinds of kernels differ by,
# and three steps of int8 (1/85) at least; from a tenth on they warn. With more than a quarter, a self-test would take
# most samples for any other: it would not see that the outputs are of chance.
MOST_OF_RANGE = 0.25

_KEEPING_TFLITE = {
    **{129: "CALL_ONCE", 136: "HASHTABLE", 137: "HASHTABLE_FIND", 138: "HASHTABLE_IMPORT", 139: "HASHTABLE_SIZE"},
    **{142: "VAR_HANDLE", 143: "READ_VARIABLE", 144: "ASSIGN_VARIABLE"},
}
_RANDOM_TFLITE = {
    146: "RANDOM_STANDARD_NORMAL",
    148: "RANDOM_UNIFORM",
    149: "MULTINOMIAL",
    204: "STABLEHLO_RNG_BIT_GENERATOR",
}
_OPAQUE_TFLITE = {51: "DELEGATE", 127: "PLACEHOLDER_FOR_GREATER_OP_CODES", 173: "STABLEHLO_CUSTOM_CALL"}
_LAST_TFLITE = 209  # the newest built-in operation of which this list knows that it keeps and draws nothing
_OWN_CUSTOM = ("TFLite_Detection_PostProcess",)  # in every interpreter, although its name is no number
_RANDOM_ONNX = {"RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Multinomial", "Bernoulli"}
_DOMAINS = {"", "ai.onnx"}
_ORT = b"ORTM"


class Problem(NamedTuple):
    """A rule that a file breaks, in what, and what cures it."""

    rule: str
    text: str
    cure: str


def check(data: bytes, format: str, *, compiled: bool = False, what: str = "the model") -> None:
    """Raise ``BundleRefused`` (``model``), with each problem, unless an interpreter may get this file.

    ``compiled``: the manifest says that a vendor's compiler made it.
    """
    faults = problems(data, format, compiled=compiled)
    if faults:
        text = ascii(" ".join("{}: {}. Cure: {}.".format(*problem) for problem in faults))[1:-1]  # it quotes the file
        raise BundleRefused("model", "{} may not be used: {}".format(what, text))


def check_all(manifest: Mapping[str, Any], members: Mapping[str, bytes]) -> None:
    """As ``check``, for every file of a manifest's models and its detector; and for the models' tolerances."""
    for name, model in manifest["models"].items():
        for variant, entry in model["artefacts"].items():
            what = "{} of {!r}".format(variant, name)
            check(members[entry["file"]], entry["format"], compiled="compiled" in entry, what=what)
            _check_tolerance(manifest, members, variant, entry["tolerance"]["max_abs"], what)
    if manifest.get("detector") is not None:
        entry = manifest["detector"]["artefact"]
        check(members[entry["file"]], entry["format"], what="the detector")


def problems(data: bytes, format: str, *, compiled: bool = False) -> List[Problem]:
    """The problems of a file, each once; none for a format without a graph that could be read."""
    kinds = {"onnx": _of_onnx, "tflite": _of_tflite}
    of_format = kinds[format](data, compiled) if format in kinds else iter(())
    return list(dict.fromkeys(of_format))


def _of_tflite(data: bytes, compiled: bool) -> Iterator[Problem]:
    try:
        file = read(data)
    except Damaged as error:
        yield Problem("whole", str(error), "export it again")
        return
    if file.subgraphs != 1:
        cure = "build the model without conditions and loops"
        yield Problem("one-subgraph", "the file has {} subgraphs".format(file.subgraphs), cure)
    if file.variables:
        yield _keeps("{} of its tensors".format(file.variables))
    if file.early:
        yield _keeps("an operation that uses a tensor before it is written ({} are)".format(file.early))
    for code in sorted(file.codes):
        if code in _KEEPING_TFLITE:
            yield _keeps(_KEEPING_TFLITE[code])
        elif code in _RANDOM_TFLITE:
            yield _draws(_RANDOM_TFLITE[code])
        elif code in _OPAQUE_TFLITE or not 0 <= code <= _LAST_TFLITE:
            yield _foreign(_OPAQUE_TFLITE.get(code, "operation {}".format(code)), "no built-in operation of TFLite")
    for name in file.custom:
        if name not in _OWN_CUSTOM and not (compiled and name == EDGETPU_OPERATION.decode()):
            yield _foreign("CUSTOM {}".format(name), "no built-in operation of TFLite")


def _of_onnx(data: bytes, _compiled: bool) -> Iterator[Problem]:
    if data[4:8] == _ORT:
        text = "it is a file of ONNX Runtime's own format too, and another graph may be in that"
        yield Problem("one-format", text, "export it as ONNX")
        return
    try:
        for message, begin, end in messages(data):
            if message == "node":
                yield from _of_node(node_of(data, begin, end))
            elif message == "tensor" and _elsewhere(data, begin, end):
                yield Problem("whole", _ELSEWHERE, "export it again, all in one file")
            elif message == "function":
                yield Problem("built-in", "it has functions of its own", "export it with its functions inlined")
            elif message == "training":
                yield Problem("no-state", "it has graphs for its training", "export it for inference")
    except Damaged as error:
        yield Problem("whole", str(error), "export it again")


def _of_node(node: OnnxNode) -> Iterator[Problem]:
    kinds: Set[str] = node.kinds
    for kind in sorted(kinds & _RANDOM_ONNX):
        yield _draws(kind)
    if node.trains or ("Dropout" in kinds and node.inputs > 2):
        text = "{} can run as in training".format("/".join(sorted(kinds)))
        yield Problem("no-random", text, "export it for inference")
    for domain in sorted(node.domains - _DOMAINS):
        yield _foreign("/".join(sorted(kinds)), "of the domain {}, which is not ONNX's own".format(domain))


def _draws(what: str) -> Problem:
    text = "{} draws from a generator that is not the operating system's".format(what)
    return Problem("no-random", text, "make the noise an input, drawn by a draw stage")


def _keeps(what: str) -> Problem:
    text = "{} keeps a value between frames".format(what)
    return Problem("no-state", text, "build the model without variables that change when it runs")


def _foreign(what: str, why: str) -> Problem:
    cure = "use another operation: docs/reference/boards.md says what is safe everywhere"
    return Problem("built-in", "{} is {}".format(what, why), cure)


def _most(data: bytes, what: str) -> float:
    """The largest absolute value of a recorded array."""
    import numpy as np  # a bundle is verified without it

    try:
        values = np.lib.format.read_array(io.BytesIO(data), allow_pickle=False)
        return float(np.abs(values.astype(np.float64)).max()) if values.size else 0.0
    except (ValueError, EOFError, MemoryError):
        problem = "the golden outputs of {} are no arrays of numbers. Export it again.".format(what)
        raise BundleRefused("tolerance", problem) from None


def _widest(low: Any, high: Any) -> float:
    """The widest range, of numbers or of equally long lists of them."""
    if isinstance(low, list):
        return max(_widest(*ends) for ends in zip(low, high))
    return float(high) - float(low)


def _check_tolerance(
    manifest: Mapping[str, Any], members: Mapping[str, bytes], variant: str, allowed: float, what: str
) -> None:
    """Raise ``BundleRefused`` (``tolerance``) where a self-test with it would prove nothing."""
    spec, outputs = manifest["input"], manifest["outputs"]
    whole = "int" in spec["dtype"] or any(output.get("decoder") for output in outputs)
    if spec["low"] is None:
        recorded = manifest["golden"]["outputs"].get(variant, {})
        span = max([_most(members[name], what) for name in recorded.values()] + [0.0])
    else:
        span = _widest(spec["low"], spec["high"])
    most = max(MOST_OF_RANGE * span, 1.0 if whole else 0.0)
    if not allowed <= most:
        raise BundleRefused(
            "tolerance",
            "{} may be off by {:g} in its self-test, and a quarter of the range, {:g}, is the most that still shows "
            "something. Export it again, for kernels that agree.".format(what, allowed, most),
        )
