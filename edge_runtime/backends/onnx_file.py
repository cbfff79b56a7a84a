"""An ONNX file's bytes, read as far as to refuse one whose weights lie in other files.

ONNX Runtime opens whatever path such a file names, and what it reads there becomes part of what leaves. A signed
artefact is one file. Field numbers are those of onnx.proto, the wire format that of protocol buffers.
"""

from typing import Dict, Iterator, Optional, Tuple

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
_EXTERNAL_DATA, _DATA_LOCATION = 13, 14


def problem_of(model: bytes) -> Optional[str]:
    """Why no interpreter should get this file; None for an ONNX model that is whole in itself."""
    waiting = [("model", 0, len(model), 0)]
    try:
        while waiting:
            message, begin, end, depth = waiting.pop()
            if depth > _MOST_DEPTH:
                return "its graphs are nested deeper than {} messages".format(_MOST_DEPTH)
            for field, kind, value, length in _fields(model, begin, end):
                if message == "tensor" and (field == _EXTERNAL_DATA or (field == _DATA_LOCATION and value)):
                    return "its weights are in another file"
                inner = _INNER[message].get(field)
                if inner is not None and kind == _BYTES:
                    waiting.append((inner, value, value + length, depth + 1))
    except _Damaged:
        return "it is damaged, or no ONNX model"
    return None


class _Damaged(Exception):
    pass


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
            raise _Damaged
        if at > end:
            raise _Damaged
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
    raise _Damaged
