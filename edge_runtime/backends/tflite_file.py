"""A TFLite file's bytes, read without a library: how many graphs it has, its operations, and what it keeps.

Field numbers are those of TFLite's schema.fbs, the layout that of FlatBuffers: a table begins with the distance back to
its vtable, which says where each field is.
"""

import struct
from typing import List, NamedTuple, Set

IDENTIFIER = b"TFL3"
CUSTOM = 32
_INT, _UINT, _SHORT = struct.Struct("<i"), struct.Struct("<I"), struct.Struct("<H")


class TfliteFile(NamedTuple):
    """``codes`` are the numbers of built-in operations, ``custom`` the names of others, ``variables`` the number of
    tensors that keep their values between two runs."""

    subgraphs: int
    codes: Set[int]
    custom: List[str]
    variables: int


class Damaged(Exception):
    """These bytes are no TFLite file."""


def read(data: bytes) -> TfliteFile:
    """What a file has; raises ``Damaged``. The time is that of its tensors and operations, not of its weights."""
    if data[4:8] != IDENTIFIER:
        raise Damaged("it lacks the identifier of a TFLite file")
    model = _to(data, 0)
    codes, custom = set(), []
    for entry in _tables(data, _field(data, model, 1)):
        old, new, name = (_field(data, entry, number) for number in (0, 3, 1))
        # Old writers fill only the field of one byte, new ones both; interpreters take the larger.
        number = max(_get(data, old, 1)[0] if old else 0, _INT.unpack(_get(data, new, 4))[0] if new else 0)
        codes.add(number)
        if number == CUSTOM:
            custom.append(_text(data, name))
    graphs = _tables(data, _field(data, model, 2))
    tensors = [tensor for graph in graphs for tensor in _tables(data, _field(data, graph, 0))]
    kept = [_field(data, tensor, 5) for tensor in tensors]
    return TfliteFile(len(graphs), codes, custom, sum(bool(at and _get(data, at, 1)[0]) for at in kept))


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


def _tables(data: bytes, field: int) -> List[int]:
    """The tables of a vector of tables; none where the field is left out."""
    if not field:
        return []
    vector = _to(data, field)
    count = _UINT.unpack(_get(data, vector, 4))[0]
    _get(data, vector + 4, 4 * count)
    return [_to(data, vector + 4 + 4 * place) for place in range(count)]


def _text(data: bytes, field: int) -> str:
    if not field:
        return ""
    at = _to(data, field)
    return _get(data, at + 4, _UINT.unpack(_get(data, at, 4))[0]).decode("utf-8", "replace")
