"""How the channels of an IIO device lie in its buffer: ``scan_elements/in_*_index`` and ``in_*_type``.

A type is ``[be|le]:[s|u]BITS/STORAGEBITS[>>SHIFT]``. Elements follow each other by their index, each at a multiple of
its own size, and a scan is a multiple of its largest element.
"""

import re
from typing import Dict, Mapping, NamedTuple, Tuple

import numpy as np

from edgeveil.edge_runtime.errors import Unsupported

_TYPE = re.compile(r"(be|le):([su])([0-9]{1,2})/(8|16|32|64)(?:X([0-9]+))?(?:>>([0-9]{1,2}))?")


class Element(NamedTuple):
    """One channel in a scan: its numpy type at ``offset``, and which bits of it count."""

    dtype: str
    offset: int
    signed: bool
    bits: int
    shift: int

    def decode(self, scans: np.ndarray) -> np.ndarray:
        """The whole numbers int64 (n,) of scans uint8 (n, bytes)."""
        size = np.dtype(self.dtype).itemsize
        stored = np.ascontiguousarray(scans[:, self.offset : self.offset + size]).view(self.dtype)[:, 0]
        value = (stored.astype(np.uint64) >> np.uint64(self.shift)).view(np.int64)
        if self.bits == 64:
            return value
        value = value & ((1 << self.bits) - 1)
        return value - ((value >> (self.bits - 1)) << self.bits) if self.signed else value


def layout(types: Mapping[str, Tuple[int, str]]) -> Tuple[Dict[str, Element], int]:
    """The elements of channels {name: (index, type)}, and the bytes of a scan. Raises ``Unsupported``."""
    found: Dict[str, Element] = {}
    at, largest = 0, 1
    for name, (_, text) in sorted(types.items(), key=lambda item: item[1][0]):
        match = _TYPE.fullmatch(text)
        order, sign, bits, stored, repeat, shift = match.groups() if match else ("", "", "0", "8", None, None)
        size, length, moved = int(stored) // 8, int(bits), int(shift or 0)
        if match is None or repeat not in (None, "1") or not 0 < length <= int(stored) - moved:
            raise Unsupported("the IIO channel {!r} has the type {!r}, which is not known here".format(name, text[:40]))
        at = -(-at // size) * size
        found[name] = Element((">" if order == "be" else "<") + "u{}".format(size), at, sign == "s", length, moved)
        at, largest = at + size, max(largest, size)
    return found, -(-at // largest) * largest
