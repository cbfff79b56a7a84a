"""Frames of a publication that are records of the archive, bit for bit: of their own person, or of somebody else.

A donor codebook sends another person's record by design. Whoever reads such a frame reads the donor's z, not that of
the person whose pseudonym stands beside it, and the donor's record is published unperturbed: both are counted.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Hashable, Iterable
from typing import Any

from edgeveil.trainer.publish.attack.published import Published


def copies(published: Published, records: Iterable[tuple[Hashable, bytes]]) -> dict[str, Any] | None:
    """How many of the ``rows`` that are attacked have a frame that is their ``own`` person's record, how many one of
    ``others`` alone, and of how many ``people`` these are. None where there are no frames.

    ``records`` is the archive: whose each is, by the names of ``published.whose``, and the frame's bytes as the source
    gave it, little-endian.
    """
    frames = next((array for array in published.outputs.values() if array.ndim > 1), None)
    if frames is None:
        return None
    rows_of: dict[bytes, list[int]] = defaultdict(list)
    for row, frame in enumerate(frames):
        rows_of[_digest(frame.astype(frame.dtype.newbyteorder("<")).tobytes())].append(row)
    own: set[int] = set()
    given: dict[int, set[Hashable]] = defaultdict(set)
    for who, data in records:
        for row in rows_of.get(_digest(data), ()):
            if published.whose[row] == who:
                own.add(row)
            else:
                given[row].add(who)
    others = set(given) - own
    people = set().union(*(given[row] for row in others))
    return {"rows": len(frames), "own": len(own), "others": len(others), "people": len(people)}


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()
