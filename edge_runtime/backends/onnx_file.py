"""An ONNX file's bytes, read without a library: its nodes, and whether its weights lie in other files.

ONNX Runtime opens whatever path such a file names, and what it reads there becomes part of what leaves. A signed
artefact is one file. Field numbers are those of onnx.proto, the wire format that of protocol buffers.
"""

from typing import Dict, Iterator, NamedTuple, Optional, Set, Tuple

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
_NONE = "it is damaged, or no ONNX model"
_EXTERNAL_DATA, _DATA_LOCATION = 13, 14


class OnnxNode(NamedTuple):
    """One node of a graph, a function or a branch: every operation and domain that it names (of a field that is there
    twice, readers differ in which they take), how many inputs, and whether ``training_mode`` is set."""

    kinds: Set[str]
    domains: Set[str]
    inputs: int
    trains: bool


class Damaged(Exception):
    """These bytes are no ONNX model. The text is the end of a sentence."""


def problem_of(model: bytes) -> Optional[str]:
    """Why no interpreter should get this file; None for an ONNX model that is whole in itself."""
    try:
        for message, begin, end in messages(model):
            if message == "tensor":
                for field, _, value, _ in _fields(model, begin, end):
                    if field == _EXTERNAL_DATA or (field == _DATA_LOCATION and value):
                        return "its weights are in another file"
    except Damaged as error:
        return str(error)
    return None


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
